"""Small file systems to be filled, cut off and made read-only, and a disk that writes by halves or gives nothing
back. Needs root for the first.

Every file system is unmounted at the end, whatever happened on it.
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which

from components import need

_FS_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSHING_THE_LOG = 2
_SHIM = Path(__file__).with_name("torn.c")


@contextmanager
def tmpfs(place: Path, size_kib: int) -> Iterator[Path]:
    """A file system in memory that is soon full."""
    with _mounted(place, ["-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs"]) as mounted:
        yield mounted


def make_space(place: Path) -> None:
    """Let a tmpfs grow until nothing on it can be short of space."""
    _do("mount", "-o", "remount,size=64m", str(place))


class Ext4:
    """A file system in a file of its own, from which the power can be taken."""

    def __init__(self, folder: Path) -> None:
        need(which("mkfs.ext4") is not None, "mkfs.ext4 (apt install e2fsprogs)")
        self._image = folder / "image"
        self._place = folder / "mounted"
        self._place.mkdir()
        with self._image.open("wb") as file:
            file.truncate(32 << 20)
        _do("mkfs.ext4", "-q", "-F", str(self._image))

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        with _mounted(self._place, ["-o", "loop,errors=remount-ro", str(self._image)]) as place:
            yield place

    def cut_the_power(self) -> None:
        """From now on nothing reaches the disk, and what was not synced is gone."""
        folder = os.open(self._place, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _FS_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_FLUSHING_THE_LOG))
        finally:
            os.close(folder)

    def make_read_only(self) -> None:
        """What the kernel does by itself when it finds an error: writers that have files open are not asked."""
        device = Path(_do("findmnt", "-n", "-o", "SOURCE", str(self._place)).strip()).name
        trigger = Path("/sys/fs/ext4") / device / "trigger_fs_error"
        need(os.access(trigger, os.W_OK), f"a writable {trigger} (run the tests on a machine with its own kernel)")
        trigger.write_text("a test of hansard\n")


@contextmanager
def _mounted(place: Path, what: list[str]) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    _do("mount", *what, str(place))
    try:
        yield place
    finally:
        # A process that was just killed may hold the file system for a moment; lazily it goes in any case.
        if subprocess.run(["umount", str(place)], capture_output=True, check=False).returncode:
            _do("umount", "--lazy", str(place))


def halving_disk(folder: Path) -> Path:
    """The library to preload; see torn.c for what it obeys."""
    need(which("gcc") is not None, "gcc (apt install gcc libc6-dev)")
    library = folder / "torn.so"
    _do("gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(_SHIM), "-ldl")
    return library


def _do(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{' '.join(command)}: {done.stderr.strip()}"
    return done.stdout
