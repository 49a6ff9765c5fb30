"""How far a run has come: a fold over its own entries, from which a driver goes on. Reads kinds, data and causes; no bodies.

A result counts only while the entries that its attempt was built on are those that this fold would pass now. So what was built
on a rejected or repeated result is done again, and nothing of another plan can ever be taken for a result of this one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hansard.domain.budget import Spend
from hansard.domain.exchange import is_priced
from hansard.domain.kinds import KINDS
from hansard.domain.work import RunClaimed
from hansard.errors import Tampered
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import Gate
from hansard.orchestration.nested import is_panel
from hansard.orchestration.plan import Plan
from hansard.record.history import calls_of_turn
from hansard.record.replaying import SWALLOWED
from hansard.store.base import Claim, Freed

DRIVEN = frozenset(kind for kind, fact in KINDS.items() if fact.DRIVEN)
_OF_SESSIONS = (
    "session.convened",
    "turn.asked",
    "turn.taken",
    "turn.failed",
    "tools.called",
    "tools.returned",
    "session.ended",
)
_TIMED = ("task.returned", "role.answered", "run.interrupted")
_SETTLES = ("panel.selected", "ensemble.answered", "turn.taken", "turn.failed")
Asked = tuple[object, ...]
"""A question, however often it is put: the role, its task, and of that the attempt; or the session, the agent, the round and the
branch."""
_MOVES = ("gate.decided", "run.cancel_asked", "run.resume_asked", "run.retry_asked", "run.interrupted")


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One attempt at a task, as far as the record tells."""

    seq: int
    number: int
    rung: str
    model: str
    causes: tuple[int, ...]
    returned: int | None = None
    returned_ok: bool = False
    judged: int | None = None
    passed: bool = False
    final: bool = False
    """The verdict is not about the result, so that another rung would not help."""
    interrupted: bool = False
    """Its driver stopped in good order while it was made: no crash, and nothing that counts against it."""
    advanced: bool = False
    """Its session got further while it was made: a crash behind that does not count against it either."""
    given_up: bool = False
    """A crash cut it short, and another attempt took its place."""


