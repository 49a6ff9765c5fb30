"""A log with keys, as the sealer's tests need it: real files, a clock that can be set, and a check by the proof alone."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hansard.errors import HansardError
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.events import ROTATED, epoch_name
from hansard.ledger.merkle import root_at
from hansard.ledger.note import VerifierKey, open_note, parse_note
from hansard.record.sealer import Sealer
from hansard.seal.genesis import found
from hansard.seal.keys import KeyRing
from hansard.store.base import Placed, Query, Store
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore
from ledgers import Clock, draft, request

ORIGIN = "log.example/sealed"


@dataclass(slots=True, kw_only=True)
class Log:
    """One signed log: its file and its keys under one folder, opened as often as a test likes."""

    folder: Path
    clock: Clock
    form: str = "db"

    @classmethod
    def found(cls, folder: Path, clock: Clock | None = None, form: str = "db") -> "Log":
        log = cls(folder=folder, clock=clock or Clock(), form=form)
        folder.mkdir(parents=True, exist_ok=True)
        genesis, _ = found(lambda _: log.keys, ORIGIN, "test")
        log.store.create(log.path, draft(genesis, actor="log"), clock=log.clock).close()
        return log

    @property
    def store(self) -> type[SqliteStore] | type[JsonlStore]:
        return SqliteStore if self.form == "db" else JsonlStore

    @property
    def path(self) -> Path:
        return self.folder / f"log.{self.form}"

    @property
    def keys(self) -> Path:
        return self.folder / "state"

    @property
    def ring(self) -> KeyRing:
        return KeyRing.open(self.keys, ORIGIN)

    def open(self) -> Store:
        return self.store.open(self.path, clock=self.clock)

    def take(self, store: Store, *, lost_key_rotates: bool = False) -> Sealer:
        return Sealer.take(store, self.ring, self.keys, clock=self.clock, lost_key_rotates=lost_key_rotates)

    def copy(self, folder: Path) -> "Log":
        shutil.copytree(self.folder, folder)
        return Log(folder=folder, clock=self.clock, form=self.form)


def say(store: Store, count: int = 1, *, sealer: Sealer | None = None, text: str = "said") -> list[Placed]:
    """Append some entries with bodies in one commit, under the sealer's seal when there is one."""
    group = [draft(request(f"{text} {each}"), run="r1") for each in range(count)]
    [outcome] = store.append([group], sealer.seal() if sealer else None)
    if isinstance(outcome, HansardError):
        raise outcome
    if sealer:
        sealer.committed()
    return outcome


def sizes(store: Store) -> list[int]:
    return [each.size for each in store.checkpoints()]


def sealed_to(store: Store) -> tuple[int, list[int]]:
    """How far the log is sealed, and its unsealed rotations: [C5] to [C9] spelled out, by the standard library alone."""
    genesis = store.entry(0).data
    origin, identity = genesis["origin"], VerifierKey.parse(genesis["identity"])
    known = {0: VerifierKey.parse(genesis["epoch_key"])}
    ends: list[int] = []
    for entry in store.select(Query(kind=ROTATED)):
        number = int(entry.data["epoch"])
        known[number] = VerifierKey.parse(str(entry.data["key"]))
        assert known[number].name == epoch_name(origin, number)
        ends.append(entry.seq + 1)
    sealed: list[int] = []
    for each in store.checkpoints():
        in_force = known[sum(end < each.size for end in ends)]
        if set(_signers(store, each.size, each.note, (identity, *known.values()))) == {identity, in_force}:
            sealed.append(each.size)
    unsealed = [end - 1 for end in ends if end not in sealed]
    whole = [size for size in sealed if not any(end < size and end - 1 in unsealed for end in ends)]
    return max(whole, default=0), unsealed


def _signers(store: Store, size: int, note: str, keys: Sequence[VerifierKey]) -> Sequence[VerifierKey]:
    parsed = parse_note(note)
    opened = open_note(parsed, keys)
    assert size <= store.head().size
    assert parse_checkpoint(opened.text).root == root_at(size, store)
    assert not opened.unknown
    return opened.verified
