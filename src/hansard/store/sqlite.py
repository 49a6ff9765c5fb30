"""A ledger in one SQLite file: many processes may append, opening is O(1), a commit is one fdatasync.

The layout is hansard/ledger/layout.py ([S1]-[S6]). Writers take turns on a lock file: it keeps the worst wait short and
stays clear of SQLite's WAL-reset bug (before 3.51.3), which needs two connections that write at the same moment.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from hansard.errors import Broken, Fenced, OutcomeUnknown, StoreError, UsageError
from hansard.ledger.body import digest
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry, parse
from hansard.ledger.layout import APPLICATION_ID, SHARED_FROM_BYTES, TABLES, USER_VERSION, body_id
from hansard.ledger.merkle import Frontier, block_root, leaf_hash
from hansard.store.base import Claim, Draft, Group, Head, Outcome, Placed, Query, Seal, StoredBody, StoredCheckpoint
from hansard.store.holder import Holder
from hansard.store.sequence import Sequence, place_all

BUSY_S = 10.0
TURN_S = 0.0005
PAGE = 512
POLL_S = 0.2


class SqliteStore:
    """One ledger file. Safe between threads and between processes."""

    inline = False

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._mutex = threading.RLock()
        self._changed = threading.Condition()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._sequence = Sequence()
        self._seen: int | None = None
        self._epochs: dict[str, int] = {}
        self._lock_fd = -1
        self._dropped = False
        try:
            self._writer = self._connect()
            self._check_ours()
            self._lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self.broken = self._fault()
        except BaseException:
            self._shut()
            raise

    @classmethod
    def create(cls, path: Path, genesis: Draft, *, clock: Callable[[], float] = time.time) -> Self:
        """Make a new ledger whose entry 0 is `genesis`; StoreError when one is there already."""
        try:
            lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"cannot create {path}: {error.strerror}; choose a folder that exists and is writable"
            ) from error
        try:
            _take_turn(lock_fd, str(path))
            for found in (path, Path(f"{path}-wal")):
                if found.exists() and found.stat().st_size:
                    raise StoreError(f"{found} exists already; open the ledger, or choose another name")
            # Under another name until it is whole: a half-made ledger could neither be opened nor made again.
            unfinished = Path(f"{path}.new")
            for ending in ("", "-journal", "-wal", "-shm"):
                Path(f"{unfinished}{ending}").unlink(missing_ok=True)
            os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            _lay_out(unfinished, genesis, int(clock() * 1_000_000))
            unfinished.replace(path)
            _sync_folder(path.parent)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"cannot create {path}: {error}") from error
        finally:
            os.close(lock_fd)
        return cls(path, clock=clock)

    @classmethod
    def open(cls, path: Path, *, clock: Callable[[], float] = time.time) -> Self:
        """Open a ledger that exists; a missing or foreign file is a UsageError and nothing is created."""
        # The file is never opened but by SQLite: closing it again would cancel every lock that this process has on it,
        # and another process could then delete the WAL that a second store in this one writes to.
        try:
            if not path.is_file():
                raise UsageError(f"no ledger at {path}; check the path, or make one with: hansard init")
            if not path.stat().st_size:
                raise UsageError(f"{path} is empty, and no ledger")
            return cls(path, clock=clock)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise UsageError(f"{path} is not a SQLite file") from error
            raise StoreError(f"cannot open {path}: {error}; `hansard verify` tells what is left of it") from error
        except OSError as error:
            raise StoreError(f"cannot open {path}: {error.strerror}") from error

    @property
    def place(self) -> str:
        return str(self._path)

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        with self._transaction():
            told, rows, nodes = place_all(self._sequence, groups, self._now_us(), self._epoch_inside)
            if rows:
                self._insert(rows, nodes)
                if seal and seal.epoch == self._epoch_inside("seal"):
                    self._seal_inside(seal)
        return told

    def head(self) -> Head:
        row = self._one("SELECT size, leaf, ts, frontier FROM head")
        if row is None:
            raise StoreError(f"{self.place} has no head row; run: hansard ledger repair")
        return _sequence_of(row).head()

    def node(self, level: int, index: int) -> bytes:
        base = level - level % 8
        start, stop = index << (level - base), (index + 1) << (level - base)
        if base:
            found = self._all(
                "SELECT hash FROM nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx", base, start, stop
            )
            hashes = [bytes(each) for (each,) in found]
        else:
            hashes = [leaf_hash(line) for line in self.lines(start, stop)]
        if len(hashes) != stop - start:
            raise StoreError(f"{self.place} lacks the nodes of level {level} at {index}; run: hansard ledger repair")
        return block_root(hashes)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        at, end = start, (1 << 62) if stop is None else stop
        while at < end:
            page = self._all(
                "SELECT seq, line FROM entries WHERE seq >= ? AND seq < ? ORDER BY seq LIMIT ?", at, end, PAGE
            )
            yield from (_bytes(line) for _, line in page)
            if len(page) < PAGE:
                return
            at = page[-1][0] + 1

    def entry(self, seq: int) -> Entry:
        row = self._one("SELECT line FROM entries WHERE seq = ?", seq) if 0 <= seq < 1 << 62 else None
        if row is None:
            raise UsageError(f"no entry {seq} in {self.place}; the log ends at {self.head().size - 1}")
        return self._parsed(seq, _bytes(row[0]))

    def select(self, query: Query) -> Iterator[Entry]:
        low, high = query.after + 1, (1 << 62) if query.before is None else query.before
        if query.from_ts is not None:
            low = max(low, self._first_at(query.from_ts))
        if query.to_ts is not None:
            high = min(high, self._first_at(query.to_ts))
        names = [name for name in ("run", "kind", "actor") if getattr(query, name) is not None]
        where = "".join(f" AND {name} = ?" for name in names)
        order = "DESC" if query.newest_first else "ASC"
        left = query.limit if query.limit is not None else 1 << 62
        while left > 0:
            page = self._all(
                f"SELECT seq, line FROM entries WHERE seq >= ? AND seq < ?{where} ORDER BY seq {order} LIMIT ?",
                low, high, *(getattr(query, name) for name in names), min(PAGE, left),
            )  # fmt: skip
            yield from (self._parsed(seq, _bytes(line)) for seq, line in page)
            left -= len(page)
            if len(page) < PAGE:
                return
            low, high = (low, page[-1][0]) if query.newest_first else (page[-1][0] + 1, high)

    def effects(self, seq: int) -> list[int]:
        return [effect for (effect,) in self._all("SELECT seq FROM causes WHERE cause = ? ORDER BY seq", seq)]

    def wait(self, size: int, timeout_s: float) -> int:
        until = time.monotonic() + timeout_s
        while True:
            row = self._one("SELECT size FROM head")
            now = int(row[0]) if row else 0
            left = until - time.monotonic()
            if now > size or left <= 0:
                return now
            with self._changed:
                self._changed.wait(min(POLL_S, left))

    def body(self, seq: int, part: str) -> StoredBody | None:
        at = body_id(seq, self._position(seq, part))
        row = self._one(
            "SELECT b.salt, b.media, coalesce(s.body, b.body) FROM bodies b LEFT JOIN shared s ON s.id = b.shared WHERE b.id = ?",
            at,
        )
        if row is None or row[2] is None:
            return None
        return StoredBody(seq=seq, part=part, media=_text(row[1]), salt=bytes(row[0]), body=bytes(row[2]))

    def erase(self, seq: int, part: str) -> None:
        at = body_id(seq, self._position(seq, part))
        with self._transaction():
            self._erase_inside(at)
        self._empty_wal()

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        at, order, after = (1 << 62, "DESC", "<") if newest_first else (-1, "ASC", ">")
        while True:
            page = self._all(
                f"SELECT id, size, note FROM checkpoints WHERE id {after} ? ORDER BY id {order} LIMIT {PAGE}", at
            )
            yield from (StoredCheckpoint(size=size, note=_text(note)) for _, size, note in page)
            if len(page) < PAGE:
                return
            at = page[-1][0]

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._transaction():
            newest = self._epoch_inside("seal")
            if newest != epoch:
                raise Fenced(f"another process seals {self.place} now (epoch {newest}, this one holds {epoch})")
            self._writer.execute(
                "INSERT INTO checkpoints(size, note) VALUES (?, ?)", (checkpoint.size, checkpoint.note)
            )

    def claim(self, name: str, lease_s: float) -> Claim:
        with self._transaction():
            row = self._writer.execute("SELECT epoch, holder, until_us FROM claims WHERE name = ?", (name,)).fetchone()
            epoch, holder, until_us = (row[0], _text(row[1]), row[2]) if row else (0, "", 0)
            because = _free(name, epoch, holder, until_us - self._now_us(), self.place)
            until_us = self._now_us() + int(lease_s * 1_000_000)
            self._writer.execute(
                "INSERT INTO claims VALUES (?, ?, ?, ?) ON CONFLICT(name) DO UPDATE SET"
                " epoch = excluded.epoch, holder = excluded.holder, until_us = excluded.until_us",
                (name, epoch + 1, Holder.here().text(), until_us),
            )
            self._epochs[name] = epoch + 1
        return Claim(name=name, epoch=epoch + 1, because=because)

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._transaction():
            newest = self._epoch_inside(claim.name)
            if newest != claim.epoch:
                raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {newest} holds it now")
            until_us = self._now_us() + int(lease_s * 1_000_000)
            self._writer.execute("UPDATE claims SET until_us = ? WHERE name = ?", (until_us, claim.name))

    def release(self, claim: Claim) -> None:
        with self._transaction():
            self._writer.execute(
                "UPDATE claims SET holder = '', until_us = 0 WHERE name = ? AND epoch = ?", (claim.name, claim.epoch)
            )

    def epoch(self, name: str) -> int:
        row = self._one("SELECT epoch FROM claims WHERE name = ?", name)
        return int(row[0]) if row else 0

    def repair(self) -> list[tuple[str, int]]:
        """Rebuild what is derived, and finish redactions; refused when the lines themselves do not hold together."""
        with self._mutex:
            self.broken = None
            try:
                with self._transaction(trusting=False):
                    changed = self._rebuild()
                    erased = self._finish_redactions()
                if erased:
                    self._empty_wal()
            finally:
                self.broken = self._fault()
        return [(what, count) for what, count in (("derived", changed), ("redaction", erased)) if count]

    def sync(self) -> None:
        return

    def close(self) -> None:
        with self._mutex:
            if self._closed:
                return
            with suppress(sqlite3.Error, StoreError), self._turn():
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._shut_connections()
            self._shut()

    def _connect(self, *, reading: bool = False) -> sqlite3.Connection:
        uri = f"{self._path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        connection.text_factory = bytes
        try:
            if reading:
                connection.execute("PRAGMA query_only = ON")
            else:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _check_ours(self) -> None:
        application = self._writer.execute("PRAGMA application_id").fetchone()[0]
        version = self._writer.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise UsageError(f"{self.place} is a SQLite file, but not a Hansard ledger")
        if version != USER_VERSION:
            raise UsageError(f"{self.place} has layout {version}; this version of Hansard reads layout {USER_VERSION}")

    def _fault(self) -> str | None:
        """What is wrong at the end of the log, as far as a bounded look can tell; verification looks at everything."""
        try:
            row = self._writer.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
            last = self._writer.execute("SELECT max(seq) FROM entries").fetchone()[0]
            if row is None or last is None or row[0] != last + 1:
                return f"the head row says {row[0] if row else 'nothing'}, the last entry is {last}"
            at = row[0] & ~255 if row[0] & 255 else row[0] - 1
            lines = self._writer.execute("SELECT line FROM entries WHERE seq >= ? ORDER BY seq", (at,)).fetchall()
            leaves = [leaf_hash(_bytes(line)) for (line,) in lines]
            kept = Frontier.from_bytes(row[0], bytes(row[3])).hashes()
        except (sqlite3.Error, Malformed, TypeError) as error:
            return f"the end of the log cannot be read: {error}"
        if leaves[-1] != bytes(row[1]):
            return f"entry {last} is not the one that the head row names"
        if row[0] & 255:
            tail = Frontier()
            for leaf in leaves:
                tail.push(leaf)
            if kept[len(kept) - tail.size.bit_count() :] != tail.hashes():
                return f"entries {at} to {last} do not give the tree that the head row names"
        return None

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """This process's turn to write ([S5])."""
        _take_turn(self._lock_fd, self.place)
        try:
            yield
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    @contextmanager
    def _transaction(self, *, trusting: bool = True) -> Iterator[None]:
        """One durable commit around the block. Whatever fails, the cached head is read anew before the next one."""
        with self._mutex:
            if self._closed:
                raise StoreError(f"{self.place} is closed")
            if self.broken:
                raise StoreError(f"{self.place} may not be extended: {self.broken}; run: hansard verify {self.place}")
            with self._turn():
                seen, self._seen = self._seen, None
                self._begin(seen if trusting else None, trusting)
                try:
                    yield
                except BaseException as error:
                    self._rollback()
                    if isinstance(error, sqlite3.Error | OSError):
                        raise StoreError(f"nothing was written to {self.place}: {error}") from error
                    raise
                self._commit()
                self._seen = self._version
        with self._changed:
            self._changed.notify_all()

    def _begin(self, seen: int | None, trusting: bool) -> None:
        try:
            if self._dropped:
                self._writer, self._dropped = self._connect(), False
            self._writer.execute("BEGIN IMMEDIATE")
            self._version = self._writer.execute("PRAGMA data_version").fetchone()[0]
            if seen != self._version and trusting:
                row = self._writer.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
                behind = self._sequence.behind
                self._sequence = _sequence_of(row)
                self._sequence.behind = behind
                self._epochs.clear()
        except (sqlite3.Error, Malformed, TypeError) as error:
            self._rollback()
            raise StoreError(f"cannot write to {self.place}: {error}") from error

    def _commit(self) -> None:
        try:
            self._writer.execute("COMMIT")
        except sqlite3.Error as error:
            self._drop_writer()
            raise OutcomeUnknown(
                f"{self.place}: the commit failed ({error}); its entries may or may not be there: read the head before going on"
            ) from error

    def _rollback(self) -> None:
        try:
            if not self._dropped and self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop_writer()

    def _drop_writer(self) -> None:
        """After a failure that leaves its state in doubt: the next transaction connects anew, when the disk may answer again."""
        self._dropped = True
        with suppress(sqlite3.Error):
            self._writer.close()

    def _insert(self, rows: list[Placed], nodes: list[tuple[int, int, bytes]]) -> None:
        writer = self._writer
        writer.executemany(
            "INSERT INTO entries(seq, line) VALUES (?, ?)", [(row.seq, row.line.decode()) for row in rows]
        )
        causes = [(row.seq, cause) for row in rows for cause in row.causes]
        if causes:
            writer.executemany("INSERT INTO causes VALUES (?, ?)", causes)
        bodies = [
            (body_id(row.seq, at), part.salt, part.media, *self._bed(part.media, part.body))
            for row in rows
            for at, part in enumerate(row.draft.parts)
        ]
        if bodies:
            writer.executemany("INSERT INTO bodies VALUES (?, ?, ?, ?, ?)", bodies)
        if nodes:
            writer.executemany("INSERT INTO nodes VALUES (?, ?, ?)", nodes)
        self._write_head()

    def _seal_inside(self, seal: Seal) -> None:
        size = self._sequence.size
        note = seal.sign(size, self._sequence.frontier.root())
        if note:
            self._writer.execute("INSERT INTO checkpoints(size, note) VALUES (?, ?)", (size, note))

    def _write_head(self) -> None:
        sequence = self._sequence
        self._writer.execute(
            "UPDATE head SET size = ?, leaf = ?, ts = ?, frontier = ?",
            (sequence.size, sequence.leaf, sequence.ts, sequence.frontier.to_bytes()),
        )

    def _bed(self, media: str, body: bytes) -> tuple[bytes | None, int | None]:
        """Where a body sleeps: in its own row, or once for all when it is large."""
        if len(body) < SHARED_FROM_BYTES:
            return body, None
        name = digest(media, body)
        row = self._writer.execute("SELECT id FROM shared WHERE digest = ?", (name,)).fetchone()
        if row:
            return None, row[0]
        return None, self._writer.execute("INSERT INTO shared(digest, body) VALUES (?, ?)", (name, body)).lastrowid

    def _erase_inside(self, at: int) -> None:
        row = self._writer.execute("DELETE FROM bodies WHERE id = ? RETURNING shared", (at,)).fetchall()
        for (shared,) in row:
            if (
                shared is not None
                and not self._writer.execute("SELECT 1 FROM bodies WHERE shared = ?", (shared,)).fetchone()
            ):
                self._writer.execute("DELETE FROM shared WHERE id = ?", (shared,))

    def _empty_wal(self) -> None:
        """The deleted text must not live on in the WAL; a reader may hold it for a moment."""
        until = time.monotonic() + BUSY_S
        with self._mutex:
            while True:
                with self._turn():
                    try:
                        busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                    except sqlite3.Error as error:
                        raise StoreError(
                            f"the body is deleted, but the WAL of {self.place} was not emptied: {error}; run: hansard ledger repair"
                        ) from error
                if not busy:
                    return
                if time.monotonic() > until:
                    raise StoreError(
                        f"the body is deleted, but a reader keeps the WAL of {self.place} alive; close it and run: hansard ledger repair"
                    )
                time.sleep(0.01)

    def _rebuild(self) -> int:
        """Derived tables from the lines. Lines that do not chain are never touched: then this raises."""
        rebuilt, causes, nodes = _read_all(self._writer, self.place)
        changed = 0
        for table, columns, wanted in (("causes", "seq, cause", causes), ("nodes", "level, idx, hash", nodes)):
            marks = ", ".join("?" * len(columns.split(", ")))
            kept = set(self._writer.execute(f"SELECT {columns} FROM {table}").fetchall())
            if kept != wanted:
                changed += len(kept ^ wanted)
                self._writer.execute(f"DELETE FROM {table}")
                self._writer.executemany(f"INSERT INTO {table} VALUES ({marks})", sorted(wanted))
        row = self._writer.execute("SELECT size, leaf, ts, frontier FROM head").fetchone()
        want = (rebuilt.size, rebuilt.leaf, rebuilt.ts, rebuilt.frontier.to_bytes())
        self._sequence = rebuilt
        if row != want:
            changed += 1
            self._writer.execute("INSERT INTO head VALUES (0, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING", want)
            self._write_head()
        return changed

    def _finish_redactions(self) -> int:
        erased = 0
        tombstones = self._writer.execute(
            "SELECT line FROM entries WHERE kind = 'body.redacted' ORDER BY seq"
        ).fetchall()
        for (line,) in tombstones:
            data = parse(_bytes(line)).data
            at = body_id(data["seq"], self._position(data["seq"], data["part"]))
            if self._writer.execute("SELECT 1 FROM bodies WHERE id = ?", (at,)).fetchone():
                self._erase_inside(at)
                erased += 1
        return erased

    def _epoch_inside(self, name: str) -> int:
        known = self._epochs.get(name)
        if known is None:
            row = self._writer.execute("SELECT epoch FROM claims WHERE name = ?", (name,)).fetchone()
            known = self._epochs[name] = row[0] if row else 0
        return known

    def _position(self, seq: int, part: str) -> int:
        try:
            return self.entry(seq).part_position(part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _parsed(self, seq: int, line: bytes) -> Entry:
        try:
            return parse(line)
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
        connection = getattr(self._local, "reader", None)
        try:
            if connection is None:
                if self._closed:
                    raise StoreError(f"{self.place} is closed")
                connection = self._local.reader = self._connect(reading=True)
                self._readers.append(connection)
            return connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self.place}: {error}; run: hansard verify {self.place}") from error

    def _now_us(self) -> int:
        return int(self._clock() * 1_000_000)

    def _shut_connections(self) -> None:
        for connection in (*self._readers, self._writer):
            with suppress(sqlite3.Error):
                connection.close()

    def _shut(self) -> None:
        self._closed = True
        with suppress(AttributeError):
            self._shut_connections()
        with suppress(OSError):
            os.close(self._lock_fd)


