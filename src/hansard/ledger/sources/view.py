"""A state of a SQLite file that does not move while it is read, and that reading does not change ([S5]).

Without a write-ahead log the file itself is read as immutable, unless it is known to move. With one, database and log are
copied aside and joined there. It opens no ledger and knows no table.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..layout import LONGEST_PATH
from .aside import Aside, new_aside
from .base import CannotRead

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment,unused-ignore]

REFUSALS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database may raise; the second when SQLite quotes damaged text in its own message."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNWRITTEN = ("SQLITE_FULL", "SQLITE_IOERR")
_COPIES = 5
_LOCK_S = 5.0
_WAL_HEADER = 32
_PIECE = 1 << 24

Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Where to read, and what was there when the view was taken."""

    original: Path
    readable: Path
    aside: Aside | None
    stamp: Stamp
    steady: bool
    """False when the files moved each time that they were copied."""

    def connect(self) -> sqlite3.Connection:
        """A connection that can neither write nor create anything."""
        place = self.readable.absolute()
        try:
            return sqlite3.connect(f"{place.as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
        except sqlite3.Error as error:
            # Nothing was read yet, so this says nothing of the bytes.
            long = len(os.fsencode(place)) > LONGEST_PATH
            why = f"its path is longer than the {LONGEST_PATH} bytes that SQLite takes" if long else str(error)
            raise CannotRead(f"cannot read {self.original}: {why}") from error

    def unchanged(self) -> bool:
        """Whether all that was read so far came from one state."""
        return self.steady and (self.aside is not None or _stamp(self.original) == self.stamp)

    def has_journal(self) -> bool:
        """Whether a rollback journal lies beside the file. It is not read here, and SQLite would restore from it."""
        return _has_content(_seen(_beside(self.original, "-journal")))

    def close(self) -> None:
        if self.aside:
            self.aside.remove()


def take_view(path: Path, *, aside: bool = False) -> View:
    """Take a view of a database, of a copy where it has a write-ahead log or `aside` asks for one; CannotRead when the files
    refuse.
    """
    try:
        stamp = _stamp(path)
        if not aside and not _has_content(stamp[1]):
            return View(original=path, readable=path, aside=None, stamp=stamp, steady=True)
        return _copied(path)
    except OSError as error:
        raise CannotRead(f"cannot read {path}: {error.strerror or error}") from error


def _copied(path: Path) -> View:
    aside = new_aside()
    copy, steady = aside.folder / "ledger.db", False
    try:
        for tried in range(_COPIES):
            stamp, steady = _copy_both(path, copy, holding=tried > 0)
            if steady:
                break
        _join(copy)
    except BaseException as error:
        aside.remove()
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise _unwritten(copy, error.strerror) from error
        raise
    return View(original=path, readable=copy, aside=aside, stamp=stamp, steady=steady)


def _copy_both(path: Path, copy: Path, *, holding: bool) -> tuple[Stamp, bool]:
    """Copy a database and its write-ahead log: what was there, and whether the copies belong together.

    Unless it is `holding` writers off, the database, which may be large, is copied while they go on. Whatever they change in it
    comes out of the log: until that is begun anew all of it is still there, and the two join to the state at the log's end.
    """
    begun = b"" if holding else _beginning(path)
    if begun:
        _copy(path, copy)
    with _shared_lock(path) as held:
        stamp = _stamp(path)
        if not begun:
            _copy(path, copy, held)
        if _has_content(stamp[1]):
            _copy(_beside(path, "-wal"), _beside(copy, "-wal"), held)
        else:
            _beside(copy, "-wal").unlink(missing_ok=True)
        steady = _stamp(path) == stamp
    return stamp, steady and (not begun or _beginning(copy) == begun)


def _beginning(path: Path) -> bytes:
    """The header of a write-ahead log, which is another one each time that the log is begun anew; empty where there is none."""
    try:
        with open(_beside(path, "-wal"), "rb") as log:
            return log.read(_WAL_HEADER)
    except FileNotFoundError:
        return b""


def _copy(path: Path, copy: Path, held: int | None = None) -> None:
    """Copy a file. Whoever waits for a lock that is held meanwhile sees that its holder was not stopped."""
    with open(path, "rb") as source, open(copy, "wb") as target:
        while piece := source.read(_PIECE):
            target.write(piece)
            if held is not None:
                # Who may not show it is waited for no longer than anybody.
                with suppress(OSError):
                    os.utime(held)


def _join(copy: Path) -> None:
    """Bring the write-ahead log into the copy. What SQLite cannot join stays out, and reading tells the rest.

    OSError where it cannot be written: without the log the copy is not what the files hold.
    """
    try:
        joined = sqlite3.connect(copy, isolation_level=None)
    except REFUSALS:
        return
    try:
        joined.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except REFUSALS as error:
        if getattr(error, "sqlite_errorname", "").startswith(_UNWRITTEN):
            raise _unwritten(copy, error) from error
    finally:
        joined.close()


def _unwritten(copy: Path, why: object) -> OSError:
    return OSError(f"no copy of it can be written in {copy.parent.parent} ({why}); name another folder with TMPDIR")


@contextmanager
def _shared_lock(path: Path) -> Iterator[int | None]:
    """Hold off writers while copying, where there is a lock file, which is given; a writer that hangs is not waited for."""
    lock = _beside(path, ".lock")
    if fcntl is None or not lock.is_file():
        yield None
        return
    with open(lock, "rb") as file:
        held, until = None, time.monotonic() + _LOCK_S
        while held is None and time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                held = file.fileno()
            except BlockingIOError:
                time.sleep(0.005)
        yield held


def _stamp(path: Path) -> Stamp:
    return tuple(_seen(each) for each in (path, _beside(path, "-wal")))


def _seen(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _has_content(seen: tuple[int, int, int] | None) -> bool:
    return seen is not None and seen[0] > 0


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
