"""The port, spoken to PostgreSQL: each verb is a question to a reading session or a turn of the writing one."""

import time
from collections.abc import Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager
from shlex import quote
from typing import Any, Self

from hansard.errors import Fenced, NotWritten, StoreError, Uncleaned, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.ledger.merkle import block_root, leaf_hash
from hansard.ledger.report import Finding
from hansard.store.base import Claim, Draft, Group, Head, Outcome, Query, Seal, StoredBody, StoredCheckpoint, repair_of
from hansard.store.holder import Holder, why_free
from hansard.store.postgres.address import Address
from hansard.store.postgres.comparing import Look, compare
from hansard.store.postgres.layout import READ_HEAD, READ_NODES, VERSION
from hansard.store.postgres.mending import fault, finish_redactions, rebuild
from hansard.store.postgres.rows import (
    await_makers,
    epochs,
    erase,
    insert,
    is_in_use,
    keep_note,
    lay_out,
    layout_version,
    part_id,
)
from hansard.store.postgres.session import Connection, Readers, check_own, connect, listens, made_whole
from hansard.store.postgres.turn import Clock, Turn, Writer, sequence_of
from hansard.store.sequence import place_all

PAGE = 512
POLL_S = 0.2
# With LISTEN a look is needed only in case that something between us and the server swallowed a message.
LISTENING_POLL_S = 1.0
FAR = 1 << 62


