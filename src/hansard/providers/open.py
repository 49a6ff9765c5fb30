"""From the tables of hansard.toml to providers that are ready to be asked. Only this module knows where each kind of ours lives.

What is the same for all is done here: limits, the breaker, the contract for those that do not keep it by themselves,
and the removal of secrets.
"""

import inspect
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hansard.domain.fields import Fields
from hansard.errors import HansardError, MissingExtra, UsageError, told_of
from hansard.providers.base import Provider, check_provider, held
from hansard.providers.breaker import Breaker
from hansard.providers.keys import VERBATIM, collect_secrets
from hansard.providers.limits import Limited
from hansard.providers.options import COMMON
from hansard.providers.prices import Prices
from hansard.providers.programs.environment import argument_from
from hansard.providers.registry import OURS, REGISTRY, Factory, Registry
from hansard.providers.scrubbed import Scrubbed
from hansard.providers.secrets import Secrets

# Where each kind of ours lives, and the extra that brings its library. Imported when used: an SDK costs a second.
PLACES: Mapping[str, tuple[str, str, str | None]] = {
    "openai": ("openai", "open_openai", "openai"),
    "anthropic": ("anthropic", "open_anthropic", "anthropic"),
    "command": ("command", "open_command", None),
    "claude-cli": ("agents.claude", "open_claude", None),
    "codex-cli": ("agents.codex", "open_codex", None),
    "gemini-cli": ("agents.gemini", "open_gemini", None),
    "cli-auto": ("agents.auto", "open_cli_auto", None),
    "scripted": ("scripted", "open_scripted", None),
    "replayed": ("replayed", "open_replayed", None),
    "local": ("local", "open_local", "local"),
}
FILES: Mapping[str, tuple[str, ...]] = {
    "scripted": ("script",),
    "replayed": ("recording",),
    "command": ("source",),
    "local": ("weights",),
    **dict.fromkeys(("claude-cli", "codex-cli", "gemini-cli"), ("program", "source")),
}
"""The options that name a file or a folder, by kind; of `program`, and of the first word of `argv`, only what has a slash."""
GUARDING = frozenset({"cli-auto"})
"""Kinds that ask several others, and put a breaker before each of them."""


def open_providers(
    tables: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    where: str = "hansard.toml",
    places: Mapping[str, str] | None = None,
    folder: Path | None = None,
    secrets: Secrets | None = None,
    prices: Prices | None = None,
    progress: Any = None,
    registry: Registry = REGISTRY,
) -> dict[str, Provider]:
    """The providers of `[providers.NAME]` tables, by name. Adds every key that they use to `secrets`.

    `folder` is where relative files start. UsageError names the file and the table, or the place that `places` gives for one
    that stands elsewhere, and what to write instead.
    """
    known = Secrets() if secrets is None else secrets
    priced = prices or Prices()
    given: dict[str, Callable[[], Any]] = {
        "prices": lambda: priced,
        "progress": lambda: progress,
        "endpoint": _endpoint,
        "clis": lambda: {kind: partial(_ours(kind), prices=priced) for kind in ("claude-cli", "codex-cli")},
    }
    opened: dict[str, Provider] = {}
    for name, table in tables.items():
        place = (places or {}).get(name, f"{where} [providers.{name}]")
        try:
            collect_secrets(Fields(table, place), table, environment, known)
            opened[name] = _open(name, Fields(table, place), table, environment, folder or Path(), given, registry)
        except MissingExtra as error:
            raise MissingExtra(_placed(error, name, place)) from error
        except UsageError as error:
            raise UsageError(_placed(error, name, place)) from error
    # Whoever hands in `secrets` may open others later, whose keys are then not to come back from these either.
    scrubs = secrets is not None or bool(known)
    return {name: Scrubbed(provider, known) if scrubs else provider for name, provider in opened.items()}


