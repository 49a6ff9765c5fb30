"""An export folder ([X1]-[X3]): JSON lines under fixed names, and the same log published as tiles.

The published form is compared with the lines, tile by tile; it is never what the verdict is read from.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..canonical import Malformed
from ..events import Noted, read_note
from ..merkle import HASH
from ..note import MAX_NOTE
from ..report import Findings, Form
from ..tiles import WIDTH, bundle_path, decode_bundle, parse_tile_path, tile_path
from .base import Block, Mirror, State, open_regular
from .lines import LinesSource

ENTRIES = "entries.jsonl"
_KNOWN = {ENTRIES, "bodies.jsonl", "checkpoints.jsonl", "checkpoint", "tile", "verify.pyz", "README.txt"}


class ExportSource(LinesSource):
    """The folder."""

    form: Form = "export"

    def __init__(self, folder: Path, findings: Findings) -> None:
        super().__init__(folder / ENTRIES, folder / "bodies.jsonl", folder / "checkpoints.jsonl", findings)
        self._folder = folder
        self._published = self._read_published()
        self._kept: set[str] = set()

    @property
    def published_size(self) -> int | None:
        """The size of the log in its published form; None when there is none that can be read."""
        return self._published.size if self._published else None

    def examine(self, deep: bool, since: int) -> None:
        super().examine(deep, since)
        odd = sorted(name for name in os.listdir(self._folder) if name not in _KNOWN)
        if odd:
            message = f"{len(odd)} files are not part of an export: {', '.join(odd)[:200]}"
            self._findings.add("extra_files", "note", message)
        extra = sum(1 for path in self._tile_files() if not self._is_expected(path))
        if extra:
            self._findings.add("extra_files", "note", f"{extra} files under tile/ do not belong to the published size")

    def checkpoints(self, above: int, upto: int | None) -> Iterator[Noted]:
        for noted in super().checkpoints(above, upto):
            if noted.size == self.published_size:
                self._kept.add(noted.raw)
            yield noted

    def mirror(self) -> Mirror:
        return Published(self._folder, self.published_size or 0, self._findings)

    def compare_published(self, sealed_to: int, since: int) -> None:
        """After the walk: the published checkpoint must be a kept one, of the newest sealed size."""
        size = self.published_size
        if size is None:
            if sealed_to:
                message = f"[X2] the log is sealed to {sealed_to}, and the checkpoint of its published form is missing or unreadable"
                self._findings.add("published", "structure", message)
            return
        if self._published and size >= since and self._published.raw not in self._kept:
            self._findings.add(
                "published", "structure", "[X2] the published checkpoint is none of those that the log kept"
            )
        elif size != sealed_to:
            message = f"[X2] the log is published at size {size}, and sealed to {sealed_to}"
            # Before --since a rotation may be unsealed, and then nothing behind it is sealed either ([C7]).
            self._findings.add("published", "structure" if size >= since else "warning", message)

    def _read_published(self) -> Noted | None:
        try:
            with open_regular(self._folder / "checkpoint") as file:
                return read_note(file.read(MAX_NOTE + 1))
        except FileNotFoundError:
            return None
        except (OSError, Malformed) as error:
            _check_disk(error)
            self._findings.add("published", "structure", f"[X2] the published checkpoint cannot be read: {error}")
            return None

    def _tile_files(self) -> Iterator[str]:
        top = self._folder / "tile"
        # In a folder from a stranger a link may lead through all of a disk.
        for folder, _, names in () if top.is_symlink() else os.walk(top):
            for name in names:
                yield Path(folder, name).relative_to(self._folder).as_posix()

    def _is_expected(self, path: str) -> bool:
        try:
            level, index, width = parse_tile_path(path)
        except Malformed:
            return False
        return width == _width(self.published_size or 0, level or 0, index)


class Published:
    """Compares tiles and bundles with the lines while a walk goes by."""

    def __init__(self, folder: Path, size: int, findings: Findings) -> None:
        self._folder = folder
        self._size = size
        self._findings = findings
        self._tiles: dict[int, tuple[int, bytes]] = {}

    def block(self, block: Block) -> None:
        count = min(len(block.leaves), self._size - block.at)
        if count > 0:
            self._compare_tile(0, block.at, block.leaves[:count])
            self._compare_bundle(block.at, block.lines[:count])
        for level, index, node in block.nodes:
            if index < self._size >> level:
                self._compare_tile(level // 8, index, [node])

    def finish(self, end: State, since: int) -> None:
        if self._size > end.size:
            message = (
                f"[X2] the log is published at size {self._size}, and its lines end at {end.size}: the tail was cut off"
            )
            self._findings.add("tail_cut", "structure", message, seq=end.size)

    def _compare_tile(self, level: int, first: int, hashes: Sequence[bytes]) -> None:
        index, place = divmod(first, WIDTH)
        tile = self._tile(level, index)
        if tile[place * HASH : (place + len(hashes)) * HASH] != b"".join(hashes):
            self._differs(f"tile {index} of level {level}", (first + len(hashes) << 8 * level) - 1)

    def _compare_bundle(self, first: int, lines: Sequence[bytes]) -> None:
        index, place = divmod(first, WIDTH)
        width = _width(self._size, 0, index)
        try:
            bundle = decode_bundle(self._read(bundle_path(index, width)))
        except Malformed:
            bundle = []
        if len(bundle) != width or bundle[place : place + len(lines)] != list(lines):
            self._differs(f"entry bundle {index}", first + len(lines) - 1)

    def _tile(self, level: int, index: int) -> bytes:
        known = self._tiles.get(level)
        if known and known[0] == index:
            return known[1]
        width = _width(self._size, level, index)
        tile = self._read(tile_path(level, index, width))
        # A tile of another length is not this tile, whatever it begins with.
        self._tiles[level] = (index, tile if len(tile) == width * HASH else b"")
        return self._tiles[level][1]

    def _read(self, path: str) -> bytes:
        try:
            with open_regular(self._folder / path) as file:
                return file.read(WIDTH * 65_537 + 1)
        except OSError as error:
            _check_disk(error)
            return b""

    def _differs(self, what: str, seq: int) -> None:
        self._findings.add("tile", "structure", f"[X2] {what} is missing or does not hold what the lines give", seq=seq)


def _check_disk(error: Exception) -> None:
    """A file that is not there, or is none, is a finding; a disk that fails says nothing of what is on it."""
    if isinstance(error, OSError) and error.errno == errno.EIO:
        raise error


def _width(size: int, level: int, index: int) -> int:
    return max(0, min(WIDTH, (size >> 8 * level) - WIDTH * index))
