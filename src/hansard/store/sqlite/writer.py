"""The one connection of a process that writes: turns between processes, transactions, and what is known of the head.

Writers take turns on a lock file ([S5]): it keeps the worst wait short and stays clear of SQLite's WAL-reset bug (before
3.51.3), which needs two connections that write at the same moment.
"""

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hansard.errors import OutcomeUnknown, StoreError, Unavailable
from hansard.ledger.canonical import Malformed
from hansard.store.base import repair_of, verify_of
from hansard.store.opener import ANEW, Opener
from hansard.store.sequence import Sequence
from hansard.store.sqlite.rows import READ_HEAD, sequence_of

BUSY_S = 10.0
TURN_S = 0.0005
MOST_OF_A_LOOK_S = 0.05
"""What a look at the lock takes at most. Longer, and whoever waits did not run, nor perhaps whoever holds it: a machine stood still."""
LIFE_S = 1.0
MOST_EPOCHS = 10_000

_PASSING = frozenset(
    {
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY),
    }
)
"""What SQLite says of a disk or of another process, and may not say again. Anything else is wrong with the file itself."""


_open: list[tuple[int, int] | None] = []
"""The files that are open here. SQLite counts locks by file and process: what a forked child opens, its parent's included, it
takes for locked already, and its parent may delete the WAL that it writes to."""
_of_parents: set[tuple[int, int] | None] = set()


def _forked() -> None:
    _of_parents.update(_open)
    _open.clear()


os.register_at_fork(after_in_child=_forked)


