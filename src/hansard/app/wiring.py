"""The one place that names concrete back ends: from a location to an open store."""

import os
import re
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hansard.__about__ import __version__
from hansard.app.opened import Opened
from hansard.app.settings import Settings
from hansard.errors import HansardError, StoreError, Unavailable, UsageError, unwritten
from hansard.record.draft import Drafter
from hansard.record.encoder import fastest
from hansard.store.base import Draft, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hansard.ledger.checkpoint import Checkpoint
    from hansard.ledger.report import Finding
    from hansard.providers.base import Provider
    from hansard.providers.prices import Prices
    from hansard.providers.recording import Recording
    from hansard.providers.replayed import Replayed
    from hansard.providers.script import Script
    from hansard.providers.secrets import Secrets
    from hansard.record.imports import Restore

SOFTWARE = f"hansard/{__version__}"
SOON_S = 1.0
_POSTGRESQL = ("postgresql://", "postgres://")
_ADDRESS = re.compile(r"password\s*=|^[\w+]+:.*@", re.IGNORECASE)
"""What stands in an address of a database, also in a misspelled one or in libpq's other form, and in no name of a file."""


def open_ledger(settings: Settings, *, writing: bool = False, lost_key: bool = False) -> Opened:
    """Open a ledger that exists; a mistyped path is a UsageError and creates nothing.

    `lost_key` says that the epoch key in force is gone for good, and rotates without it ([C7]).
    """
    store = open_store(settings.ledger, reading=not writing)
    return _opened(store, settings, writing=writing, lost_key=lost_key)


def open_to_carry(settings: Settings) -> Opened:
    """For whoever takes something out of a ledger, and signs it anew before that, where this process may write there now."""
    if can_be_written(settings.ledger):
        # A ledger in JSON lines has one writer, who may be another process.
        with suppress(Unavailable):
            return open_ledger(settings, writing=True)
    return open_ledger(settings)


def open_or_found(settings: Settings, *, writing: bool = True) -> Opened:
    """Open a ledger, or make it when nothing is there. Of several who make it at once, one does."""
    if not ledger_exists(settings.ledger):
        try:
            return found_ledger(settings)
        except StoreError:
            # Another process may hold its lock by now, and make it in a moment.
            if not _comes(settings.ledger):
                raise
    return open_ledger(settings, writing=writing)


def _comes(location: str) -> bool:
    until = time.monotonic() + SOON_S
    # Where nobody can tell, the first refusal says more.
    with suppress(Unavailable):
        while not ledger_exists(location):
            if time.monotonic() > until:
                return False
            time.sleep(SOON_S / 50)
        return True
    return False


def found_ledger(settings: Settings, adopts: "Checkpoint | None" = None) -> Opened:
    """Make a new ledger: its keys first, durable in the user's state folder, then its entry 0.

    Where it could not be made, or another process was quicker, no keys are left.
    """
    from hansard.seal.genesis import found

    signed = form_of(settings.ledger) != "memory"
    genesis, ring = found(settings.log_folder, settings.origin, SOFTWARE, adopts, signed=signed)
    draft = Drafter().draft(genesis, actor="log", run="", causes=(), fence=None)
    try:
        store = create_store(settings.ledger, draft)
    except HansardError:
        if ring and not _may_be(settings.ledger, genesis.nonce):
            ring.destroy()
        raise
    return _opened(store, settings, writing=True, is_new=True)


def _may_be(location: str, nonce: str) -> bool:
    """Whether the log of this nonce lies at a location, also where that cannot be told."""
    try:
        if not ledger_exists(location):
            return False
        store = open_store(location, reading=True)
    except HansardError:
        return True
    try:
        return store.entry(0).data.get("nonce") == nonce
    except HansardError:
        return True
    finally:
        store.close()


def ledger_exists(location: str) -> bool:
    """Whether something lies at a location; whether it is a ledger is found by opening it."""
    match form_of(location):
        case "memory":
            return False
        case "postgresql":
            from hansard.store.postgres import PostgresStore

            return PostgresStore.exists(location)
        case _:
            # An empty file counts: it may have been a ledger, and whoever emptied it must not get a new one in its place.
            # So does a link to nothing: what it leads to may be on a disk that is not there now. Where nobody can tell, that
            # is an error, which `exists` has been silent about since Python 3.14.
            try:
                os.lstat(location)
            except (FileNotFoundError, NotADirectoryError):
                return False
            return True


def can_be_written(location: str) -> bool:
    """Whether this process may write where a ledger lies; a database server says so by itself."""
    if form_of(location) not in ("sqlite", "jsonl"):
        return True
    return os.access(location, os.W_OK) and os.access(Path(location).parent, os.W_OK)


def _opened(store: Store, settings: Settings, **how: bool) -> Opened:
    try:
        return Opened(store, settings, **how)
    except BaseException:
        store.close()
        raise


def open_store(location: str, *, reading: bool) -> Store:
    """Open the store at a location."""
    match form_of(location):
        case "postgresql":
            from hansard.store.postgres import PostgresStore

            return PostgresStore.open(location)
        case "jsonl":
            from hansard.store.jsonl import JsonlStore

            return JsonlStore.open(Path(location), reading=reading, encode=fastest())
        case "memory":
            raise UsageError("a ledger in memory has nothing to read: it is gone with the process that wrote it")
        case _:
            from hansard.store.sqlite import SqliteStore

            return SqliteStore.open(Path(location))


