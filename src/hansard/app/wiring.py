"""The one place that names concrete back ends: from a location to an open store, with its sealer where there are keys."""

import os
import re
import shlex
import time
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hansard.__about__ import __version__
from hansard.app.settings import Settings
from hansard.errors import Fenced, HansardError, StoreError, UsageError, unwritten
from hansard.record.draft import Drafter
from hansard.record.encoder import fastest
from hansard.store.base import Draft, Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hansard.ledger.checkpoint import Checkpoint
    from hansard.providers.base import Provider
    from hansard.providers.prices import Prices
    from hansard.providers.recording import Recording
    from hansard.providers.replayed import Replayed
    from hansard.providers.script import Script
    from hansard.providers.secrets import Secrets
    from hansard.record.imports import Restore
    from hansard.record.recorder import Sealing
    from hansard.record.sealer import Sealer

SOFTWARE = f"hansard/{__version__}"
SOON_S = 1.0
_NONCE = re.compile(r"[0-9a-f]{32}")
_POSTGRESQL = ("postgresql://", "postgres://")


class Opened:
    """An open ledger. Its sealer is taken at the first word that is to be written, so that looking changes nothing."""

    def __init__(
        self, store: Store, settings: Settings, *, writing: bool, lost_key: bool = False, is_new: bool = False
    ) -> None:
        self.store = store
        self.settings = settings
        self.is_new = is_new
        """Whether this process has just made it."""
        self._writing = writing
        self._lost_key = lost_key
        self._looked = False
        self._sealer: Sealer | None = None
        self._folder: Path | None = None
        """Where the keys of a signed log belong."""
        self.custody = self._custody()

    @property
    def sealer(self) -> "Sealer | None":
        """The sealer when this process may hold the keys and the lease, else None; `custody` says why.

        StoreError when the log was rolled back or forked since it was last signed here: then nothing may be written.
        """
        if not self._looked and not self.store.broken:
            self._sealer = self._take()
            # Only now: whoever asks again after a refusal is refused again.
            self._looked = True
        return self._sealer

    def extending(self) -> "Sealer | None":
        """The same for whoever is about to extend the log; StoreError too where nobody could seal what is written ([C11])."""
        sealer = self.sealer
        if sealer is None and self._writing and self._keyless and not self.store.broken:
            self._refuse_unless_sealed()
        return sealer

    def sealing(self) -> "Sealing | None":
        """The same for a process that stays: it seals as soon as another one that does so is gone."""
        sealer = self.extending()
        if not self._writing or self._folder is None or self._keyless or self.store.broken:
            return sealer
        from hansard.record.deputy import Deputy

        return Deputy(sealer, self._again)

    def _again(self) -> "Sealer | None":
        self._sealer = self._take()
        return self._sealer

    def check_lines(self) -> None:
        """For a repair, before it writes: StoreError unless the lines are those that were signed, and it can be sealed."""
        if self._folder is None:
            return
        if self._keyless:
            raise self._unsealable()
        from hansard.record.recovery import refuse_other_lines

        refuse_other_lines(self.store, self._folder)

    def check(self) -> None:
        """StoreError where `sealer` would say that nothing may be written, found without taking or changing anything."""
        if self._folder is None:
            return
        from hansard.record.recovery import check_keys, refuse_rollback
        from hansard.seal.keys import KeyRing

        if self._keyless:
            if self._folder.is_dir():
                refuse_rollback(self.store, self._folder)
            raise StoreError(f"{self.store.place} is signed, and {self._keyless}")
        check_keys(self.store, KeyRing.open(self._folder, self._origin), self._folder)

    def sign_no_more(self) -> None:
        """Give up sealing, so that closing does not fail where signing has."""
        with suppress(StoreError):
            if self._sealer:
                self._sealer.let_go()

    def close(self) -> None:
        """Sign what is unsigned, where this process may, and close."""
        try:
            if self._sealer:
                self._sealer.close()
        finally:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _custody(self) -> str:
        genesis = self.store.entry(0).data
        if genesis.get("custody") != "file":
            return "none: this log is unsigned"
        # A stranger's log may name anything: only a nonce ([E6]) becomes the name of a folder, and no other has keys here.
        nonce = str(genesis.get("nonce", ""))
        folder = self.settings.log_folder(nonce if _NONCE.fullmatch(nonce) else "none")
        self._folder, self._origin = folder, str(genesis.get("origin", ""))
        return f"files in {folder}" if folder.is_dir() else f"its keys are not on this machine (looked in {folder})"

    @cached_property
    def _keyless(self) -> str | None:
        """Why this process cannot sign a log that is signed, and what to do; None where it can, and for an unsigned one."""
        if self._folder is None:
            return None
        if not self._folder.is_dir():
            return (
                f"{self.custody}; name the state folder that has them with HANSARD_STATE, or write where they are. If they "
                f"are gone for good, go on in a new log that names this one: "
                f"hansard ledger adopt {shlex.quote(self.store.place)} --ledger NEW.db"
            )
        from hansard.seal.signing import available

        return None if available() else "`cryptography` is not installed: pip install cryptography"

    def _refuse_unless_sealed(self) -> None:
        """A process without the keys may write while one that has them seals the log."""
        from hansard.record.sealer import CLAIM, LEASE_S

        try:
            self.store.release(self.store.claim(CLAIM, LEASE_S))
        except Fenced as error:
            self.custody = f"another process seals: {error}"
            return
        raise self._unsealable()

    def _unsealable(self) -> StoreError:
        return StoreError(f"nothing was written to {self.store.place}: it is signed, and {self._keyless}")

    def _take(self) -> "Sealer | None":
        if not self._writing or self._folder is None or not self._folder.is_dir():
            return None
        if self._keyless:
            from hansard.record.recovery import refuse_rollback

            refuse_rollback(self.store, self._folder)
            self.custody = self._keyless
            return None
        from hansard.record.sealer import Sealer
        from hansard.seal.keys import KeyRing

        try:
            ring = KeyRing.open(self._folder, self._origin)
            sealer = Sealer.take(self.store, ring, self._folder, lost_key_rotates=self._lost_key)
            self.custody = f"files in {self._folder}"
            return sealer
        except Fenced as error:
            self.custody = f"another process seals: {error}"
            return None


def open_ledger(settings: Settings, *, writing: bool = False, lost_key: bool = False) -> Opened:
    """Open a ledger that exists; a mistyped path is a UsageError and creates nothing.

    `lost_key` says that the epoch key in force is gone for good, and rotates without it ([C7]).
    """
    store = open_store(settings.ledger, reading=not writing)
    return _opened(store, settings, writing=writing, lost_key=lost_key)


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
    while not ledger_exists(location):
        if time.monotonic() > until:
            return False
        time.sleep(SOON_S / 50)
    return True


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
    if form_of(location) != "sqlite":
        raise UsageError(f"a log is brought back into SQLite; name a ledger x.db instead of {place_of(location)}")
    from hansard.store.sqlite.restoring import restore

    return partial(restore, _with_folder(location))


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
    if location.endswith(".jsonl"):
        return "jsonl"
    if location.endswith((".db", ".sqlite", ".sqlite3")):
        return "sqlite"
    raise UsageError(f"cannot tell what {location} is; name a ledger x.db (SQLite) or x.jsonl, or give postgresql://…")


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
