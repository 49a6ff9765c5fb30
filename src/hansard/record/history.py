"""Entries to state: one fold that resume, CLI, dashboard and API all read, so the screen shows what the record says.

The fold reads kinds and data only; bodies stay where they are. It takes entries as they come and never fails on one:
a kind that it does not know is counted and changes nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field

from hansard.domain.budget import MOST_SPENT
from hansard.domain.exchange import is_priced
from hansard.ledger.entry import Entry
from hansard.store.base import Query, Store

_MOVES = {
    "run.requested": "requested",
    "plan.made": "planned",
    "task.attempted": "running",
    "turn.asked": "running",
    "gate.opened": "waiting",
    "gate.closed": "running",
    "run.interrupted": "interrupted",
    "run.claimed": "running",
    "run.retry_asked": "requested",
}
UNENDED = tuple(dict.fromkeys(_MOVES.values()))
"""What a run can be in before it has ended."""
TURNS = ("ensemble.answered", "panel.selected", "tools.called", "turn.taken", "turn.failed")
"""What a call of a session leaves behind, with what it took: each is counted once, and sums are over all of them."""
ASKS = ("turn.asked", "tools.returned")
"""Behind these a session waits for a model: behind the results of tools it is asked again."""
UNDER_WAY = ("attempted", "returned", "escalated", "restarted")
"""States of a task on which somebody works."""


@dataclass(slots=True, kw_only=True)
class RunState:
    """What the record says of one run."""

    run: str
    first_seq: int
    last_seq: int
    started_us: int
    last_us: int
    state: str = "requested"
    entries: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd_nano: int = 0
    unpriced: set[str] = field(default_factory=set)
    """The models that were paid for at a price that nobody knew: what they cost is not in the sum."""
    priced: bool | None = True
    """Whether the sum holds what each call cost; None where that is taken from an end that does not say it."""
    tasks: dict[str, str] = field(default_factory=dict)
    under_way: set[str] = field(default_factory=set)
    """Tasks on which somebody works."""
    panels: set[int] = field(default_factory=set)
    """Entries that a panel answers: what that takes is counted turn by turn."""
    calling: dict[int, str] = field(default_factory=dict)
    """Calls that were made and have no answer yet, with the model that was asked."""
    asked: dict[int, str] = field(default_factory=dict)
    """Which model a session asks there, or goes on asking behind its tools."""
    lost: set[int] = field(default_factory=set)
    """Calls that were under way when a driver or the run ended: they count, whatever came of them."""
    undecided: set[str] = field(default_factory=set)
    """Gates that nobody has closed."""
    over: bool = False

    @property
    def open_gates(self) -> set[str]:
        """Gates that wait for somebody: none where the run has ended."""
        return set() if self.over else self.undecided

    def take_task(self, id: str, state: str) -> None:
        """What became of a task."""
        self.tasks[id] = state
        if state in UNDER_WAY:
            self.under_way.add(id)
        else:
            self.under_way.discard(id)

    def answer(self, entry: Entry) -> None:
        """The calls on which this entry rests have their answer."""
        for cause in entry.causes:
            self.calling.pop(cause, None)

    def model_of(self, entry: Entry) -> str:
        """The model whose answer this entry of a session is; nobody is asked it again."""
        return next((self.asked.pop(cause) for cause in entry.causes if cause in self.asked), "")

    def spend(self, data: Mapping[str, object], asked: str, said: str, model: str) -> None:
        """Count what a call of this model took. Sums stop where those of the run's own end do."""
        tokens = _number(data.get(asked)) + _number(data.get(said))
        self.tokens = min(self.tokens + tokens, MOST_SPENT)
        if not is_priced(tokens, data.get("cost_basis")):
            self.unpriced.add(model)
            self.priced = False
        self.cost_usd_nano = min(self.cost_usd_nano + _number(data.get("cost_usd_nano")), MOST_SPENT)


