"""The driver of a run: from a request on the record to an answer on the record, from wherever an earlier driver left it.

    request ─► route ─► plan ─► attempt ─► result ─► verdict ─► answer

Starting and resuming are the same: the engine claims the run, folds its entries, and goes on. It decides little itself: the
rules are in `plan`, `schedule`, `escalate`, `judge`; what people and other processes decide reaches it through the record.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from math import ceil
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from hansard.domain.budget import Spend
from hansard.domain.fact import Body
from hansard.domain.work import (
    BudgetBreached,
    RunClaimed,
    RunEnded,
    TaskSkipped,
)
from hansard.errors import Fenced, HansardError, ProviderError, StoreError, Unavailable, UsageError
from hansard.finishing import to_the_end
from hansard.ledger.entry import Entry
from hansard.orchestration.answering import Answer, Answers
from hansard.orchestration.asking import Asker, NoAnswer
from hansard.orchestration.calling import Caller, Means
from hansard.orchestration.config import RunConfig
from hansard.orchestration.contexts import Contexts
from hansard.orchestration.deadly import is_told_first, too_deadly
from hansard.orchestration.ending import (
    Ended,
    Ending,
    Waiting,
    closed,
    ended_before,
    interrupted,
    undone,
    with_answer,
)
from hansard.orchestration.gatekeeping import Gatekeeper, Shown, wall_clock_us
from hansard.orchestration.journal import Journal, Listener
from hansard.orchestration.nested import Abandon, Because, is_panel, no_sessions
from hansard.orchestration.plan import Plan
from hansard.orchestration.planning import Asked, Planner, body_of, plan_made
from hansard.orchestration.progress import Progress, progress_of
from hansard.orchestration.purse import Breach, Purse
from hansard.orchestration.watching import Ask, Watch, give_back, take
from hansard.orchestration.working import Crew, breached
from hansard.providers.secrets import Secrets
from hansard.record.reading import read_entries
from hansard.record.recorder import Cause, Recorder, Step, Within
from hansard.record.tree import Known, check_held, lies_back
from hansard.store.base import Claim, Query, Store

if TYPE_CHECKING:
    from hansard.orchestration.route import Route

MOST_CONFIGS = 64


class Engine:
    """Drives runs over one store. `means_of` opens what a run's configuration names; `router` speaks first."""

    def __init__(
        self,
        recorder: Recorder,
        store: Store,
        means_of: Callable[[RunConfig, str], Means],
        router_of: "Callable[[RunConfig], Callable[[str], Route]]",
        *,
        secrets: Secrets | None = None,
        listeners: Sequence[Listener] = (),
        clock_us: Callable[[str], int] = wall_clock_us,
        elsewhere: Mapping[str | None, Spend] = MappingProxyType({}),
        abandon: Abandon = no_sessions,
    ) -> None:
        self.clock_us, self.abandon = clock_us, abandon
        self.elsewhere = elsewhere
        """What a run has spent that the record which is driven here does not hold, by lane: a re-run counts it too."""
        self._recorder, self._store = recorder, store
        self._means_of, self.router_of = means_of, router_of
        self._secrets, self._listeners = secrets, listeners
        self.brought: dict[str, tuple[bytes, Plan]] = {}
        """Plans of runs that were submitted here, as they were read then, with their bytes; what counts is the record."""
        self.watch = Watch(store)
        self.turn = asyncio.Lock()
        """Whose answer is looked at: one run's at a time."""
        self._configs: dict[bytes, RunConfig] = {}
        self._known = Known()

    async def drive(self, run: str, ask: Ask | None = None) -> Ended:
        """Drive a run to its end. Fenced when another driver holds it; UsageError when there is nothing to drive.

        `ask` records what is asked of it, once it is certain that it is ours to drive and can be read.
        """
        async with self._held(run) as claim:
            return await self._driven(run, claim, ask)

    async def ask(self, run: str, ask: Ask) -> None:
        """The same, for whoever is driven later: record only what is asked of it."""
        async with self._held(run):
            await self._put(run, ask)

    @asynccontextmanager
    async def _held(self, run: str) -> AsyncIterator[Claim]:
        claim = await take(self._store, run)
        try:
            yield claim
        finally:
            await give_back(self._store, claim)

    async def _put(self, run: str, ask: Ask) -> None:
        progress, entries = await asyncio.to_thread(self._read, run)
        if progress.configured is not None:
            self._means_of((await asyncio.to_thread(self._asked, progress, entries)).config, run)
        await ask()

    async def _driven(self, run: str, claim: Claim, ask: Ask | None) -> Ended:
        journal = Journal(self._recorder, run, claim, secrets=self._secrets, listeners=self._listeners)
        try:
            if ask is not None:
                await self._put(run, ask)
            progress, entries = await asyncio.to_thread(self._read, run)
            if progress.requested is None or progress.configured is None:
                place = self._store.place
                raise UsageError(f"there is no run {run} in {place}; `hansard runs --ledger {quote(place)}` lists them")
            if progress.ended is not None:
                return ended_before(progress.ended)
            before = len(progress.claims)
            asked, means = await self._opened(journal, progress, entries)
        except HansardError:
            progress = await asyncio.to_thread(self.reread, run)
            if progress.cancel_asked is None or progress.ended is not None:
                raise
            return await self._given_up(journal, progress, progress.cancel_asked)
        if len(progress.claims) == before and progress.rests:
            # Whoever only looks whether people have decided leaves no trace: a run may wait for months.
            journal.first = lambda: self._taken(journal, progress)
        elif len(progress.claims) == before:
            await self._taken(journal, progress)
        return await _Drive(self, journal, progress, self._store, asked, means).to_the_end()

    async def _opened(self, journal: Journal, progress: Progress, entries: Mapping[int, Entry]) -> tuple[Asked, Means]:
        """What is asked for, and who can be asked for it. That may end this process as it ended the one before: whoever comes behind
        that one says so first, and whoever said so says that he has left."""
        restarts = self._config_in(progress, entries).tuning.restarts
        refused = too_deadly(progress, restarts, self._store.place)
        wanted = progress.cancel_asked is None
        if told := wanted and not progress.rests and is_told_first(progress, journal.claim, restarts):
            await self._taken(journal, progress)
        try:
            if refused:
                raise UsageError(refused)
            asked = await asyncio.to_thread(self._asked, progress, entries)
            return asked, self._means_of(asked.config, journal.run)
        except (Fenced, Unavailable):
            raise
        except BaseException as error:
            cannot = wanted and progress.seems_driven and isinstance(error, UsageError | ProviderError)
            if cannot and not told:
                # Whoever had it is gone, and it is to be told once, and not each time that somebody finds out.
                await self._taken(journal, progress)
            if cannot or told:
                await to_the_end(journal.put(interrupted(error), "engine", progress.claims[-1:]))
            raise

    async def _taken(self, journal: Journal, progress: Progress) -> None:
        """Say on the record who drives from here."""
        known = (progress.requested, *progress.claims[-1:], progress.resumed_by)
        fact = RunClaimed(epoch=journal.claim.epoch, because=progress.freed(journal.claim))
        try:
            claimed = await journal.put(fact, "engine", [seq for seq in known if seq is not None])
        except asyncio.CancelledError as told:
            # It is written before whoever waits is cancelled: without a word behind it, nobody would seem to have left.
            await to_the_end(self._left(journal, len(progress.claims), told))
            raise
        progress.claim(claimed.seq)

    async def _left(self, journal: Journal, before: int, told: asyncio.CancelledError) -> None:
        """Say that he who took it has left, where the record has more claims than the ones before."""
        progress = await asyncio.to_thread(self.reread, journal.run)
        if len(progress.claims) > before:
            await journal.put(interrupted(told), "engine", progress.claims[-1:])

    async def _given_up(self, journal: Journal, progress: Progress, asked: int) -> Ended:
        """A run with which nobody can go on here can still be cancelled: what was open is closed, and it ends."""
        await self._taken(journal, progress)
        await self.abandon(journal, "cancelled")
        if steps := closed(progress, "cancelled"):
            await journal.record_all(steps)
        fact = RunEnded(state="cancelled", reason="cancelled", **asdict(progress.spent))
        await journal.record(fact, "engine", [asked])
        return Ended(run=journal.run, state="cancelled", reason="cancelled")

    def _read(self, run: str) -> tuple[Progress, dict[int, Entry]]:
        """How far a run has come, and its entries."""
        entries = {entry.seq: entry for entry in read_entries(self._store, Query(run=run))}
        progress = progress_of(run, entries.values())
        # What an earlier driver left may have lain there for long; most runs that begin were recorded a moment ago.
        if progress.claims or (progress.requested is not None and lies_back(self._store, progress.requested)):
            check_held(self._store, entries.values(), self._known)
        return progress, entries

    def _asked(self, progress: Progress, entries: Mapping[int, Entry]) -> Asked:
        """What was asked for."""
        assert progress.requested is not None
        assert progress.configured is not None
        requested, config = entries[progress.requested], self._config_in(progress, entries)
        request = Body.raw(body_of(self._store, requested, "request")).as_text()
        brings = progress.plan is None and "plan" in requested.body
        plan = body_of(self._store, requested, "plan") if brings else None
        return Asked(requested.seq, progress.configured, request, config, plan)

    def _config_in(self, progress: Progress, entries: Mapping[int, Entry]) -> RunConfig:
        assert progress.configured is not None
        configured = entries[progress.configured]
        return self._config(body_of(self._store, configured, "config"), configured.seq)

    def _config(self, data: bytes, seq: int) -> RunConfig:
        """A configuration as recorded. Most runs have that of the one before."""
        known = self._configs.get(data)
        if known is None:
            known = RunConfig.from_json(data, f"entry {seq}")
            if len(self._configs) >= MOST_CONFIGS:
                self._configs.clear()
            self._configs[data] = known
        return known

    def reread(self, run: str) -> Progress:
        return progress_of(run, read_entries(self._store, Query(run=run)))


