"""Files of lines: appended to, taken back when a write fails, read from both ends. Knows bytes and LF, not what they say."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from errno import ENOSPC
from pathlib import Path
from typing import Self

from hansard.domain.value import value
from hansard.durable import sync
from hansard.errors import StoreError, UsageError
from hansard.ledger.canonical import Malformed

LF = b"\n"
CHUNK = 1 << 18
MODE = 0o600


@value
class Paths:
    """Where the files of one ledger lie: all beside its entries, also when those were named by a link.

    From the root on, since some are opened again and again, and who uses the store may go to another folder meanwhile.
    """

    entries: Path
    bodies: Path
    checkpoints: Path
    index: Path
    claims: Path
    lock: Path

    @classmethod
    def of(cls, entries: Path) -> Self:
        if entries.suffix != ".jsonl":
            raise UsageError(f"{entries} does not end in .jsonl, as the name of a ledger in JSON lines does")
        real = os.path.realpath(entries) if entries.is_symlink() else str(entries.absolute())
        name = real.removesuffix(".jsonl")
        return cls(
            entries=entries,
            bodies=Path(f"{name}.bodies.jsonl"),
            checkpoints=Path(f"{name}.checkpoints.jsonl"),
            index=Path(f"{name}.index"),
            claims=Path(f"{name}.claims.json"),
            lock=Path(f"{name}.lock"),
        )

    def make_room(self) -> None:
        """For a new ledger: StoreError where one is; what is only derived of an earlier one goes."""
        for each in (self.entries, self.bodies, self.checkpoints):
            if each.exists() and each.stat().st_size:
                what_now = "open the ledger" if self.entries.exists() else f"{self.entries} does not: move it away"
                raise StoreError(f"{each} exists already; {what_now}, or choose another name")
        for each in (self.index, self.claims):
            each.unlink(missing_ok=True)


class NotSynced(OSError):
    """The disk refused to make something durable; what it holds now is unknown, even where a later sync succeeds."""


class Tail:
    """The growing end of one file. What was appended counts from `keep` on; until then `take_back` undoes it."""

    __slots__ = ("_dirty", "_end", "_found", "_place", "fd", "kept", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = os.path.abspath(path)
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
        self._found = os.fstat(self.fd)
        self.kept = self._end = self._found.st_size
        # A writer before us may have been killed between its write and its sync.
        self._dirty = True

    def moved(self) -> str | None:
        """What somebody else did to the file, which only this process may change."""
        now = os.fstat(self.fd)
        if not now.st_nlink:
            return f"{self.path} was deleted, moved or replaced while it was open"
        if now.st_size != self.kept:
            return (
                f"{self.path} has {now.st_size} bytes, this process left it at {self.kept}: something else writes to it"
            )
        return None

    def is_at_its_path(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._place), self._found)
        except OSError:
            return False

    def append(self, data: bytes) -> None:
        """Write behind the end, going on after short writes; OSError leaves the rest to take_back."""
        self._dirty = True
        while data:
            done = os.pwrite(self.fd, data, self._end)
            if not done:
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            self._end += done
            data = data[done:]

    def sync(self) -> None:
        """Make everything appended durable."""
        if self._dirty:
            try:
                os.fdatasync(self.fd)
            except OSError as error:
                raise NotSynced(error.errno, error.strerror) from error
            self._dirty = False

    def keep(self) -> None:
        self.kept = self._end

    def take_back(self) -> None:
        """Cut off what was appended since `keep`, durably, so that it cannot come back after a power cut."""
        if os.fstat(self.fd).st_size != self.kept:
            os.ftruncate(self.fd, self.kept)
            os.fdatasync(self.fd)
        self._end = self.kept

    def cut(self, end: int) -> None:
        """Give up everything behind a place for good."""
        self.kept = end
        self.take_back()

    def close(self) -> None:
        with suppress(OSError):
            os.close(self.fd)


def whole_end(fd: int) -> int:
    """Where the last complete line ends; what follows it is torn ([J4])."""
    end = os.fstat(fd).st_size
    while end:
        start = max(end - CHUNK, 0)
        found = os.pread(fd, end - start, start).rfind(LF)
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def line_start(fd: int, at: int) -> int:
    """The first place at or behind `at` where a line can begin."""
    if at == 0:
        return 0
    at, step = at - 1, 1 << 12
    while data := os.pread(fd, step, at):
        found = data.find(LF)
        if found >= 0:
            return at + found + 1
        at, step = at + len(data), CHUNK
    return at


def line_before(fd: int, end: int) -> int:
    """Where the line begins that ends, with its LF, at this place."""
    at, step = end - 1, 1 << 12
    while at > 0:
        start = max(at - step, 0)
        found = os.pread(fd, at - start, start).rfind(LF)
        if found >= 0:
            return start + found + 1
        at, step = start, CHUNK
    return 0


def lines_from(fd: int, start: int, end: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """Complete lines between two places, with where each begins; Malformed at one that is longer than allowed."""
    at, rest = start, b""
    while at < end:
        data = os.pread(fd, min(CHUNK, end - at), at)
        if not data:
            return
        first = at - len(rest)
        at += len(data)
        *lines, rest = (rest + data).split(LF)
        for line in lines:
            yield first, line
            first += len(line) + 1
        if len(rest) > longest:
            raise _too_long(first, longest)


def lines_back(fd: int, end: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """The same backwards, from a place where a line ends."""
    while end > 0:
        at = line_before(fd, end)
        if end - at > longest:
            raise _too_long(at, longest)
        yield at, os.pread(fd, end - 1 - at, at)
        end = at


def _too_long(at: int, longest: int) -> Malformed:
    return Malformed(f"[E1] the line at byte {at} is longer than {longest} bytes")


def pieces(fd: int, start: int, end: int) -> Iterator[bytes]:
    """A stretch of a file, in pieces that fit into memory."""
    while start < end and (data := os.pread(fd, min(CHUNK, end - start), start)):
        yield data
        start += len(data)


def spare(path: Path) -> Path:
    """The name under which a file is written before it takes its place: beside the file itself, not beside a link to it."""
    return Path(f"{os.path.realpath(path)}.tmp")


def replace(path: Path, content: Iterable[bytes]) -> None:
    """Put new content in a file's place: afterwards the old one or the new one is there, never a part."""
    new = spare(path)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
    try:
        with open(fd, "wb", buffering=CHUNK) as file:
            file.writelines(content)
            file.flush()
            os.fsync(fd)
        # Through a link: to replace that would leave what was erased where it leads.
        new.replace(os.path.realpath(path))
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    sync(new.parent)


def extend(path: Path, line: bytes) -> None:
    """Put a line behind the others of a file, durably. Where that fails a part of it may stand there."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        with open(fd, "wb", buffering=0, closefd=False) as file:
            while line:
                line = line[file.write(line) :]
        os.fdatasync(fd)
    finally:
        os.close(fd)
