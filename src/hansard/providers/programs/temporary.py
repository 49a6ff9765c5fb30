"""The temporary folder of this process: its workspaces lie in it, and it goes when the process does.

It is locked as long as the process lives. What a killed process left is removed by the next one that makes a workspace:
the folders of this user on this machine whose lock nobody holds, with the entries of their worktrees in repositories.
"""

import atexit
import fcntl
import itertools
import os
import shutil
import tempfile
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A lock need not reach the other machines that see the same place, so each of them has names of its own.
PREFIX = f"hansard-{zlib.crc32(os.uname().nodename.encode()):08x}-"
REPOSITORY = "repository"
"""A link in the folder of a worktree, to the repository that lists it."""


@dataclass(frozen=True, slots=True)
class _Own:
    folder: Path
    lock: int


_own: dict[str, _Own] = {}
_numbers = itertools.count(1)
_making = threading.Lock()


def new_folder() -> Path:
    """An empty folder that nobody else can enter. OSError where none can be made."""
    place = tempfile.gettempdir()
    own = _own.get(place) or _settled(place)
    while True:
        folder = own.folder / str(next(_numbers))
        try:
            folder.mkdir(mode=0o700)
        except FileNotFoundError:
            # Somebody has tidied the place while we had nothing in it.
            own = _settled(place, gone=own)
        else:
            return folder


def worktree_name(folder: Path) -> str:
    """The name of the worktree in one of these folders. Git names its own entry after it, so no two may be the same."""
    return f"{folder.parent.name}-{folder.name}"


def unlist(folder: Path, repository: Path) -> None:
    """Remove the entry of the worktree in this folder from its repository, and nothing else there.

    `git worktree prune` would also forget those whose disk is not mounted now. The list itself stays where it is empty,
    since git may be about to add to it.
    """
    remove(repository / "worktrees" / worktree_name(folder))


def remove(folder: Path) -> None:
    """Remove everything, also what a program protected from being removed."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.islink(folder) or not os.path.lexists(folder):
        return
    _unprotect(folder)
    for here, folders, _ in os.walk(folder):
        for path in (os.path.join(here, name) for name in folders):
            if not os.path.islink(path):
                _unprotect(path)
    shutil.rmtree(folder, ignore_errors=True)


def _unprotect(folder: str | Path) -> None:
    with suppress(OSError):
        os.chmod(folder, 0o700)


def _settled(place: str, gone: _Own | None = None) -> _Own:
    """The folder of this process in a place, made where there is none besides the one that is gone."""
    with _making:
        own = _own.get(place)
        if own is None or own is gone:
            if own is not None:
                os.close(_own.pop(place).lock)
            own = _own[place] = _made(place)
            # Where no thread can be started, the next process sweeps.
            with suppress(RuntimeError):
                threading.Thread(target=_sweep, args=(place,), name="hansard-sweep").start()
        return own


def _made(place: str) -> _Own:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        # Until it is locked, the sweep of another process may take it for one that was left.
        with suppress(BlockingIOError, FileNotFoundError):
            return _Own(folder, _lock(folder))


def _lock(folder: Path) -> int:
    """Lock a folder of ours that is no link: the open file that holds the lock. OSError where that cannot be done."""
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


def _sweep(place: str) -> None:
    """Remove what processes that were killed have left in a place."""
    with suppress(OSError):
        left = [Path(place, name) for name in os.listdir(place) if name.startswith(PREFIX)]
        for folder in left:
            with suppress(OSError):
                lock = _lock(folder)
                _remove_all(folder)
                os.close(lock)


def _remove_all(own: Path) -> None:
    with suppress(OSError):
        for folder in own.iterdir():
            unlist(folder, folder / REPOSITORY)
    remove(own)


@atexit.register
def _leave() -> None:
    for own in _own.values():
        _remove_all(own.folder)


def _forked() -> None:
    """Leave to the parent what is the parent's, also the end of its lock."""
    global _making
    _making = threading.Lock()
    for own in _own.values():
        os.close(own.lock)
    _own.clear()


os.register_at_fork(after_in_child=_forked)
