"""Where things are: the one module that reads the environment and hansard.toml. Opens no ledger."""

import io
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date, time
from pathlib import Path
from typing import Any, Literal

from hansard.domain.fields import Fields
from hansard.domain.roster import Policy, Roster, parse_policy, parse_roster
from hansard.domain.strict_toml import read_toml
from hansard.domain.value import value
from hansard.errors import UsageError, plainly
from hansard.orchestration.escalate import TIERS

CONFIG_NAME = "hansard.toml"
LEDGER_NAME = Path(".hansard") / "ledger.db"
MAX_FILE_BYTES = 64_000_000
OF_KEYS = ("tiers", "roles", "run", "budget", "policy", "roster", "verifier", "reviser")
OF_NAMES = ("providers", "prices", "panels", "personas", "tools", "witnesses")
"""Tables that hold one table for each name."""
LIMITS = ("max_calls", "max_tokens", "max_usd", "max_seconds")
ROLES = ("default", "coordinator", "classifier", "validator", "synthesizer", "intent_judge", "reviser")
KNOWN = ("ledger", "origin", "gate", "context", *OF_KEYS, *OF_NAMES)
"""What hansard.toml may hold. Anything else is a mistake in writing, and would be passed over."""


@value
class Settings:
    """What a command works with. `ledger` is a path or a URL; `environment` is what providers may read of it."""

    ledger: str
    state: Path
    origin: str | None = None
    config: Path | None = None
    providers: Mapping[str, Any] = field(default_factory=dict)
    tiers: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    gates: tuple[Any, ...] = ()
    context: tuple[Any, ...] = ()
    verifier: Mapping[str, Any] | None = None
    reviser: Mapping[str, Any] | None = None
    policy: Policy = field(default_factory=Policy)
    panels: Mapping[str, Any] = field(default_factory=dict)
    personas: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    witnesses: Mapping[str, Any] = field(default_factory=dict)
    roster_file: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def roster(self) -> Roster | None:
        """The roster that hansard.toml names, read when asked for: a bad one must not keep a ledger from being verified."""
        return None if self.roster_file is None else read_roster(self.roster_file)

    def written(self, name: Literal["panels", "personas"]) -> dict[str, tuple[Mapping[str, Any], str]]:
        """The panels or personas that are written down, each with where: in hansard.toml, and one file each beside it.

        Read when asked for: a bad one must not keep a ledger from being verified.
        """
        tables: Mapping[str, Any] = getattr(self, name)
        found = {key: (_own_table(key, table, name), f"{self.config} [{name}.{key}]") for key, table in tables.items()}
        folder = self.config.parent / name if self.config else None
        for path in sorted(folder.glob("*.toml")) if folder and folder.is_dir() else ():
            if path.stem in found:
                raise UsageError(f"{path}: {path.stem!r} also stands in {self.config}; keep one of them")
            found[path.stem] = _read(path), str(path)
        return found

    @property
    def folder(self) -> Path:
        """The project's folder: that of hansard.toml, else the one that we work in."""
        return self.config.parent if self.config else working_folder()

    def log_folder(self, nonce: str) -> Path:
        """Where the keys and the anchor of one log live: never inside the ledger."""
        return self.state / "logs" / nonce


