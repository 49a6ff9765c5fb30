"""Where the output of a program goes that does not fit into memory: a file without a name, up to a limit.

The system removes such a file with the process that holds it, however that ends. A disk that fails costs the rest of the
output and never the call. Knows no program.
"""

import os
from tempfile import TemporaryFile
from typing import IO

from hansard.providers.options import Options

SPILL_BYTES = 64 * 1024 * 1024
MOST_SPILL_BYTES = 512 * 1024 * 1024
"""More would not fit into one body of every store."""


class Spill:
    """Takes pieces in their order and gives all of them back once. From the first byte that is lost on, none is taken."""

    def __init__(self, limit: int) -> None:
        self.lost = ""
        """Why something is missing behind what was kept; empty while nothing is."""
        self._limit = limit
        self._size = 0
        self._file: IO[bytes] | None = None

    def add(self, piece: bytes) -> None:
        if self.lost:
            return
        fits = memoryview(piece)[: self._limit - self._size]
        try:
            self._write(fits)
        except OSError as error:
            self.lost = f"the temporary file took no more: {error.strerror or error}"
            return
        if len(fits) < len(piece):
            self.lost = f"at most {self._limit} bytes are spilled"

    def taken(self) -> bytes:
        """Everything that was kept. The file is gone afterwards, and a second call gives nothing."""
        if self._file is None:
            return b""
        file, self._file = self._file, None
        try:
            with file:
                file.seek(0)
                return file.read(self._size)
        except OSError as error:
            self.lost = f"the temporary file cannot be read: {error.strerror or error}"
            return b""

    def _write(self, piece: memoryview) -> None:
        if self._file is None and piece:
            # Unbuffered: what was not written is known at once, and closing has nothing left to fail at.
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed by `taken`
        while self._file and piece:
            written = os.write(self._file.fileno(), piece)
            self._size += written
            piece = piece[written:]


def spill_of(options: Options) -> int:
    """How much a provider's table lets its program spill; 0 is nothing."""
    return options.count("max_spill_bytes", SPILL_BYTES, least=0, most=MOST_SPILL_BYTES)
