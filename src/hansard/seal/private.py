"""Files that their owner alone may read: written durably, refused when others could read them. Knows no key and no log."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hansard.durable import sync
from hansard.errors import StoreError, unwritten

MAX_BYTES = 1 << 20
_OTHERS = 0o077


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, with those above it that are missing, or check the one that is there."""
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
            sync(each.parent)
    except OSError as error:
        said = (
            f"cannot make {folder}, where keys are to lie: {error.strerror}; HANSARD_STATE names another place for them"
        )
        raise unwritten(said, error) from error
    check_folder(folder)


def check_folder(folder: Path) -> None:
    """StoreError unless this is a folder that its owner, the user of this process, alone may look into."""
    with _speaking_of(folder):
        found = folder.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{folder} is not a folder; give keys a folder of their own")
    _check_custody(found, folder, "0700")


def read(path: Path) -> bytes | None:
    """The bytes of a private file, or None when there is none; StoreError when it is not private."""
    with _speaking_of(path):
        try:
            # O_NONBLOCK: a pipe in the place of a key must not hold us for ever.
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise StoreError(f"{path} is not a plain file; put the real file in its place")
            _check_custody(found, path, "0600")
            return os.read(fd, MAX_BYTES)
        finally:
            os.close(fd)


@contextmanager
def lock_file(path: Path) -> Iterator[int]:
    """The descriptor of a private file to be locked; closing it gives the lock up."""
    with _speaking_of(path):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def create(path: Path, data: bytes) -> None:
    """Write a new private file and return when it is durable; StoreError when one is there already."""
    with _speaking_of(path):
        _write_new(path, data)
        sync(path.parent)


def replace(path: Path, data: bytes) -> None:
    """Put new bytes in the place of old ones: after a crash the file holds the one or the other, whole."""
    fresh = path.with_name(f"{path.name}.new")
    with _speaking_of(path):
        # A crash may have left the last attempt; nothing ever reads it.
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        _write_new(fresh, data)
        os.replace(fresh, path)
        sync(path.parent)


def destroy(path: Path) -> None:
    """Overwrite and remove a file. Disks and file systems that keep old blocks keep them; that is beyond this process."""
    with _speaking_of(path), suppress(FileNotFoundError):
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        _fill(fd, bytes(os.fstat(fd).st_size))
        os.unlink(path)
        sync(path.parent)


def _write_new(path: Path, data: bytes) -> None:
    """A file that was not there, durably. A disk that is full leaves nothing of it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _fill(fd, data)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise


def _fill(fd: int, data: bytes) -> None:
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)


def _check_custody(found: os.stat_result, path: Path, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to user {found.st_uid}, this process runs as {os.geteuid()}; run as its owner, or give it back"
        )
    if found.st_mode & _OTHERS:
        raise StoreError(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, so others can read what it holds; "
            f"if nobody has: chmod {mode} {path}, else replace the keys"
        )


@contextmanager
def _speaking_of(path: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise StoreError(f"{path} exists already and is not replaced; move it away first") from error
    except OSError as error:
        raise StoreError(f"cannot use {path}: {error.strerror}; check the folder and the disk") from error
