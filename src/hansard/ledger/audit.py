"""One verification of one opened ledger: sends the walk along it, gathers what it tells, and writes the report."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from .anchors import Kept, compare
from .bodies import Redactions
from .brackets import Brackets
from .canonical import Malformed
from .cosigned import Shown, on_record, witnessed
from .entry import parse
from .events import SPECIAL, Absent, Anchored, Event, Genesis, Noted, Rotated, Tombstone, read_event
from .merkle import inclusion_proof, leaf_hash, verify_inclusion
from .note import VerifierKey
from .report import Anchor, Bodies, Findings, Report, Signed
from .seals import LOOK_BACK, Pin, Seals
from .sources.base import Source, State
from .sources.export import ExportSource
from .sources.sqlite import SqliteSource
from .split import Plan, jobs_for, state_at, walk_split
from .tools import Tools
from .walk import START, Tally, Walk

Progress = Callable[[int, int], None]
"""Told how many entries are done, and of about how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a verification is to reach, its files already read."""

    deep: bool
    strict: bool
    since: Kept | None
    pin: Pin | None
    against: tuple[Kept, ...]
    witnesses: tuple[VerifierKey, ...]
    all_signatures: bool
    jobs: int | None

    def anchors(self) -> tuple[Kept, ...]:
        return (*self.against, self.since) if self.since else self.against


class Audit:
    """Holds what is known while a ledger is verified; used once."""

    def __init__(
        self, path: str, source: Source, asked: Asked, findings: Findings, *, tools: Tools, progress: Progress | None
    ) -> None:
        self._path = path
        self._source = source
        self._asked = asked
        self._findings = findings
        self._tools = tools
        self._progress = progress
        self._seals = Seals(findings, pin=asked.pin, all_signatures=asked.all_signatures, check=tools.ed25519)
        self._redactions = Redactions()
        self._brackets = Brackets()
        self._tally = Tally()
        self._by_lines = not isinstance(source, SqliteSource)

    def run(self) -> Report:
        """Verify everything that was asked for."""
        with self._redactions, self._brackets:
            start = self._start()
            end = self._walk(start)
            return self._conclude(start, end)

    def _start(self) -> State:
        """Where to begin: at --since if the log stands there as the checkpoint says, otherwise at entry 0."""
        since = self._asked.since
        if since is None:
            return START
        try:
            state = state_at(self._source, since.noted.size)
        except Malformed:
            return START
        if state.frontier.root() != since.noted.checkpoint.root:
            return START
        lines = list(self._source.specials(state.size))
        if not all(self._is_held(line, state) for line in lines):
            return START
        for line in lines:
            self._believe(line, state.size)
        if self._seals.genesis is None:
            return START
        self._look_back(state)
        return state

    def _is_held(self, line: bytes, state: State) -> bool:
        """Whether the tree of --since holds a line that names keys: made of stored nodes, it says nothing of what the lines are now."""
        if not isinstance(self._source, SqliteSource):
            return True
        try:
            seq = parse(line).seq
            proof = inclusion_proof(seq, state.size, self._source)
            verify_inclusion(leaf_hash(line), seq, state.size, proof, state.frontier.root())
        except Malformed:
            return False
        return True

    def _believe(self, line: bytes, size: int) -> None:
        """Take the keys from a prefix that is not read."""
        try:
            entry = parse(line)
            event = (
                read_event(entry.kind, entry.seq, leaf_hash(line).hex(), entry.data) if entry.kind in SPECIAL else None
            )
        except Malformed as error:
            self._findings.add("special", "structure", f"in the prefix that was not read: {error}")
            return
        if isinstance(event, Genesis) and event.seq == 0:
            self._seals.begin(event)
        elif isinstance(event, Rotated):
            take = self._seals.adopt if event.seq + 1 < size else self._seals.rotated
            take(event)

    def _look_back(self, start: State) -> None:
        """Tell the newest checkpoints of this epoch that lie before --since: what seals the log may be one of them."""
        newest = deque(self._source.checkpoints(self._seals.in_force_from, start.size - 1), maxlen=LOOK_BACK)
        roots = self._before([noted.size for noted in newest], start)
        for noted in newest:
            if noted.size in roots:
                self._seals.noted(replace(noted, agrees=roots[noted.size] == noted.checkpoint.root))

    def _walk(self, start: State) -> State:
        wanted = tuple(sorted({size for kept in self._asked.anchors() for size in kept.sizes()}))
        older = [size for size in wanted if size < start.size]
        self._tally.roots = self._before(older, start)
        size = self._source.entries
        jobs = jobs_for(self._source, self._asked.jobs)
        if jobs > 1 and isinstance(self._source, SqliteSource):
            plan = Plan(
                start=start, size=size, jobs=jobs, deep=self._asked.deep, tools=self._tools, wanted=wanted[len(older) :]
            )
            walked = walk_split(self._source, plan, self._tell, self._reporter(size))
            if walked is not None:
                end, tally = walked
                self._tally.add(tally)
                return end
        return self._walk_alone(start, wanted[len(older) :], size)

    def _before(self, sizes: list[int], start: State) -> dict[int, bytes]:
        """The roots at sizes that the walk does not pass, of the very tree that it starts from; none where that is not shown."""
        root = start.frontier.root()
        for by_lines in dict.fromkeys((self._by_lines, True)) if sizes else ():
            found = self._source.roots([*sizes, start.size], by_lines=by_lines)
            if found.get(start.size) == root:
                self._go_by_lines(by_lines)
                return found
        return {}

    def _go_by_lines(self, by_lines: bool) -> None:
        """The lines give the tree of --since where the nodes do not: those that are wrong say nothing of the log."""
        if by_lines and not self._by_lines:
            self._by_lines = True
            message = "[H6] the nodes stored before --since do not give the tree of that checkpoint, and the lines do"
            self._findings.add("node", "structure", message)

    def _walk_alone(self, start: State, wanted: tuple[int, ...], size: int) -> State:
        self._source.examine(self._asked.deep, start.size)
        walk = Walk(
            self._source,
            self._findings,
            self._tell,
            tools=self._tools,
            deep=self._asked.deep,
            wanted=wanted,
            progress=self._reporter(size),
        )
        end = walk.run(start)
        self._tally.add(walk.tally)
        return end

    def _reporter(self, size: int) -> Callable[[int], None] | None:
        progress = self._progress
        return (lambda done: progress(done, max(done, size))) if progress else None

    def _tell(self, event: Event) -> None:
        match event:
            case Genesis():
                self._seals.begin(event)
            case Rotated():
                self._seals.rotated(event)
            case Noted():
                self._seals.noted(event)
            case Tombstone():
                self._redactions.tombstone(event)
            case Absent():
                self._redactions.absent(event)
            case Anchored():
                self._brackets.add(event)
            case _:
                assert_never(event)

    def _conclude(self, start: State, end: State) -> Report:
        if end.size == 0:
            self._findings.add("empty", "structure", "[E6] there is no entry, not even a genesis")
        signed = self._seals.finish(end.size, self._tally.checkpoints)
        bodies = self._redactions.settle(
            self._source,
            self._findings,
            parts=self._tally.parts,
            opened=self._tally.opened,
            since=start.size,
            deep=self._asked.deep,
        )
        if isinstance(self._source, ExportSource):
            self._source.compare_published(signed.sealed_to, start.size)
        anchors = tuple(self._compare(kept, end.size) for kept in self._asked.anchors())
        self._brackets.judge(lambda sizes: self._roots(sizes, start), self._findings)
        shown = self._shown(anchors) if self._asked.witnesses else []
        vouched = witnessed(self._asked.witnesses, shown, self._findings, self._tools.ed25519)
        self._grade(signed, bodies, end.size)
        genesis = self._seals.genesis
        return Report(
            path=self._path,
            form=self._source.form,
            size=end.size,
            head=end.leaf if end.size else None,
            root=end.frontier.root().hex(),
            origin=genesis.origin if genesis else None,
            genesis=genesis.leaf if genesis else None,
            custody=genesis.custody if genesis else None,
            signed=signed,
            anchors=anchors,
            bodies=bodies,
            brackets=self._brackets.first(),
            witnessed=vouched,
            unread_prefix=start.size,
            findings=self._findings.all(),
            more_findings=self._findings.more,
        )

    def _shown(self, anchors: tuple[Anchor, ...]) -> list[Shown]:
        """Every checkpoint at hand that a witness may have cosigned, and that the log agrees with."""
        pairs = zip(self._asked.anchors(), anchors, strict=True)
        files = [Shown(kept.what, kept.noted) for kept, anchor in pairs if anchor.ok]
        genesis = self._seals.genesis
        if genesis is None:
            return files
        return [*files, *on_record(self._source, self._brackets, genesis.origin, self._asked.witnesses)]

    def _compare(self, kept: Kept, size: int) -> Anchor:
        return compare(kept, roots=self._tally.roots, size=size, seals=self._seals, findings=self._findings)

    def _roots(self, sizes: list[int], start: State) -> dict[int, bytes]:
        """The roots at these sizes, wherever the walk began."""
        before = self._before([each for each in sizes if each < start.size], start)
        return before | self._source.roots([each for each in sizes if each >= start.size])

    def _grade(self, signed: Signed, bodies: Bodies, size: int) -> None:
        """Tell which asked-for grades were not reached."""
        strict, pinned = self._asked.strict, self._asked.pin is not None
        for seq in signed.unsealed_rotations:
            message = "[C7] this rotation is not sealed by the key that it retired"
            self._findings.add("unsealed_rotation", "grade" if strict or pinned else "warning", message, seq=seq)
        tail = size - signed.sealed_to
        if strict and tail:
            what = (
                "the log is unsigned"
                if signed.identity is None
                else f"{tail} entries past size {signed.sealed_to} are unsealed"
            )
            self._findings.add(
                "unsealed_tail", "grade", f"[C6] --strict asks for a log that is sealed to its end: {what}"
            )
        elif pinned and signed.identity and not signed.sealed_to:
            self._findings.add(
                "not_sealed", "grade", "[C6] no size is sealed by the pinned key and an epoch key in force"
            )
        elif pinned and tail:
            message = f"[C6] {tail} entries past size {signed.sealed_to} are unsealed: whoever can write the files can change them"
            self._findings.add("unsealed_tail", "warning", message)
        if strict and bodies.pending:
            message = (
                f"[B3] --strict asks for finished redactions: {bodies.pending} bodies with a tombstone are still there"
            )
            self._findings.add("pending", "grade", message)
