"""How far a run has come: a fold over its own entries, from which a driver goes on. Reads kinds, data and causes; no bodies.

A result counts only while the entries that its attempt was built on are those that this fold would pass now. So what was built
on a rejected or repeated result is done again, and nothing of another plan can ever be taken for a result of this one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hansard.domain.budget import Spend
from hansard.domain.kinds import DRIVEN
from hansard.domain.work import RunClaimed
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import Gate
from hansard.orchestration.plan import Plan
from hansard.orchestration.questions import Questions
from hansard.orchestration.spending import Spending
from hansard.orchestration.tasks import Attempt, TaskProgress
from hansard.store.base import Claim, Freed

_MOVES = ("gate.decided", "run.cancel_asked", "run.resume_asked", "run.retry_asked", "run.interrupted")


@dataclass(slots=True, kw_only=True)
class Progress:
    """A run as its entries tell it. Seqs, not values: bodies are read when they are needed."""

    run: str
    mode: str = ""
    requested: int | None = None
    configured: int | None = None
    nonce: str = ""
    claims: list[int] = field(default_factory=list)
    routed: list[Entry] = field(default_factory=list)
    plan: int | None = None
    plan_causes: tuple[int, ...] = ()
    first_plan: int | None = None
    """The plan as it was before anybody edited it at a gate."""
    tasks: dict[str, TaskProgress] = field(default_factory=dict)
    joined: dict[int, tuple[int, ...]] = field(default_factory=dict)
    answered: int | None = None
    cancel_asked: int | None = None
    resumed_by: int | None = None
    ended: Entry | None = None
    gates: dict[str, Gate] = field(default_factory=dict)
    contexts: dict[tuple[str, str | None], Entry] = field(default_factory=dict)
    checked: dict[str, Entry] = field(default_factory=dict)
    revised: Entry | None = None
    questions: Questions = field(default_factory=Questions)
    spending: Spending = field(default_factory=Spending)
    moved: int = -1
    """The newest entry for whose sake somebody has to drive it."""
    seen: int = -1
    """The newest entry that was folded in."""
    left: int = -1
    """Where a driver last said that he has left."""
    deaths: int = 0
    """How many drivers died one after the other, of whom only the first had something to say: whatever they were at, nothing else
    was done meanwhile."""
    _breaches: set[int] = field(default_factory=set)
    """Where a lane's budget said no."""
    _spoken: int = -1
    """The newest entry in which a driver said more than that he is there."""

    def take(self, entry: Entry) -> None:
        """Fold one entry of the run in."""
        self.seen = entry.seq
        self.questions.take(entry)
        self.spending.take(entry)
        # What people say may come while nobody drives: at a gate for days. Only a driver's own entries tell that it worked.
        if entry.kind in DRIVEN and entry.kind != RunClaimed.KIND and not _cannot(entry):
            self._spoken = entry.seq
        if entry.kind in _MOVES:
            self.moved = entry.seq
        data = entry.data
        match entry.kind:
            case kind if kind.startswith("task."):
                self._take_task(entry)
            case "run.requested":
                self.requested, self.mode = entry.seq, str(data["mode"])
            case "run.configured":
                self.configured, self.nonce = entry.seq, str(data["nonce"])
            case "run.claimed":
                self.claim(entry.seq)
            case "run.routed":
                self.routed.append(entry)
            case "plan.made":
                self.plan, self.plan_causes = entry.seq, entry.causes
                if data["by"] != "edit":
                    self.first_plan = entry.seq
            case "results.joined":
                self.joined[entry.seq] = entry.causes
            case "context.given":
                self.contexts[str(data["source"]), data.get("task")] = entry
            case "answer.checked":
                self.checked[str(data["check"])] = entry
            case "answer.revised":
                self.revised = entry
            case "run.answered":
                self.answered = entry.seq
            case "budget.breached" if data.get("lane"):
                self._breaches.add(entry.seq)
            case "run.cancel_asked":
                self.cancel_asked = entry.seq
            case "run.resume_asked":
                self.resumed_by = entry.seq
            case "run.retry_asked":
                self._retry(entry)
            case "run.interrupted":
                self._interrupted(entry)
            case "run.ended":
                self.ended, self.left = entry, entry.seq
                self.lose()
            case "gate.opened" | "gate.decided" | "gate.closed":
                take_gate(self.gates, entry)
            case "session.ended":
                self._advance(str(data["session"]))
            case "turn.taken" if "result" in entry.body:
                self._advance(entry.seq)

    @property
    def spent(self) -> Spend:
        """What it took so far."""
        return self.spending.spent

    def freed(self, claim: Claim) -> Freed:
        """Why a driver may take over. What a store knows of claims is not what the record knows of drivers: it forgets those of
        long ago, and whoever puts a run on the record under an id of the caller's own claims it before there is one.
        """
        if not self.claims:
            return "new"
        return "resumed" if claim.because == "new" else claim.because

    @property
    def died(self) -> int:
        """The deaths, with that of whoever had it last. Who could not go on, and said so, has done nothing about them."""
        again = 0 if self._spoken > max(self.claims, default=-1) else self.deaths
        return again + self.seems_driven

    def claim(self, seq: int) -> None:
        """A driver takes over: what the one before it left under way is lost."""
        self.deaths = self.died
        self.claims.append(seq)
        self.questions.count_crashes()
        self.lose()

    @property
    def rests(self) -> bool:
        """Whether it waits at a gate, as its last driver left it: nothing is under way, and nobody has said anything since."""
        waits = any(gate.closed is None for gate in self.gates.values()) and self.moved < max(self.claims, default=-1)
        return waits and not self._under_way().keys() - self.spending.lost.keys()

    @property
    def seems_driven(self) -> bool:
        """Whether somebody took it who has neither left nor come to a gate, as far as the record tells."""
        return max(self.claims, default=-1) > self.left and all(gate.closed is not None for gate in self.gates.values())

    def _under_way(self) -> dict[int, str]:
        """Calls that have no answer yet, with their tasks."""
        tasks = {attempt.seq: id for id, attempt in self.attempting}
        under_way = (*self.questions.asking, *self.spending.calling)
        return tasks | {call: self.spending.task_of.get(call, "") for call in under_way}

    def lose(self) -> None:
        """Whatever is under way has no answer any more."""
        self.spending.lose(self._under_way())

    def _interrupted(self, entry: Entry) -> None:
        """A driver has left in good order, or because of an error."""
        self.left = entry.seq
        if entry.data["by"] != "error":
            for _, attempt in self.attempting:
                attempt.interrupted = True

    def _take_task(self, entry: Entry) -> None:
        task = self.tasks.setdefault(str(entry.data["task"]), TaskProgress())
        task.take(entry)
        if entry.kind == "task.skipped" and not self._breaches.isdisjoint(entry.causes):
            task.refused = entry.seq

    def _retry(self, entry: Entry) -> None:
        """Somebody wants a task done again: whatever was said of it, of the answer and of the end no longer counts."""
        task = self.tasks.setdefault(str(entry.data["task"]), TaskProgress())
        task.retry, task.rung, task.escalated = entry.seq, None, None
        if self.ended is not None:
            self.spending.has_taken(self.ended.data.get("elapsed_us"))
        for each in self.tasks.values():
            each.skipped = each.refused = None
        self.ended = self.answered = self.cancel_asked = self.revised = None
        self.checked, self.deaths = {}, 0

    def _advance(self, of: int | str) -> None:
        """A session, or a turn inside of one, came to something: no crash counts any more against what waits for it."""
        id = self.spending.task_of.get(of, "")
        task = self.tasks.get(id)
        if task is not None and task.last is not None:
            task.last.advanced = True
        panels = self.questions.asking.keys() & self.spending.panels
        self.questions.spare(asked for asked in panels if self.spending.task_of[asked] == id)

    @property
    def attempting(self) -> list[tuple[str, Attempt]]:
        """Attempts that have neither a result nor a verdict yet."""
        return [
            (id, each)
            for id, task in self.tasks.items()
            for each in task.attempts
            if each.returned is None and each.judged is None and not each.given_up
        ]

    @property
    def unjudged(self) -> bool:
        """Whether a result has no verdict yet."""
        newest = (task.last for task in self.tasks.values())
        return any(each is not None and each.returned_ok and each.judged is None for each in newest)

    def inputs_of(self, causes: Iterable[int]) -> set[int]:
        """The entries that an attempt was built on, with joined results opened up."""
        found: set[int] = set()
        waiting = list(causes)
        while waiting:
            seq = waiting.pop()
            if seq in self.joined:
                waiting += self.joined[seq]
            else:
                found.add(seq)
        return found

    @property
    def verdicts(self) -> frozenset[int]:
        """The entries of all verdicts."""
        tasks = self.tasks.values()
        return frozenset(each.judged for task in tasks for each in task.attempts if each.judged is not None)

    def passing(self, plan: Plan) -> dict[str, Attempt]:
        """The attempts whose verdicts still stand, in the order of the plan's edges."""
        passing: dict[str, Attempt] = {}
        verdicts = self.verdicts
        for id in plan.order:
            progress = self.tasks.get(id)
            last = progress.last if progress else None
            if last is None or last.judged is None or not last.passed:
                continue
            # What the attempt may have been built on besides: the verdict that sent it up the ladder stands behind
            # `task.escalated`, so every verdict among its causes is an input.
            built_on = self.inputs_of(last.causes) & verdicts
            wanted = {passing[need.task].judged for need in plan.task(id).needs if need.task in passing}
            if built_on == wanted:
                passing[id] = last
        return passing


def take_gate(gates: dict[str, Gate], entry: Entry) -> None:
    """Fold one entry about a gate in; a decision about no gate that was opened changes nothing."""
    id = str(entry.data["gate"])
    if entry.kind == "gate.opened":
        gates[id] = Gate(id=id, rule=str(entry.data["rule"]), opened=entry)
    elif entry.kind == "gate.decided" and id in gates:
        gates[id].decisions.append(entry)
    elif entry.kind == "gate.closed" and id in gates:
        gates[id].closed = entry


def _cannot(entry: Entry) -> bool:
    return entry.kind == "run.interrupted" and entry.data["by"] == "error"


def progress_of(run: str, entries: Iterable[Entry]) -> Progress:
    """The progress after these entries of a run."""
    progress = Progress(run=run)
    for entry in entries:
        progress.take(entry)
    return progress
