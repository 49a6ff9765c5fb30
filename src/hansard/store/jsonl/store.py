"""The port over files of JSON lines: one writer, held by a lock; readers without one. See the package for the parts."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

from hansard.errors import Broken, Fenced, HansardError, StoreError, Tampered, Unavailable, UsageError, unwritten
from hansard.ledger.canonical import Malformed, dump
from hansard.ledger.entry import Entry
from hansard.ledger.events import Tombstone, tombstone_of
from hansard.ledger.sources.lines import MAX_NOTE_LINE
from hansard.store.base import (
    Claim,
    Draft,
    Group,
    Head,
    Outcome,
    Placed,
    Query,
    Seal,
    StoredBody,
    StoredCheckpoint,
    no_ledger,
    verify_of,
)
from hansard.store.jsonl.bodies import Encode, all_but, encode_body, find_body, find_everywhere, read_body
from hansard.store.jsonl.checkpoints import decode_checkpoint, encode_checkpoint
from hansard.store.jsonl.claims import Claims, epoch_in, read_claims
from hansard.store.jsonl.files import LF, Paths, lines_back, lines_from, replace, whole_end
from hansard.store.jsonl.lock import Lock
from hansard.store.jsonl.log import LineLog
from hansard.store.jsonl.mending import leftovers, repaired
from hansard.store.jsonl.writing import Durability, Writer
from hansard.store.sequence import Sequence, place_all

POLL_S = 0.2


class _Left(NamedTuple):
    """Where the files of a log end, and what lies behind that: a kind of leftovers, and how many."""

    bodies: int
    entries: int
    checkpoints: int
    found: list[tuple[str, int]]


class JsonlStore:
    """One ledger in JSON lines. Safe between threads; one process writes, others may read.

    Durability `each`: what append answered is on the disk. `batched`: it is in the operating system's hands, so it
    outlives this process however that ends; a power failure may take what the last sync() did not cover, and of that it
    may take a body and leave its entry. Batched stores sync by themselves after 1,000 entries or one second, before
    claims and checkpoints count, and on closing.

    A group stands or falls with its append. Only a crash in the middle of one, which nobody was told of, may leave the
    beginning of a group: lines that are whole are never dropped ([J4]).
    """

    inline = None
    busy = False

    def __init__(
        self,
        path: Path,
        *,
        reading: bool,
        durability: Durability = "each",
        clock: Callable[[], float] = time.time,
        encode: Encode = dump,
        lock: Lock | None = None,
    ) -> None:
        _check_durability(durability)
        self._encode = encode
        self._paths = Paths.of(path)
        self._clock = clock
        self._durability = durability
        self._reading = reading
        self._mutex = threading.RLock()
        self._changed = threading.Condition()
        self._closed = False
        self._left: _Left | None = None
        self._shutting: list[Callable[[], object]] = []
        try:
            self._start(lock)
        except BaseException:
            self._shut()
            raise

    @classmethod
    def create(
        cls,
        path: Path,
        genesis: Draft,
        *,
        durability: Durability = "each",
        clock: Callable[[], float] = time.time,
        encode: Encode = dump,
    ) -> Self:
        """Make a new ledger whose entry 0 is `genesis`; StoreError when one is there already."""
        paths = Paths.of(path)
        _check_durability(durability)
        if genesis.parts:
            raise Broken("a genesis entry has no parts")
        [row] = Sequence().place([genesis], int(clock() * 1_000_000), lambda _: 0)
        try:
            lock = Lock(paths.lock)
            try:
                paths.make_room()
                try:
                    replace(paths.entries, [row.line, LF])
                except OSError:
                    paths.entries.unlink(missing_ok=True)
                    raise
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            said = f"cannot create {path}: {error.strerror}; choose a folder that exists and is writable"
            raise unwritten(said, error) from error
        try:
            # Still under its lock: somebody who tries to create it too would otherwise hold it just when it is opened.
            return cls(path, reading=False, durability=durability, clock=clock, encode=encode, lock=lock)
        except OSError as error:
            raise StoreError(f"{path} was made, and cannot be opened: {error.strerror}; open it again later") from error

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        reading: bool = False,
        durability: Durability = "each",
        clock: Callable[[], float] = time.time,
        encode: Encode = dump,
    ) -> Self:
        """Open a ledger that exists: for writing, under its lock, or for reading, beside whoever writes.

        A missing or foreign file is a UsageError and nothing is created. A writer finds a torn end, and cuts it off and
        records that before it writes ([J4]); any other damage leaves the files as they are, and `broken` says what it is.
        """
        try:
            if not path.is_file():
                raise no_ledger(path)
            if not path.stat().st_size:
                raise UsageError(
                    f"{path} is empty, and no ledger: bring back a copy of it, or remove it to begin a new one"
                )
            with path.open("rb") as file:
                if file.read(10) != b'{"actor":"':
                    raise UsageError(f"{path} is not a Hansard ledger: it does not begin with an entry")
            return cls(path, reading=reading, durability=durability, clock=clock, encode=encode)
        except OSError as error:
            said = f"cannot open {path}: {error.strerror}"
            raise (StoreError(said) if os.path.lexists(path) else UsageError(said)) from error

    @property
    def place(self) -> str:
        return str(self._paths.entries)

    @property
    def broken(self) -> str | None:
        return self._log.fault if self._reading else self._writer.trouble or self._log.fault

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        with self._mutex:
            self._check_writable()
            sequence = self._log.sequence.copy()
            told, rows, nodes = place_all(sequence, groups, self._now_us(), self._claims.epoch)
            if rows:
                self._write(rows, self._signed(seal, sequence))
                self._log.take(rows, nodes, sequence)
        with self._changed:
            self._changed.notify_all()
        return told

    def head(self) -> Head:
        return self._log.head()

    def node(self, level: int, index: int) -> bytes:
        return self._log.node(level, index)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        return self._log.lines(start, stop)

    def entry(self, seq: int) -> Entry:
        return self._log.entry(seq)

    def select(self, query: Query) -> Iterator[Entry]:
        return self._log.select(query)

    def count(self, run: str) -> int:
        return self._log.count(run)

    def effects(self, seq: int) -> list[int]:
        return self._log.effects(seq)

    def wait(self, size: int, timeout_s: float) -> int:
        until = time.monotonic() + timeout_s
        while True:
            now, left = self._log.size(), until - time.monotonic()
            if now > size or left <= 0:
                return now
            with self._changed:
                self._changed.wait(min(POLL_S, left))

    def body(self, seq: int, part: str) -> StoredBody | None:
        self._check_part(seq, part)
        # Opened anew each time: erasing puts another file in this one's place, in whatever process.
        with _opened(self._paths.bodies) as fd:
            place = None if fd is None else find_body(fd, (seq, part))
            if fd is None or place is None:
                return None
            try:
                return read_body(fd, place)
            except Malformed as error:
                raise Tampered(
                    f"part {part} of entry {seq} is damaged in {self._paths.bodies} at byte {place[0]}: {error}"
                ) from error

    def erase(self, *parts: tuple[int, str]) -> None:
        for seq, part in parts:
            self._check_part(seq, part)
        with self._writing():
            if not parts:
                return
            # Not by bisecting, which a damaged file misleads: what is not found would be taken for erased.
            places, strange = find_everywhere(self._writer.bodies.fd, set(parts))
            if places:
                self._rewrite_without(sorted(places), parts)
            if strange is not None and not set(parts) <= set(places.values()):
                raise StoreError(
                    f"{_named(parts)} may still be in {self._paths.bodies}: whose body lies at byte {strange} cannot be told;"
                    f" {verify_of(self.place, deep=True)}"
                )

    def _rewrite_without(self, places: Items[tuple[int, int]], parts: Items[tuple[int, str]]) -> None:
        self._writer.sync()
        try:
            replace(self._paths.bodies, all_but(self._writer.bodies.fd, places, self._writer.bodies.kept))
        except OSError as error:
            raise StoreError(
                f"{_named(parts)} may still be in {self._paths.bodies}: {error.strerror};"
                " make space for a second copy of that file and try again"
            ) from error
        self._writer.reopen_bodies()

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        with _opened(self._paths.checkpoints) as fd:
            if fd is None:
                return
            end, at = whole_end(fd), -1
            lines = lines_back(fd, end, MAX_NOTE_LINE) if newest_first else lines_from(fd, 0, end, MAX_NOTE_LINE)
            try:
                for at, line in lines:
                    yield decode_checkpoint(line)
                    at = -1
            except Malformed as error:
                where = f"the checkpoint at byte {at} of " if at >= 0 else ""
                raise StoreError(f"{where}{self._paths.checkpoints}: {error}; {verify_of(self.place)}") from error

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._writing():
            newest = self._claims.epoch("seal")
            if newest != epoch:
                raise Fenced(f"another process seals {self.place} now (epoch {newest}, this one holds {epoch})")
            self._writer.write(0, b"", b"", encode_checkpoint(checkpoint))

    def claim(self, name: str, lease_s: float) -> Claim:
        with self._writing():
            self._writer.sync()
            return self._claims.claim(name, lease_s)

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._writing():
            self._writer.sync()
            self._claims.renew(claim, lease_s)

    def renew_all(self, claims: Items[Claim], lease_s: float) -> None:
        with self._writing():
            self._writer.sync()
            self._claims.renew_all(claims, lease_s)

    def release(self, claim: Claim) -> None:
        with self._writing():
            self._writer.sync()
            self._claims.release(claim)

    def epoch(self, name: str) -> int:
        if not self._reading:
            return self._claims.epoch(name)
        return epoch_in(read_claims(self._paths.claims), name)

    def repair(self) -> list[tuple[str, int]]:
        """Rebuild the index and finish redactions; refused when the lines themselves do not hold together."""
        with self._writing():
            changed = self._log.mend()
            pending = {(stone.seq, stone.part) for stone in self._tombstones() if self._is_pending(stone)}
            self.erase(*sorted(pending))
        return [(what, count) for what, count in (("derived", changed), ("redaction", len(pending))) if count]

    def sync(self) -> None:
        with self._mutex:
            if not self._closed and not self._reading:
                self._writer.sync()

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            if not self._reading and not self._lock.opener.is_here():
                # A forked child has nothing of its own to close: files, index and lock are its parent's.
                self._closed = True
                return
            try:
                if not self._reading:
                    self._writer.sync()
            finally:
                self._shut()

    def _start(self, lock: Lock | None) -> None:
        if self._reading:
            fd = os.open(self._paths.entries, os.O_RDONLY | os.O_CLOEXEC)
            self._shutting.append(lambda: os.close(fd))
        else:
            self._lock = lock or Lock(self._paths.lock)
            self._shutting.append(self._lock.release)
            self._writer = Writer(self._paths, self._durability, self._mutex)
            self._shutting.append(self._writer.close)
            self._claims = Claims(self._paths.claims, self._now_us)
            fd = self._writer.entries.fd
        self._log = LineLog(fd, self._paths.index, self.place, writing=not self._reading)
        self._shutting.append(self._log.close)
        if not self._log.size():
            raise StoreError(f"{self.place} holds no complete entry; restore it from a copy")
        if not self._reading and not self.broken:
            self._look()

    def _look(self) -> None:
        """What a torn write left ([J4]) is found now, and cut off by the first who writes: in an older copy of a log, which
        whoever keeps its checkpoints refuses, it is what the newer one will need. Other damage leaves everything as it is.
        """
        writer, end = self._writer, self._log.at
        try:
            cut, leftover = leftovers(writer.bodies, self._log.size())
        except Malformed as error:
            writer.trouble = str(error)
            return
        noted = whole_end(writer.checkpoints.fd)
        torn = [("torn_tail", writer.entries.kept - end), ("torn_tail", writer.checkpoints.kept - noted)]
        found = [(what, count) for what, count in (*torn, ("leftover_bodies", leftover)) if count]
        if found and (lost := self._lost_end()):
            writer.trouble = lost
            return
        self._left = _Left(cut, end, noted, found)
        if not found:
            self._mend(self._left)

    def _mend(self, left: "_Left") -> None:
        """Cut off what a torn write left, and record it."""
        self._left = None
        try:
            self._writer.cut(bodies=left.bodies, entries=left.entries, checkpoints=left.checkpoints)
            for outcome in self.append([[repaired(what, count)] for what, count in left.found]) if left.found else ():
                if isinstance(outcome, HansardError):
                    raise outcome
        except BaseException as error:
            self._left = left
            if isinstance(error, OSError):
                raise Unavailable(f"nothing was written to {self.place}: {error.strerror}") from error
            raise

    def _lost_end(self) -> str | None:
        """What a torn write cannot do: take entries that a checkpoint covers, which is written when they are durable."""
        try:
            newest = next(self.checkpoints(newest_first=True), None)
        except StoreError as error:
            return str(error)
        if newest is None or newest.size <= self._log.size():
            return None
        return (
            f"a checkpoint of {newest.size} entries is kept and the log ends at {self._log.size()}: "
            f"this is an older copy, or its end was cut off; bring back the newer file"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._mutex:
            self._check_writable()
            yield

    def _check_writable(self) -> None:
        if self._closed:
            raise StoreError(f"{self.place} is closed")
        if self._reading:
            raise StoreError(f"{self.place} was opened for reading; open it for writing to change it")
        self._lock.opener.check(self.place)
        if self.broken:
            raise StoreError(f"{self.place} may not be extended: {self.broken}; {verify_of(self.place)}")
        if self._left:
            self._mend(self._left)

    def _signed(self, seal: Seal | None, sequence: Sequence) -> bytes:
        if seal is None or not seal.due(sequence.size) or seal.epoch != self._claims.epoch("seal"):
            return b""
        note = seal.sign(sequence.size, sequence.frontier.root())
        return encode_checkpoint(StoredCheckpoint(size=sequence.size, note=note)) if note else b""

    def _write(self, rows: Items[Placed], note: bytes) -> None:
        if self._log.at != self._writer.entries.kept:
            # Whoever interrupted the last append did so after its entries were kept and before the log knew of them.
            self._writer.trouble = "an append was interrupted; open the ledger again to see what is there"
            raise StoreError(f"nothing was written to {self.place}: {self._writer.trouble}")
        bodies = b"".join([encode_body(row.seq, part, self._encode) for row in rows for part in row.draft.parts])
        self._writer.write(len(rows), bodies, b"".join([row.line + LF for row in rows]), note)

    def _tombstones(self) -> Iterator[Tombstone]:
        for entry in self.select(Query(kind="body.redacted")):
            if stone := tombstone_of(entry):
                yield stone

    def _is_pending(self, stone: Tombstone) -> bool:
        if not 0 <= stone.seq < self._log.size():
            return False
        named = self.entry(stone.seq).body.get(stone.part) == stone.commitment
        return named and find_body(self._writer.bodies.fd, (stone.seq, stone.part)) is not None

    def _check_part(self, seq: int, part: str) -> None:
        try:
            self.entry(seq).part_position(part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _now_us(self) -> int:
        return int(self._clock() * 1_000_000)

    def _shut(self) -> None:
        self._closed = True
        while self._shutting:
            with suppress(OSError):
                self._shutting.pop()()


@contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """A file for reading; None when it is not there. StoreError where the disk does not give it, or not all of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise _unread(path, error) from error
    try:
        yield fd
    except OSError as error:
        raise _unread(path, error) from error
    finally:
        os.close(fd)


def _unread(path: Path, error: OSError) -> StoreError:
    return StoreError(f"cannot read {path}: {error.strerror}")


def _named(parts: Items[tuple[int, str]]) -> str:
    return f"{', '.join(f'part {part} of entry {seq}' for seq, part in parts):.200}"


def _check_durability(durability: str) -> None:
    if durability not in ("each", "batched"):
        raise UsageError(f"durability {durability!r} is not known; it is 'each' or 'batched'")