def compare_derived(store: Store, look: "Callable[[int, int], None]") -> "tuple[Finding, ...]":
    """What a database server has derived wrongly; of files, the verifier finds it himself."""
    from hansard.store.postgres import PostgresStore

    return store.compare(look) if isinstance(store, PostgresStore) else ()


def create_store(location: str, genesis: Draft) -> Store:
    """Make a new ledger at a location; its folder is made too."""
    match form_of(location):
        case "postgresql":
            from hansard.store.postgres import PostgresStore

            return PostgresStore.create(location, genesis)
        case "memory":
            from hansard.store.memory import MemoryStore

            return MemoryStore(genesis)
        case "jsonl":
            from hansard.store.jsonl import JsonlStore

            return JsonlStore.create(_with_folder(location), genesis, encode=fastest())
        case _:
            from hansard.store.sqlite import SqliteStore

            return SqliteStore.create(_with_folder(location), genesis)


def open_providers(
    settings: Settings,
    tables: "Mapping[str, Any] | None" = None,
    *,
    folder: Path | None = None,
    secrets: "Secrets | None" = None,
    prices: "Prices | None" = None,
    places: "Mapping[str, str] | None" = None,
) -> "dict[str, Provider]":
    """The providers of these tables, or those that hansard.toml names. Keys come from the environment, and go into `secrets`."""
    from hansard.providers.open import open_providers as build

    named = settings.providers if tables is None else tables
    # A kind that a session names by itself, a table of a recorded run, or settings without a file stand in no file here.
    read = settings.providers if settings.config else {}
    elsewhere = {name: f"provider {name}" for name in named if name not in read}
    return build(
        named,
        environment=settings.environment,
        where=str(settings.config),
        places=elsewhere | dict(places or {}),
        folder=folder or settings.folder,
        secrets=secrets,
        prices=prices,
    )


def learn_secrets(settings: Settings, secrets: "Secrets") -> None:
    """Add the keys of every provider that hansard.toml names, whether it is asked or not."""
    from hansard.providers.keys import learn_secrets as learn

    learn(settings.providers, settings.environment, secrets)


def learn_passwords(settings: Settings, secrets: "Secrets") -> None:
    """Add what programs are given that are no providers: those of checks, context sources, verifiers and tools."""
    from hansard.providers.keys import learn_passwords as learn

    learn(settings.environment, secrets)


def replayed(recording: "Recording") -> "Replayed":
    """A provider that answers from a recording, and asks nobody."""
    from hansard.providers.replayed import Replayed

    return Replayed(recording)


def open_script(script: "Script", id: str) -> "Provider":
    """A provider that answers from this script, one call at a time."""
    from hansard.providers.scripted import Scripted

    return Scripted(script, id=id, one_at_a_time=True, keep=False)


def restorer(location: str) -> "Restore":
    """What lays a log of ours out anew at a location."""
    match form_of(location):
        case "sqlite":
            from hansard.store.sqlite.restoring import restore

            return partial(restore, _with_folder(location))
        case "jsonl":
            from hansard.store.jsonl.restoring import restore as restore_lines

            return partial(restore_lines, _with_folder(location), encode=fastest())
        case "postgresql":
            from hansard.store.postgres.restoring import restore as restore_rows

            return partial(restore_rows, location)
        case _:
            raise UsageError(f"a log is brought back into a file or a database, and not into {location}")


def place_of(location: str) -> str:
    """A location as it may be shown: without a password."""
    if not location.startswith(_POSTGRESQL):
        return location
    from hansard.store.postgres.address import Address

    return Address.parse(location).place


def form_of(location: str) -> str:
    """Which back end a location asks for."""
    if location == "memory:":
        return "memory"
    if location.startswith(_POSTGRESQL):
        return "postgresql"
    if "://" in location:
        raise UsageError(
            f"cannot open {location.split('://')[0]}://…; ledgers are x.db, x.jsonl, memory: or postgresql://…"
        )
    if not _can_be_a_name(location):
        raise UsageError(f"no file can be named {location!r:.120}; name a ledger without NUL and half characters")
    is_address = _ADDRESS.search(location) and not os.path.lexists(location)
    if location.endswith(".jsonl") and not is_address:
        return "jsonl"
    if location.endswith((".db", ".sqlite", ".sqlite3")) and not is_address:
        return "sqlite"
    what = "this" if may_be_secret(location) else location
    raise UsageError(f"cannot tell what {what} is; name a ledger x.db (SQLite) or x.jsonl, or give postgresql://…")


def may_be_secret(location: str) -> bool:
    """Whether a location that is none may be an address, misspelled or in libpq's other form, with a password in it."""
    return "@" in location or "password" in location.lower()


def _can_be_a_name(location: str) -> bool:
    try:
        return b"\0" not in os.fsencode(location)
    except UnicodeEncodeError:
        return False


def _with_folder(location: str) -> Path:
    path = Path(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise unwritten(f"cannot make the folder {path.parent}: {error.strerror}", error) from error
    return path
