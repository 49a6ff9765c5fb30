"""The C2SP tlog-tiles layout: where each tile and entry bundle of a tree lies, and how a bundle is written.

Names and bytes only: it opens no file and checks no hash.
"""

import re
from collections.abc import Iterable, Iterator

from .canonical import Malformed

HEIGHT = 8
WIDTH = 1 << HEIGHT
MAX_LEVEL = 63
MAX_INDEX = 2**63 - 1
MAX_ENTRY = 65_535

_PATH = re.compile(r"tile/(entries|[0-9]{1,2})/((?:x[0-9]{3}/){0,6}[0-9]{3})(?:\.p/([0-9]{1,3}))?")


def tile_path(level: int, index: int, width: int = WIDTH) -> str:
    """The path of a tile; a width below 256 names the partial tile."""
    if not 0 <= level <= MAX_LEVEL:
        raise Malformed(f"tile level {level} is outside 0..{MAX_LEVEL}")
    return f"tile/{level}/{_numbered(index, width)}"


def bundle_path(index: int, width: int = WIDTH) -> str:
    """The path of the bundle that holds the entries under the level 0 tile of this index."""
    return f"tile/entries/{_numbered(index, width)}"


def parse_tile_path(path: str) -> tuple[int | None, int, int]:
    """A path's (level, index, width); the level of an entry bundle is None. Refuses what the writers would not write."""
    match = _PATH.fullmatch(path)
    if match is None:
        raise Malformed(f"not the path of a tile: {path[:80]!r}")
    kind, digits, partial = match.groups()
    level = None if kind == "entries" else int(kind)
    index = int(digits.replace("/", "").replace("x", ""))
    width = WIDTH if partial is None else int(partial)
    if path != (bundle_path(index, width) if level is None else tile_path(level, index, width)):
        raise Malformed(f"not the canonical path of a tile: {path[:80]!r}")
    return level, index, width


def tiles_for(size: int) -> Iterator[tuple[int, int, int]]:
    """All tiles of a tree of this size as (level, index, width), lowest level first."""
    level = 0
    while size > 0:
        full, partial = divmod(size, WIDTH)
        for index in range(full):
            yield level, index, WIDTH
        if partial:
            yield level, full, partial
        level, size = level + 1, full


def encode_bundle(entries: Iterable[bytes]) -> bytes:
    """The bundle of up to 256 entries, each after its length as two big-endian bytes."""
    parts: list[bytes] = []
    for entry in entries:
        if len(entry) > MAX_ENTRY:
            raise Malformed(f"an entry of {len(entry)} bytes does not fit a bundle; at most {MAX_ENTRY}")
        parts.append(len(entry).to_bytes(2, "big") + entry)
    _check_count(len(parts))
    return b"".join(parts)


def decode_bundle(data: bytes) -> list[bytes]:
    """The entries of a bundle; refuses a cut-off, an empty and an overfull one."""
    entries: list[bytes] = []
    at = 0
    while at < len(data):
        start = at + 2
        end = start + int.from_bytes(data[at:start], "big")
        if end > len(data):
            raise Malformed(f"the bundle ends inside entry {len(entries)}")
        entries.append(data[start:end])
        at = end
    _check_count(len(entries))
    return entries


def _check_count(count: int) -> None:
    if not 1 <= count <= WIDTH:
        raise Malformed(f"a bundle holds 1 to {WIDTH} entries, not {count}")


def _numbered(index: int, width: int) -> str:
    if not 0 <= index <= MAX_INDEX:
        raise Malformed(f"tile index {index} is outside 0..2^63-1")
    if not 1 <= width <= WIDTH:
        raise Malformed(f"tile width {width} is outside 1..{WIDTH}")
    path = f"{index % 1000:03}"
    while index := index // 1000:
        path = f"x{index % 1000:03}/{path}"
    return path if width == WIDTH else f"{path}.p/{width}"