class _OutOfTime(Exception):
    """A run has had the time that its budget gives it."""


class _Drive:
    """One drive of one run."""

    def __init__(
        self, engine: Engine, journal: Journal, progress: Progress, store: Store, asked: Asked, means: Means
    ) -> None:
        self._engine, self._journal, self._progress, self._store = engine, journal, progress, store
        self._configured, self._request, self._config = asked.configured, asked.request, asked.config
        self._started = asyncio.get_running_loop().time()
        self._cancelling = False
        if self._config.budget.max_seconds is not None:
            journal.elapsed_us = self._elapsed_us
        lanes = self._config.roster.lanes
        spent = {
            lane.name: _sum(progress.spending.lanes.get(lane.name), engine.elsewhere.get(lane.name)) for lane in lanes
        }
        purses = {lane.name: Purse(lane.budget, spent[lane.name], lane.name) for lane in lanes if lane.budget}
        self._purse = Purse(self._config.budget, _sum(progress.spent, *engine.elsewhere.values()))
        self._caller = Caller(self._config, progress.nonce, means, journal, self._purse, purses)
        self._asker = Asker(self._caller, progress)
        self._contexts = Contexts(means.sources, self._request, journal, progress, store, self._asker.stuck)
        self._planner = Planner(asked, progress, store, self._asker, self._contexts, engine.router_of, engine.brought)

    async def to_the_end(self) -> Ended:
        """Work until the run has ended; a cancellation from outside interrupts it, and it can be resumed."""
        work = asyncio.ensure_future(self._work())

        def cancel() -> None:
            self._cancelling = True
            work.cancel()

        try:
            with self._engine.watch.over(self._journal.claim, self._progress.seen, cancel):
                ending = await work
        except asyncio.CancelledError as told:
            if not self._cancelling:
                await self._interrupted(told)
                raise
            ending = await self._cut("cancelled")
        except _OutOfTime:
            ending = await self._cut("deadline")
        except (Fenced, Unavailable):
            # Nothing can be written, or somebody else writes.
            raise
        except Exception as error:
            with suppress(HansardError):
                await self._interrupted(error)
            raise
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        if isinstance(ending, Waiting):
            return Ended(run=self._journal.run, state="waiting", reason="gate", gates=ending.gates)
        return await self._end(ending)

    async def _work(self) -> Ending | Waiting:
        if self._progress.cancel_asked is not None:
            self._cancelling = True
            raise asyncio.CancelledError
        try:
            left_s = self._left_s()
            if left_s is not None:
                if not left_s:
                    # A timeout fires when somebody waits for something: a quick ledger and a quick model let nobody wait.
                    raise _OutOfTime
                self._caller.deadline = asyncio.get_running_loop().time() + left_s
            return await self._in_time(left_s)
        except Breach as breach:
            recorded = await self._journal.record(breached(breach), "engine", [self._configured])
            return Ending(state="stopped", reason="budget", causes=(recorded.seq,), detail=str(breach))
        except NoAnswer as nothing:
            return Ending(state="failed", reason=f"{nothing.role}_silent", causes=(nothing.seq,), detail=str(nothing))

    async def _in_time(self, left_s: float | None) -> Ending | Waiting:
        """The work, as long as there is time for it. Whatever else ran out of its own time within is an error like any other."""
        limit = asyncio.timeout(left_s)
        try:
            async with limit:
                return await self._phases()
        except TimeoutError as error:
            if limit.expired():
                raise _OutOfTime from error
            raise

    def _left_s(self) -> float | None:
        limit = self._config.budget.max_seconds
        return None if limit is None else max(0.0, limit - self._progress.spent.elapsed_us / 1e6)

    async def _phases(self) -> Ending | Waiting:
        found, seq = await self._planner.made()
        if isinstance(found, Ending):
            return found
        if self._progress.mode == "plan_only":
            return Ending(state="answered", reason="planned", causes=(seq,))
        gatekeeper = Gatekeeper(self._config.gates, self._journal, self._progress, self._store, self._engine.clock_us)
        plan, seq = await self._let_through(gatekeeper, found, seq)
        if not isinstance(plan, Plan):
            return plan
        answers = self._answers(self._progress)
        if self._progress.answered is not None:
            return await self._checked(answers, answers.recorded(self._progress.answered))
        crew = Crew(plan, seq, self._asker, self._progress, self._store, gatekeeper, self._contexts)
        await crew.work()
        if crew.breach is not None:
            return await self._out_of_budget(crew, crew.breach)
        if crew.schedule.holding:
            return self._waiting()
        if not crew.passed:
            return await self._nothing_passed(crew)
        return await self._checked(answers, await answers.make(crew))

    def _answers(self, progress: Progress) -> Answers:
        return Answers(self._asker, progress, self._store, self._request, self._engine.turn)

    async def _checked(self, answers: Answers, answer: Answer) -> Ending:
        """How a run with an answer ends, once the answer was looked at."""
        await answers.check(answer)
        return with_answer(answer)

    async def _nothing_passed(self, crew: Crew) -> Ending:
        lost = list(crew.lost)
        what = f"none of {len(lost)} tasks passed" if len(lost) > 1 else f"task {lost[0]!r} did not pass"
        causes = await self._journal.gathered(sorted(crew.lost.values())[:1_000])
        return Ending(state="failed", reason="nothing_passed", causes=tuple(causes), detail=what)

    def _waiting(self) -> Waiting:
        return Waiting(gates=tuple(id for id, gate in self._progress.gates.items() if gate.closed is None))

    async def _out_of_budget(self, crew: Crew, breach: int) -> Ending:
        skipped = [Step(TaskSkipped(task=id, because="budget"), "engine", [breach]) for id in crew.schedule.unsettled]
        if skipped:
            await self._journal.record_all(skipped)
        return Ending(state="stopped", reason="budget", causes=(breach,), detail=crew.breach_said)

    async def _let_through(self, gatekeeper: Gatekeeper, plan: Plan, seq: int) -> tuple[Plan | Ending | Waiting, int]:
        """The plan once people let it through, maybe with their changes."""
        if not gatekeeper.guards_plans:
            return plan, seq
        first = self._progress.first_plan if self._progress.first_plan is not None else seq
        made = self._store.entry(first)
        data = json.loads(body_of(self._store, made, "plan"))
        rules = gatekeeper.plan_rules({task["id"] for task in data["tasks"]})
        if not rules:
            return plan, seq
        await gatekeeper.listen()
        text = json.dumps(data, indent=2, ensure_ascii=False)
        shown = Shown(text=text, commitment=made.body["plan"], causes=(first,))
        passage = await gatekeeper.passage(rules, None, shown)
        if passage is None:
            return self._waiting(), seq
        if passage.text is None:
            return Ending(state="failed", reason="gate_rejected", causes=passage.closed[-1:]), seq
        if passage.edit is None or passage.edit in self._progress.plan_causes:
            return plan, seq
        edited = self._planner.parsed(passage.text.encode(), f"the edit in entry {passage.edit}")
        recorded = await self._journal.record(plan_made(edited, "edit"), "engine", [passage.edit])
        self._progress.plan, self._progress.plan_causes = recorded.seq, (passage.edit,)
        return edited, recorded.seq

    async def _cut(self, why: Literal["cancelled", "deadline"]) -> Ending:
        """The run is stopped in flight: close on the record whatever was open, and say what will not be done."""
        await self._journal.open()
        await self._abandon(why)
        progress = await asyncio.to_thread(self._engine.reread, self._journal.run)
        steps = closed(progress, why)
        # What was under way was made, inside of sessions too: the record counts it, and so does the run's last word.
        progress.lose()
        self._purse.spent = _sum(progress.spent, *self._engine.elsewhere.values())
        if why == "cancelled":
            assert progress.cancel_asked is not None
            steps += self._skipped(progress, "cancelled", progress.cancel_asked)
            if steps:
                await self._journal.record_all(steps)
            return Ending(state="cancelled", reason="cancelled", causes=(progress.cancel_asked,))
        breach, limit = len(steps), ceil(self._config.budget.max_seconds or 0)
        fact = BudgetBreached(unit="seconds", limit=limit, spent=ceil(self._elapsed_us() / 1e6))
        steps.append(Step(fact, "engine", [self._configured]))
        recorded = await self._journal.record_all([*steps, *self._skipped(progress, "budget", Within(breach))])
        if progress.answered is not None:
            # The answer came in time. What was cut off is a look at it, and those never block.
            answers = self._answers(progress)
            await answers.cut_off(answer := answers.recorded(progress.answered))
            return with_answer(answer)
        return Ending(state="stopped", reason="deadline", causes=(recorded[breach].seq,))

    async def _abandon(self, why: Because) -> None:
        """The run ends: so do the sessions inside of it that are still open."""
        if any(map(is_panel, self._config.providers)):
            await self._engine.abandon(self._journal, why)

    def _skipped(self, progress: Progress, because: Literal["cancelled", "budget"], cause: Cause) -> list[Step]:
        """What will not be done, as far as the plan can be read: whoever cannot read it can still stop."""
        if progress.plan is None:
            return []
        try:
            left = undone(progress, self._planner.recorded(progress.plan))
        except StoreError:
            return []
        return [Step(TaskSkipped(task=id, because=because), "engine", [cause]) for id in left]

    async def _interrupted(self, error: BaseException) -> None:
        if self._journal.is_silent:
            return
        await self._journal.record(interrupted(error), "engine", self._progress.claims[-1:])

    async def _end(self, ending: Ending) -> Ended:
        await self._journal.open()
        await self._abandon("over")
        spent = self._purse.spent
        fact = RunEnded(
            state=ending.state,
            reason=ending.reason,
            calls=spent.calls,
            tokens=spent.tokens,
            cost_usd_nano=spent.cost_usd_nano,
            elapsed_us=self._elapsed_us(),
            priced=spent.priced,
        )
        await self._journal.record(fact, "engine", ending.causes)
        return Ended(run=self._journal.run, state=ending.state, reason=ending.reason, detail=ending.detail)

    def _elapsed_us(self) -> int:
        here = asyncio.get_running_loop().time() - self._started
        return self._progress.spent.elapsed_us + int(here * 1_000_000)


def _sum(*spent: Spend | None) -> Spend:
    total = Spend()
    for each in (each for each in spent if each is not None):
        total = total.more(each.calls, each.tokens, each.cost_usd_nano, each.elapsed_us, priced=each.priced)
    return total