@dataclass(slots=True, kw_only=True)
class LedgerState:
    """What the record says as a whole, up to and including entry `at`."""

    at: int = -1
    broken_at: int | None = None
    """The first entry that could not be read or did not follow, where the reader looked; the state is then not to be believed."""
    origin: str = ""
    key_epoch: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    actors: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    parts: int = 0
    redacted: int = 0
    runs: dict[str, RunState] = field(default_factory=dict)

    def take(self, entry: Entry) -> None:
        """Fold one entry in."""
        self.at = entry.seq
        self.kinds[entry.kind] += 1
        self.actors[entry.actor] += 1
        self.parts += len(entry.body)
        data = entry.data
        match entry.kind:
            case "log.genesis":
                self.origin = str(data.get("origin", ""))
            case "key.rotated":
                self.key_epoch = _number(data.get("epoch"))
            case "body.redacted":
                self.redacted += 1
            case "task.judged":
                self.verdicts["passed" if data.get("ok") is True else "rejected"] += 1
        if entry.run:
            self._take_run(entry)

    def _take_run(self, entry: Entry) -> None:
        run = self.runs.get(entry.run)
        if run is None:
            run = self.runs[entry.run] = RunState(
                run=entry.run, first_seq=entry.seq, last_seq=entry.seq, started_us=entry.ts, last_us=entry.ts
            )
        run.last_seq, run.last_us = entry.seq, entry.ts
        run.entries += 1
        data = entry.data
        run.state = str(data.get("state", "ended")) if entry.kind == "run.ended" else _MOVES.get(entry.kind, run.state)
        if entry.kind in ("run.ended", "run.retry_asked"):
            run.over = entry.kind == "run.ended"
        match entry.kind:
            case "task.attempted" | "role.asked" if str(data.get("provider", "")).startswith("panel:"):
                run.panels.add(entry.seq)
            case "task.attempted" | "role.asked":
                run.calling[entry.seq] = str(data.get("model", ""))
            case kind if kind in ASKS:
                run.calling[entry.seq] = run.asked[entry.seq] = str(data.get("model") or run.model_of(entry))
            case "run.claimed" | "run.interrupted" | "run.ended":
                run.calls += len(run.calling)
                self.models.update(run.calling.values())
                run.lost.update(run.calling)
                run.calling.clear()
            case "task.returned" | "role.answered" if run.panels.isdisjoint(entry.causes):
                model = str(data.get("model", ""))
                if run.lost.isdisjoint(entry.causes):
                    self.models[model] += 1
                    run.calls += 1
                run.answer(entry)
                run.spend(data, "input_tokens", "output_tokens", model)
            case kind if kind in TURNS:
                calls, model = calls_of_turn(entry), run.model_of(entry)
                if calls:
                    self.models[model] += calls
                if entry.kind == "tools.called":
                    run.asked[entry.seq] = model
                run.calls += calls
                run.answer(entry)
                run.spend(data, "prompt_tokens", "completion_tokens", model)
            case "gate.opened":
                run.undecided.add(str(data.get("gate")))
            case "gate.closed":
                run.undecided.discard(str(data.get("gate")))
        if entry.kind.startswith("task.") and "task" in data:
            run.take_task(str(data["task"]), _task_state(entry.kind, data.get("ok") is True))
        if run.state == "running" and run.open_gates and not run.under_way:
            run.state = "waiting"


def calls_of_turn(entry: Entry) -> int:
    """How many calls of models one of TURNS is. None are a panel that no model chose, a message that nobody was asked for, a
    failure whose calls were all for tools, each of which is an entry of its own, and a call that was refused and not made.
    """
    match entry.kind:
        case "panel.selected":
            return int("prompt_tokens" in entry.data)
        case "turn.taken" | "turn.failed":
            return _number(entry.data.get("calls", 1)) if "result" in entry.body else 0
    return 1


def fold(entries: Iterable[Entry]) -> LedgerState:
    """The state after these entries."""
    state = LedgerState()
    for entry in entries:
        state.take(entry)
    return state


def ended_state(first: Entry, last: Entry, entries: int) -> RunState | None:
    """The state of a run whose newest entry is its end, from what that entry says of it; None where it does not say it all."""
    spent = [last.data.get(name) for name in ("calls", "tokens", "cost_usd_nano")]
    if last.kind != "run.ended" or not all(type(each) is int for each in spent):
        return None
    calls, tokens, cost_usd_nano = map(_number, spent)
    priced = last.data.get("priced")
    return RunState(
        run=first.run,
        first_seq=first.seq,
        last_seq=last.seq,
        started_us=first.ts,
        last_us=last.ts,
        state=str(last.data.get("state", "ended")),
        entries=entries,
        calls=calls,
        tokens=tokens,
        cost_usd_nano=cost_usd_nano,
        priced=priced if isinstance(priced, bool) else None,
        over=True,
    )


async def follow(store: Store, after: int, query: Query | None = None) -> AsyncIterator[Entry]:
    """Entries as they are written, for ever, beginning behind `after`. Waiting happens off the event loop."""
    asked = query or Query()
    while True:
        size = await asyncio.to_thread(store.wait, after + 1, 1.0)
        if size <= after + 1:
            continue
        bounded = Query(run=asked.run, kind=asked.kind, actor=asked.actor, after=after, before=size)
        for entry in await asyncio.to_thread(lambda wanted: list(store.select(wanted)), bounded):
            yield entry
        after = size - 1


def _task_state(kind: str, ok: bool) -> str:
    if kind == "task.judged":
        return "passed" if ok else "rejected"
    return kind.removeprefix("task.")


def _number(value: object) -> int:
    return value if type(value) is int else 0