def read_settings(
    ledger: str | None = None, *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Settings from, in this order: the argument, the environment, the nearest hansard.toml upward, the defaults."""
    env = os.environ if environ is None else environ
    _refuse_empty(ledger)
    config = _nearest(folder or working_folder())
    table = _read(config) if config else {}
    Fields(table, str(config)).done(KNOWN)
    for name, keys in (("roles", ROLES), ("tiers", (*TIERS, *_own_tiers(table, config))), ("budget", LIMITS)):
        Fields(_table(table, name, config), f"{config} [{name}]").done(keys)
    state = state_folder(env)
    found = ledger or _from_environment(env) or _from_table(table, config)
    if not found:
        found = str(config.parent / LEDGER_NAME if config else user_ledger(state))
    origin = table.get("origin")
    if origin is not None and not isinstance(origin, str):
        raise UsageError(f"{config}: origin must be text")
    providers = _providers(table, config)
    return Settings(
        ledger=found,
        state=state,
        origin=origin,
        config=config,
        providers=providers,
        tiers=_names(table, "tiers", config, providers),
        roles=_names(table, "roles", config, providers),
        run=_table(table, "run", config),
        budget=_table(table, "budget", config),
        prices=_table(table, "prices", config),
        gates=tuple(_list(table, "gate", config)),
        context=tuple(_list(table, "context", config)),
        verifier=_table(table, "verifier", config) if "verifier" in table else None,
        reviser=_table(table, "reviser", config) if "reviser" in table else None,
        policy=parse_policy(_table(table, "policy", config), f"{config}: [policy]"),
        panels=_table(table, "panels", config),
        personas=_table(table, "personas", config),
        tools=_table(table, "tools", config),
        witnesses=_table(table, "witnesses", config),
        roster_file=_roster_file(table, config),
        environment=dict(env),
    )


def _own_tiers(table: dict[str, Any], config: Path | None) -> list[str]:
    """Those that the ladder names. The lanes of a roster of one's own may name any."""
    ladder, lanes = _table(table, "run", config).get("ladder"), _roster_file(table, config)
    return [name for name in _table(table, "tiers", config) if lanes or (isinstance(ladder, list) and name in ladder)]


def _refuse_empty(ledger: str | None) -> None:
    if ledger == "":
        raise UsageError("the path of the ledger is empty; name one, or leave it out")


def ledger_settings(ledger: str | None = None, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings to read and look after one ledger with: hansard.toml is asked only where nothing else names the ledger.

    So a bad one does not keep a ledger from being read or verified.
    """
    env = os.environ if environ is None else environ
    _refuse_empty(ledger)
    named = ledger or _from_environment(env)
    if not named:
        return read_settings(environ=env)
    return Settings(ledger=named, state=state_folder(env), environment=dict(env))


def working_folder() -> Path:
    """The folder that we work in; UsageError where it is not there any more."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(f"this folder is not there any more ({error.strerror}); change to another one") from error


def recordable(folder: Path) -> str:
    """A folder as text, for the record; UsageError where its name is not UTF-8: nobody could find it again by what is written."""
    text = str(folder)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(folder).decode("utf-8", "backslashreplace")
        raise UsageError(
            f"nothing can be run in {shown}: its name is not UTF-8, and the record, which is text, could not name it; "
            "rename it, or work in another folder"
        ) from error
    return text


def read_roster(path: Path) -> Roster:
    """The roster in a file, or a UsageError that says what is wrong with it."""
    return parse_roster(read_text(path), str(path))


def read_text(path: Path) -> str:
    """A text file that somebody named, without the mark that some editors begin it with; UsageError says why it cannot be read."""
    try:
        # Not by its size, which a device or a pipe has not: a link to /dev/zero would take all the memory that there is.
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes; split it")
        return io.TextIOWrapper(io.BytesIO(data), "utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {plainly(error)}") from error


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where keys, anchors and tokens are kept. It is the user's: no hansard.toml has a say in it."""
    env = os.environ if environ is None else environ
    chosen = env.get("HANSARD_STATE")
    if chosen:
        return Path(_from_home(chosen)).absolute()
    base = env.get("XDG_STATE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "hansard"
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    if not home.is_absolute():
        why = (
            f"HOME is {str(home)!r:.200}, and not a path from the root" if env.get("HOME") else "this user has no home"
        )
        raise UsageError(f"keys have no place to lie: {why}; name a folder for them with HANSARD_STATE")
    return home / ".local" / "state" / "hansard"


def user_ledger(state: Path) -> Path:
    """The ledger of a user who has named none and stands under no hansard.toml."""
    return state / "ledger.db"


def _nearest(start: Path) -> Path | None:
    for folder in (start, *start.absolute().parents):
        path = (folder / CONFIG_NAME).absolute()
        if os.path.lexists(path):
            _check_owner(path)
            return path
    return None


def _check_owner(path: Path) -> None:
    """UsageError for a stranger's file in a folder where anybody may put one, such as /tmp: what it names would run as us."""
    file, folder = path.lstat(), path.parent.stat()
    if folder.st_mode & stat.S_IWOTH and file.st_uid not in (os.geteuid(), folder.st_uid):
        raise UsageError(
            f"{path} belongs to user {file.st_uid}, and anybody may put a file there; it could run programs as you. "
            "Work under a folder of your own, or have it removed"
        )


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file() and os.path.lexists(path):
        # A pipe that nobody writes to would never end.
        raise UsageError(f"{path} is not a file that can be read; move it away, or put a real one in its place")
    try:
        found = read_toml(read_text(path))
        for key, said in _times(found):
            raise UsageError(f'{path}: {key} is a date or a time, which no setting takes; write it as text: "{said}"')
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
    return found


def _times(found: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Dates and times with their keys: TOML has them, and JSON, in which a configuration is recorded, has not."""
    if isinstance(found, date | time):
        yield key, found
    inner = found.items() if isinstance(found, dict) else enumerate(found, 1) if isinstance(found, list) else ()
    for name, each in inner:
        yield from _times(each, f"{key}.{name}" if key else str(name))


def _table(table: dict[str, Any], name: str, config: Path | None) -> dict[str, Any]:
    found = table.get(name, {})
    if not isinstance(found, dict):
        raise UsageError(f"{config}: {name} must be a table; write [{name}{'.NAME' if name in OF_NAMES else ''}]")
    return found


def _providers(table: dict[str, Any], config: Path | None) -> dict[str, Any]:
    found = _table(table, "providers", config)
    for name, own in found.items():
        if not isinstance(own, dict):
            raise UsageError(f"{config}: [providers] {name} must be a table; write [providers.{name}]")
        check_name(name, f"{config}: ")
    return found


def check_name(name: str, where: str = "") -> None:
    """UsageError where no provider of a run can be called so."""
    if ":" in name:
        raise UsageError(f"{where}a provider cannot be called {name!r}: behind a colon stands a model, NAME:MODEL")


def _own_table(key: str, table: object, name: str) -> Mapping[str, Any]:
    if not isinstance(table, Mapping):
        raise UsageError(f"[{name}] {key} must be a table; write [{name}.{key}]")
    return table


def _list(table: dict[str, Any], name: str, config: Path | None) -> list[Any]:
    found = table.get(name, [])
    if not isinstance(found, list):
        raise UsageError(f"{config}: {name} must be a list of tables; write [[{name}]]")
    return found


def _names(table: dict[str, Any], name: str, config: Path | None, providers: Mapping[str, Any]) -> dict[str, str]:
    """A table that says which provider serves a tier or a role."""
    found = _table(table, name, config)
    for key, named in found.items():
        if not isinstance(named, str) or named.partition(":")[0] not in (*providers, "panel"):
            known = ", ".join(providers) or "none are configured"
            raise UsageError(f"{config}: [{name}] {key} must name a provider ({known}), not {named!r:.60}")
    return found


def _roster_file(table: dict[str, Any], config: Path | None) -> Path | None:
    """The file that `[roster] file = "…"` names; a relative path starts at hansard.toml."""
    found = _table(table, "roster", config)
    if not found or config is None:
        return None
    file = found.get("file")
    if set(found) != {"file"} or not isinstance(file, str) or not file:
        raise UsageError(f'{config}: [roster] takes one key, file = "roster.toml"')
    return config.parent / _from_home(file)


def _from_environment(env: Mapping[str, str]) -> str:
    """The ledger that the environment names. No shell has put the home in place of `~` where a file of a service says it."""
    return _from_home(env.get("HANSARD_LEDGER", ""))


def _from_table(table: dict[str, Any], config: Path | None) -> str | None:
    """The ledger that hansard.toml names; a relative path starts at that file."""
    found = table.get("ledger")
    if found is None or config is None:
        return None
    if not isinstance(found, str) or not found:
        raise UsageError(f"{config}: ledger must be a path or a URL")
    is_path = "://" not in found and found != "memory:"
    return str(config.parent / _from_home(found)) if is_path else found


def _from_home(path: str) -> str:
    """A path with the home in place of `~`; UsageError where there is none: it would lie in a folder of that name here."""
    found = os.path.expanduser(path)
    first, slash, _ = found.partition("/")
    if first == "~":
        raise UsageError(f"{path:.200} begins at a home, and this user has none; write it from the root, or set HOME")
    if first.startswith("~") and slash:
        raise UsageError(
            f"{path:.200} begins at the home of {first[1:]!r}, and there is no such user; ./{first} is a folder"
        )
    return found