class Writer:
    """Transactions on one ledger file. `sequence` and the epochs are true inside a transaction only."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.place = str(path)
        self.opener = Opener()
        self.mutex = threading.RLock()
        self.changed = threading.Condition()
        self.sequence = Sequence()
        self.broken: str | None = None
        self.closed = False
        self.read_only = is_still(path)
        self._path = path.absolute()
        self._clock = clock
        self._seen: int | None = None
        self._version = 0
        self._epochs: dict[str, int] = {}
        self._dropped = False
        self._in_wal = False
        self._lock_fd = self._look_fd = -1
        self._name = str(self._path)
        self._file = _identity(self._name)
        if self._file in _of_parents:
            raise StoreError(f"{path} was open in the process that this one was forked from; {ANEW}")
        self.connection = connect(path)
        _open.append(self._file)

    def lock_file(self) -> None:
        """Open the lock file; only once it is known that this is a ledger, so that a mistyped path leaves nothing behind."""
        if self.read_only:
            return
        name, how = f"{os.path.realpath(self._path)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._lock_fd = os.open(name, how, 0o600)
        # Opened once more: by the first one a thread of ours may hold the turn.
        self._look_fd = os.open(name, how, 0o600)

    def transaction(self, *, trusting: bool = True) -> "Transaction":
        """One durable commit around a block. Whatever fails, the cached head is read anew before the next one."""
        return Transaction(self, trusting)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """This process's turn to write."""
        self.take_turn()
        try:
            yield
        finally:
            self.end_turn()

    def take_turn(self) -> None:
        take_turn(self._lock_fd, self.place)

    def busy(self) -> bool:
        """Whether it is somebody's turn just now, or somebody copies the file and holds writers off meanwhile ([S5])."""
        try:
            fcntl.flock(self._look_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._look_fd, fcntl.LOCK_UN)
        except BlockingIOError:
            return True
        except OSError:
            # Whoever takes the turn is told why he cannot.
            return False
        return False

    def end_turn(self) -> None:
        fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def begin(self, *, trusting: bool) -> bool:
        """Open a transaction, in one's turn; whether the clock was behind before it."""
        behind, seen, self._seen = self.sequence.behind, self._seen, None
        self._begin(seen if trusting else None, behind, trusting)
        return behind

    def commit(self) -> None:
        """Make it durable. Nobody else has written meanwhile, so the head that is known still holds."""
        self._commit()
        self._seen = self._version

    def take_back(self, behind: bool) -> None:
        self._rollback()
        self.sequence.behind = behind

    def check_open(self) -> None:
        if self.closed:
            raise StoreError(f"{self.place} is closed")
        if self.read_only:
            raise StoreError(f"{self.place} lies where nothing can be written; copy it to another folder to extend it")
        if not self.broken and _identity(self._name) != self._file:
            # SQLite would go on to write, durably, into a file that nobody can find any more.
            self.broken = "it was deleted, moved or replaced while it was open"
        if self.broken:
            raise StoreError(f"{self.place} may not be extended: {self.broken}; {verify_of(self.place)}")

    def epoch(self, name: str) -> int:
        """A claim's newest epoch, inside a transaction."""
        known = self._epochs.get(name)
        if known is None:
            row = self.connection.execute("SELECT epoch FROM claims WHERE name = ?", (name,)).fetchone()
            known = row[0] if row else 0
            self.know_epoch(name, known)
        return known

    def know_epoch(self, name: str, epoch: int) -> None:
        if len(self._epochs) >= MOST_EPOCHS:
            # There is a claim for each run that was ever driven, and few are driven at once.
            self._epochs.clear()
        self._epochs[name] = epoch

    def now_us(self) -> int:
        return int(self._clock() * 1_000_000)

    def leave_no_trace(self) -> None:
        """Deleted text must not live on in the WAL, which a reader may hold for a moment, nor in the file itself.

        `secure_delete` is not enough: where SQLite moves rows to other pages it leaves what they held in the old ones, and
        nothing finds it there when the row is deleted later. So the whole file is written anew.
        """
        with self.mutex:
            self._write_anew()
            until = time.monotonic() + BUSY_S
            while self._wal_is_busy():
                if time.monotonic() > until:
                    raise StoreError(
                        f"the body is deleted, but a reader keeps the WAL of {self.place} alive; "
                        f"close it and {repair_of(self.place)}"
                    )
                time.sleep(0.01)

    def close(self) -> None:
        """Empty the WAL, if nobody else needs it, and let go of everything."""
        with self.mutex:
            if self.closed:
                return
            if not self.read_only:
                with suppress(sqlite3.Error, StoreError), self.turn():
                    self._empty_wal()
                    self.connection.close()
            self.abandon()

    def abandon(self) -> None:
        if not self.closed:
            _open.remove(self._file)
        self.closed = True
        with suppress(sqlite3.Error):
            self.connection.close()
        for file in (self._lock_fd, self._look_fd):
            with suppress(OSError):
                os.close(file)

    def _write_anew(self) -> None:
        with self.turn(), _showing_life(self._lock_fd):
            try:
                # First, so that all is in the file itself: then what a full disk took of the new one can be given back.
                self._empty_wal()
                self.connection.execute("VACUUM")
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    self._empty_wal()
                raise StoreError(
                    f"the body is deleted, but {self.place} was not written anew, so traces of it may be left: {error}; "
                    f"make space for a copy of it beside it and for one among the temporary files (TMPDIR), "
                    f"and {repair_of(self.place)}"
                ) from error

    def _empty_wal(self) -> bool:
        """Whether the WAL is empty now. Readers are not waited for: this is somebody's turn, and others wait for theirs."""
        self.connection.execute("PRAGMA busy_timeout = 0")
        try:
            return not self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")

    def _wal_is_busy(self) -> bool:
        with self.turn():
            try:
                return not self._empty_wal()
            except sqlite3.Error as error:
                raise StoreError(
                    f"the body is deleted, but the WAL of {self.place} was not emptied: {error}; "
                    f"{repair_of(self.place)}"
                ) from error

    def _begin(self, seen: int | None, behind: bool, trusting: bool) -> None:
        try:
            if self._dropped:
                self.connection, self._dropped = connect(self._path), False
            if not self._in_wal:
                # A copy by VACUUM INTO has none, and a verifier beside a writer would find a rollback journal ([S1]).
                self.connection.execute("PRAGMA journal_mode = WAL")
                self._in_wal = True
            self.connection.execute("BEGIN IMMEDIATE")
            # Unchanged means that no other connection wrote since: the head and the epochs that are known still hold.
            self._version = self.connection.execute("PRAGMA data_version").fetchone()[0]
            if seen != self._version:
                # For a repair too, which trusts no head: once it has committed, what is known counts again.
                self._epochs.clear()
                if trusting:
                    self.sequence = sequence_of(self.connection.execute(READ_HEAD).fetchone())
                    self.sequence.behind = behind
        except (sqlite3.Error, Malformed, TypeError) as error:
            self._rollback()
            raise refusal("cannot write to", self.place, error) from error

    def _commit(self) -> None:
        try:
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._drop()
            raise OutcomeUnknown(
                f"{self.place}: the commit failed ({error}); its entries may or may not be there: "
                f"read the head before going on"
            ) from error

    def _rollback(self) -> None:
        try:
            if not self._dropped and self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop()

    def _drop(self) -> None:
        """After a failure that leaves its state in doubt: the next transaction connects anew, when the disk may answer again."""
        self._dropped = True
        with suppress(sqlite3.Error):
            self.connection.close()