class PostgresStore:
    """One ledger in one schema of a database. Safe between threads, processes and machines."""

    inline = None
    busy = True
    """Nobody can tell how long a server will take: it may be halted, wait for a standby, or lend the lock to another session."""

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        self._address = address
        self._readers = Readers(address)
        self._writer = Writer(address, clock)
        try:
            self._check_ours()
            self._writer.broken = self._fault()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, url: str, genesis: Draft, *, clock: Clock | None = None) -> Self:
        """Make a new ledger whose entry 0 is `genesis`; StoreError when its schema is in use already."""
        address = Address.parse(url)
        connection = connect(address, writing=True)
        try:
            check_own(connection, address)
            with made_whole(connection, address, "create"):
                lay_out(connection, address, genesis, clock)
        finally:
            connection.close()
        return cls(address, clock=clock)

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Open a ledger that exists; where there is none it is a UsageError, and nothing is created."""
        return cls(Address.parse(url), clock=clock)

    @classmethod
    def exists(cls, url: str) -> bool:
        """Whether anything lies in the schema that the URL names; whether it is a ledger is found by opening it."""
        address = Address.parse(url)
        readers = Readers(address)
        try:
            with readers.lent() as reader:
                # A commit that was given up may still be under way, and its keys must not be taken for nobody's.
                await_makers(reader, address.schema)
                return is_in_use(reader, address.schema)
        finally:
            readers.close()

    @property
    def place(self) -> str:
        return self._address.place

    @property
    def broken(self) -> str | None:
        return self._writer.broken

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        names = {draft.fence[0] for group in groups for draft in group if draft.fence}
        with self._turn() as turn:
            newest = epochs(turn.writer, names | {"seal"} if seal else names)
            told, rows, nodes = place_all(turn.sequence, groups, turn.now_us, lambda name: newest.get(name, 0))
            if rows:
                insert(turn, rows, nodes, self._address.channel)
                if seal and seal.due(turn.sequence.size) and seal.epoch == newest.get("seal", 0):
                    note = seal.sign(turn.sequence.size, turn.sequence.frontier.root())
                    if note:
                        keep_note(turn.writer, turn.sequence.size, note)
        return told

    def head(self) -> Head:
        self._writer.settle()
        row = self._readers.read(self._read_head)
        if row is None:
            raise StoreError(f"{self.place} has no head row; {repair_of(self.place)}")
        return sequence_of(row, self.place).head()

    def node(self, level: int, index: int) -> bytes:
        base = level - level % 8
        start, stop = index << (level - base), (index + 1) << (level - base)
        if base:
            hashes = [each for (each,) in self._all(READ_NODES, base, start, stop)]
        else:
            hashes = [leaf_hash(line) for line in self.lines(start, stop)]
        if len(hashes) != stop - start:
            raise StoreError(f"{self.place} lacks the nodes of level {level} at {index}; {repair_of(self.place)}")
        return block_root(hashes)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        at, end = min(start, FAR), FAR if stop is None else min(stop, FAR)
        while at < end:
            page = self._all(
                "SELECT seq, line FROM entries WHERE seq >= %s AND seq < %s ORDER BY seq LIMIT %s", at, end, PAGE
            )
            yield from (line for _, line in page)
            if len(page) < PAGE:
                return
            at = page[-1][0] + 1

    def entry(self, seq: int) -> Entry:
        row = self._one("SELECT line FROM entries WHERE seq = %s", seq) if 0 <= seq < FAR else None
        if row is None:
            raise UsageError(f"no entry {seq} in {self.place}; the log ends at {self._size() - 1}")
        return self._parsed(seq, row[0])

    def select(self, query: Query) -> Iterator[Entry]:
        low, high = max(query.after + 1, 0), FAR if query.before is None else query.before
        if query.from_ts is not None:
            low = max(low, self._first_at(query.from_ts))
        if query.to_ts is not None:
            high = min(high, self._first_at(query.to_ts))
        names = query.names
        where = "".join(f" AND {name} || '' = %s" if at else f" AND {name} = %s" for at, name in enumerate(names))
        order = "DESC" if query.newest_first else "ASC"
        left = FAR if query.limit is None else query.limit
        high = min(high, FAR)
        if not all(map(_may_be_stored, names.values())):
            return
        while left > 0 and low < high:
            page = self._all(
                f"SELECT seq, line FROM entries WHERE seq >= %s AND seq < %s{where} ORDER BY seq {order} LIMIT %s",
                low, high, *names.values(), min(PAGE, left),
            )  # fmt: skip
            yield from (self._parsed(seq, line) for seq, line in page)
            left -= len(page)
            if len(page) < PAGE:
                return
            low, high = (low, page[-1][0]) if query.newest_first else (page[-1][0] + 1, high)

    def count(self, run: str) -> int:
        if not _may_be_stored(run):
            return 0
        [(found,)] = self._all("SELECT count(*) FROM entries WHERE run = %s", run)
        return int(found)

    def effects(self, seq: int) -> list[int]:
        return [effect for (effect,) in self._all("SELECT seq FROM causes WHERE cause = %s ORDER BY seq", seq)]

    def wait(self, size: int, timeout_s: float) -> int:
        until = time.monotonic() + timeout_s
        return self._readers.read(lambda reader: self._wait(reader, size, until))

    def body(self, seq: int, part: str) -> StoredBody | None:
        row = self._one(
            "SELECT b.salt, b.media, coalesce(s.body, b.body) FROM bodies b LEFT JOIN shared s ON s.digest = b.shared"
            " WHERE b.id = %s",
            self._part_id(seq, part),
        )
        if row is None or row[2] is None:
            return None
        return StoredBody(seq=seq, part=part, media=row[1], salt=row[0], body=row[2])

    def erase(self, *parts: tuple[int, str]) -> None:
        """Delete salts and bodies, then vacuum their tables.

        The deleted bytes can live on where this does not reach: in the write-ahead log until its segments are recycled, in
        replicas and backups, in the free space of a page until it is used again. Rows that an old snapshot still sees are told.
        """
        places = [self._part_id(seq, part) for seq, part in parts]
        with self._turn() as turn:
            for at in places:
                erase(turn.writer, at)
        self._vacuum()

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        at, order, after = (FAR, "DESC", "<") if newest_first else (-1, "ASC", ">")
        most = 1
        while True:
            page = self._all(
                f"SELECT id, size, note FROM checkpoints WHERE id {after} %s ORDER BY id {order} LIMIT %s", at, most
            )
            yield from (StoredCheckpoint(size=size, note=note.decode("utf-8", "replace")) for _, size, note in page)
            if len(page) < most:
                return
            # Most callers want the first one alone; whoever goes on reads all of them.
            at, most = page[-1][0], PAGE

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._turn() as turn:
            newest = epochs(turn.writer, {"seal"}).get("seal", 0)
            if newest != epoch:
                raise Fenced(f"another process seals {self.place} now (epoch {newest}, this one holds {epoch})")
            keep_note(turn.writer, checkpoint.size, checkpoint.note)

    def claim(self, name: str, lease_s: float) -> Claim:
        try:
            return self._claim(name, lease_s)
        except NotWritten:
            # As the recorder does it: no run ends before it has begun because a line was cut, or a server started anew.
            return self._claim(name, lease_s)

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._turn() as turn:
            newest = epochs(turn.writer, {claim.name}).get(claim.name, 0)
            if newest != claim.epoch:
                raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {newest} holds it now")
            until_us = turn.now_us + int(lease_s * 1_000_000)
            turn.writer.execute("UPDATE claims SET until_us = %s WHERE name = %s", (until_us, claim.name))

    def renew_all(self, claims: Items[Claim], lease_s: float) -> None:
        with self._turn() as turn:
            until_us = turn.now_us + int(lease_s * 1_000_000)
            names, epochs = [claim.name for claim in claims], [claim.epoch for claim in claims]
            turn.writer.execute(
                "UPDATE claims SET until_us = %s FROM unnest(%s::text[], %s::bigint[]) AS ours(name, epoch) "
                "WHERE claims.name = ours.name AND claims.epoch = ours.epoch",
                (until_us, names, epochs),
            )

    def release(self, claim: Claim) -> None:
        with self._turn() as turn:
            turn.writer.execute(
                "UPDATE claims SET holder = '', until_us = 0 WHERE name = %s AND epoch = %s", (claim.name, claim.epoch)
            )

    def epoch(self, name: str) -> int:
        row = self._one("SELECT epoch FROM claims WHERE name = %s", name)
        return int(row[0]) if row else 0

    def repair(self) -> list[tuple[str, int]]:
        """Rebuild what is derived, and finish redactions; refused when the lines themselves do not hold together."""
        with self._writer.turn(repairing=True) as turn, turn.writer.unhurried():
            changed = rebuild(turn, self.place)
            erased = finish_redactions(turn.writer, self.place)
        done = [(what, count) for what, count in (("derived", changed), ("redaction", erased)) if count]
        self._writer.broken = self._fault()
        if erased:
            try:
                self._vacuum()
            except StoreError as error:
                raise Uncleaned(str(error), done) from error
        return done

    def compare(self, look: Look) -> tuple[Finding, ...]:
        """Hold what is derived against the lines ([S3]); a verifier reads those from an export, and never this database."""
        return compare(self._all, look)

    def sync(self) -> None:
        return

    def close(self) -> None:
        self._readers.close()
        self._writer.close()

    @contextmanager
    def _turn(self) -> Iterator[Turn]:
        if self.broken:
            raise self._writer.refusal()
        with self._writer.turn() as turn:
            yield turn

    def _claim(self, name: str, lease_s: float) -> Claim:
        with self._turn() as turn:
            query = "SELECT epoch, holder, until_us FROM claims WHERE name = %s"
            epoch, holder, until_us = turn.writer.execute(query, (name,)).fetchone() or (0, "", 0)
            because = why_free(f"{name} in {self.place}", epoch, holder, until_us - turn.now_us)
            turn.writer.execute(
                "INSERT INTO claims VALUES (%s, %s, %s, %s) ON CONFLICT(name) DO UPDATE SET"
                " epoch = excluded.epoch, holder = excluded.holder, until_us = excluded.until_us",
                (name, epoch + 1, Holder.here().text(), turn.now_us + int(lease_s * 1_000_000)),
            )
        return Claim(name=name, epoch=epoch + 1, because=because)

    def _vacuum(self) -> None:
        try:
            self._writer.vacuum("bodies", "shared")
        except StoreError as error:
            schema = self._address.schema
            raise StoreError(
                f"the body is deleted, but {error}; when that is over, redact it once more, "
                f"or let the owner of the tables: VACUUM {schema}.bodies, {schema}.shared"
            ) from error

    def _check_ours(self) -> None:
        schema = self._address.schema
        with self._readers.lent() as reader:
            check_own(reader, self._address)
            version = layout_version(reader, schema)
        if version is None:
            raise UsageError(
                f"no ledger in schema {schema} of {self.place}; check the URL, or make one with: "
                f"hansard init --ledger {quote(self.place)}"
            )
        if version != VERSION:
            raise UsageError(f"{self.place} has layout {version}; this version of Hansard reads layout {VERSION}")

    def _fault(self) -> str | None:
        return self._readers.read(fault)

    def _first_at(self, ts: int) -> int:
        """The first seq at or after a time; ts never falls, so this is a binary search and needs no index."""
        low, high = 0, self._size()
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).ts < ts:
                low = middle + 1
            else:
                high = middle
        return low

    def _read_head(self, reader: Connection) -> Any:
        """The head row; where it is not of the log that was seen before, that one is broken, and is read all the same."""
        seen = self._writer.seen
        row = reader.execute(READ_HEAD, binary=True).fetchone()
        if row and not self.broken:
            self._writer.has_grown(reader, seen, row[:2])
        return row

    def _wait(self, reader: Connection, size: int, until: float) -> int:
        now = self._grown_to(reader)
        if now > size or until <= time.monotonic():
            return now
        # Listen first, then look: what is committed between the two is seen by the look.
        listening = listens(reader, self._address.channel)
        while True:
            now = self._grown_to(reader)
            left = until - time.monotonic()
            if now > size or left <= 0 or self._readers.closed:
                break
            if listening:
                # Where nothing happens a server is silent: only what is asked has to be answered in time.
                with reader.unhurried():
                    for _ in reader.notifies(timeout=min(LISTENING_POLL_S, left), stop_after=1):
                        pass
            else:
                time.sleep(min(POLL_S, left))
        if listening:
            # Nobody reads from an idle session, and the server would keep its messages.
            reader.execute("UNLISTEN *")
        return now

    def _grown_to(self, reader: Connection) -> int:
        row = self._read_head(reader)
        return int(row[0]) if row else 0

    def _size(self) -> int:
        row = self._one("SELECT size FROM head")
        return int(row[0]) if row else 0

    def _part_id(self, seq: int, part: str) -> int:
        try:
            return part_id(self.entry(seq), part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _parsed(self, seq: int, line: bytes) -> Entry:
        try:
            return read(line)
        except Malformed as error:
            raise StoreError(f"entry {seq} of {self.place} is broken: {error}") from error

    def _one(self, sql: str, *values: object) -> Any:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    def _all(self, sql: str, *values: object) -> list[Any]:
        return self._readers.read(lambda reader: reader.execute(sql, values, binary=True).fetchall())


def _may_be_stored(text: str) -> bool:
    """Run, kind and actor are ASCII ([E4]); the server would refuse to look for some other texts."""
    return text.isascii() and "\0" not in text
