"""The port to what lies on the disk: one shape for every layout, so that one walk verifies them all.

A source hands out stored bytes and tells what is wrong with its own container. It judges no hash and no signature.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from ..events import Noted
from ..merkle import Completed, Frontier
from ..report import Form

Row = tuple[int | None, bytes]
"""Where a line says it lies, None where only order tells, and the line."""


class CannotRead(Exception):
    """Nothing can be judged: no such path, no permission, a bad argument. The message is for the caller."""


class NotALedger(Exception):
    """There are bytes, and they are not of a form that we know."""


class Stored(NamedTuple):
    """One stored body. `part` is its name, or its position among the entry's sorted part names ([S4])."""

    seq: int
    part: str | int
    salt: bytes
    media: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Up to 256 entries that were walked: what derived copies are compared with."""

    at: int
    """The place of the first in the tree."""
    first: int
    stop: int
    """The seqs from `first` up to `stop` were accounted for."""
    lines: Sequence[bytes]
    leaves: Sequence[bytes]
    causes: Sequence[tuple[int, int]] | None
    """(seq, cause) pairs; None when an entry of the block could not be read."""
    nodes: Completed
    """The nodes of [H6] that the block completed."""


class Mirror(Protocol):
    """A derived copy of the log, compared block by block."""

    def block(self, block: Block) -> None: ...

    def finish(self, end: "State", since: int) -> None:
        """Compare what only the end can tell; `since` is where the walk began."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Where a walk stands: entries so far, the last leaf in hex, its time, and the tree."""

    size: int
    leaf: str
    ts: int
    frontier: Frontier

    def same(self, other: "State") -> bool:
        """Whether a walk that ended here may go on there."""
        mine, theirs = (self.size, self.leaf, self.ts), (other.size, other.leaf, other.ts)
        return mine == theirs and self.frontier.hashes() == other.frontier.hashes()


class Source(Protocol):
    """A ledger that is read and never written. What is wrong with the container goes to the findings it was opened with."""

    @property
    def form(self) -> Form: ...

    @property
    def entries(self) -> int:
        """About how many entries there are; for progress and for splitting work, not for judging."""
        ...

    def examine(self, deep: bool, since: int) -> None:
        """Tell what is wrong with the container itself; what would read all of it is left out when `since` is not 0."""
        ...

    def lines(self, start: int, stop: int | None) -> Iterator[Row]: ...

    def pick(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        """The lines of these seqs, which must rise."""
        ...

    def checkpoints(self, above: int, upto: int | None) -> Iterator[Noted]:
        """The readable checkpoints of sizes in (above, upto], by rising size."""
        ...

    def bodies(self, start: int, stop: int | None) -> Iterator[Stored]:
        """The readable bodies of entries in [start, stop), by rising (seq, part)."""
        ...

    def tokens(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        """What is stored as the token of these recorded anchors, whose seqs must rise; what cannot be read is left out."""
        ...

    def stored(self, seqs: Iterable[int]) -> Iterator[tuple[int, str]]:
        """The parts of these entries, whose seqs must rise, that a body lies under; what cannot be read is left out."""
        ...

    def mirror(self) -> Mirror: ...

    def specials(self, stop: int) -> Iterator[bytes]:
        """The lines below `stop` of genesis and rotations, without a full reading; for `--since`."""
        ...

    def frontier(self, size: int) -> Frontier:
        """The tree at this size from what is stored, without checking it; Malformed when that is not there."""
        ...

    def roots(self, sizes: Iterable[int], *, by_lines: bool = False) -> dict[int, bytes]:
        """The roots at these sizes, which must rise, from what is stored, or from nothing but the lines; those that cannot
        be had are left out.

        They are of one tree that grows: whoever knows the last one to be right knows it of all.
        """
        ...

    def unchanged(self) -> bool:
        """Whether everything read so far came from one state of the files."""
        ...

    def close(self) -> None: ...


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file; OSError for anything else, since a pipe in a folder from a stranger would hold us for ever."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path.name} is not a regular file")
    return os.fdopen(file, "rb")
