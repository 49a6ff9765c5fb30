"""One writer at a time: an exclusive lock on a file that names its holder. Knows no ledger."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from hansard.errors import StoreError, Unavailable
from hansard.store.holder import Holder
from hansard.store.opener import Opener


class Lock:
    """A lock that is held from here to `release`. The kernel takes it back when the process ends, however it ends."""

    __slots__ = ("_fd", "opener")

    def __init__(self, path: Path) -> None:
        self.opener = Opener()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _take(self._fd, path)
        except BaseException:
            os.close(self._fd)
            raise

    def release(self) -> None:
        # A forked child keeps the descriptor open, so that closing alone would not let go.
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)


def _take(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, 0)
        os.pwrite(fd, Holder.here().text().encode(), 0)
    except BlockingIOError as error:
        who = Holder.parse(os.pread(fd, 4096, 0).decode("utf-8", "replace"))
        by = f"process {who.pid} on {who.host}" if who else "another process"
        raise Unavailable(
            f"{by} writes here and holds {path}; a ledger in JSON lines has one writer:"
            " wait until it ends, or keep it in SQLite; whoever only reads needs no lock"
        ) from error
    except OSError as error:
        raise StoreError(f"cannot lock {path}: {error.strerror}; keep the ledger on a local disk with space") from error
