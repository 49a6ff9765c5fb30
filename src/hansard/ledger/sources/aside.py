"""A folder for copies that are read here and nowhere else. It is locked while it is used: what a process that was killed has left
is removed by the next one that needs such a folder.

`providers/temporary` is its like for programs; neither floor may see the other, and this one stands alone.
"""

import os
import platform
import shutil
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None  # type: ignore[assignment,unused-ignore]

# A lock need not reach the other machines that see the same place, so each of them has names of its own.
PREFIX = f"hansard-view-{zlib.crc32(platform.node().encode()):08x}-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A folder of ours, and the open file that holds its lock; None where nothing can be locked, and nobody sweeps."""

    folder: Path
    lock: int | None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.lock is not None:
            os.close(self.lock)


def new_aside() -> Aside:
    """An empty folder that nobody else can enter."""
    _sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        try:
            return Aside(folder=folder, lock=_lock(folder))
        except (BlockingIOError, FileNotFoundError):
            # The sweep of another process came in between, and took it for one that was left.
            continue
        except OSError:
            return Aside(folder=folder, lock=None)


def _lock(folder: Path) -> int:
    """Lock a folder of this user that is no link. OSError where that cannot be done."""
    if fcntl is None:
        raise OSError("there are no locks here")
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        locked = os.fstat(lock)
        if locked.st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to somebody else")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(locked, os.lstat(folder)):
            raise FileNotFoundError(f"{folder} is another folder now")
    except BaseException:
        os.close(lock)
        raise
    return lock


def _sweep() -> None:
    place = tempfile.gettempdir()
    with suppress(OSError):
        for name in os.listdir(place):
            if name.startswith(PREFIX):
                with suppress(OSError):
                    Aside(folder=(left := Path(place, name)), lock=_lock(left)).remove()
