"""One task at a time: attempts and the ladder, from the first attempt (or where an earlier driver left it) to the last."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from shlex import quote
from typing import NamedTuple

from hansard.domain.exchange import Completion, Exchange
from hansard.domain.fact import Body
from hansard.domain.work import TaskAttempted, TaskEscalated, TaskRestarted
from hansard.errors import StoreError
from hansard.ledger.entry import MAX_CAUSES, Entry
from hansard.orchestration.asking import Asker
from hansard.orchestration.calling import Held, Swallowed, Target, settle
from hansard.orchestration.contexts import Contexts, Gathered
from hansard.orchestration.escalate import Rung, next_rung
from hansard.orchestration.execute import WORKER_ROLE, Assignment, Rejection, actor, returned, seen, worker_exchange
from hansard.orchestration.fence import NO_TEXT, Kept, capped
from hansard.orchestration.judging import Came, Judged, Judging, recalled
from hansard.orchestration.plan import Plan, Task
from hansard.orchestration.progress import Progress
from hansard.orchestration.roles import Result
from hansard.orchestration.tasks import Attempt, TaskProgress
from hansard.orchestration.templates import WORKER
from hansard.providers.prompt import prompt_of
from hansard.providers.recording import Call
from hansard.record.reading import read_body, read_text
from hansard.record.recorder import Cause, Step, Within
from hansard.store.base import Store

NOTHING = Gathered()


class Passed(NamedTuple):
    """A result that passed: its verdict's entry, the result's entry, and as much of its text as prompts need.

    While the verdict is on its way to the record, `judged` is its place in the group: `~i` for the i-th step.
    """

    attempt: int
    judged: int
    returned: int
    text: Kept


class Ready(NamedTuple):
    """An attempt that may be recorded, and then made."""

    fact: TaskAttempted
    target: Target
    held: Held
    number: int


class Standing(NamedTuple):
    """Where a task stands before its next attempt, or with a verdict from which it may climb.

    `made` counts the attempts before it that failed in passing.
    """

    rung: Rung
    number: int = 0
    tries: int = 0
    made: int = 0
    causes: tuple[Cause, ...] = ()
    judged: Judged | None = None


class Attempts:
    """Takes tasks of one run through their attempts. `passed` is kept by the crew that this works for."""

    def __init__(
        self,
        plan: Plan,
        plan_seq: int,
        asker: Asker,
        progress: Progress,
        store: Store,
        passed: Mapping[str, Passed],
        contexts: Contexts,
    ) -> None:
        self._plan, self._plan_seq, self._asker, self._progress, self._store = plan, plan_seq, asker, progress, store
        self._caller = asker.caller
        self._journal, self._config, self._passed = asker.journal, asker.config, passed
        self._rejections: dict[str, list[Rejection]] = {}
        self.let_through: dict[str, tuple[int, ...]] = {}
        """Gates that a task went through, which cause its attempts too."""
        self.contexts = contexts
        self._gathered: dict[str, Gathered] = {}
        self._verdicts = progress.verdicts
        self.rungs = {lane: self._config.rungs(lane) for lane in {task.lane for task in plan.tasks}}
        leaves = sum(1 for task in plan.tasks if not plan.consumers[task.id]) or 1
        self._keep = max(self._config.tuning.upstream_chars, self._config.tuning.answer_chars // leaves)
        self._judging = Judging(asker, self._keep)

    async def through(self, task: Task, ready: Ready | None = None, attempted: int | None = None) -> Judged:
        """Attempts at a task until one passes or the ladder ends. `ready` is a first attempt that is recorded already."""
        rungs = self.rungs[task.lane]
        at = Standing(rung=rungs[0]) if ready else await self._standing(task)
        while True:
            judged = at.judged or await self._attempt(task, at, ready, attempted)
            ready = attempted = None
            if judged.ok or not judged.climbs:
                return judged
            tries = at.tries + 1
            above = at.rung if tries < self._config.tuning.tries else next_rung(rungs, at.rung.name)
            if above is None:
                return judged
            told = Rejection(attempt=judged.attempt, reasons=judged.reasons)
            self._rejections.setdefault(task.id, []).append(told)
            cause = await self._climb(task, judged, at.rung, above)
            again = tries if above is at.rung else 0
            at = Standing(rung=above, number=judged.attempt, tries=again, causes=(cause,))

    def ready(self, task: Task, rung: Rung, number: int, pending: Mapping[str, Passed]) -> Ready:
        """Prepare an attempt: its prompt, and what it may cost. Breach where the budget says no, or has ended the run."""
        if self._caller.stopped_by is not None:
            raise self._caller.stopped_by
        target = self._caller.target(rung.target)
        held = self._caller.reserve(self._exchange(task, rung, number, target, pending), target, task.lane)
        fact = TaskAttempted(
            task=task.id,
            lane=task.lane,
            attempt=number,
            rung=rung.name,
            provider=target.name,
            model=target.model_name,
            template=WORKER.id,
            prompt=Body.text(prompt_of(held[-1][1].exchange)),
            argv=Body.json(target.argv.encode()) if target.argv else None,
        )
        return Ready(fact, target, held, number)

    def inputs(self, task: Task, pending: Mapping[str, Passed]) -> list[Cause]:
        """What an attempt is caused by: the verdicts of its inputs, or the plan where it has none."""
        causes: list[Cause] = []
        for need in task.needs:
            found = pending.get(need.task) or self._passed.get(need.task)
            if found is not None:
                causes.append(Within(~found.judged) if found.judged < 0 else found.judged)
        given = self._gathered.get(task.id, NOTHING).seqs
        return [*(causes or [self._plan_seq]), *self.let_through.get(task.id, ()), *given]

    def text(self, seq: int, id: str) -> Kept:
        """A recorded output as later prompts need it."""
        return Kept.of(seen(self._whole(self._store.entry(seq), id)), self._keep)

    def _whole(self, result: Entry, id: str) -> str:
        text = read_text(self._store, result, "output")
        if text is None:
            raise StoreError(
                f"the output of task {id!r} (entry {result.seq}) is not in the ledger any more, so what needs it cannot be done; "
                f"`hansard runs retry {self._progress.run} {quote(id)} --ledger {quote(self._store.place)}` makes it again"
            )
        return text

    def failed_before(self, id: str) -> int | None:
        """The verdict with which a task had failed for good, where it still stands."""
        progress = self._progress.tasks.get(id)
        last = progress.last if progress else None
        if progress is None or last is None or last.judged is None or last.passed or self._has_moved_on(id, last):
            return None
        if progress.escalated is not None and progress.escalated > last.judged:
            return None
        may_climb = progress.tries < self._config.tuning.tries or next_rung(
            self.rungs[self._plan.task(id).lane], last.rung
        )
        return None if may_climb and not last.final else last.judged

    def _has_moved_on(self, id: str, attempt: Attempt) -> bool:
        """Whether the inputs are no longer those of this attempt."""
        built_on = self._progress.inputs_of(attempt.causes) & self._verdicts
        wanted = {self._passed[need.task].judged for need in self._plan.task(id).needs if need.task in self._passed}
        return built_on != wanted

    async def _standing(self, task: Task) -> Standing:
        """Where an earlier driver of this run left the task; the foot of the ladder for a new one."""
        foot = self.rungs[task.lane][0]
        progress = self._progress.tasks.get(task.id)
        last = progress.last if progress else None
        if progress is None or last is None:
            retry = (progress.retry,) if progress and progress.retry is not None else ()
            return Standing(rung=foot, number=progress.number if progress else 0, causes=retry)
        if self._has_moved_on(task.id, last):
            return Standing(rung=foot, number=last.number)
        self._recall(task.id, progress)
        rung = next((rung for rung in self.rungs[task.lane] if rung.name == progress.rung), foot)
        at = Standing(rung=rung, number=last.number, tries=progress.tries, made=progress.failed_in_passing)
        if last.judged is not None and progress.escalated is not None and progress.escalated > last.judged:
            return at._replace(causes=(progress.escalated,))
        if last.judged is not None and last.passed:
            return at._replace(judged=self._stands(task.id, last, last.judged))
        if last.judged is not None:
            # It was rejected, and the next step never came: `through` takes it from the verdict on.
            rejection = self._rejections[task.id].pop()
            judged = Judged(
                ok=False, reasons=rejection.reasons, text=NO_TEXT, attempt=last.number, climbs=not last.final
            )
            judged = judged._replace(judged=last.judged, returned=last.returned)
            return at._replace(tries=progress.tries - 1, judged=judged)
        if last.returned is None:
            return await self._restarted(task, progress, last, at)
        if not last.returned_ok:
            # It failed in passing, and the next try never came.
            return at._replace(causes=(last.returned,))
        answer = self._recorded_answer(last, task.id)
        target = self._caller.target(at.rung.target)
        programs = self._asker.given_up if self._asker.stuck else None
        came = Came(task, last.number, target, answer)
        judged = await self._judging.judge(came, result=last.returned, programs=programs)
        return at._replace(judged=judged)

    def _stands(self, id: str, last: Attempt, judged: int) -> Judged:
        """A result that passed, and that was built on what there is now."""
        assert last.returned is not None
        text = self.text(last.returned, id)
        return Judged(ok=True, reasons="", text=text, attempt=last.number, returned=last.returned, judged=judged)

    def _recorded_answer(self, last: Attempt, id: str) -> Completion:
        """A result that was recorded and not judged, as if it came now."""
        assert last.returned is not None
        result = self._store.entry(last.returned)
        model, finish = str(result.data["model"]), result.data["finish"]
        text = self._whole(result, id)
        if result.data.get("exit_code") is not None:
            # What a program prints is recorded as it came, and taken without the line ends behind it.
            text = seen(text)
        return Completion(provider="", requested_model=model, returned_model=model, text=text, finish=finish)

    def _recall(self, id: str, progress: TaskProgress) -> None:
        """What earlier attempts were rejected for, as the next one is told."""
        for attempt in progress.attempts:
            if attempt.judged is None or attempt.passed or attempt.seq < progress.begun:
                continue
            stored = read_body(self._store, self._store.entry(attempt.judged), "reasons")
            reasons = recalled(stored.body) if stored else "(not in the ledger any more)"
            self._rejections.setdefault(id, []).append(Rejection(attempt=attempt.number, reasons=reasons))

    async def _restarted(self, task: Task, progress: TaskProgress, last: Attempt, at: Standing) -> Standing:
        """An attempt was cut short by a crash: once more, within bounds."""
        if last.given_up:
            # An earlier driver has said so, and made no other: no crash cut this one short twice.
            return at._replace(causes=(progress.goes_on_from,))
        restarts = progress.restarts + (not last.interrupted and not last.advanced)
        ends_here = self._caller.means.number(task.id, last.number) == last.number
        if ends_here or restarts > self._config.tuning.restarts:
            return at._replace(judged=self._judging.swallowed(task, last.number, last.seq))
        fact = TaskRestarted(task=task.id, attempt=last.number, restarts=restarts)
        recorded = await self._journal.record(fact, "engine", [last.seq, *self._progress.claims[-1:]])
        return at._replace(causes=(recorded.seq,))

    async def _climb(self, task: Task, judged: Judged, rung: Rung, above: Rung) -> Cause:
        """Record the rejection and the step up; gives what causes the next attempt."""
        steps = list(judged.steps)
        if above is not rung:
            verdict: Cause = Within(len(steps) - 1) if judged.judged is None else judged.judged
            steps.append(
                Step(TaskEscalated(task=task.id, from_rung=rung.name, to_rung=above.name), "engine", [verdict])
            )
            return (await self._journal.record_all(steps))[-1].seq
        recorded = await self._journal.record_all(steps) if steps else []
        # Another try on the same rung: the verdict itself would look like an input, so the result stands for it.
        return judged.returned if judged.returned is not None else recorded[-2].seq

    def _exchange(self, task: Task, rung: Rung, number: int, target: Target, pending: Mapping[str, Passed]) -> Exchange:
        lane = self._config.roster.lane(task.lane)
        assert lane is not None
        inputs, missing = [], []
        most, told = self._config.tuning.upstream_chars, self._rejections.get(task.id, ())
        for need in task.needs:
            found = pending.get(need.task) or self._passed.get(need.task)
            if found is None:
                missing.append(need.task)
            elif need.kind == "data":
                text = found.text.capped(most)
                upstream = self._plan.task(need.task).lane
                inputs.append(Result(task=need.task, lane=upstream, attempt=found.attempt, text=text))
        rejections = tuple(replace(each, reasons=capped(each.reasons, most)) for each in told)
        context = self._gathered.get(task.id, NOTHING).texts
        assignment = Assignment(task, lane, number, rung.name, tuple(inputs), tuple(missing), rejections, context)
        return worker_exchange(assignment, self._caller.nonce, self._config.tuning, target.model)

    async def _attempt(self, task: Task, at: Standing, ready: Ready | None, attempted: int | None) -> Judged:
        """One attempt on a rung, and further ones after failures that pass by themselves."""
        causes, number, made = at.causes, at.number, at.made
        if task.id not in self._gathered and self.contexts.any_for(task.id):
            self._gathered[task.id] = await self.contexts.gather(task.id, [self._plan_seq])
        while True:
            if ready is None or attempted is None:
                ready = await self._affordable(task, at.rung, self._caller.means.number(task.id, number))
                attempted = await self._put(task, ready, causes)
            number, made = ready.number, made + 1
            try:
                completion = await self._caller.call(ready.target, ready.held, attempted)
            except Swallowed:
                return self._judging.swallowed(task, number, attempted)
            pause = self._caller.pause_s(completion, made, f"{task.id}|{at.rung.name}")
            if pause is None:
                came = Came(task, number, ready.target, completion)
                return await self._judging.judge(came, attempted=attempted)
            step = Step(returned(task.id, number, completion, pause), actor(task), [attempted])
            [recorded] = await self._journal.record_all([step])
            causes, ready, attempted = (recorded.seq,), None, None
            await self._caller.means.sleep(pause)

    async def _affordable(self, task: Task, rung: Rung, number: int) -> Ready:
        """An attempt once the budget allows it; Breach when no call that is under way could change that."""
        call = Call(WORKER_ROLE, task.id, number, 1)
        return await self._caller.affordable(
            call, task.lane, lambda: self.ready(task, rung, number, {}), lambda ready: settle(ready.held, None)
        )

    async def _put(self, task: Task, ready: Ready, extra: Sequence[Cause]) -> int:
        """Put an attempt on the record, before anybody is asked."""
        try:
            causes = self.inputs(task, {})
            if len(causes) + len(extra) > MAX_CAUSES:
                causes = list(await self._journal.gathered([each for each in causes if isinstance(each, int)]))
            return (await self._journal.record(ready.fact, actor(task), [*causes, *extra])).seq
        except BaseException:
            settle(ready.held, None)
            raise
