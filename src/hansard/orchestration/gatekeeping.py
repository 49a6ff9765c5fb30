"""Stands at the gates of one run: opens them on the record, hears decisions from the record, closes them.

Never waits for people: it says what is decided by now, and whoever drives the run comes again.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

from hansard.domain.fact import Body
from hansard.domain.gate import GateClosed, GateOpened
from hansard.domain.value import replace, value
from hansard.ledger.canonical import MAX_INT
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import Gate, Outcome, Rule, after_edit, closing, gate_id
from hansard.orchestration.journal import Journal
from hansard.orchestration.plan import Task
from hansard.orchestration.progress import Progress, take_gate
from hansard.record.reading import read_entries, read_text
from hansard.store.base import Query, Store


def wall_clock_us(_: str = "") -> int:
    return time.time_ns() // 1_000


@value
class Shown:
    """What the deciders see: the text in question, its commitment, and the commitments of what it is built on."""

    text: str
    commitment: str
    others: tuple[str, ...] = ()
    causes: tuple[int, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (self.commitment, *self.others)


@value
class Passage:
    """What was decided: the text that may go on, or None where it may not; `closed` are the entries that say so."""

    text: str | None
    closed: tuple[int, ...]
    edit: int | None = None
    """The decision whose words these are, where somebody edited."""


class Gatekeeper:
    """The gates of one run."""

    def __init__(
        self,
        rules: Sequence[Rule],
        journal: Journal,
        progress: Progress,
        store: Store,
        clock_us: Callable[[str], int] = wall_clock_us,
    ) -> None:
        self._rules, self._journal, self._progress, self._store = rules, journal, progress, store
        self._clock_us = clock_us
        """What time it is at a gate; at none where one is opened. In a re-run it is not the same at all of them."""
        self._heard = max(
            (each.seq for gate in progress.gates.values() for each in (gate.opened, *gate.decisions)), default=-1
        )
        self._standing: dict[tuple[str, str | None], list[Gate]] = {}
        """The gates of a rule before a task, or the plan, oldest first."""
        for gate in progress.gates.values():
            self._standing.setdefault((gate.rule, gate.task), []).append(gate)

    def rules_for(self, task: Task) -> list[Rule]:
        return [rule for rule in self._rules if rule.holds(task)]

    @property
    def guards_plans(self) -> bool:
        """Whether a plan may have to wait as a whole."""
        return any(rule.plan or rule.asked for rule in self._rules)

    def plan_rules(self, ids: Collection[str]) -> list[Rule]:
        """The rules before which a plan of these tasks waits as a whole."""
        return [rule for rule in self._rules if rule.plan or (rule.asked and not set(rule.tasks) <= set(ids))]

    async def listen(self) -> None:
        """Hear what was decided since."""
        for entry in await asyncio.to_thread(self._decided):
            take_gate(self._progress.gates, entry)

    def _decided(self) -> list[Entry]:
        """What was decided since the last look. Up to the log's end, so that no look goes over what another has seen."""
        size = self._store.head().size
        asked = Query(run=self._journal.run, kind="gate.decided", after=self._heard, before=size)
        found = list(read_entries(self._store, asked))
        self._heard = max(self._heard, size - 1)
        return found

    async def passage(self, rules: Sequence[Rule], task: Task | None, shown: Shown) -> Passage | None:
        """What is decided by now about a task, or the plan; None while somebody still has to decide."""
        closed: list[int] = []
        edit: int | None = None
        left: Sequence[Rule] = rules
        while left:
            rule = left[0]
            gate = await self._gate(rule, task, shown)
            if gate.closed is None and not await self._close(gate, rule):
                return None
            end = gate.closed
            assert end is not None
            closed.append(end.seq)
            if end.data["outcome"] == "rejected":
                return Passage(text=None, closed=tuple(closed), edit=edit)
            left = left[1:]
            if end.data["outcome"] == "edited":
                shown, edit = self._edited(gate, shown)
                # Whoever approved before, at whichever gate, approved another text.
                asked = [after_edit(each, self._editor(gate)) if each.name == rule.name else each for each in rules]
                left = [each for each in asked if each is not None]
        return Passage(text=shown.text, closed=tuple(closed), edit=edit)

    async def expire(self) -> None:
        """Close what is over by its deadline, also where no task stands any more or yet: as long as it is open, whoever waits for
        that moment comes again."""
        for gate in [each for each in self._progress.gates.values() if each.closed is None]:
            if gate.deadline_us is not None and self._clock_us(gate.id) >= gate.deadline_us:
                await self._close(gate, self._rule_at(gate))

    def _rule_at(self, gate: Gate) -> Rule:
        """The rule of a gate, with what is still needed where somebody edited what it shows."""
        rule, gates = next(each for each in self._rules if each.name == gate.rule), self._progress.gates.values()
        behind = [each for each in gates if each.closed is not None and each.closed.seq in gate.opened.causes]
        edited = next((each for each in behind if each.rule == rule.name), None)
        editor = self._editor(edited) if edited else rule.editor
        return replace(rule, needed=int(gate.opened.data["needed"]), editor=editor)

    async def _gate(self, rule: Rule, task: Task | None, shown: Shown) -> Gate:
        """The gate of a rule that shows exactly this; a new one where there is none."""
        id = task.id if task else None
        after = self._asked_again(id)
        older = self._standing.setdefault((rule.name, id), [])
        for gate in older:
            # Where a task is to be done again, people are asked again.
            if gate.opened.seq > after and gate.shown == shown.all:
                return gate
            if gate.closed is None:
                await self._record_close(gate, "rejected", (), expired=False)
        older.append(await self._open(rule, task, shown, len(older) + 1))
        return older[-1]

    def _asked_again(self, task: str | None) -> int:
        progress = self._progress.tasks.get(task) if task else None
        return progress.retry if progress and progress.retry is not None else -1

    async def _open(self, rule: Rule, task: Task | None, shown: Shown, number: int) -> Gate:
        what = f"task {task.id!r} in lane {task.lane}" if task else "this plan"
        if task is None and not rule.plan:
            what += f", which has no task {' or '.join(map(repr, rule.tasks))} to wait at,"
        question = rule.question or f"May {what} run?"
        fact = GateOpened(
            gate=gate_id(self._progress.nonce, rule.name, task.id if task else None, number),
            rule=rule.name,
            before="task" if task else "plan",
            task=task.id if task else None,
            needed=rule.needed,
            deadline_us=self._deadline_us(rule),
            on_expiry=rule.on_expiry,
            shown=shown.all,
            question=Body.text(f"{question}\n\n{shown.text}"),
        )
        recorded = await self._journal.record(fact, "engine", shown.causes)
        take_gate(self._progress.gates, await asyncio.to_thread(self._store.entry, recorded.seq))
        return self._progress.gates[fact.gate]

    def _deadline_us(self, rule: Rule) -> int | None:
        """When a gate of this rule ends, or the last moment that a record can name (in the year 2255) where that is later."""
        if rule.deadline_s is None:
            return None
        return min(self._clock_us("") + int(min(rule.deadline_s * 1_000_000, MAX_INT)), MAX_INT)

    async def _close(self, gate: Gate, rule: Rule) -> bool:
        now_us = self._clock_us(gate.id)
        end = closing(gate, rule, now_us)
        if end is not None and end.expired:
            # Somebody may have decided in time, and after the last look.
            await self.listen()
            end = closing(gate, rule, now_us)
        if end is None:
            return False
        await self._record_close(gate, end.outcome, end.because, expired=end.expired)
        return True

    async def _record_close(self, gate: Gate, outcome: Outcome, because: Sequence[int], *, expired: bool) -> None:
        fact = GateClosed(gate=gate.id, outcome=outcome, expired=expired)
        recorded = await self._journal.record(fact, "engine", [gate.opened.seq, *because])
        take_gate(self._progress.gates, await asyncio.to_thread(self._store.entry, recorded.seq))

    def _editor(self, gate: Gate) -> str:
        return self._decision(gate).actor

    def _decision(self, gate: Gate) -> Entry:
        """The edit with which a gate was closed."""
        assert gate.closed is not None
        return next(each for each in gate.decisions if each.seq in gate.closed.causes)

    def _edited(self, gate: Gate, shown: Shown) -> tuple[Shown, int]:
        decision = self._decision(gate)
        text = read_text(self._store, decision, "edit") or ""
        assert gate.closed is not None
        new = Shown(text=text, commitment=decision.body["edit"], others=shown.others, causes=(gate.closed.seq,))
        return new, decision.seq