def _lay_out(path: Path, genesis: Draft, now_us: int) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {USER_VERSION}")
        for statement in TABLES:
            connection.execute(statement)
        sequence = Sequence()
        [row] = sequence.place([genesis], now_us, lambda _: 0)
        sequence.grow([row])
        if genesis.parts:
            raise Broken("a genesis entry has no parts")
        connection.execute("INSERT INTO entries(seq, line) VALUES (0, ?)", (row.line.decode(),))
        connection.execute(
            "INSERT INTO head VALUES (0, ?, ?, ?, ?)",
            (sequence.size, sequence.leaf, sequence.ts, sequence.frontier.to_bytes()),
        )
        connection.execute("COMMIT")
        # Last, so that everything lies in the file itself, which is renamed without a WAL beside it.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _read_all(
    writer: sqlite3.Connection, place: str
) -> tuple[Sequence, set[tuple[int, int]], set[tuple[int, int, bytes]]]:
    sequence = Sequence()
    causes: set[tuple[int, int]] = set()
    nodes: set[tuple[int, int, bytes]] = set()
    for seq, raw in writer.execute("SELECT seq, line FROM entries ORDER BY seq"):
        line = _bytes(raw)
        try:
            entry = parse(line)
        except Malformed as error:
            raise StoreError(
                f"cannot repair {place}: entry {seq} is broken ({error}); entries are never changed"
            ) from error
        if (seq, entry.seq, entry.prev) != (sequence.size, seq, sequence.leaf.hex()) or entry.ts < sequence.ts:
            raise StoreError(
                f"cannot repair {place}: entry {seq} does not follow the one before; entries are never changed"
            )
        sequence.leaf, sequence.ts = sha256(b"\x00" + line).digest(), entry.ts
        causes.update((seq, cause) for cause in entry.causes)
        nodes.update(sequence.frontier.push(sequence.leaf))
    if not sequence.size:
        raise StoreError(f"cannot repair {place}: it has no entries")
    return sequence, causes, nodes


