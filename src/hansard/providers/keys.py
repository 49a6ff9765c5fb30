"""Which variables of the environment hold a provider's secrets, by its kind and its table. The environment is passed in."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from hansard.domain.fields import Fields
from hansard.errors import UsageError
from hansard.providers.programs.environment import PASSED_ON
from hansard.providers.secrets import SHORTEST, Secrets

_CLAUDE = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY"),
    *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"),
)
_CODEX = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN")
KEYS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "claude-cli": _CLAUDE,
    "codex-cli": _CODEX,
    "gemini-cli": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "cli-auto": (*_CLAUDE, *_CODEX),
}
"""The variables in which a kind finds its key when its table names none."""

HEADERS = ("ANTHROPIC_CUSTOM_HEADERS",)
_CLAUDE_TOO = (*HEADERS, "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE")
ALSO_SECRET: Mapping[str, tuple[str, ...]] = {"claude-cli": _CLAUDE_TOO, "cli-auto": _CLAUDE_TOO}
"""What a kind passes on besides: secret where it is long enough to be told from ordinary text."""
PREFIXES: Mapping[str, tuple[str, ...]] = {
    "claude-cli": ("ANTHROPIC_",),
    "codex-cli": ("OPENAI_",),
    "cli-auto": ("ANTHROPIC_", "OPENAI_"),
}
"""A program of these kinds is given every variable that begins so."""
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$")
SECRET_OPTIONS = ("key_env", "token_env", "secret_env", "password_env")
NOT_IN_A_FILE = frozenset({"api_key", "key", "token", "secret", "password", "auth_token"})
HOSTED = frozenset({"openai", "anthropic"})
VERBATIM = frozenset({"scripted", "replayed"})
"""Kinds that give out what was written for them: they ask nobody, and have no breaker unless one is asked for."""


def learn_secrets(tables: Mapping[str, Any], environment: Mapping[str, str], secrets: Secrets) -> None:
    """Add the keys that providers of these tables would use; a table that cannot be opened is told when it is."""
    for name, table in tables.items():
        with suppress(UsageError):
            collect_secrets(Fields(table, name), table, environment, secrets)


def learn_passwords(environment: Mapping[str, str], secrets: Secrets) -> None:
    """Add the passwords in the addresses of proxies, which every program is given and every server is asked through."""
    for variable in PASSED_ON:
        if variable.upper().endswith("_PROXY"):
            _add_long(variable, environment, secrets)


def collect_secrets(fields: Fields, table: Mapping[str, Any], environment: Mapping[str, str], secrets: Secrets) -> None:
    """Add the keys that a provider of this table uses; UsageError where one stands in the table itself."""
    for key in sorted(NOT_IN_A_FILE & set(table)):
        raise UsageError(
            f'{fields.where}: {key} does not belong in a file; write {key}_env = "NAME", and put it into that variable'
        )
    named = [value for key, value in table.items() if key.endswith(SECRET_OPTIONS)]
    more = fields.any("secrets", [])
    if not isinstance(more, list) or not all(isinstance(each, str) for each in (*named, *more)):
        raise UsageError(f"{fields.where}: secrets and *_env must be names of environment variables")
    kind, passed = fields.text("kind"), fields.any("env", [])
    for variable in (*(named or KEYS.get(kind, ())), *more):
        value = environment.get(variable, "").strip()
        # Servers that want no key are often given a word instead. Where it is sent as a key all the same, that refuses it.
        unused = kind in HOSTED and variable not in (*named, *more) and len(value) < SHORTEST
        if value and not unused:
            secrets.add(variable, value)
    also = [each for each in passed if isinstance(each, str)] if isinstance(passed, list) else []
    also += [each for each in environment if each.startswith(PREFIXES.get(kind, ()))]
    for variable in (*filter(_secretive, also), *ALSO_SECRET.get(kind, ())):
        _add_long(variable, environment, secrets)
    if kind not in VERBATIM:
        learn_passwords(environment, secrets)


def _add_long(variable: str, environment: Mapping[str, str], secrets: Secrets) -> None:
    """Add what of a variable is secret, where it is long enough to be told from ordinary text."""
    for value in _values(variable, environment.get(variable, "")):
        if len(value) >= SHORTEST:
            secrets.add(variable, value)


def _values(variable: str, said: str) -> list[str]:
    """What of a variable is secret: all of it, or the headers in it, or the password before the host of a proxy."""
    if variable in HEADERS:
        return [line.partition(":")[2].strip() for line in said.splitlines()]
    if not variable.upper().endswith("_PROXY"):
        return [said.strip()]
    password = said.rpartition("@")[0].rpartition("/")[2].partition(":")[2]
    return [password, unquote(password)]


def _secretive(variable: str) -> bool:
    """Whether a variable that a program is given has a name as secrets have it. One that names a file holds none."""
    return bool(_SECRET_NAME.search(variable.upper()))
