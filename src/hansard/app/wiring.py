"""The one place that names concrete back ends: from a location to an open store, with its sealer where there are keys."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hansard.__about__ import __version__
from hansard.app.settings import Settings
from hansard.errors import Fenced, UsageError
from hansard.record.draft import Drafter
from hansard.store.base import Draft, Store

if TYPE_CHECKING:
    from hansard.ledger.checkpoint import Checkpoint
    from hansard.record.sealer import Sealer

SOFTWARE = f"hansard/{__version__}"


@dataclass(slots=True, kw_only=True)
class Opened:
    """An open ledger, and the sealer when this process holds the keys and the lease. `custody` says it in words."""

    store: Store
    sealer: "Sealer | None" = None
    custody: str = "not looked up"

    def close(self) -> None:
        try:
            if self.sealer:
                self.sealer.close()
        finally:
            self.store.close()


def open_ledger(settings: Settings, *, writing: bool = False) -> Opened:
    """Open a ledger that exists; a mistyped path is a UsageError and creates nothing."""
    store = open_store(settings.ledger, reading=not writing)
    try:
        return _with_sealer(store, settings, writing)
    except BaseException:
        store.close()
        raise


def open_or_found(settings: Settings) -> Opened:
    """Open a ledger for writing, or make it when nothing is there."""
    return open_ledger(settings, writing=True) if ledger_exists(settings.ledger) else found_ledger(settings)


def found_ledger(settings: Settings, adopts: "Checkpoint | None" = None) -> Opened:
    """Make a new ledger: its keys first, durable in the user's state folder, then its entry 0."""
    from hansard.seal.genesis import found

    signed = form_of(settings.ledger) != "memory"
    genesis, _ = found(settings.log_folder, settings.origin, SOFTWARE, adopts, signed=signed)
    draft = Drafter().draft(genesis, actor="log", run="", causes=(), fence=None)
    store = create_store(settings.ledger, draft)
    try:
        return _with_sealer(store, settings, writing=True)
    except BaseException:
        store.close()
        raise


def ledger_exists(location: str) -> bool:
    """Whether something lies at a location; whether it is a ledger is found by opening it."""
    match form_of(location):
        case "memory":
            return False
        case "postgresql":
            from hansard.store.postgres import PostgresStore

            return PostgresStore.exists(location)
        case _:
            return Path(location).exists() and Path(location).stat().st_size > 0


def _with_sealer(store: Store, settings: Settings, writing: bool) -> Opened:
    genesis = store.entry(0).data
    if genesis.get("custody") != "file":
        return Opened(store=store, custody="none: this log is unsigned")
    folder = settings.log_folder(str(genesis.get("nonce", "")))
    if not folder.is_dir():
        return Opened(store=store, custody=f"the keys are not on this machine (looked in {folder})")
    if not writing or store.broken:
        return Opened(store=store, custody=f"files in {folder}")
    from hansard.seal.keys import KeyRing
    from hansard.seal.signing import available

    if not available():
        return Opened(
            store=store, custody="`cryptography` is not installed: entries stay unsealed; pip install hansard"
        )
    from hansard.record.sealer import Sealer

    try:
        sealer = Sealer.take(store, KeyRing.open(folder, str(genesis["origin"])), folder)
    except Fenced as error:
        return Opened(store=store, custody=f"another process seals: {error}")
    return Opened(store=store, sealer=sealer, custody=f"files in {folder}")


def open_store(location: str, *, reading: bool) -> Store:
    """Open the store at a location."""
    match form_of(location):
        case "postgresql":
            from hansard.store.postgres import PostgresStore

            return PostgresStore.open(location)
        case "jsonl":
            from hansard.store.jsonl import JsonlStore

            return JsonlStore.open(Path(location), reading=reading)
        case "memory":
            raise UsageError("a ledger in memory has nothing to read: it is gone with the process that wrote it")
        case _:
            from hansard.store.sqlite import SqliteStore

            return SqliteStore.open(Path(location))


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

            return JsonlStore.create(_with_folder(location), genesis)
        case _:
            from hansard.store.sqlite import SqliteStore

            return SqliteStore.create(_with_folder(location), genesis)


def form_of(location: str) -> str:
    """Which back end a location asks for."""
    if location == "memory:":
        return "memory"
    if location.startswith(("postgresql://", "postgres://")):
        return "postgresql"
    if "://" in location:
        raise UsageError(
            f"cannot open {location.split('://')[0]}://…; ledgers are x.db, x.jsonl, memory: or postgresql://…"
        )
    if location.endswith(".jsonl"):
        return "jsonl"
    if location.endswith((".db", ".sqlite", ".sqlite3")):
        return "sqlite"
    raise UsageError(f"cannot tell what {location} is; name a ledger x.db (SQLite) or x.jsonl, or give postgresql://…")


def _with_folder(location: str) -> Path:
    path = Path(location)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path.parent}: {error.strerror}") from error
    return path
