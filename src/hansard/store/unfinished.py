"""What is made beside its place, under a hidden name, until it is whole. It is locked meanwhile: so what a killed process left
there is told from what another one is at, and removed by the next that makes something for the same place.

Knows neither ledgers nor exports.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_ENDINGS = ("", "-journal", "-wal", "-shm")


@contextmanager
def unfinished(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """A hidden place beside the path, as `make` lays it out there; whoever finishes it gives it its name."""
    _sweep(path)
    place = path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")
    make(place)
    lock = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # Where nothing can be locked, nobody can sweep.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield place
    finally:
        os.close(lock)


def _sweep(path: Path) -> None:
    left = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.partial")
    with suppress(OSError):
        for name in os.listdir(path.parent):
            if left.fullmatch(name):
                with suppress(OSError):
                    _remove(path.with_name(name))


def _remove(place: Path) -> None:
    """Remove it, unless somebody is at it: then, and where it is somebody else's, OSError."""
    lock = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            raise PermissionError(f"{place} belongs to somebody else")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if place.is_dir():
            shutil.rmtree(place)
        else:
            for ending in _ENDINGS:
                Path(f"{place}{ending}").unlink(missing_ok=True)
    finally:
        os.close(lock)
