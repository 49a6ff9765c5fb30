"""The store's verbs on a SQLite file."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple, Self

from hansard.durable import sync
from hansard.errors import Fenced, StoreError, Uncleaned, UsageError, plainly, unwritten
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.ledger.layout import APPLICATION_ID, INDEXES, LONGEST_PATH, TABLES, USER_VERSION, body_id
from hansard.ledger.merkle import block_root, leaf_hash
from hansard.store.base import (
    Claim,
    Draft,
    Group,
    Head,
    Outcome,
    Query,
    Seal,
    StoredBody,
    StoredCheckpoint,
    no_ledger,
    repair_of,
    verify_of,
)
from hansard.store.holder import Holder, why_free
from hansard.store.sequence import place_all
from hansard.store.sqlite.mending import fault, finish_redactions, rebuild
from hansard.store.sqlite.rows import (
    MAX_NUMBER,
    READ_HEAD,
    READ_NODES,
    as_bytes,
    as_text,
    check_unused,
    erase_body,
    insert,
    keep_note,
    lay_out,
    sequence_of,
)
from hansard.store.sqlite.writer import Writer, connect, refusal, take_turn

PAGE = 512
POLL_S = 0.2
TOO_LONG = f"with its folders its path is longer than the {LONGEST_PATH} bytes that SQLite takes"


class SqliteStore:
    """One ledger file. Safe between threads and between processes."""

    inline = None

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._place = str(path)
        # Readers are opened later, and who uses the store may go to another folder meanwhile.
        self._path = path.absolute()
        self._local, self._opening = threading.local(), threading.Lock()
        self._readers: list[_Reader] = []
        self._closed = False
        self._writer = Writer(path, clock)
        try:
            self._check_ours()
            self._writer.lock_file()
            self._writer.broken = fault(self._writer.connection)
        except BaseException:
            self._writer.abandon()
            raise

    @classmethod
    def create(cls, path: Path, genesis: Draft, *, clock: Callable[[], float] = time.time) -> Self:
        """Make a new ledger whose entry 0 is `genesis`; StoreError when one is there already."""
        if _is_too_long(path):
            raise UsageError(f"cannot create {path}: {TOO_LONG}; choose a shorter one, or JSON lines (x.jsonl)")
        try:
            lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            said = f"cannot create {path}: {error.strerror}; choose a folder that exists and is writable"
            raise unwritten(said, error) from error
        # Under another name until it is whole: a half-made ledger could neither be opened nor made again.
        unfinished = Path(f"{path}.new")
        try:
            take_turn(lock_fd, str(path))
            check_unused(path)
            _clear(unfinished)
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            lay_out(unfinished, genesis, int(clock() * 1_000_000))
            unfinished.replace(path)
            try:
                sync(path.parent)
            except OSError:
                path.unlink()
                raise
        except (sqlite3.Error, OSError) as error:
            with suppress(OSError):
                _clear(unfinished)
            raise unwritten(f"cannot create {path}: {plainly(error)}", error) from error
        finally:
            os.close(lock_fd)
        return cls.open(path, clock=clock)

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open a ledger that exists; a missing or foreign file is a UsageError and nothing is created."""
        # The file is never opened but by SQLite: closing it again would cancel every lock that this process has on it,
        # and another process could then delete the WAL that a second store in this one writes to.
        try:
            if not path.is_file():
                raise no_ledger(path)
            if not path.stat().st_size:
                raise UsageError(
                    f"{path} is empty, and no ledger: bring back a copy of it, or remove it to begin a new one"
                )
            return cls(path, clock=clock)
        except (sqlite3.Error, OSError) as error:
            raise _unopened(path, error) from error

    @property
    def place(self) -> str:
        return self._place

    @property
    def busy(self) -> bool:
        return self._writer.busy()

    @property
    def broken(self) -> str | None:
        return self._writer.broken

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        writer = self._writer
        with writer.transaction() as connection:
            told, rows, nodes = place_all(writer.sequence, groups, writer.now_us(), writer.epoch)
            if rows:
                insert(connection, rows, nodes, writer.sequence)
                if seal and seal.due(writer.sequence.size) and seal.epoch == writer.epoch("seal"):
                    note = seal.sign(writer.sequence.size, writer.sequence.frontier.root())
                    if note:
                        keep_note(connection, writer.sequence.size, note)
        return told

    def head(self) -> Head:
        try:
            return sequence_of(self._one(READ_HEAD)).head()
        except Malformed as error:
            raise StoreError(f"{self.place} has no head: {error}; {repair_of(self.place)}") from error

    def node(self, level: int, index: int) -> bytes:
        if not 0 <= level < 63 or not 0 <= index < MAX_NUMBER >> level:
            raise StoreError(f"no node of level {level} at {index} in {self.place}")
        base = level - level % 8
        start, stop = index << (level - base), (index + 1) << (level - base)
        if base:
            hashes = [as_bytes(each) for (each,) in self._all(READ_NODES, base, start, stop)]
        else:
            hashes = [leaf_hash(line) for line in self.lines(start, stop)]
        if len(hashes) != stop - start:
            raise StoreError(f"{self.place} lacks the nodes of level {level} at {index}; {repair_of(self.place)}")
        return block_root(hashes)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        at, end = _bounded(start), MAX_NUMBER if stop is None else _bounded(stop)
        while at < end:
            page = self._all(
                "SELECT seq, line FROM entries WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT ?", at, end, PAGE
            )
            yield from (as_bytes(line) for _, line in page)
            if len(page) < PAGE:
                return
            at = page[-1][0] + 1

    def entry(self, seq: int) -> Entry:
        row = self._one("SELECT line FROM entries WHERE seq = ?", seq) if 0 <= seq < MAX_NUMBER else None
        if row is None:
            raise UsageError(f"no entry {seq} in {self.place}; the log ends at {self.head().size - 1}")
        return self._parsed(seq, as_bytes(row[0]))

    def select(self, query: Query) -> Iterator[Entry]:
        low = _bounded(query.after + 1)
        high = MAX_NUMBER if query.before is None else _bounded(query.before)
        if query.from_ts is not None:
            low = max(low, self._first_at(query.from_ts))
        if query.to_ts is not None:
            high = min(high, self._first_at(query.to_ts))
        names = query.names
        where = "".join(f" AND {'+' if at else ''}{name} = ?" for at, name in enumerate(names))
        order = "DESC" if query.newest_first else "ASC"
        left = MAX_NUMBER if query.limit is None else query.limit
        while left > 0:
            page = self._all(
                f"SELECT seq, line FROM entries WHERE seq >= ? AND seq < ?{where} ORDER BY seq {order} LIMIT ?",
                low, high, *names.values(), min(PAGE, left),
            )  # fmt: skip
            yield from (self._parsed(seq, as_bytes(line)) for seq, line in page)
            left -= len(page)
            if len(page) < PAGE:
                return
            low, high = (low, page[-1][0]) if query.newest_first else (page[-1][0] + 1, high)

    def count(self, run: str) -> int:
        row = self._one("SELECT count(*) FROM entries WHERE run = ?", run)
        return self._number(row[0]) if row else 0

    def effects(self, seq: int) -> list[int]:
        if not 0 <= seq < MAX_NUMBER:
            return []
        return [effect for (effect,) in self._all("SELECT seq FROM causes WHERE cause = ? ORDER BY seq", seq)]

    def wait(self, size: int, timeout_s: float) -> int:
        until = time.monotonic() + timeout_s
        while True:
            row = self._one("SELECT size FROM head")
            now = self._number(row[0]) if row else 0
            left = until - time.monotonic()
            if now > size or left <= 0:
                return now
            with self._writer.changed:
                self._writer.changed.wait(min(POLL_S, left))

    def body(self, seq: int, part: str) -> StoredBody | None:
        at = body_id(seq, self._position(seq, part))
        row = self._one(
            "SELECT b.salt, b.media, coalesce(s.body, b.body) FROM bodies b LEFT JOIN shared s ON s.id = b.shared WHERE b.id = ?",
            at,
        )
        if row is None or row[2] is None:
            return None
        return StoredBody(seq=seq, part=part, media=as_text(row[1]), salt=as_bytes(row[0]), body=as_bytes(row[2]))

    def erase(self, *parts: tuple[int, str]) -> None:
        places = [body_id(seq, self._position(seq, part)) for seq, part in parts]
        with self._writer.transaction() as connection:
            for at in places:
                erase_body(connection, at)
        self._writer.leave_no_trace()

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        at, order, after = (MAX_NUMBER, "DESC", "<") if newest_first else (-1, "ASC", ">")
        most = 1
        while True:
            page = self._all(
                f"SELECT id, size, note FROM checkpoints WHERE id {after} ? ORDER BY id {order} LIMIT {most}", at
            )
            yield from (StoredCheckpoint(size=self._number(size), note=as_text(note)) for _, size, note in page)
            if len(page) < most:
                return
            # Most callers want the first one alone; whoever goes on reads all of them.
            at, most = page[-1][0], PAGE

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._writer.transaction() as connection:
            newest = self._writer.epoch("seal")
            if newest != epoch:
                raise Fenced(f"another process seals {self.place} now (epoch {newest}, this one holds {epoch})")
            keep_note(connection, checkpoint.size, checkpoint.note)

    def claim(self, name: str, lease_s: float) -> Claim:
        with self._writer.transaction() as connection:
            row = connection.execute("SELECT epoch, holder, until_us FROM claims WHERE name = ?", (name,)).fetchone()
            epoch, holder, until_us = row or (0, "", 0)
            epoch, holder, until_us = self._number(epoch), as_text(holder), self._number(until_us)
            because = why_free(f"{name} in {self.place}", epoch, holder, until_us - self._writer.now_us())
            connection.execute(
                "INSERT INTO claims VALUES (?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET"
                " epoch = excluded.epoch, holder = excluded.holder, until_us = excluded.until_us",
                (name, epoch + 1, Holder.here().text(), self._lease_end(lease_s)),
            )
            self._writer.know_epoch(name, epoch + 1)
        return Claim(name=name, epoch=epoch + 1, because=because)

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._writer.transaction() as connection:
            newest = self._writer.epoch(claim.name)
            if newest != claim.epoch:
                raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {newest} holds it now")
            connection.execute("UPDATE claims SET until_us = ? WHERE name = ?", (self._lease_end(lease_s), claim.name))

    def renew_all(self, claims: Items[Claim], lease_s: float) -> None:
        with self._writer.transaction() as connection:
            until_us = self._lease_end(lease_s)
            rows = [(until_us, claim.name, claim.epoch) for claim in claims]
            connection.executemany("UPDATE claims SET until_us = ? WHERE name = ? AND epoch = ?", rows)

    def release(self, claim: Claim) -> None:
        with self._writer.transaction() as connection:
            connection.execute(
                "UPDATE claims SET holder = '', until_us = 0 WHERE name = ? AND epoch = ?", (claim.name, claim.epoch)
            )

    def epoch(self, name: str) -> int:
        row = self._one("SELECT epoch FROM claims WHERE name = ?", name)
        return self._number(row[0]) if row else 0

    def repair(self) -> list[tuple[str, int]]:
        """Rebuild what is derived, and finish redactions; refused when the lines themselves do not hold together."""
        writer = self._writer
        with writer.mutex:
            writer.broken = None
            try:
                with writer.transaction(trusting=False) as connection:
                    writer.sequence, changed = rebuild(connection, self.place)
                    erased, redacted = finish_redactions(connection)
                done = [(what, count) for what, count in (("derived", changed), ("redaction", erased)) if count]
                if redacted:
                    # Also where nothing was left to erase: whoever did it may have been killed before this.
                    try:
                        writer.leave_no_trace()
                    except StoreError as error:
                        raise Uncleaned(str(error), done) from error
            finally:
                writer.broken = fault(writer.connection)
        return done

    def sync(self) -> None:
        return

    def close(self) -> None:
        if not self._writer.opener.is_here():
            # Its parent's locks do not hold for a forked child, and by closing it would take away the WAL that is written to.
            return
        with self._opening:
            self._closed = True
        for reader in self._readers:
            with reader.lock, suppress(sqlite3.Error):
                reader.connection.close()
        self._writer.close()

    def _lease_end(self, lease_s: float) -> int:
        return self._writer.now_us() + int(lease_s * 1_000_000)

    def _check_ours(self) -> None:
        application = self._writer.connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._writer.connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise UsageError(f"{self.place} is a SQLite file, but not a Hansard ledger")
        if version != USER_VERSION:
            raise UsageError(f"{self.place} has layout {version}; this version of Hansard reads layout {USER_VERSION}")
        found = self._writer.connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
        # SQLite would run what somebody wrote there: a view may never end, nor an index of an expression, and a trigger may do
        # anything to what is recorded.
        odd = [
            f"{kind.decode()} {name.decode(errors='replace')!r:.60}"
            for kind, name, sql in found
            if kind in (b"view", b"trigger")
            or (kind == b"index" and sql and name.decode(errors="replace") not in INDEXES)
        ]
        # An index that is not there only takes time, and a repair makes it anew.
        wanted = {each.encode() for each in TABLES if each not in INDEXES.values()}
        if odd or not wanted <= {sql for _, _, sql in found}:
            what = f"the {odd[0]}, which no ledger has" if odd else "other tables than a ledger"
            # Verifying calls it broken and says no more: whoever made it has to hear that taking it away is all.
            yours = "if you made it, drop it again, else " if odd else ""
            raise StoreError(f"{self.place} has {what}, and is not opened; {yours}{verify_of(self.place)}")

    def _position(self, seq: int, part: str) -> int:
        """Where a part stands among those of its entry. Read quickly; the strict way says what is wrong."""
        row = self._one("SELECT line FROM entries WHERE seq = ?", seq) if 0 <= seq < MAX_NUMBER else None
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            return sorted(json.loads(as_bytes(row[0]) if row else b"")["body"]).index(part)
        try:
            return self.entry(seq).part_position(part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _number(self, value: object) -> int:
        if not isinstance(value, int) or abs(value) > MAX_NUMBER:
            raise StoreError(f"{self.place} holds {value!r:.40} where a number belongs; {verify_of(self.place)}")
        return value

    def _parsed(self, seq: int, line: bytes) -> Entry:
        try:
            return read(line)
        except Malformed as error:
            raise StoreError(f"entry {seq} of {self.place} is broken: {error}") from error

    def _first_at(self, ts: int) -> int:
        """The first seq at or after a time; ts never falls, so this is a binary search and needs no index."""
        low, high = 0, self.head().size
        while low < high:
            middle = (low + high) // 2
            row = self._one("SELECT line ->> '$.ts' FROM entries WHERE seq = ?", middle)
            if row is not None and isinstance(row[0], int) and row[0] < ts:
                low = middle + 1
            else:
                high = middle
        return low

    def _one(self, sql: str, *values: object) -> Any:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    def _all(self, sql: str, *values: object) -> list[Any]:
        self._writer.opener.check(self.place)
        try:
            reader: _Reader | None = getattr(self._local, "reader", None) or self._new_reader()
            if reader is not None:
                with reader.lock:
                    if not self._closed:
                        return reader.connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise refusal("cannot read", self.place, error) from error
        raise StoreError(f"{self.place} is closed")

    def _new_reader(self) -> "_Reader | None":
        """A connection for this thread; none where the store is closed. Those of threads that have ended go."""
        with self._opening:
            if self._closed:
                return None
            for ended in [each for each in self._readers if not each.thread.is_alive()]:
                self._readers.remove(ended)
                ended.connection.close()
            connection = connect(self._path, reading=True)
            reader = self._local.reader = _Reader(connection, threading.Lock(), threading.current_thread())
            self._readers.append(reader)
            return reader


class _Reader(NamedTuple):
    """One thread's connection. Closing it while a query runs on it would take the process down, so both take its lock."""

    connection: sqlite3.Connection
    lock: threading.Lock
    thread: threading.Thread


def _is_too_long(path: Path) -> bool:
    return len(os.fsencode(os.path.realpath(path))) > LONGEST_PATH


def _unopened(path: Path, error: sqlite3.Error | OSError) -> UsageError | StoreError:
    """Why a ledger cannot be opened, and what to do about it."""
    if isinstance(error, OSError) and not os.path.lexists(path):
        return UsageError(f"cannot open {path}: {error.strerror}")
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_NOTADB:
        return UsageError(f"{path} is not a SQLite file")
    if _is_too_long(path):
        return UsageError(f"cannot open {path}: {TOO_LONG}; move it nearer to the root")
    if not os.access(path, os.R_OK):
        return StoreError(f"cannot open {path}: you may not read it; ask its owner for an export of it")
    if not os.access(path.parent, os.W_OK):
        return StoreError(
            f"cannot open {path}: SQLite has to write beside it, and this process may not; copy it to another folder, "
            f"together with {path}-wal where that is there"
        )
    if isinstance(error, OSError):
        return StoreError(f"cannot open {path}: {error.strerror}")
    if code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL):
        return StoreError(f"cannot open {path}: {error}; SQLite has to write beside it: see whether its disk is full")
    return StoreError(f"cannot open {path}: {error}; `hansard verify {quote(str(path))}` tells what is left of it")


def _clear(path: Path) -> None:
    """Remove a database and whatever SQLite laid beside it."""
    for ending in ("", "-journal", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _bounded(seq: int) -> int:
    return min(max(seq, 0), MAX_NUMBER)