def _sequence_of(row: tuple[int, bytes, int, bytes]) -> Sequence:
    return Sequence(leaf=bytes(row[1]), ts=row[2], frontier=Frontier.from_bytes(row[0], bytes(row[3])))


def _free(name: str, epoch: int, holder: str, left_us: int, place: str) -> str:
    """Why a claim may be taken, or Fenced when it may not."""
    if not epoch:
        return "new"
    if not holder:
        return "resumed"
    if left_us <= 0:
        return "expired"
    who = Holder.parse(holder)
    if who and who.is_dead():
        return "dead"
    by = f"process {who.pid} on {who.host}" if who else "somebody"
    raise Fenced(f"{name} in {place} is held by {by} for {left_us / 1_000_000:.0f} s more; wait, or end that process")


def _take_turn(lock_fd: int, place: str) -> None:
    """Wait for the lock file, but not without end: its holder may have been stopped in the middle of a commit."""
    until = time.monotonic() + BUSY_S
    while True:
        try:
            return fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreError(
                    f"another process has held {place}.lock for {BUSY_S:.0f} s; nothing was written: look for one that is stopped"
                ) from None
        except OSError as error:
            raise StoreError(f"cannot lock {place}.lock: {error.strerror}") from error
        time.sleep(TURN_S)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode("utf-8", "surrogatepass")


def _text(value: object) -> str:
    return _bytes(value).decode("utf-8", "replace")
