"""Sessions with the server: how they are begun, which may be read from, and what they say when they fail. No ledger."""

import select
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from hansard.errors import OutcomeUnknown, StoreError, Unavailable, UsageError
from hansard.store.opener import Opener
from hansard.store.postgres.address import Address

BUSY_S = 10.0
# Shorter than BUSY_S: a writer that froze in its turn loses it before those who wait for it give up.
IDLE_S = 8.0
CONNECT_S = 10
BACK_S = 10.0
"""So long a server that was there a moment ago is waited for: it may only be started anew."""
AGAIN_S = 0.2
R = TypeVar("R")
_LAST = ("FATAL", "PANIC")

_SEES_THE_PAST = """
  SELECT 'session ' || pid || ' (' || application_name || ')' FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND usesysid IS NOT NULL AND coalesce(datname, current_database()) = current_database()
    AND greatest(age(backend_xmin), age(backend_xid)) >= age(%(now)s::xid)
  UNION ALL SELECT 'replication slot ' || slot_name FROM pg_replication_slots WHERE age(xmin) >= age(%(now)s::xid)
  UNION ALL SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts
    WHERE database = current_database() AND age(transaction) >= age(%(now)s::xid)"""
"""For VACUUM a row is dead only when no snapshot is left that is older than its deletion; it says nothing of what it leaves."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A session whose server may not be silent for ever: it may be stopped, or wait for a standby that is gone."""

    patience_s: float | None = None

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        """Where psycopg waits for the server, whatever was asked."""
        if self.patience_s is None:
            return super().wait(gen, *args, **kwargs)
        try:
            return super().wait(_spoken_within(self.patience_s, gen), *args, **kwargs)
        except Silence:
            # What it says later would be taken for the answer to something else.
            self.close()
            raise

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """For statements that take as long as the log is large."""
        limit, self.patience_s = self.patience_s, None
        try:
            yield
        finally:
            self.patience_s = limit


class Silence(psycopg.OperationalError):
    """The server has said nothing for too long."""


class Ended(Unavailable):
    """A session ended while something was read in it."""


