"""The gates of a run that is run again: what people decided there, handed over where the recorded run heard of it, and their clocks.

At each gate the clock stands still until its time was over in the record. Nobody here knows what time it is.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hansard.app.reruns.bounds import LOOK_S, Until
from hansard.app.reruns.phases import Deed, Phase, deeds, is_decided
from hansard.domain.gate import GateDecided
from hansard.ledger.canonical import MAX_INT
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import Gate, is_bound
from hansard.orchestration.progress import Progress, take_gate
from hansard.record.recorder import Recorder
from hansard.record.replaying import Reader
from hansard.store.base import Query, Store

BEYOND_US = 1 << 52
"""A time that no clock has come to: no decision at a gate is later."""
OVER_US = MAX_INT
"""A time at which every gate is over."""
OF_GATES = ("gate.opened", "gate.decided", "gate.closed")


class Gates:
    """Stands in for the people at the gates of a run, and for the clock of these gates."""

    def __init__(
        self,
        reader: Reader,
        entries: Sequence[Entry],
        kept: Sequence[Entry],
        progress: Progress,
        memory: Store,
        until: Until,
    ) -> None:
        self._run, self._reader, self._entries, self._kept = progress.run, reader, entries, kept
        self._progress, self._memory, self._until = progress, memory, until
        self._closings = [entry for entry in entries if entry.kind == "gate.closed"]
        self._over: set[str] = set()
        """The gates whose time is over."""
        self.words = 0
        """How often something was handed over, or a gate's time was over: as long as that grows, it is worth going on."""
        self._before: tuple[int, Counter[Deed]] = (-1, Counter())

    async def begin(self, recorder: Recorder, phase: Phase) -> None:
        """What a phase begins with: whoever drove it heard at his first look of what was decided, and whose time was over."""
        await self.decide(recorder, self._decided_before(phase))
        for gate in self._left_open(phase):
            await self.decide(recorder, [gate])

    def clock_us(self, gate: str) -> int:
        """The clock at a gate. In a phase that was cut its time is over as soon as all is done that was done before it expired:
        whoever looks only afterwards may be held up at another one by then."""
        if gate not in self._over and self._until.phase.cut:
            closed = (each for each in self._closings if each.data["expired"] and each.data["gate"] not in self._over)
            due = next((each for each in closed if self._until.phase.first <= each.seq <= self._until.phase.last), None)
            if due is not None and due.data["gate"] == gate and self._until.has_done(self._done_before(due.seq)):
                self._end(gate)
        return OVER_US if gate in self._over else BEYOND_US

    async def people(self, recorder: Recorder) -> None:
        """Hand over what people decided as soon as a gate is open: others may wait for whoever stands there."""
        gates: dict[str, Gate] = {}
        seen = -1
        while self._closings:
            await asyncio.sleep(LOOK_S)
            # Behind what the look before has seen: a run may have thousands of tasks, and there are a hundred looks a second.
            for entry in self._memory.select(Query(run=self._run, after=seen)):
                seen = entry.seq
                if entry.kind in OF_GATES:
                    take_gate(gates, entry)
            await self.decide(recorder, [gate.id for gate in gates.values() if gate.closed is None], beside=True)

    async def decide(self, recorder: Recorder, gates: Sequence[str], *, beside: bool = False) -> None:
        """Hand over what people decided at these gates and the recorded run heard in this phase."""
        closed = self._closed(gates, beside)
        if not closed:
            return
        because = {seq for entry in closed for seq in entry.causes}
        opened = {str(e.data["gate"]): e for e in self._memory.select(Query(run=self._run, kind="gate.opened"))}
        heard = {
            (e.data["gate"], e.actor, e.data["decision"])
            for e in self._memory.select(Query(run=self._run, kind="gate.decided"))
        }
        for entry in self._entries:
            data: Any = entry.data
            if entry.kind != "gate.decided" or entry.seq not in because:
                continue
            # Here it is bound to what is shown now, at a clock that stands still: whether it counted is told by the record.
            if not is_bound(self._progress.gates[data["gate"]], entry):
                continue
            if (data["gate"], entry.actor, data["decision"]) in heard:
                continue
            fact = GateDecided(
                gate=data["gate"],
                decision=data["decision"],
                shown=tuple(opened[data["gate"]].data["shown"]),
                authenticated=data["authenticated"],
                edit=self._reader.body(entry, "edit"),
            )
            cause = opened[data["gate"]].seq
            await recorder.record(fact, actor=entry.actor, run=self._run, causes=[cause])
            self.words += 1
        for entry in closed:
            if self._is_late(entry):
                self._end(str(entry.data["gate"]))

    def _decided_before(self, phase: Phase) -> list[str]:
        """The gates on which people had decided when the phase began: whoever drove it heard of that at his first look."""
        decided = (each for each in self._entries if each.kind == "gate.decided" and each.seq < phase.first)
        return self._opened_of(decided)

    def _left_open(self, phase: Phase) -> list[str]:
        """The gates that an earlier phase left open, and whose time was over in this one. Once the task behind one is done again,
        another gate takes its place."""
        closed = (each for each in self._closings if phase.first <= each.seq <= phase.last)
        return self._opened_of(each for each in closed if self._is_late(each))

    def _closed(self, gates: Sequence[str], beside: bool) -> list[Entry]:
        """Where the recorded run closed these gates in this phase, for what people decided or because they were silent.

        In a phase that was cut they are closed one after another; and where others work `beside` them, not before all is done
        that was done before: whoever comes to where it was cut holds the others up.
        """
        closed = [entry for entry in self._closings if entry.data["gate"] in gates]
        closed = [entry for entry in closed if entry.seq <= self._until.phase.last and is_decided(entry)]
        if not self._until.phase.cut or not closed:
            return closed
        before = deeds(entry for entry in self._kept if entry.seq < closed[0].seq)
        return closed[:1] if not beside or self._until.has_done(before) else []

    def _is_late(self, closed: Entry) -> bool:
        """Whether a gate was closed because its time was over. What people had decided in time counts then too, and where their
        task is to be done again they are asked again all the same."""
        gates, data = self._progress.gates, closed.data
        if data["expired"] is True:
            return True
        gate = gates[str(data["gate"])]
        if gate.deadline_us is None or closed.ts < gate.deadline_us or data["outcome"] == "edited":
            return False
        later = (each for each in gates.values() if each.opened.seq > closed.seq)
        return is_decided(closed) and any((each.rule, each.task) == (gate.rule, gate.task) for each in later)

    def _done_before(self, seq: int) -> Counter[Deed]:
        """What the record has before an entry; asked for many times, one entry after the other."""
        if self._before[0] != seq:
            self._before = seq, deeds(entry for entry in self._kept if entry.seq < seq)
        return self._before[1]

    def _end(self, gate: str) -> None:
        """The time of a gate is over."""
        if gate not in self._over:
            self._over.add(gate)
            self.words += 1

    def _opened_of(self, entries: Iterable[Entry]) -> list[str]:
        """The gates of these entries that are open here, or were."""
        opened = {str(entry.data["gate"]) for entry in self._memory.select(Query(run=self._run, kind="gate.opened"))}
        return [gate for gate in dict.fromkeys(str(each.data["gate"]) for each in entries) if gate in opened]
