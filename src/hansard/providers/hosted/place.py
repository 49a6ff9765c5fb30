"""Where a model is asked over HTTP, and with which key. Keys come by the NAME of an environment variable, never by value."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers.options import Options

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_URL = 2_000
NO_KEY = "no-key-configured"
"""Sent where no key is configured: SDKs insist on one, and servers without keys do not look."""


@value
class Place:
    """Where a provider asks and with which key. The value of the key is known to the secrets, and never shown."""

    base_url: str
    key: str = ""
    key_from: str = "no variable (no key is configured)"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc


def place_of(
    id: str, options: Options, environment: Mapping[str, str], *, base_url: str, url_env: str, key_env: str
) -> Place:
    """From `base_url` or `base_url_env`, and `api_key_env`.

    `url_env` and `key_env` are the vendor's own variables, and read where nothing is named: the key for the address in the
    other one and for the vendor's alone, since a key goes where it belongs.
    """
    where = f"[providers.{id}]"
    named = _url(where, options, environment)
    what = options.text("base_url_env") or ("base_url" if named else url_env)
    url = (named or environment.get(url_env, "")).strip() or base_url
    _check_url(f"{where}: {what}", url, base_url)
    # A server of one's own may want no key.
    belongs = is_at(url, base_url) or bool(not named and environment.get(key_env))
    name = options.text("api_key_env") or (key_env if belongs else "")
    return Place(base_url=url, key=_key(where, name, environment), key_from=name) if name else Place(base_url=url)


def _check_url(what: str, url: str, base_url: str) -> None:
    if not url.isprintable() or " " in url or len(url) > LONGEST_URL:
        raise UsageError(f"{what} is no address: it holds spaces or control characters, or is too long")
    try:
        parts = urlsplit(url)
        # Looked at because it is read only then: a port that is none is a ValueError.
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"{what} is no address: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{what} must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise UsageError(f"{what} must hold no user, password or query; name the key with api_key_env")
    if parts.scheme == "http" and is_at(url, base_url):
        raise UsageError(f"{what} must begin with https:// there; your key would be read on its way")


def _key(where: str, name: str, environment: Mapping[str, str]) -> str:
    key = environment.get(name, "").strip()
    if not key and not _VARIABLE.fullmatch(name):
        # Not quoted: it may be the key itself.
        raise UsageError(f"{where}: api_key_env is no name of a variable; put the key into one, and name that")
    if not key:
        raise UsageError(
            f"{where}: there is no key: the environment variable {name} is not set; `export {name}=…` sets it"
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"{where}: the key in {name} holds characters that no key has; copy it again")
    return key


def is_at(url: str, base_url: str) -> bool:
    """Whether both name the same host."""
    return urlsplit(url).hostname == urlsplit(base_url).hostname


def _url(where: str, options: Options, environment: Mapping[str, str]) -> str:
    url, name = options.text("base_url"), options.text("base_url_env")
    if not name:
        return url
    if not environment.get(name):
        raise UsageError(f"{where}: base_url_env names {name}, which is not set")
    return environment[name]
