"""The standard streams of a command, which may be closed, full or unread: showing never decides what happens.

What cannot be written is given up, and the work goes on to its end; `settled` says then what that means.
"""

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO

from hansard.errors import UsageError, plainly

EXIT_UNPRINTED = 1
MAX_INPUT_BYTES = 64_000_000


class _Outlet(io.RawIOBase):
    """The end of a stream. `fault` says why something could not be written to it."""

    def __init__(self, to: Any) -> None:
        self._to = to
        self.fault: Exception | None = None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._to is not None and bool(self._to.isatty())

    def fileno(self) -> int:
        return super().fileno() if self._to is None else int(self._to.fileno())

    def write(self, data: Any) -> int:
        try:
            if self._to is None:
                raise OSError(errno.EBADF, "it is closed")
            while self.fault is None:
                if (written := self._to.write(data)) is not None:
                    return int(written)
                # Somebody else made the file one that never waits.
                select.select([], [self], [])
        except (OSError, ValueError) as error:
            self.fault = error
        return len(data)


class Stream(io.TextIOWrapper):
    """Takes every text, whatever becomes of it."""

    def __init__(self, stream: TextIO | None, *, by_line: bool = False) -> None:
        buffer = getattr(stream, "buffer", None)
        self._outlet = _Outlet(getattr(buffer, "raw", buffer))
        by_line |= getattr(stream, "line_buffering", False) or getattr(stream, "write_through", False)
        encoding = stream.encoding if stream else "utf-8"
        super().__init__(io.BufferedWriter(self._outlet), encoding, "backslashreplace", line_buffering=by_line)

    @property
    def fault(self) -> Exception | None:
        """Why not everything was written; None where it was."""
        return self._outlet.fault


@contextmanager
def standard_streams() -> Iterator[None]:
    """Standard output and error that never fail, as long as this lasts."""
    before = sys.stdout, sys.stderr
    # A file that we open must not become standard output because its number was free.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for each in before:
        with suppress(AttributeError, OSError):
            each.flush()
    sys.stdout, sys.stderr = Stream(before[0]), Stream(before[1], by_line=True)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before


def has_reader() -> bool:
    """Whether standard output still goes anywhere, as far as that was tried."""
    return not (isinstance(sys.stdout, Stream) and sys.stdout.fault)


def settled(code: int, shown_by: str | None = None) -> int:
    """The exit code of a command that is done: 1 instead of 0 where what it prints could not be written, and why.

    A reader who has seen enough changes nothing. `shown_by` is the command that shows the same once more.
    """
    sys.stdout.flush()
    fault = sys.stdout.fault if isinstance(sys.stdout, Stream) else None
    if fault is None or isinstance(fault, ConnectionError):
        return code
    why, seen = getattr(fault, "strerror", None) or fault, f", and {shown_by} shows what came of it" if shown_by else ""
    print(f"hansard: standard output cannot be written ({why}); the work itself is done{seen}", file=sys.stderr)
    return code or EXIT_UNPRINTED


def show_traceback(error: BaseException) -> None:
    """Where an error comes from, on standard error. It quotes whatever the error does, which must not drive the terminal."""
    from traceback import format_exception

    from hansard.surfaces.plain import plain

    lines = "".join(format_exception(error)).removesuffix("\n").split("\n")
    print("\n".join(map(plain, lines)), file=sys.stderr)


def read_input() -> str:
    """The text on standard input."""
    try:
        if sys.stdin is None:
            raise OSError(errno.EBADF, "it is closed")
        return text_in(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise UsageError(f"cannot read standard input: {error.strerror or error}") from error


def text_in(file: IO[bytes], named: str) -> str:
    """The text in a file that is open, without the mark that some editors begin it with.

    Whatever its size is said to be: a device has none, and never ends.
    """
    data = file.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise UsageError(f"{named} has more than {MAX_INPUT_BYTES:,} bytes; split it")
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise UsageError(f"{named} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def text_of(word: str) -> str:
    """What somebody says: the word itself, `-` for standard input, `@FILE` for a file. No name of a file is taken for what it says."""
    if word == "-":
        return read_input()
    if os.path.isfile(word):
        raise UsageError(f"{word} is a file; write @{word} to hand in what it says")
    if not word.startswith("@"):
        return word
    try:
        with Path(word[1:]).open("rb") as file:
            return text_in(file, word[1:])
    except OSError as error:
        raise UsageError(f"cannot read {word[1:]}: {plainly(error)}") from error
