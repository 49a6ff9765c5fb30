"""A ledger in PostgreSQL, for many machines: writers take turns on the head row, and followers are told by NOTIFY.

The tables are postgres_layout, the URL is postgres_address. Times and leases are by the server's clock, so the machines need
not agree on theirs. It needs sessions of its own: a pooler that shares them between transactions would lose their settings.
"""

import select
import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

from hansard.errors import Broken, Fenced, HansardError, MissingExtra, OutcomeUnknown, StoreError, UsageError
from hansard.ledger.body import digest
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry, parse
from hansard.ledger.merkle import Frontier, block_root, leaf_hash
from hansard.store.base import Claim, Draft, Group, Head, Outcome, Query, Seal, StoredBody, StoredCheckpoint
from hansard.store.holder import Holder
from hansard.store.postgres_address import Address
from hansard.store.postgres_layout import INSERT, LAYOUT, LOCK_HEAD, LOCK_TABLE, READ_HEAD, SHARED_FROM_BYTES, TABLES
from hansard.store.sequence import Row, Sequence, answers, place_all

try:
    import psycopg
except ImportError as error:
    raise MissingExtra(
        "a PostgreSQL ledger needs psycopg, which is not installed; run: pip install 'hansard[postgres]'"
    ) from error

BUSY_S = 10.0
# Shorter than BUSY_S: a writer that froze in its turn loses it before those who wait for it give up.
IDLE_S = 8.0
PAGE = 512
POLL_S = 0.2
# With LISTEN a look is only needed in case that something between us and the server swallowed the message.
LISTENING_POLL_S = 1.0
FAR = 1 << 62
OLDEST_SERVER = 12

Connection = psycopg.Connection[tuple[Any, ...]]
Clock = Callable[[], float]


class _Turn(NamedTuple):
    """One writer's turn: its connection, the head to place entries after, and the time when the turn began."""

    writer: Connection
    sequence: Sequence
    now_us: int


