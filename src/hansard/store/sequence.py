"""The rules by which drafts get their places: seq, prev, ts, fences, the tree. Pure: no clock, no I/O.

Every store reads its head into a Sequence, places what it was given, and writes what comes out, in its own way.
"""

from collections.abc import Callable
from collections.abc import Sequence as Items
from hashlib import sha256
from typing import NamedTuple

from hansard.errors import Fenced, HansardError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import FIRST_PREV, MAX_CAUSES, checked_sketch
from hansard.ledger.merkle import Frontier
from hansard.store.base import Draft, Group, Head, Placed

CLOCK_SLACK_US = 1_000_000
EpochOf = Callable[[str], int]


class Row(NamedTuple):
    """One placed entry with all that a store has to write for it."""

    seq: int
    ts: int
    leaf: bytes
    line: bytes
    causes: tuple[int, ...]
    draft: Draft

    def placed(self) -> Placed:
        return Placed(self.seq, self.ts, self.leaf)


class Sequence:
    """The head of a log while entries are being placed after it."""

    __slots__ = ("behind", "frontier", "leaf", "ts")

    def __init__(
        self, *, leaf: bytes = bytes.fromhex(FIRST_PREV), ts: int = 0, frontier: Frontier | None = None
    ) -> None:
        self.leaf = leaf
        self.ts = ts
        self.frontier = frontier or Frontier()
        self.behind = False

    @property
    def size(self) -> int:
        return self.frontier.size

    def head(self) -> Head:
        return Head(size=self.size, leaf=self.leaf, ts=self.ts, root=self.frontier.root())

    def copy(self) -> "Sequence":
        twin = Sequence(leaf=self.leaf, ts=self.ts, frontier=self.frontier.copy())
        twin.behind = self.behind
        return twin

    def place(self, group: Group, now_us: int, epoch_of: EpochOf) -> list[Row]:
        """Give each draft of the group its place, or raise and change nothing.

        Nothing is pushed to the tree until the whole group is known to fit, so a refusal leaves no trace.
        """
        ts = max(now_us, self.ts)
        drafts = self._with_clock(group, now_us)
        lead = len(drafts) - len(group)
        seq, leaf, rows = self.size, self.leaf, []
        first = seq + lead
        for at, draft in enumerate(drafts):
            _check_fence(draft, epoch_of)
            causes = draft.causes and _resolve(draft.causes, first, at - lead, self.size)
            try:
                line = draft.sketch.line(causes=causes, prev=leaf.hex().encode(), seq=seq, ts=ts)
            except Malformed as error:
                raise UsageError(f"{error}") from error
            leaf = sha256(b"\x00" + line).digest()
            rows.append(Row(seq, ts, leaf, line, causes, draft))
            seq += 1
        self.behind = now_us < self.ts - CLOCK_SLACK_US
        self.leaf, self.ts = leaf, ts
        return rows

    def grow(self, rows: Items[Row]) -> list[tuple[int, int, bytes]]:
        """Push placed rows to the tree; comes back the nodes that a store keeps ([H6])."""
        push = self.frontier.push
        nodes: list[tuple[int, int, bytes]] = []
        for row in rows:
            done = push(row.leaf)
            if done:
                nodes += done
        return nodes

    def _with_clock(self, group: Group, now_us: int) -> Group:
        if self.behind or now_us >= self.ts - CLOCK_SLACK_US or not self.size:
            return group
        data = {"behind_us": self.ts - now_us, "wall_us": max(now_us, 0)}
        note = checked_sketch(kind="log.clock", actor="log", run="", data=data, body={})
        return (Draft("", note, (), (), None), *group)


def place_all(
    sequence: Sequence, groups: Items[Group], now_us: int, epoch_of: EpochOf
) -> tuple[list[list[Row] | HansardError], list[tuple[int, int, bytes]]]:
    """Place many groups one after the other; a refused group is answered with its error and the others go on."""
    outcomes: list[list[Row] | HansardError] = []
    nodes: list[tuple[int, int, bytes]] = []
    for group in groups:
        try:
            rows = sequence.place(group, now_us, epoch_of)
        except (UsageError, Fenced) as refusal:
            outcomes.append(refusal)
            continue
        nodes += sequence.grow(rows)
        outcomes.append(rows)
    return outcomes, nodes


def answers(outcomes: Items[list[Row] | HansardError], groups: Items[Group]) -> list[list[Placed] | HansardError]:
    """What the callers are told: their own entries' places, without a `log.clock` that went before."""
    told: list[list[Placed] | HansardError] = []
    for outcome, group in zip(outcomes, groups, strict=True):
        if isinstance(outcome, HansardError):
            told.append(outcome)
        else:
            told.append([row.placed() for row in outcome[len(outcome) - len(group) :]])
    return told


def _check_fence(draft: Draft, epoch_of: EpochOf) -> None:
    if draft.fence is None:
        return
    name, epoch = draft.fence
    newest = epoch_of(name)
    if newest != epoch:
        raise Fenced(
            f"{name}: this process holds epoch {epoch}, the claim is at {newest}; another process has taken over"
        )


def _resolve(causes: tuple[int, ...], first: int, position: int, size: int) -> tuple[int, ...]:
    """Turn `~i` into the seq of the group's i-th draft, and sort ([E4])."""
    found = set()
    for cause in causes:
        if cause < 0:
            if ~cause >= position:
                raise UsageError(
                    f"a draft names draft {~cause} of its group as a cause, but stands at {position} itself"
                )
            found.add(first + ~cause)
        elif cause >= size:
            raise UsageError(f"entry {cause} is named as a cause, but the log ends at {size - 1}")
        else:
            found.add(cause)
    if len(found) > MAX_CAUSES:
        raise UsageError(f"{len(found)} causes, more than {MAX_CAUSES}; gather them in results.joined entries first")
    return tuple(sorted(found))
