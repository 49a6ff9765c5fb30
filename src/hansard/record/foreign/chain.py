"""Which rows of a foreign ledger belong together: the longest branch from its beginning, and what lies behind a gap.

Pure. Two writers at once leave a file that forks; a damaged line leaves a gap. The choice depends on the file alone.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from hansard.domain.value import value
from hansard.ledger.entry import FIRST_PREV
from hansard.record.foreign.format import Findings, Row

_GENESIS = bytes.fromhex(FIRST_PREV)
_NONE = -1


class Branch(NamedTuple):
    """Rows that were left out because they fork off: where they begin, how many, and the hash that they end with."""

    seq: int
    line: int
    entries: int
    tip: str


@value
class Choice:
    """The rows to import by rising seq; the first `chained` of them hang together down to entry 0."""

    rows: tuple[Row, ...]
    chained: int
    branches: tuple[Branch, ...]


def choose(rows: Sequence[Row], findings: Findings) -> Choice:
    """Take the longest branch from the beginning, then the segments behind gaps that hold most entries.

    Of branches equally long the one whose last row stands first in the file is taken.
    """
    order = _once(rows, findings)
    links = _Links(order)
    main = links.longest()
    end = order[main[-1]].seq if main else _NONE
    kept = [*main]
    for segment in _most([links.path(tip) for tip in links.orphan_tips() if order[links.start[tip]].seq > end], order):
        findings.tell("chain_broken", f"seq {order[segment[0]].seq}, line {order[segment[0]].line}")
        kept += segment
    branches = links.left_out(set(kept))
    for branch in branches:
        findings.tell("branch_left_out", f"seq {branch.seq}, line {branch.line}, entries {branch.entries}")
    return Choice(rows=tuple(order[at] for at in kept), chained=len(main), branches=branches)


def _once(rows: Sequence[Row], findings: Findings) -> list[Row]:
    """The rows by seq and then by line, each entry once."""
    seen: set[bytes] = set()
    once: list[Row] = []
    for row in sorted(rows, key=lambda each: (each.seq, each.line, each.at)):
        if row.hash in seen:
            findings.tell("entry_repeated", f"seq {row.seq}, line {row.line}")
        else:
            seen.add(row.hash)
            once.append(row)
    return once


class _Links:
    """Each row with the row before it, how far its chain reaches down, and where that chain starts."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        by_hash = {row.hash: at for at, row in enumerate(rows)}
        self.before: list[int] = []
        self.depth: list[int] = []
        self.start: list[int] = []
        for at, row in enumerate(rows):
            before = by_hash.get(row.prev, _NONE)
            if before != _NONE and rows[before].seq != row.seq - 1:
                before = _NONE
            self.before.append(before)
            self.depth.append(1 if before == _NONE else self.depth[before] + 1)
            self.start.append(at if before == _NONE else self.start[before])

    def begins(self, at: int) -> bool:
        first = self.rows[self.start[at]]
        return first.seq == 0 and first.prev == _GENESIS

    def longest(self) -> list[int]:
        """The longest branch from the beginning."""
        tips = [at for at in range(len(self.rows)) if self.begins(at)]
        return self.path(min(tips, key=self._rank)) if tips else []

    def orphan_tips(self) -> list[int]:
        """For each chain that starts in the void, the last row of its longest branch."""
        best: dict[int, int] = {}
        for at in range(len(self.rows)):
            if not self.begins(at):
                rival = best.setdefault(self.start[at], at)
                best[self.start[at]] = min(rival, at, key=self._rank)
        return list(best.values())

    def path(self, tip: int) -> list[int]:
        way = []
        while tip != _NONE:
            way.append(tip)
            tip = self.before[tip]
        return way[::-1]

    def left_out(self, kept: set[int]) -> tuple[Branch, ...]:
        roots: dict[int, int] = {}
        grown: dict[int, list[int]] = {}
        for at in range(len(self.rows)):
            if at not in kept:
                roots[at] = roots.get(self.before[at], at)
                grown.setdefault(roots[at], []).append(at)
        return tuple(
            Branch(
                self.rows[root].seq, self.rows[root].line, len(each), self.rows[min(each, key=self._rank)].hash.hex()
            )
            for root, each in grown.items()
        )

    def _rank(self, at: int) -> tuple[int, int, int]:
        return -self.depth[at], self.rows[at].line, self.rows[at].at


def _most(segments: list[list[int]], rows: list[Row]) -> list[list[int]]:
    """Of segments that may overlap, those that do not and together hold the most rows; the earlier ones on a tie."""
    ordered = sorted(segments, key=lambda each: (rows[each[-1]].seq, rows[each[0]].line))
    ends = [rows[each[-1]].seq for each in ordered]
    held = [0]
    taken: list[int] = [_NONE]
    for at, segment in enumerate(ordered):
        fits = bisect_left(ends, rows[segment[0]].seq)
        gain = held[fits] + len(segment)
        better = gain > held[at]
        held.append(gain if better else held[at])
        taken.append(fits if better else _NONE)
    chosen: list[list[int]] = []
    at = len(ordered)
    while at:
        if taken[at] == _NONE:
            at -= 1
        else:
            chosen.append(ordered[at - 1])
            at = taken[at]
    return chosen[::-1]
