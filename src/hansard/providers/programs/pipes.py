"""The pipes of a running program: one that is fed, and those that are read for as long as something comes.

Readers take everything, keep a bounded part in memory and spill a bounded part to disk, so a program is never stopped by
us and never fills our memory.
"""

import asyncio
import os
from contextlib import suppress
from typing import IO

from hansard.providers.programs.spill import Spill

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
    """Reads a pipe to its end. `kept` is the beginning of what came or, with `tail`, the end of it.

    What follows on a beginning goes to a Spill, and is in `spilled` when the pipe is closed.
    """

    def __init__(self, pipe: IO[bytes], *, limit: int, spill: int = 0, tail: bool = False) -> None:
        self.ended = asyncio.Event()
        self.size = 0
        self.spilled = b""
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._limit = max(0, limit)
        self._tail = tail
        self._bytes = bytearray()
        self._spill = Spill(spill)
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe.fileno(), self._read)

    @property
    def kept(self) -> bytes:
        return bytes(self._bytes[max(0, len(self._bytes) - self._limit) :])

    @property
    def lost(self) -> str:
        """Why something is missing behind what was spilled; empty where nothing is."""
        return self._spill.lost

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
            room = self._limit - len(self._bytes)
            self._bytes += piece[:room]
            if len(piece) > room:
                self._spill.add(piece[room:])
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
            self.spilled = self._spill.taken()