def _open(
    name: str,
    fields: Fields,
    table: Mapping[str, Any],
    environment: Mapping[str, str],
    folder: Path,
    given: Mapping[str, Callable[[], Any]],
    registry: Registry,
) -> Provider:
    kind = fields.text("kind")
    if not kind:
        raise UsageError(
            f'{fields.where}: kind is missing; write kind = "openai" or one of {", ".join(registry.kinds())}'
        )
    options = _from(folder, kind, {key: value for key, value in table.items() if key not in COMMON})
    factory = _ours(kind) if kind in OURS else registry.find(kind)
    guard = partial(_guarded, kind=kind, fields=fields)
    try:
        wanted = inspect.signature(factory).parameters
        more = {key: given[key]() for key in given if key in wanted} | ({"guard": guard} if kind in GUARDING else {})
        provider = factory(name, options, environment, **more)
        check_provider(provider)
    except BaseException as error:
        if kind in OURS or isinstance(error, HansardError | KeyboardInterrupt):
            raise
        raise UsageError(f"the provider kind {kind!r} refuses this table: {told_of(error)}") from error
    return _limited(held(provider) if kind in GUARDING else guard(held(provider)), fields)


def _from(folder: Path, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options with paths that begin at this folder: where we happen to work must not decide what is run or read."""
    for key in FILES.get(kind, ()):
        if key != "program" or "/" in str(options.get(key)):
            options |= {key: _path(folder, options[key])} if key in options else {}
    argv = options.get("argv")
    if kind == "command" and isinstance(argv, list) and argv:
        program, *arguments = argv
        if options.get("workspace", "none") == "none":
            arguments = [argument_from(folder, each) if isinstance(each, str) else each for each in arguments]
        options["argv"] = [_path(folder, program) if "/" in str(program) else program, *arguments]
    return options


def _path(folder: Path, said: Any) -> Any:
    """A path from here on, or from the root or somebody's home where it begins so; what is none is left as it is."""
    return str((folder / os.path.expanduser(said)).absolute()) if isinstance(said, str) and said else said


def _ours(kind: str) -> Factory:
    module, name, extra = PLACES[kind]
    try:
        factory: Factory = getattr(import_module(f"hansard.providers.{module}"), name)
    except ModuleNotFoundError as error:
        if extra is None or (error.name or "").startswith("hansard"):
            raise UsageError(f"this build of Hansard has no {kind} provider") from error
        raise MissingExtra(
            f"the {kind} provider needs {error.name}, which is not installed; run: pip install 'hansard[{extra}]'"
        ) from error
    return factory


def _endpoint() -> Factory:
    """What the local provider asks its own server with: its extra brings that SDK along."""
    try:
        return _ours("openai")
    except MissingExtra as error:
        raise MissingExtra(
            "the local provider needs openai, which is not installed; run: pip install 'hansard[local]'"
        ) from error


def _guarded(provider: Provider, kind: str, fields: Fields) -> Provider:
    wanted = fields.flag("breaker", kind not in VERBATIM)
    after, cool_down_s = fields.count("breaker_after", 3, least=1), fields.number("breaker_cool_down_s", 60.0)
    return Breaker(provider, after=after, cool_down_s=cool_down_s or 0.0) if wanted else provider


def _limited(provider: Provider, fields: Fields) -> Provider:
    places = fields.count("max_concurrent", least=1) if fields.has("max_concurrent") else None
    burst = fields.count("burst", least=1) if fields.has("burst") else None
    per_minute = fields.number("per_minute")
    if per_minute == 0:
        raise UsageError(f"{fields.where}: per_minute must be more than 0")
    if burst is not None and per_minute is None:
        raise UsageError(f"{fields.where}: burst belongs to per_minute; add that, or leave it out")
    # Outside of the breaker: who waits for a turn while the circuit opens is then not asked any more.
    return Limited(provider, max_concurrent=places, per_minute=per_minute, burst=burst)


def _placed(error: UsageError, name: str, place: str) -> str:
    """The message with the place of the table in front, once."""
    message = str(error)
    for said in (place, f"[providers.{name}]"):
        if message.startswith(said):
            return f"{place}{message.removeprefix(said)}"
    return f"{place}: {message}"