def _spoken_within(limit_s: float, gen: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
    """The same conversation, which ends when nothing has come for so long, and nothing was taken."""
    silent_since = time.monotonic()
    try:
        state = next(gen)
        while True:
            ready = yield state
            if ready:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > limit_s:
                raise Silence(f"the server was silent for {limit_s:g} s")
            state = gen.send(ready)
    except StopIteration as end:
        answer: R = end.value
        return answer


def connect(address: Address, *, writing: bool) -> Connection:
    """Begin a session in the ledger's schema; Unavailable when the server cannot be reached or lets nobody in."""
    # Without these, a server that vanished would be waited for until the system gives up, after minutes or hours.
    wishes: dict[str, Any] = {
        "connect_timeout": min(CONNECT_S, address.patience_s),
        "keepalives_idle": address.patience_s,
        "tcp_user_timeout": address.patience_s * 1000,
    }
    if address.alternatives:
        # A standby answers too: whoever reads there sees the past, and whoever wants to write would never get away from it.
        wishes["target_session_attrs"] = "primary"
    wishes = {name: value for name, value in wishes.items() if name not in address.options}
    try:
        connection = Connection.connect(
            address.conninfo, autocommit=True, client_encoding="utf8", application_name="hansard", **wishes
        )
    except psycopg.ProgrammingError as error:
        # No cause: a trace would print it, and it may quote the URL.
        raise UsageError(f"{address.place}: {reason(error, address)}") from None
    except psycopg.Error as error:
        raise Unavailable(
            f"cannot reach {address.place}: {reason(error, address)}; check server, database, user and password"
        ) from None
    connection.patience_s = address.patience_s
    try:
        _prepare(connection, address.schema, writing)
    except BaseException as error:
        connection.close()
        if isinstance(error, psycopg.Error):
            raise Unavailable(f"cannot use {address.place}: {reason(error, address)}") from error
        raise
    return connection


def check_own(connection: Connection, address: Address) -> None:
    """UsageError where a pooler lends this session to others between transactions: our settings would be theirs, and theirs ours."""
    ours = _session_of(connection)
    if ours == connection.info.backend_pid:
        # The server itself answers.
        return
    other = connect(address, writing=False)
    try:
        if _session_of(other) == ours:
            raise UsageError(
                f"{address.place} is behind a pooler that lends one session to many, and a ledger needs sessions of its own; "
                "let it pool sessions (PgBouncer: pool_mode = session), or name the server itself"
            )
    finally:
        other.close()


def _session_of(connection: Connection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def made_whole(connection: Connection, address: Address, doing: str) -> Iterator[None]:
    """One commit around the block that lays out a ledger. OutcomeUnknown where only that is without an answer."""
    laid_out = False
    try:
        with connection.transaction():
            yield
            laid_out = True
    except psycopg.Error as error:
        why = reason(error, address)
        if laid_out:
            raise OutcomeUnknown(
                f"{address.place}: the commit failed ({why}); this ledger may or may not be there:"
                " look again when the server answers"
            ) from error
        kind = Unavailable if isinstance(error, psycopg.OperationalError) else StoreError
        raise kind(f"cannot {doing} {address.place}: {why}") from error


def is_live(connection: Connection) -> bool:
    """Whether an idle session still is one: when there is something to read, the server has said goodbye or gone."""
    if connection.closed:
        return False
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return not ready.poll(0)


def is_over(connection: Connection, error: BaseException) -> bool:
    """Whether a session has ended with this error: the server has said so, or is gone."""
    return connection.closed or (isinstance(error, psycopg.Error) and error.diag.severity_nonlocalized in _LAST)


def reason(error: psycopg.Error, address: Address) -> str:
    """Why, for a message: one line, no secret, and no detail, since details quote rows and rows hold what people wrote."""
    return address.clean(error.diag.message_primary or str(error))


def warnings_of(connection: Connection, statement: str) -> list[str]:
    """Execute a statement; what the server warned of meanwhile."""
    told: list[str] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            told.append(notice.message_primary or "")

    connection.add_notice_handler(hear)
    try:
        connection.execute(statement)
    finally:
        connection.remove_notice_handler(hear)
    return told


def the_present(connection: Connection) -> str:
    """The transaction that is now, by which `who_sees_the_past` tells what was before it."""
    row = connection.execute("SELECT txid_current() %% 4294967296", (), binary=True).fetchone()
    return str(row[0]) if row else "0"


def who_sees_the_past(connection: Connection, now: str) -> list[str]:
    """Who still sees rows that were deleted before then."""
    return [who for (who,) in connection.execute(_SEES_THE_PAST, {"now": now}).fetchall()]


def listens(reader: Connection, channel: str) -> bool:
    """Whether the server lets us listen; a standby does not."""
    try:
        reader.execute(f'LISTEN "{channel}"')
    except psycopg.OperationalError:
        raise
    except psycopg.Error:
        return False
    return True


class Absence:
    """A server that was there a moment ago, and is not. It is waited for once, and whoever comes later is told at once."""

    def __init__(self) -> None:
        self._since: float | None = None

    def wait(self) -> bool:
        """Wait a little for it; False where that was done for long enough."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > BACK_S:
            return False
        time.sleep(AGAIN_S)
        return True

    def end(self) -> None:
        """It is there."""
        self._since = None


class Readers:
    """Reading sessions, as many as are needed at once; none is ever used by two threads at the same time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._opener = Opener()
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._absence: Absence | None = None
        """None until there was a server."""
        self.closed = False

    def read(self, work: Callable[[Connection], R]) -> R:
        """What is read in a session. Where the server ends it meanwhile, that is read once more in the next: it changes nothing."""
        try:
            with self.lent() as reader:
                return work(reader)
        except Ended:
            with self.lent() as reader:
                return work(reader)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        """A session for the block. After a failure it is not used again, so the next call begins a new one."""
        reader = self._borrow()
        try:
            yield reader
        except BaseException as error:
            over = is_over(reader, error)
            reader.close()
            if isinstance(error, psycopg.Error):
                raise self._failure(error, over=over) from error
            raise
        with self._lock:
            if not self.closed:
                self._idle.append(reader)
                return
        reader.close()

    def _failure(self, error: psycopg.Error, *, over: bool) -> StoreError:
        told = f"cannot read {self._address.place}: {reason(error, self._address)}"
        if over and not isinstance(error, Silence):
            return Ended(told)
        return Unavailable(told) if isinstance(error, psycopg.OperationalError) else StoreError(told)

    def close(self) -> None:
        """Close what is idle; what is lent is closed when it comes back."""
        if not self._opener.is_here():
            # A forked child would say goodbye to the server in the name of its parent.
            return
        with self._lock:
            self.closed = True
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()

    def _borrow(self) -> Connection:
        self._opener.check(self._address.place)
        while True:
            with self._lock:
                if self.closed:
                    raise StoreError(f"{self._address.place} is closed")
                reader = self._idle.pop() if self._idle else None
            if reader is None:
                try:
                    reader = connect(self._address, writing=False)
                except Unavailable:
                    if self._absence is None or not self._absence.wait():
                        raise
                    continue
                self._absence = self._absence or Absence()
                self._absence.end()
                return reader
            if is_live(reader):
                return reader
            reader.close()


def _prepare(connection: Connection, schema: str, writing: bool) -> None:
    # An acknowledged entry is durable whatever the server's default is; a stronger default stays.
    connection.execute(
        "SELECT set_config('search_path', %s, false), set_config('default_transaction_read_only', %s, false),"
        " set_config('lock_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false),"
        " set_config('client_min_messages', 'warning', false),"
        " CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')"
        " THEN set_config('synchronous_commit', 'on', false) END",
        (f'"{schema}"', "off" if writing else "on", f"{BUSY_S * 1000:.0f}ms", f"{IDLE_S * 1000:.0f}ms"),
    )