@dataclass(slots=True, kw_only=True)
class TaskProgress:
    """What became of a task so far. `rung` is where its next attempt belongs, None for the first."""

    attempts: list[Attempt] = field(default_factory=list)
    rung: str | None = None
    escalated: int | None = None
    restarts: int = 0
    retry: int | None = None
    tries: int = 0
    skipped: int | None = None
    refused: int | None = None
    """Where it was skipped for good: people turned it away at a gate, or its lane had nothing left for it."""
    begun: int = -1
    """The first attempt of those that are built on the same: it went on from no other."""
    left: int = -1
    """The entry from which another attempt goes on."""

    @property
    def last(self) -> Attempt | None:
        """The newest attempt since somebody asked for a retry."""
        return self.attempts[-1] if self.attempts and self.attempts[-1].seq > (self.retry or -1) else None

    @property
    def passing(self) -> int:
        """How many of the newest attempts failed in passing; those that were cut short do not count."""
        made = 0
        for attempt in reversed(self.attempts):
            if attempt.seq < self.begun or attempt.judged is not None or attempt.returned_ok:
                break
            made += attempt.returned is not None
        return made

    @property
    def number(self) -> int:
        """The number of the newest attempt of all."""
        return self.attempts[-1].number if self.attempts else 0


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
    lanes: dict[str, Spend] = field(default_factory=dict)
    spent: Spend = field(default_factory=Spend)
    answered: int | None = None
    cancel_asked: int | None = None
    resumed_by: int | None = None
    ended: Entry | None = None
    gates: dict[str, Gate] = field(default_factory=dict)
    contexts: dict[tuple[str, str | None], Entry] = field(default_factory=dict)
    checked: dict[str, Entry] = field(default_factory=dict)
    revised: Entry | None = None
    asking: dict[int, Entry] = field(default_factory=dict)
    """Questions to roles that have no answer yet."""
    crashes: dict[Asked, list[int]] = field(default_factory=dict)
    """By question: where it was put, each time that a crash cut it short."""
    swallowed: dict[Asked, int] = field(default_factory=dict)
    """The entries that stand in place of answers, because of too many crashes."""
    panels: set[int] = field(default_factory=set)
    """Attempts and questions that a panel answers; what that takes is counted turn by turn."""
    lost: dict[int, str | None] = field(default_factory=dict)
    """Calls that were under way when a driver or the run ended, with their lanes. They were made, whatever came of them, and
    count."""
    moved: int = -1
    """The newest entry for whose sake somebody has to drive it."""
    seen: int = -1
    """The newest entry that was folded in."""
    left: int = -1
    """Where a driver last said that he has left."""
    deaths: int = 0
    """How many drivers died one after the other, of whom only the first had something to say: whatever they were at, nothing else
    was done meanwhile."""
    _lane_of: dict[str, str] = field(default_factory=dict)
    _task_of: dict[int | str, str] = field(default_factory=dict)
    """The task of an attempt, of a question to a role, of a session, of a question inside of one."""
    _calling: set[int] = field(default_factory=set)
    """Calls inside of sessions that have no answer yet."""
    _breaches: set[int] = field(default_factory=set)
    """Where a lane's budget said no."""
    _spoken: int = -1
    """The newest entry in which a driver said more than that he is there."""
    _turns: dict[int, Entry] = field(default_factory=dict)
    """Questions inside of sessions that led to nothing so far."""
    _spared: set[int] = field(default_factory=set)
    """Questions that no crash counts against: one has counted already, or what left them without an answer was none."""
    _asked_ts: dict[int, int] = field(default_factory=dict)
    _epoch_ts: int = 0

    def take(self, entry: Entry) -> None:
        """Fold one entry of the run in."""
        self.seen = entry.seq
        if entry.kind in _MOVES:
            self.moved = entry.seq
        if entry.kind in ("run.interrupted", "run.ended"):
            self.left = entry.seq
        if entry.kind in _SETTLES:
            self._settle(entry)
        data = entry.data
        # What people say may come while nobody drives: at a gate for days. Only a driver's own entries tell that it worked.
        if entry.kind in DRIVEN and entry.kind != RunClaimed.KIND and not _cannot(entry):
            self._spoken = entry.seq
        if self._epoch_ts and entry.kind != RunClaimed.KIND and entry.kind in DRIVEN:
            self.spent = replace(self.spent, elapsed_us=self.spent.elapsed_us + max(0, entry.ts - self._epoch_ts))
            self._epoch_ts = entry.ts
        if entry.kind in _TIMED:
            self._has_taken(data.get("elapsed_us"))
        match entry.kind:
            case "run.requested":
                self.requested, self.mode = entry.seq, str(data["mode"])
            case "run.configured":
                self.configured, self.nonce = entry.seq, str(data["nonce"])
            case "run.claimed":
                self.claim(entry.seq)
                self._epoch_ts = entry.ts
            case "run.routed":
                self.routed.append(entry)
            case "plan.made":
                self.plan, self.plan_causes = entry.seq, entry.causes
                if data["by"] != "edit":
                    self.first_plan = entry.seq
            case "results.joined":
                self.joined[entry.seq] = entry.causes
            case "role.asked":
                self.asking[entry.seq] = entry
                self._asks(entry)
            case "role.answered":
                asked = self.asking.pop(entry.causes[0], None) if entry.causes else None
                if asked and data.get("error") == SWALLOWED:
                    self.swallowed[_asked(asked)] = entry.seq
                self._spend(entry, asked.data.get("task") if asked else None)
            case kind if kind in _OF_SESSIONS:
                self._take_session(entry)
            case "context.given":
                self.contexts[str(data["source"]), data.get("task")] = entry
            case "answer.checked":
                self.checked[str(data["check"])] = entry
            case "answer.revised":
                self.revised = entry
            case "persona.made":
                self.crashes.clear()
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
            case "run.interrupted" if data["by"] != "error":
                self._spared.update(self.asking, self._turns)
                for _, attempt in self.attempting:
                    attempt.interrupted = True
            case "run.ended":
                self.ended = entry
                self.lose()
            case "gate.opened" | "gate.decided" | "gate.closed":
                take_gate(self.gates, entry)
            case _ if entry.kind.startswith("task."):
                self._take_task(entry)

    def _has_taken(self, elapsed_us: object) -> None:
        """What a driver said that it took so far goes before what the times of entries tell: clocks are set, machines sleep."""
        if type(elapsed_us) is int:
            self.spent = replace(self.spent, elapsed_us=elapsed_us)

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
        self.count_crashes()
        self.lose()

    def count_crashes(self) -> None:
        """Somebody goes on from here: what is under way was cut short."""
        put = self.asking | self._turns
        for asked in put.keys() - self._spared:
            self.crashes.setdefault(_asked(put[asked]), []).append(asked)
        self._spared.update(put)

    @property
    def rests(self) -> bool:
        """Whether it waits at a gate, as its last driver left it: nothing is under way, and nobody has said anything since."""
        waits = any(gate.closed is None for gate in self.gates.values()) and self.moved < max(self.claims, default=-1)
        return waits and not self._under_way().keys() - self.lost.keys()

    @property
    def seems_driven(self) -> bool:
        """Whether somebody took it who has neither left nor come to a gate, as far as the record tells."""
        return max(self.claims, default=-1) > self.left and all(gate.closed is not None for gate in self.gates.values())

    def _under_way(self) -> dict[int, str]:
        """Calls that have no answer yet, with their tasks."""
        left = {attempt.seq: id for id, attempt in self.attempting}
        left |= {asked: str(entry.data.get("task") or "") for asked, entry in self.asking.items()}
        return left | {call: self._task_of.get(call, "") for call in self._calling}

    def lose(self) -> None:
        """Whatever is under way has no answer any more."""
        left = self._under_way()
        self._calling.clear()
        for call in left.keys() - self.lost.keys() - self.panels:
            self.lost[call] = self._lane_of.get(left[call])
            self._count(left[call], 1, 0, 0, 0)

    def _take_task(self, entry: Entry) -> None:
        data = entry.data
        task = self.tasks.setdefault(str(data["task"]), TaskProgress())
        match entry.kind:
            case "task.attempted":
                self._lane_of[str(data["task"])] = str(data["lane"])
                self._asks(entry)
                rung = str(data["rung"])
                if task.left not in entry.causes:
                    task.begun, task.restarts, task.tries = entry.seq, 0, 0
                number, model = int(data["attempt"]), str(data["model"])
                task.attempts.append(Attempt(seq=entry.seq, number=number, rung=rung, model=model, causes=entry.causes))
                task.rung = rung
            case "task.returned":
                attempt = _attempt(task, entry)
                attempt.returned, attempt.returned_ok = entry.seq, data["ok"] is True
                task.left = entry.seq
                self._spend(entry, str(data["task"]))
            case "task.judged":
                attempt = _attempt(task, entry)
                attempt.judged, attempt.passed = entry.seq, data["ok"] is True
                attempt.final = data["by"] == "engine" and attempt.returned not in entry.causes
                task.tries = 0 if attempt.passed else task.tries + 1
            case "task.escalated":
                task.rung, task.escalated, task.tries = str(data["to_rung"]), entry.seq, 0
                task.left = entry.seq
            case "task.restarted":
                task.restarts, task.left = int(data["restarts"]), entry.seq
                _attempt(task, entry).given_up = True
            case "task.skipped":
                task.skipped = entry.seq
                is_refused = data["because"] == "gate" or not self._breaches.isdisjoint(entry.causes)
                task.refused = entry.seq if is_refused else None

    def _retry(self, entry: Entry) -> None:
        """Somebody wants a task done again: whatever was said of it, of the answer and of the end no longer counts."""
        task = self.tasks.setdefault(str(entry.data["task"]), TaskProgress())
        task.retry, task.rung, task.escalated = entry.seq, None, None
        if self.ended is not None:
            self._has_taken(self.ended.data.get("elapsed_us"))
        for each in self.tasks.values():
            each.skipped = each.refused = None
        self.ended = self.answered = self.cancel_asked = self.revised = None
        self.checked, self.crashes, self.swallowed, self.deaths = {}, {}, {}, 0
        self._spared.update(self.asking)

    def _asks(self, entry: Entry) -> None:
        self._task_of[entry.seq] = str(entry.data.get("task") or "")
        if is_panel(entry.data["provider"]):
            self.panels.add(entry.seq)

    def _take_session(self, entry: Entry) -> None:
        """A session inside of the run: each of its calls is spent when it comes back, whatever becomes of the session."""
        data = entry.data
        self._calling.difference_update(entry.causes)
        match entry.kind:
            case "session.convened":
                self._task_of[str(data["session"])] = self._task_of.get(entry.causes[0], "") if entry.causes else ""
            case "turn.asked":
                self._task_of[entry.seq] = self._task_of.get(str(data["session"]), "")
                self._asked_ts[entry.seq] = entry.ts
                self._calling.add(entry.seq)
                self._turns[entry.seq] = entry
            case "tools.returned":
                # The model is asked again. What the tools took is no time of a call.
                self._task_of[entry.seq] = self._task_of.get(entry.causes[0], "") if entry.causes else ""
                self._asked_ts[entry.seq] = entry.ts
                self._calling.add(entry.seq)
            case "session.ended":
                self._advance(self._task_of.get(str(data["session"]), ""))
            case "tools.called":
                self._task_of[entry.seq] = self._count_turn(entry)
            case _ if "result" in entry.body:
                task = self._count_turn(entry)
                if entry.kind == "turn.taken":
                    self._advance(task)

    def _settle(self, entry: Entry) -> None:
        """Something came of a question inside of a session: crashes before that no longer count."""
        for seq in entry.causes:
            if (asked := self._turns.pop(seq, None)) is not None:
                self.crashes.pop(_asked(asked), None)

    def _advance(self, id: str) -> None:
        task = self.tasks.get(id)
        if task is not None and task.last is not None:
            task.last.advanced = True
        self._spared |= {asked for asked in self.asking.keys() & self.panels if self._task_of[asked] == id}

    def _count_turn(self, entry: Entry) -> str:
        """Count what a model was asked last in a turn; comes back whose task that was."""
        data = entry.data
        asked = max((seq for seq in entry.causes if seq in self._asked_ts), default=None)
        # Older records do not say it: what went by between the entries is about as much.
        took_us = data.get("latency_us", max(0, entry.ts - self._asked_ts[asked]) if asked is not None else 0)
        task = self._task_of.get(asked, "") if asked is not None else ""
        tokens = int(data["prompt_tokens"]) + int(data["completion_tokens"])
        priced = is_priced(tokens, data.get("cost_basis"))
        self._count(task, calls_of_turn(entry), tokens, int(data.get("cost_usd_nano", 0)), took_us, priced)
        return task

    def _spend(self, entry: Entry, task: str | None) -> None:
        data = entry.data
        if self.panels.isdisjoint(entry.causes):
            tokens, cost = int(data["input_tokens"]) + int(data["output_tokens"]), int(data["cost_usd_nano"])
            calls = 1 if self.lost.keys().isdisjoint(entry.causes) else 0
            self._count(task, calls, tokens, cost, int(data["latency_us"]), is_priced(tokens, data["cost_basis"]))

    def _count(
        self, task: str | None, calls: int, tokens: int, cost_usd_nano: int, took_us: int, priced: bool = True
    ) -> None:
        self.spent = self.spent.more(calls, tokens, cost_usd_nano, priced=priced)
        lane = self._lane_of.get(task) if task else None
        if lane is not None:
            self.lanes[lane] = self.lanes.get(lane, Spend()).more(calls, tokens, cost_usd_nano, took_us)

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


def _asked(entry: Entry) -> Asked:
    about = ("role", "task", "attempt") if entry.kind == "role.asked" else ("session", "agent", "round", "branch_depth")
    return tuple(entry.data.get(name) for name in about)


def _attempt(task: TaskProgress, entry: Entry) -> Attempt:
    number = int(entry.data["attempt"])
    found = next((attempt for attempt in reversed(task.attempts) if attempt.number == number), None)
    if found is None:
        raise Tampered(f"entry {entry.seq} ({entry.kind}) is about attempt {number}, which nobody has made")
    return found


def progress_of(run: str, entries: Iterable[Entry]) -> Progress:
    """The progress after these entries of a run."""
    progress = Progress(run=run)
    for entry in entries:
        progress.take(entry)
    return progress