class PostgresStore:
    """One ledger in one schema of a database. Safe between threads, processes and machines."""

    inline = False

    def __init__(self, address: Address, *, clock: Clock | None = None) -> None:
        self._address = address
        self._clock = clock
        self._mutex = threading.RLock()
        self._writer: Connection | None = None
        self._pool = threading.Lock()
        self._idle: list[Connection] = []
        self._closed = False
        self._behind = False
        self._unsure = False
        try:
            self._check_ours()
            self.broken = self._fault()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, url: str, genesis: Draft, *, clock: Clock | None = None) -> Self:
        """Make a new ledger whose entry 0 is `genesis`; StoreError when its schema holds something already."""
        address = Address.parse(url)
        connection = _connect(address, writing=True)
        try:
            _lay_out(connection, address, genesis, clock)
        except psycopg.Error as error:
            raise StoreError(f"cannot create {address.place}: {_reason(error, address)}") from error
        finally:
            connection.close()
        return cls(address, clock=clock)

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Open a ledger that exists; where there is none it is a UsageError and nothing is created."""
        return cls(Address.parse(url), clock=clock)

    @property
    def place(self) -> str:
        return self._address.place

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        names = {draft.fence[0] for group in groups for draft in group if draft.fence}
        with self._turn() as turn:
            epochs = _epochs(turn.writer, names | {"seal"} if seal else names)
            outcomes, nodes = place_all(turn.sequence, groups, turn.now_us, lambda name: epochs.get(name, 0))
            rows = [row for outcome in outcomes if not isinstance(outcome, HansardError) for row in outcome]
            if rows:
                _insert(turn, rows, nodes, self._address.channel)
                if seal and seal.epoch == epochs.get("seal", 0):
                    note = seal.sign(turn.sequence.size, turn.sequence.frontier.root())
                    if note:
                        _keep_note(turn.writer, turn.sequence.size, note)
        return answers(outcomes, groups)

    def head(self) -> Head:
        self._settle()
        row = self._one(READ_HEAD)
        if row is None:
            raise StoreError(f"{self.place} has no head row; run: hansard ledger repair")
        return _sequence_of(row, self.place).head()

    def node(self, level: int, index: int) -> bytes:
        base = level - level % 8
        start, stop = index << (level - base), (index + 1) << (level - base)
        if base:
            found = self._all(
                "SELECT hash FROM nodes WHERE level = %s AND idx >= %s AND idx < %s ORDER BY idx", base, start, stop
            )
            hashes = [each for (each,) in found]
        else:
            hashes = [leaf_hash(line) for line in self.lines(start, stop)]
        if len(hashes) != stop - start:
            raise StoreError(f"{self.place} lacks the nodes of level {level} at {index}; run: hansard ledger repair")
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
            raise UsageError(f"no entry {seq} in {self.place}; the log ends at {self.head().size - 1}")
        return _parsed(seq, row[0], self.place)

    def select(self, query: Query) -> Iterator[Entry]:
        low, high = max(query.after + 1, 0), FAR if query.before is None else query.before
        if query.from_ts is not None:
            low = max(low, self._first_at(query.from_ts))
        if query.to_ts is not None:
            high = min(high, self._first_at(query.to_ts))
        low, high = min(low, FAR), max(min(high, FAR), 0)
        names = [name for name in ("run", "kind", "actor") if getattr(query, name) is not None]
        where = "".join(f" AND {name} = %s" for name in names)
        order = "DESC" if query.newest_first else "ASC"
        left = FAR if query.limit is None else query.limit
        while left > 0:
            page = self._all(
                f"SELECT seq, line FROM entries WHERE seq >= %s AND seq < %s{where} ORDER BY seq {order} LIMIT %s",
                low, high, *(getattr(query, name) for name in names), min(PAGE, left),
            )  # fmt: skip
            yield from (_parsed(seq, line, self.place) for seq, line in page)
            left -= len(page)
            if len(page) < PAGE:
                return
            low, high = (low, page[-1][0]) if query.newest_first else (page[-1][0] + 1, high)

    def effects(self, seq: int) -> list[int]:
        return [effect for (effect,) in self._all("SELECT seq FROM causes WHERE cause = %s ORDER BY seq", seq)]

    def wait(self, size: int, timeout_s: float) -> int:
        until = time.monotonic() + timeout_s
        now = self._size()
        if now > size or timeout_s <= 0:
            return now
        with self._lent() as reader:
            # Listen first and look then: what is committed between the two is seen by the look.
            listening = _listens(reader, self._address.channel)
            while True:
                row = reader.execute("SELECT size FROM head").fetchone()
                now = row[0] if row else 0
                left = until - time.monotonic()
                if now > size or left <= 0 or self._closed:
                    break
                if listening:
                    for _ in reader.notifies(timeout=min(LISTENING_POLL_S, left), stop_after=1):
                        pass
                else:
                    time.sleep(min(POLL_S, left))
            # A connection that listens and is not read from would fill the server's queue.
            reader.execute("UNLISTEN *")
        return now

    def body(self, seq: int, part: str) -> StoredBody | None:
        row = self._one(
            "SELECT b.salt, b.media, coalesce(s.body, b.body) FROM bodies b LEFT JOIN shared s ON s.digest = b.shared"
            " WHERE b.id = %s",
            self._body_id(seq, part),
        )
        if row is None or row[2] is None:
            return None
        return StoredBody(seq=seq, part=part, media=row[1], salt=row[0], body=row[2])

    def erase(self, seq: int, part: str) -> None:
        """Delete salt and body, then vacuum their tables.

        The deleted bytes can live on where this cannot reach: in the write-ahead log until its segments are recycled, in
        replicas and backups, in free space of a page until it is used again, and in rows that an old snapshot still sees.
        """
        at = self._body_id(seq, part)
        with self._turn() as turn:
            _erase(turn.writer, at)
        self._vacuum()

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        at, order, after = (FAR, "DESC", "<") if newest_first else (-1, "ASC", ">")
        while True:
            page = self._all(
                f"SELECT id, size, note FROM checkpoints WHERE id {after} %s ORDER BY id {order} LIMIT %s", at, PAGE
            )
            yield from (StoredCheckpoint(size=size, note=note.decode("utf-8", "replace")) for _, size, note in page)
            if len(page) < PAGE:
                return
            at = page[-1][0]

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._turn() as turn:
            newest = _epochs(turn.writer, {"seal"}).get("seal", 0)
            if newest != epoch:
                raise Fenced(f"another process seals {self.place} now (epoch {newest}, this one holds {epoch})")
            _keep_note(turn.writer, checkpoint.size, checkpoint.note)

    def claim(self, name: str, lease_s: float) -> Claim:
        with self._turn() as turn:
            row = turn.writer.execute(
                "SELECT epoch, holder, until_us FROM claims WHERE name = %s", (name,)
            ).fetchone()
            epoch, holder, until_us = row or (0, "", 0)
            because = _free(name, epoch, holder, until_us - turn.now_us, self.place)
            turn.writer.execute(
                "INSERT INTO claims VALUES (%s, %s, %s, %s) ON CONFLICT(name) DO UPDATE SET"
                " epoch = excluded.epoch, holder = excluded.holder, until_us = excluded.until_us",
                (name, epoch + 1, Holder.here().text(), turn.now_us + int(lease_s * 1_000_000)),
            )
        return Claim(name=name, epoch=epoch + 1, because=because)

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._turn() as turn:
            newest = _epochs(turn.writer, {claim.name}).get(claim.name, 0)
            if newest != claim.epoch:
                raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {newest} holds it now")
            until_us = turn.now_us + int(lease_s * 1_000_000)
            turn.writer.execute("UPDATE claims SET until_us = %s WHERE name = %s", (until_us, claim.name))

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
        with self._mutex:
            with self._turn(repairing=True) as turn:
                changed = _rebuild(turn, self.place)
                erased = _finish_redactions(turn.writer, self.place)
            if erased:
                self._vacuum()
            self.broken = self._fault()
        return [(what, count) for what, count in (("derived", changed), ("redaction", erased)) if count]

    def sync(self) -> None:
        return

    def close(self) -> None:
        with self._mutex, self._pool:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            self._drop_writer()

    @contextmanager
    def _turn(self, *, repairing: bool = False) -> Iterator[_Turn]:
        """One durable commit around the block, alone on the log. Until COMMIT is sent, a failure leaves no trace."""
        with self._mutex:
            if self._closed:
                raise StoreError(f"{self.place} is closed")
            if self.broken and not repairing:
                raise StoreError(f"{self.place} may not be extended: {self.broken}; run: hansard verify {self.place}")
            try:
                turn = self._begin(repairing)
                yield turn
            except BaseException as error:
                self._rollback()
                if isinstance(error, psycopg.Error):
                    raise StoreError(f"nothing was written to {self.place}: {self._why(error)}") from error
                raise
            self._commit(turn.writer)
            self._behind = turn.sequence.behind

    def _begin(self, repairing: bool = False) -> _Turn:
        if self._writer is None or not _is_live(self._writer):
            self._drop_writer()
            self._writer = _connect(self._address, writing=True)
        # One message for three statements: a turn begins with one round trip.
        lock = LOCK_TABLE if repairing else LOCK_HEAD
        cursor = self._writer.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {lock}")
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        if row is None:
            raise StoreError(f"{self.place} has no head row; run: hansard ledger repair")
        self._unsure = False
        sequence = Sequence() if repairing else _sequence_of(row, self.place)
        sequence.behind = self._behind
        return _Turn(self._writer, sequence, int(self._clock() * 1_000_000) if self._clock else row[-1])

    def _commit(self, writer: Connection) -> None:
        try:
            done = writer.execute("COMMIT").statusmessage
        except BaseException as error:
            self._unsure = True
            self._drop_writer()
            if isinstance(error, psycopg.Error):
                raise OutcomeUnknown(
                    f"{self.place}: the commit failed ({self._why(error)}); its entries may or may not be there:"
                    " read the head before going on"
                ) from error
            raise
        if done != "COMMIT":
            raise StoreError(f"nothing was written to {self.place}: the server answered COMMIT with {done}")

    def _rollback(self) -> None:
        """Undo what the server holds of this turn; a connection that cannot say so is dropped, which undoes it too."""
        try:
            if self._writer is not None:
                self._writer.execute("ROLLBACK")
        except psycopg.Error:
            self._drop_writer()

    def _settle(self) -> None:
        """After a commit of unknown outcome the server may still be at it: its lock on the head tells when it is done."""
        if self._unsure:
            with self._mutex:
                try:
                    self._begin()
                except psycopg.Error as error:
                    raise StoreError(f"cannot read {self.place}: {self._why(error)}") from error
                finally:
                    self._rollback()

    def _drop_writer(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _vacuum(self) -> None:
        with self._mutex:
            try:
                if self._writer is None:
                    self._writer = _connect(self._address, writing=True)
                self._writer.execute("VACUUM bodies, shared")
            except (psycopg.Error, StoreError) as error:
                self._drop_writer()
                why = self._why(error) if isinstance(error, psycopg.Error) else str(error)
                raise StoreError(
                    f"the body is deleted, but its table in {self.place} was not vacuumed: {why}; erase it again"
                ) from error

    def _check_ours(self) -> None:
        name, wanted = LAYOUT
        try:
            with self._lent() as reader:
                row = reader.execute("SELECT value FROM meta WHERE name = %s", (name,)).fetchone()
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
                raise
            row = None
        if row is None:
            raise UsageError(
                f"no ledger in schema {self._address.schema} of {self.place}; check the URL, or make one with: hansard init"
            )
        if row[0] != wanted:
            raise UsageError(f"{self.place} has layout {row[0]}; this version of Hansard reads layout {wanted}")

    def _fault(self) -> str | None:
        """What is wrong at the end of the log, as far as a bounded look can tell; verification looks at everything."""
        with self._lent() as reader:
            try:
                # Others may be writing: only one snapshot for all three questions gives answers that belong together.
                with reader.transaction():
                    reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                    row = reader.execute(READ_HEAD).fetchone()
                    last = _only(reader.execute("SELECT max(seq) FROM entries"))
                    if row is None or last is None or row[0] != last + 1:
                        return f"the head row says {row[0] if row else 'nothing'}, the last entry is {last}"
                    at = row[0] & ~255 if row[0] & 255 else row[0] - 1
                    lines = reader.execute("SELECT line FROM entries WHERE seq >= %s ORDER BY seq", (at,)).fetchall()
            except (psycopg.DataError, psycopg.InternalError) as error:
                return f"the end of the log cannot be read: {self._why(error)}"
        return _tail_fault(row, [leaf_hash(line) for (line,) in lines], at)

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

    def _size(self) -> int:
        row = self._one("SELECT size FROM head")
        return int(row[0]) if row else 0

    def _body_id(self, seq: int, part: str) -> int:
        try:
            return _body_id(self.entry(seq), part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _one(self, sql: str, *values: object) -> Any:
        rows = self._all(sql, *values)
        return rows[0] if rows else None

    def _all(self, sql: str, *values: object) -> list[Any]:
        with self._lent() as reader:
            return reader.execute(sql, values, binary=True).fetchall()

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """A reading connection that nobody else uses meanwhile. After a failure it is not used again."""
        reader = self._borrow()
        try:
            yield reader
        except BaseException as error:
            reader.close()
            if isinstance(error, psycopg.Error):
                raise StoreError(f"cannot read {self.place}: {self._why(error)}") from error
            raise
        with self._pool:
            if not self._closed:
                self._idle.append(reader)
                return
        reader.close()

    def _borrow(self) -> Connection:
        while True:
            with self._pool:
                if self._closed:
                    raise StoreError(f"{self.place} is closed")
                if not self._idle:
                    break
                reader = self._idle.pop()
            if _is_live(reader):
                return reader
            reader.close()
        return _connect(self._address, writing=False)

    def _why(self, error: psycopg.Error) -> str:
        return _reason(error, self._address)


def _connect(address: Address, *, writing: bool) -> Connection:
    # Without these, a server that vanished would be waited for until the system gives up, after minutes or hours.
    patience = {"connect_timeout": 10, "keepalives_idle": 30, "tcp_user_timeout": 30_000}
    given: dict[str, Any] = {name: value for name, value in patience.items() if name not in address.options}
    try:
        connection = psycopg.connect(
            address.conninfo, autocommit=True, client_encoding="utf8", application_name="hansard", **given
        )
    except psycopg.ProgrammingError as error:
        # The cause would be printed with the trace, and it quotes the URL.
        raise UsageError(f"{address.place}: {_reason(error, address)}") from None
    except psycopg.Error as error:
        raise StoreError(
            f"cannot reach {address.place}: {_reason(error, address)}; check server, database, user and password"
        ) from error
    try:
        connection.execute(
            "SELECT set_config('search_path', %s, false), set_config('default_transaction_read_only', %s, false),"
            " set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),"
            # An acknowledged entry is durable whatever the server's default is; a stronger default stays.
            " CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
            " THEN set_config('synchronous_commit', 'on', false) END",
            (f'"{address.schema}"', "off" if writing else "on", f"{BUSY_S}s", f"{IDLE_S}s"),
        )
    except psycopg.Error as error:
        connection.close()
        raise StoreError(f"cannot use {address.place}: {_reason(error, address)}") from error
    return connection


def _is_live(connection: Connection) -> bool:
    """Whether an idle connection still is one: when there is something to read, the server has said goodbye or gone."""
    if connection.closed:
        return False
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return not ready.poll(0)


def _reason(error: psycopg.Error, address: Address) -> str:
    # The primary message alone: details quote rows, and rows hold what people wrote.
    return address.clean(error.diag.message_primary or str(error))


def _listens(reader: Connection, channel: str) -> bool:
    """Whether this server lets us listen; a standby does not."""
    try:
        reader.execute(f'LISTEN "{channel}"')
    except psycopg.OperationalError:
        raise
    except psycopg.Error:
        return False
    return True


def _lay_out(connection: Connection, address: Address, genesis: Draft, clock: Clock | None) -> None:
    if connection.info.server_version < OLDEST_SERVER * 10_000:
        raise UsageError(f"{address.place} is a PostgreSQL older than {OLDEST_SERVER}; use a newer server")
    if genesis.parts:
        raise Broken("a genesis entry has no parts")
    schema = address.schema
    with connection.transaction():
        # Two who create at once take turns, so that the second one finds what the first one made.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('hansard'), hashtext(%s))", (schema,))
        connection.execute("SET TRANSACTION READ WRITE")
        if not _only(connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (schema,))):
            connection.execute(f'CREATE SCHEMA "{schema}"')
        elif _only(connection.execute("SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace", (schema,))):
            raise StoreError(
                f"schema {schema} of {address.place} holds tables already; open it, or choose another with ?schema=NAME"
            )
        for statement in TABLES:
            connection.execute(statement)
        now_us = int(clock() * 1_000_000) if clock else _only(connection.execute(CLOCK))
        sequence = Sequence()
        rows = sequence.place([genesis], now_us, lambda _: 0)
        sequence.grow(rows)
        _write_head(connection, sequence)
        _insert(_Turn(connection, sequence, now_us), rows, [], address.channel)
