"""The walk along the lines: chain, order, form and tree, in blocks of 256 and in flat memory.

It goes on after damage, so that later damage is seen too. What entries and checkpoints say about keys, bodies and
anchors it only passes on, in the order of the log.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice
from typing import Any

from .bodies import BodyWalk
from .canonical import Malformed
from .entry import FIRST_PREV, GENESIS, Entry, parse
from .events import SPECIAL, Event, Noted, read_event
from .form import FAILURES, QuickForm
from .merkle import Completed, Frontier
from .report import Findings
from .sources.base import Block, Row, Source, State
from .tools import Tools

WIDTH = 256
START = State(size=0, leaf=FIRST_PREV, ts=0, frontier=Frontier())


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a walk counted, and the roots that were asked for."""

    parts: int = 0
    opened: int = 0
    checkpoints: int = 0
    roots: dict[int, bytes] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        self.parts += other.parts
        self.opened += other.opened
        self.checkpoints += other.checkpoints
        self.roots |= other.roots


class Walk:
    """One pass over a stretch of the log. `tell` receives the events in order."""

    def __init__(
        self,
        source: Source,
        findings: Findings,
        tell: Callable[[Event], None],
        *,
        tools: Tools,
        deep: bool,
        wanted: Sequence[int] = (),
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._source = source
        self._findings = findings
        self._tell = tell
        self._form = QuickForm(tools.loads, tools.dumps)
        self._deep = deep
        self._wanted = sorted(set(wanted))
        self._progress = progress
        self.tally = Tally()

    def run(self, start: State, stop: int | None = None, *, first: bool = True) -> State:
        """Walk from a state up to `stop`, or to the end of what is stored.

        `first` says that no walk before this one looks at the checkpoints of the starting size.
        """
        self._seq, self._prev, self._ts = start.size, start.leaf, start.ts
        self._frontier = start.frontier.copy()
        source = self._source
        mirror = source.mirror()
        rows = source.lines(start.size, stop)
        self._checkpoints = source.checkpoints(start.size - first, stop)
        self._noted = next(self._checkpoints, None)
        self._bodies = BodyWalk(source.bodies(start.size, stop), self._findings, self._tell) if self._deep else None
        if start.size:
            self._roots_up_to(start.size, start.size, [])
        while block := self._block(rows):
            mirror.block(block)
            if self._progress:
                self._progress(self._frontier.size)
        end = State(size=self._frontier.size, leaf=self._prev, ts=self._ts, frontier=self._frontier)
        if end.size == 0:
            self._roots_up_to(0, 0, [])
        if stop is None:
            self._beyond(end)
            mirror.finish(end, start.size)
        return self._count_bodies(end, stop)

    def _count_bodies(self, end: State, stop: int | None) -> State:
        if self._bodies:
            self._bodies.finish(self._seq, stop is None and self._source.form == "jsonl")
            self.tally.opened = self._bodies.opened
        return end

    def _block(self, rows: Iterator[Row]) -> Block | None:
        """Read up to the next multiple of 256, then settle the tree and the checkpoints over what was read."""
        start, first = self._frontier.size, self._seq
        leaves: list[bytes] = []
        lines: list[bytes] = []
        causes: list[tuple[int, int]] = []
        bodied: list[tuple[int, Any]] = []
        special: list[tuple[int, Event]] = []
        whole, parts, bodies, check = True, 0, self._bodies, self._form.members
        # The state of the walk lives in local names here: this loop is where the time goes.
        seq, prev, last = self._seq - 1, self._prev, self._ts
        for at, line in islice(rows, WIDTH - start % WIDTH):
            seq += 1
            try:
                members = check(line, seq, prev)
                ts = members["ts"]
            except FAILURES:
                ts = -1
            if ts < last or (at != seq and at is not None):
                self._seq, self._prev, self._ts = seq, prev, last
                members = self._diagnose(at, line)
                seq, ts = self._seq - 1, self._ts
            leaf = sha256(b"\x00" + line).digest()
            prev, last = leaf.hex(), ts
            leaves.append(leaf)
            lines.append(line)
            if members is None:
                whole = False
                continue
            for cause in members["causes"]:
                causes.append((seq, cause))
            body = members["body"]
            if body:
                parts += len(body)
                if bodies:
                    bodied.append((seq, body))
            if members["kind"] in SPECIAL or seq == 0:
                # The keys of the genesis are known at every size, that of no entries too ([C3]).
                self._special(seq, prev, members, special, start + len(leaves) if seq else 0)
        self._seq, self._prev, self._ts = seq + 1, prev, last
        self.tally.parts += parts
        if not leaves:
            return None
        if bodies:
            bodies.block(bodied)
        nodes = self._roots_up_to(start, start + len(leaves), leaves, special)
        return Block(
            at=start,
            first=first,
            stop=self._seq,
            lines=lines,
            leaves=leaves,
            causes=causes if whole else None,
            nodes=nodes,
        )

    def _diagnose(self, at: int | None, line: bytes) -> Any:
        """Say what is wrong with a line, and where the walk goes on."""
        expected = self._seq
        try:
            entry = parse(line)
        except Malformed as error:
            place = expected if at is None else at
            self._findings.add("form", "structure", str(error), seq=place)
            self._seq = max(place, expected - 1) + 1
            return None
        self._place(at, entry, expected)
        if entry.ts < self._ts:
            message = f"[E4] its time {entry.ts} lies before the {self._ts} of the entry before it"
            self._findings.add("clock", "structure", message, seq=entry.seq)
        self._ts = entry.ts
        self._seq = max(entry.seq if at is None else at, expected - 1) + 1
        if entry.seq < expected or self._seq != entry.seq + 1:
            return None
        return {"kind": entry.kind, "causes": entry.causes, "body": entry.body, "data": entry.data}

    def _place(self, at: int | None, entry: Entry, expected: int) -> None:
        place = entry.seq if at is None else at
        if entry.seq != place:
            message = f"[S3] the row of entry {place} holds an entry that says seq {entry.seq}"
            self._findings.add("seq", "structure", message, seq=place)
        if place > expected:
            others = f", and those up to {place - 1} with it" if place - 1 > expected else ""
            message = f"[E4] the entry is missing{others}"
            self._findings.add("gap", "structure", message, seq=expected)
        elif place < expected:
            message = f"[E4] it stands behind entry {expected - 1}: repeated, inserted or moved"
            self._findings.add("order", "structure", message, seq=place)
        elif entry.prev != self._prev:
            self._chain(entry.seq)

    def _chain(self, seq: int) -> None:
        if seq == 0:
            self._findings.add("chain", "structure", "[H4] prev of entry 0 is not 64 zeros", seq=0)
            return
        message = (
            f"[H4] its bytes do not hash to the prev of entry {seq}: one of the two was changed after it was written"
        )
        self._findings.add("chain", "structure", message, seq=seq - 1)

    def _special(self, seq: int, leaf: str, members: Any, special: list[tuple[int, Event]], size: int) -> None:
        kind = members["kind"]
        if (kind == GENESIS) != (seq == 0):
            message = f"[E6] entry 0, and only entry 0, is {GENESIS}; this is {kind}"
            self._findings.add("genesis", "structure", message, seq=seq)
            return
        try:
            special.append((size, read_event(kind, seq, leaf, members["data"])))
        except Malformed as error:
            self._findings.add("genesis" if seq == 0 else "special", "structure", f"{kind}: {error}", seq=seq)

    def _roots_up_to(
        self, start: int, end: int, leaves: Sequence[bytes], special: Sequence[tuple[int, Event]] = ()
    ) -> Completed:
        """Grow the tree over the leaves, telling events and checkpoints at their sizes."""
        events = list(reversed(special))
        nodes: Completed = []
        while (size := self._next_size(end)) is not None:
            nodes += self._frontier.push_all(leaves[self._frontier.size - start : size - start])
            while events and events[-1][0] <= size:
                self._tell(events.pop()[1])
            self._settle_size(size)
        nodes += self._frontier.push_all(leaves[self._frontier.size - start :])
        for _, event in reversed(events):
            self._tell(event)
        return nodes

    def _next_size(self, end: int) -> int | None:
        sizes = [self._noted.size] if self._noted else []
        sizes += self._wanted[:1]
        size = min(sizes, default=end + 1)
        return size if size <= end else None

    def _settle_size(self, size: int) -> None:
        root = self._frontier.root() if size == self._frontier.size else None
        while self._noted and self._noted.size == size:
            self._tell_noted(self._noted, self._noted.checkpoint.root == root)
        if self._wanted and self._wanted[0] == size:
            if root is not None:
                self.tally.roots[size] = root
            self._wanted.pop(0)

    def _tell_noted(self, noted: Noted, agrees: bool) -> None:
        self.tally.checkpoints += 1
        self._tell(replace(noted, agrees=agrees))
        self._noted = next(self._checkpoints, None)

    def _beyond(self, end: State) -> None:
        """Checkpoints of sizes that the log does not reach: [C9]."""
        while self._noted:
            message = f"[C9] the tail was cut off: a checkpoint of size {self._noted.size} is kept, and the log ends at {end.size}"
            self._findings.add("tail_cut", "structure", message, seq=end.size)
            self.tally.checkpoints += 1
            self._noted = next(self._checkpoints, None)