class Transaction:
    """A block under the mutex, in this process's turn. Written out, since every append goes through it: two generators
    would take as long as the smallest commit's own statements."""

    __slots__ = ("_behind", "_trusting", "_writer")

    def __init__(self, writer: Writer, trusting: bool) -> None:
        self._writer, self._trusting, self._behind = writer, trusting, False

    def __enter__(self) -> sqlite3.Connection:
        writer = self._writer
        # First: the mutex may have been a thread's that a forked child has not.
        writer.opener.check(writer.place)
        writer.mutex.acquire()
        try:
            writer.check_open()
            writer.take_turn()
            try:
                self._behind = writer.begin(trusting=self._trusting)
            except BaseException:
                writer.end_turn()
                raise
        except BaseException:
            writer.mutex.release()
            raise
        return writer.connection

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        writer = self._writer
        try:
            if error is None:
                writer.commit()
            else:
                writer.take_back(self._behind)
        finally:
            writer.end_turn()
            writer.mutex.release()
        if isinstance(error, sqlite3.Error | OSError):
            raise refusal("nothing was written to", writer.place, error) from error
        if error is None:
            with writer.changed:
                writer.changed.notify_all()


def connect(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """A connection to a file that exists. Text comes back as bytes: nothing that was stored is decoded on trust."""
    uri = f"{path.absolute().as_uri()}?{'mode=ro&immutable=1' if is_still(path) else 'mode=rw'}"
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
    except UnicodeDecodeError as error:
        # SQLite quotes damaged text in its own message.
        connection.close()
        raise sqlite3.DatabaseError("the database schema is malformed") from error
    return connection


def refusal(what: str, place: str, error: Exception) -> StoreError:
    """Why SQLite refused: a disk that may take it later, or a file that is damaged, which nobody should try again."""
    if isinstance(error, OSError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
        return Unavailable(f"{what} {place}: {error}")
    return StoreError(f"{what} {place}: {error}; {verify_of(place)}")


def _identity(path: str) -> tuple[int, int] | None:
    """Which file has this name; None when none has."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_still(path: Path) -> bool:
    """Whether the file lies on read-only media, where nobody can change it, and is whole without a WAL.

    SQLite must lay files of its own beside a ledger, unless it is told that the ledger does not change.
    """
    real = os.path.realpath(path)
    wal = Path(f"{real}-wal")
    try:
        read_only = bool(os.statvfs(os.path.dirname(real)).f_flag & os.ST_RDONLY)
    except OSError:
        return False
    return read_only and not (wal.exists() and wal.stat().st_size)


@contextmanager
def _showing_life(lock_fd: int) -> Iterator[None]:
    """For a turn that may take long: whoever waits for it sees that its holder was not stopped."""
    over = threading.Event()

    def show() -> None:
        while not over.wait(LIFE_S):
            # Who may not show it is waited for no longer than anybody.
            with suppress(OSError):
                os.utime(lock_fd)

    shown = threading.Thread(target=show, name="hansard-turn", daemon=True)
    shown.start()
    try:
        yield
    finally:
        over.set()
        shown.join()


def take_turn(lock_fd: int, place: str) -> None:
    """Wait for the lock file for as long as its holder shows life, and a while longer: it may have been stopped in mid-commit."""
    waited_s, looked_s, life = 0.0, time.monotonic(), -1
    while True:
        try:
            return fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            before_s, looked_s = looked_s, time.monotonic()
            waited_s += min(looked_s - before_s, MOST_OF_A_LOOK_S)
            if life != (life := os.fstat(lock_fd).st_mtime_ns):
                waited_s = 0.0
            if waited_s > BUSY_S:
                raise Unavailable(
                    f"another process has held {place}.lock for {BUSY_S:.0f} s; nothing was written: "
                    f"look for one that is stopped, or for a disk that hardly answers"
                ) from None
        except OSError as error:
            raise Unavailable(f"cannot lock {place}.lock: {error.strerror}") from error
        time.sleep(TURN_S)
