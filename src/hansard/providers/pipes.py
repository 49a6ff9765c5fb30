"""The pipes of a running program: one that is fed, and those that are read for as long as something comes.

Readers take everything and keep a bounded part, so a program is never stopped by us and never fills our memory.
"""

import asyncio
import os
from contextlib import suppress
from typing import IO

PIECE_BYTES = 256 * 1024


class Outflow:
    """Writes bytes into a pipe as fast as they are taken, and closes it. A reader that went away is no error."""

    def __init__(self, pipe: IO[bytes], data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._left = memoryview(data)
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_writer(pipe.fileno(), self._write)

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._pipe.fileno(), self._left[:PIECE_BYTES]) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not self._left:
            self.close()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            with suppress(OSError):
                self._pipe.close()


class Inflow:
    """Reads a pipe to its end. `kept` is the beginning of what came or, with `tail`, the end of it."""

    def __init__(self, pipe: IO[bytes], *, limit: int, tail: bool = False) -> None:
        self.ended = asyncio.Event()
        self.size = 0
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._limit = max(0, limit)
        self._tail = tail
        self._bytes = bytearray()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    @property
    def kept(self) -> bytes:
        return bytes(self._bytes[max(0, len(self._bytes) - self._limit) :])

    def _read(self) -> None:
        try:
            piece = os.read(self._pipe.fileno(), PIECE_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            piece = b""
        if not piece:
            self.close()
            return
        self.size += len(piece)
        if not self._tail:
            self._bytes += piece[: self._limit - len(self._bytes)]
            return
        self._bytes += piece
        # Cut at twice the limit: each byte is then moved once at most.
        if len(self._bytes) > 2 * self._limit + PIECE_BYTES:
            del self._bytes[: len(self._bytes) - self._limit]

    def close(self) -> None:
        self.ended.set()
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()
