"""Works through a plan until nothing is left to do: starts what may start, passes results on, skips what lost its ground.

Dataflow: each task is a coroutine that starts when the schedule lets it. A verdict and the attempt that it sets free stand in
one commit, so a chain costs one commit a task. Consumers see a result only when its verdict is on the record with it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from hansard.domain.work import BudgetBreached, TaskSkipped
from hansard.ledger.entry import MAX_CAUSES
from hansard.orchestration.asking import Asker
from hansard.orchestration.attempting import Attempts, Passed, Ready
from hansard.orchestration.contexts import Contexts
from hansard.orchestration.execute import actor
from hansard.orchestration.fence import NO_TEXT
from hansard.orchestration.gatekeeping import Gatekeeper, Shown
from hansard.orchestration.judging import Judged
from hansard.orchestration.plan import Plan, Task
from hansard.orchestration.progress import Progress
from hansard.orchestration.purse import Breach
from hansard.orchestration.schedule import Schedule, Skip
from hansard.record.recorder import Cause, Step, Within
from hansard.store.base import Store

RUN_KEY = "run"
LOOK_S = 0.5
MAX_SHOWN = 500
TOGETHER = 125
"""How many tasks start with one commit at most: nobody else gets a turn while their prompts are made."""


class Crew:
    """The work of one run, from its plan to the last verdict."""

    def __init__(
        self,
        plan: Plan,
        plan_seq: int,
        asker: Asker,
        progress: Progress,
        store: Store,
        gatekeeper: Gatekeeper,
        contexts: Contexts,
    ) -> None:
        self.plan = plan
        self._plan_seq, self._store, self._gatekeeper = plan_seq, store, gatekeeper
        self.passed: dict[str, Passed] = {}
        self.lost: dict[str, int] = {}
        """Tasks that failed or were skipped, with the entry that says so."""
        self.breach: int | None = None
        """The entry that says that the run's budget ended, and in words what."""
        self.breach_said = ""
        self._caller, self._journal, self._config, self._progress = asker.caller, asker.journal, asker.config, progress
        self._number = asker.caller.means.number
        self._attempts = Attempts(plan, plan_seq, asker, progress, store, self.passed, contexts)
        self._rules = {task.id: rules for task in plan.tasks if (rules := gatekeeper.rules_for(task))}
        """Those before which a task waits, of each that has to."""
        self._shows: dict[str, Shown] = {}
        """What deciders see of a task that stands at a gate: its inputs are settled, so that it stays the same."""
        self.schedule = Schedule(plan, limits=self._limits(), keys=self._keys, held=self._rules)
        self._edited: dict[str, Task] = {}
        self._on_their_way: dict[str, asyncio.Event] = {}
        """Tasks that are settled and whose last entry is not on the record yet."""
        self._idle = asyncio.Event()

    def _limits(self) -> dict[str, int]:
        if self._caller.means.turn is not None:
            # Whoever waits for his turn would have a place that somebody before him needs.
            return {}
        limits = {RUN_KEY: self._config.policy.max_parallel}
        for lane in self._config.roster.lanes:
            if lane.max_parallel is not None:
                limits[f"lane:{lane.name}"] = lane.max_parallel
        for name, table in self._config.providers.items():
            if isinstance(most := table.get("max_concurrent"), int):
                limits[f"provider:{name}"] = most
        return limits

    def _keys(self, task: Task) -> tuple[str, ...]:
        provider = self._attempts.rungs[task.lane][0].target.partition(":")[0]
        return (RUN_KEY, f"lane:{task.lane}", f"provider:{provider}")

    async def work(self) -> None:
        """Do what is left of the plan. Afterwards every task has passed or is lost, or waits at a gate, or a breach stopped it."""
        await self._restore()
        try:
            async with asyncio.TaskGroup() as self._group:
                await self._at_the_gates()
                self._launch()
                # Whatever a breach stopped stays busy, and nothing starts behind it.
                while self._rules and not self.schedule.halted and (self.schedule.busy or self._on_their_way):
                    await self._until_idle(LOOK_S)
                    await self._at_the_gates()
        except BaseExceptionGroup as errors:
            raise _first(errors) from None

    async def _restore(self) -> None:
        """Take over what the record says: results that still stand, and tasks that are lost for good.

        What was done without a task that is to be done now waits for it: `Attempts` knows then whether it stands.
        """
        if not self._progress.tasks:
            return
        passing = await asyncio.to_thread(self._progress.passing, self.plan)
        for id in self.plan.order:
            if any(need.task not in self.passed and need.task not in self.lost for need in self.plan.task(id).needs):
                continue
            if (attempt := passing.get(id)) is not None:
                assert attempt.judged is not None
                assert attempt.returned is not None
                self.passed[id] = Passed(attempt.number, attempt.judged, attempt.returned, NO_TEXT)
                self.schedule.passed(id)
            elif self.schedule.state(id) != "skipped" and (said := self._lost_before(id)) is not None:
                self.lost[id] = said
                await self._skip(self._still_to_skip(self.schedule.failed(id)))
        # Of thousands this takes a while, and whoever else is driven here goes on meanwhile.
        self.passed |= await asyncio.to_thread(self._with_texts, dict(self.passed))

    def _with_texts(self, passed: Mapping[str, Passed]) -> dict[str, Passed]:
        """The same with what the record has of their texts."""
        return {id: each._replace(text=self._attempts.text(each.returned, id)) for id, each in passed.items()}

    def _lost_before(self, id: str) -> int | None:
        """The entry that says that a task is lost for good: a verdict, or that it was refused."""
        progress = self._progress.tasks.get(id)
        return progress.refused if progress and progress.refused is not None else self._attempts.failed_before(id)

    def _still_to_skip(self, skips: Sequence[Skip]) -> list[Skip]:
        """What the record does not call skipped yet."""
        for skip in skips:
            progress = self._progress.tasks.get(skip.task)
            if progress is not None and progress.skipped is not None:
                self.lost[skip.task] = progress.skipped
        return [skip for skip in skips if skip.task not in self.lost]

    def _launch(self) -> None:
        if self.schedule.ready and (tasks := [self._edited.get(task.id, task) for task in self.schedule.start()]):
            self._group.create_task(self._begin(tasks))
        if self.schedule.holding or not self.schedule.busy:
            self._idle.set()

    async def _begin(self, tasks: Sequence[Task]) -> None:
        """Start tasks: many at once share the commits of their first attempts. While some are written, the next are made.

        Those that an earlier driver has begun come first: what they took is lost where nothing is left for them.
        """
        begun = [task for task in tasks if task.id in self._progress.tasks]
        new = [task for task in tasks if task.id not in self._progress.tasks]
        for task in begun:
            self._group.create_task(self._one(task))
        if begun and new:
            await self._caller.before_others(task.id for task in begun)
        for at in range(0, len(new), TOGETHER):
            self._group.create_task(self._enter(new[at : at + TOGETHER]))
            await asyncio.sleep(0)

    async def _enter(self, new: Sequence[Task]) -> None:
        """Put first attempts on the record, in one commit, and make them. Nothing comes between setting aside what they may take
        and saying so: an answer that counts in between would stand before them.
        """
        some = [(task, self._first_attempt(task, {})) for task in new]
        steps = [Step(ready.fact, actor(task), self._attempts.inputs(task, {})) for task, ready in some if ready]
        recorded = iter(await self._journal.record_all(steps) if steps else ())
        for task, ready in some:
            self._group.create_task(self._one(task, ready, next(recorded).seq if ready else None))

    async def _until_idle(self, longest_s: float) -> None:
        """Wait a little, or until something changed that may concern a gate."""
        self._idle.clear()
        try:
            async with asyncio.timeout(longest_s):
                await self._idle.wait()
        except TimeoutError:
            return

    async def _at_the_gates(self) -> None:
        """Open the gates before which tasks stand now, and let through whom people let through."""
        if not self.schedule.holding:
            return
        await self._gatekeeper.listen()
        # First: at a task that is to be done again another gate takes the place of one that is open, and not of one that is over.
        await self._gatekeeper.expire()
        looked: set[str] = set()
        # Whoever is turned away may make others come to theirs.
        while fresh := [id for id in self.schedule.holding if id not in looked]:
            looked.update(fresh)
            for id in fresh:
                await self._at_a_gate(self.plan.task(id))
        self._launch()

    async def _at_a_gate(self, task: Task) -> None:
        if self._awaited(task):
            return
        if task.id not in self._shows:
            # It may be built on thousands of results.
            self._shows[task.id] = await asyncio.to_thread(self._shown, task)
        passage = await self._gatekeeper.passage(self._rules[task.id], task, self._shows[task.id])
        if passage is None:
            return
        if passage.text is None:
            await self._turned_away(task, passage.closed[-1])
            return
        self._edited[task.id] = replace(task, instruction=passage.text)
        self._attempts.let_through[task.id] = passage.closed
        self.schedule.release(task.id)

    async def _turned_away(self, task: Task, closed: int) -> None:
        fact = TaskSkipped(task=task.id, because="gate")
        await self._lost(task, self.schedule.skipped(task.id), [Step(fact, "engine", [closed])])

    def _shown(self, task: Task) -> Shown:
        """What deciders see of a task: its instruction, and the results that it is built on."""
        inputs = [self.passed[need.task] for need in task.needs if need.task in self.passed]
        others = tuple(self._store.entry(each.returned).body["output"] for each in inputs)
        causes = tuple(each.judged for each in inputs) or (self._plan_seq,)
        plan = self._store.entry(self._plan_seq).body["plan"]
        # Of more than an entry holds the rest is bound by one digest: whoever approved did not approve other results.
        rest = (sha256("\n".join(others[MAX_SHOWN:]).encode()).hexdigest(),) if len(others) > MAX_SHOWN else ()
        shown = (*others[:MAX_SHOWN], *rest)
        return Shown(text=task.instruction, commitment=plan, others=shown, causes=causes[:MAX_CAUSES])

    async def _one(self, task: Task, ready: Ready | None = None, attempted: int | None = None) -> None:
        """One task from its first attempt to its last verdict, and what that sets free."""
        task = self._edited.get(task.id, task)
        for recorded in self._awaited(task):
            await recorded.wait()
        try:
            judged = await self._attempts.through(task, ready, attempted)
        except Breach as breach:
            await self._stopped_by(breach, task)
            return
        finally:
            self._caller.serve(task.id)
        if judged.ok:
            await self._pass(task, judged)
        else:
            await self._lose(task, judged)

    def _awaited(self, task: Task) -> list[asyncio.Event]:
        """What must be on the record before this task may be built on it."""
        return [self._on_their_way[need.task] for need in task.needs if need.task in self._on_their_way]

    def _arrived(self, *ids: str) -> None:
        for id in ids:
            if recorded := self._on_their_way.pop(id, None):
                recorded.set()

    async def _pass(self, task: Task, judged: Judged) -> None:
        """Record the verdict together with the first attempt that it sets free, then start whatever else may start."""
        self.schedule.passed(task.id)
        following = next(self.schedule.start(), None) if self.schedule.ready else None
        following = self._edited.get(following.id, following) if following else None
        steps, pending = list(judged.steps), {}
        if judged.judged is not None:
            self.passed[task.id] = _passed(judged, judged.judged, judged.returned or 0)
        elif following:
            pending = {task.id: _passed(judged, ~(len(steps) - 1), judged.returned or 0)}
        ready = self._first_attempt(following, pending) if following else None
        if self.plan.consumers[task.id]:
            self._on_their_way[task.id] = asyncio.Event()
        if ready and following:
            steps.append(Step(ready.fact, actor(following), self._attempts.inputs(following, pending)))
        recorded = [each.seq for each in await self._journal.record_all(steps)] if steps else []
        if judged.judged is None:
            at = len(judged.steps) - 1
            result = judged.returned if judged.returned is not None else recorded[at - 1]
            self.passed[task.id] = _passed(judged, recorded[at], result)
        self._arrived(task.id)
        if following:
            self._group.create_task(self._one(following, ready, recorded[-1] if ready else None))
        self._launch()

    def _first_attempt(self, task: Task, pending: dict[str, Passed]) -> Ready | None:
        """The first attempt of a new task; None where something else comes first, which its own coroutine sees to."""
        busy = task.id in self._progress.tasks or self._attempts.contexts.any_for(task.id) or self._awaited(task)
        if busy or len(task.needs) >= MAX_CAUSES:
            return None
        rung, number = self._attempts.rungs[task.lane][0], self._number(task.id, 0)
        return self._caller.at_once(lambda: self._attempts.ready(task, rung, number, pending))

    async def _lose(self, task: Task, judged: Judged) -> None:
        await self._lost(task, self.schedule.failed(task.id), judged.steps, judged.judged)
        self._launch()

    async def _lost(self, task: Task, skips: Sequence[Skip], steps: Sequence[Step], said: int | None = None) -> None:
        """Put on the record why a task is lost, where nothing has `said` it, and what is skipped with it. Whatever goes on
        without them waits for that.
        """
        gone = (task.id, *(skip.task for skip in skips))
        self._on_their_way |= {id: asyncio.Event() for id in gone}
        recorded = await self._journal.record_all(steps) if steps else []
        verdict = recorded[-1].seq if recorded else said
        assert verdict is not None
        self.lost[task.id] = verdict
        await self._skip(skips)
        self._arrived(*gone)

    async def _skip(self, skips: Sequence[Skip]) -> None:
        """Record what is skipped, each caused by the entry that says why."""
        if not skips:
            return
        place = {skip.task: number for number, skip in enumerate(skips)}
        steps = []
        for skip in skips:
            cause: Cause = Within(place[skip.upstream]) if skip.upstream in place else self.lost[skip.upstream]
            fact = TaskSkipped(task=skip.task, because="upstream", upstream=skip.upstream)
            steps.append(Step(fact, "engine", [cause]))
        for skip, each in zip(skips, await self._journal.record_all(steps), strict=True):
            self.lost[skip.task] = each.seq

    async def _stopped_by(self, breach: Breach, task: Task) -> None:
        """A budget said no. A lane's ends this task and what needs it; the run's ends the run."""
        if breach.lane is None:
            self.schedule.halted = True
            self._caller.stopped_by = breach
            if self.breach is None:
                self.breach, self.breach_said = -1, str(breach)
                self.breach = (await self._journal.record_all([self._breach_step(breach)]))[0].seq
            return
        fact = TaskSkipped(task=task.id, because="budget")
        steps = [self._breach_step(breach), Step(fact, "engine", [Within(0)])]
        await self._lost(task, self.schedule.failed(task.id), steps)
        self._launch()

    def _breach_step(self, breach: Breach) -> Step:
        assert self._progress.configured is not None
        return Step(breached(breach), "engine", [self._progress.configured])


def breached(breach: Breach) -> BudgetBreached:
    """A breach as a fact."""
    return BudgetBreached(unit=breach.unit, lane=breach.lane, limit=breach.limit, spent=breach.spent)


def _passed(judged: Judged, verdict: int, result: int) -> Passed:
    return Passed(judged.attempt, verdict, result, judged.text)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error of a group: what made the others end."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
