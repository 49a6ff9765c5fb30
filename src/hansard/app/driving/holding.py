"""A run of a panel that this process holds: its session, its persona or its replay, from where the record left it to its end.

The run's end stands behind its session's. Who may hold it, and when, is for `deliberations` to say.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from hansard.app.driving.adapting import Ready, Tell, nothing_left, prepared
from hansard.app.driving.entering import Entering
from hansard.app.driving.panel_provider import Nobody
from hansard.app.pool import Pool
from hansard.app.setup.convening import Convening
from hansard.app.setup.given_up import RESTARTS, given_up
from hansard.app.telling.deliberationviews import ENDS, Spent, convening_of, has_session, spent_on_record
from hansard.deliberation.afterwards.replay import LONGEST_ID, ExecutionReplay, Original, execution_replay
from hansard.deliberation.archive import Taken
from hansard.deliberation.chair import Held
from hansard.deliberation.documents import Persona
from hansard.deliberation.documents.vocabulary import PinningCondition
from hansard.deliberation.pins import Pins, live
from hansard.deliberation.session import Pen, Sitting, resume_session, run_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import Story, read_story
from hansard.domain.budget import MOST_SPENT
from hansard.domain.fact import Body
from hansard.domain.work import EndState, RunAnswered, RunClaimed, RunEnded
from hansard.errors import Fenced, HansardError, ProviderError, StoreError, Unavailable, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.deadly import is_told_first, too_deadly
from hansard.orchestration.ending import Ended, ended_before, interrupted
from hansard.orchestration.journal import without_secrets
from hansard.orchestration.progress import Progress
from hansard.record.codec import MAX_TEXT, decode
from hansard.record.recorder import Recorder, Step, Within
from hansard.store.base import Claim, Query, Store

ENGINE = "engine"


class Hold:
    """One run under its claim. `cancel` is set when somebody asks to cancel it; `tell` hears of what is recorded."""

    def __init__(
        self,
        recorder: Recorder,
        store: Store,
        pool: Pool,
        progress: Progress,
        claim: Claim,
        cancel: asyncio.Event,
        tell: Tell,
    ) -> None:
        self._recorder, self._store, self._pool = recorder, store, pool
        self.progress, self._claim, self._cancel, self._tell = progress, claim, cancel, tell
        self._entering = Entering(recorder, self._claimed)
        self._refused: str | None = None
        """Why it is only ended here, and nobody is opened for it."""

    async def session(self, pins: Pins | None = None) -> Sitting:
        """Hold the session, or what is left of it."""
        progress = self.progress
        async with self._taken() as pen:
            async with self._or_cancelled():
                made, story = self._made(), self._story()
            if story is None:
                ready = await self._prepared(made, pen)
                pins = pins or live(elapsed_before_us=ready.elapsed_us)
                sitting = await self._begin(ready, replace(pen, causes=ready.causes), pins)
            else:
                sitting = await self._go_on(made, pen, story, pins)
            if progress.ended is None:
                await self._ended(sitting, alone=not made.experts and not made.ensemble)
            else:
                await self._ended_again(progress.ended)
        return sitting

    async def persona(self) -> tuple[Ended, Persona | None]:
        """Make the persona that is asked for: how the run ended, and what came of it."""
        progress = self.progress
        if progress.ended is not None:
            return ended_before(progress.ended), None
        async with self._taken() as pen:
            async with self._or_cancelled():
                made = self._made()
            before = {agent.id for agent in made.config.agents}
            ready = await self._prepared(made, pen)
            refs = [agent.persona_ref for agent in ready.made.config.agents if agent.id not in before]
            found = next((each for each in refs if isinstance(each, Persona)), None)
            state: EndState = "answered" if found else "cancelled" if self._cancel.is_set() else "failed"
            reason = "persona_made" if found else "no_persona"
            if ready.used_up and state == "failed":
                state, reason = "stopped", "budget_exceeded"
            await self._entering.enter()
            fact = _end(state, reason, spent_on_record(self._store, progress.run))
            await self._record([Step(fact, ENGINE, ready.causes[len(pen.causes) :] or progress.claims[-1:])])
        return Ended(run=progress.run, state=state, reason=reason, detail=ready.used_up or ""), found

    async def replay(
        self, original: Original, made: Convening, runs: Path | None, assumed: Collection[PinningCondition]
    ) -> ExecutionReplay:
        """Hold a finished session again. Whatever ends it otherwise: nobody goes on with a replay."""
        async with self._taken(once=True) as pen:
            done = await execution_replay(
                original,
                lambda config: made.named(config.session_id).setting(self._pool),
                pen,
                assumed=assumed,
                runs=runs,
                producer=made.producer,
                cancel=self._cancel,
            )
            await self._ended(done.fresh)
        return done

    @asynccontextmanager
    async def _taken(self, *, once: bool = False) -> AsyncIterator[Pen]:
        """Hold it from here; and say on the record that he who said that he does has left, whatever kept him from ending it."""
        progress, before = self.progress, len(self.progress.claims)
        if progress.ended is None:
            self._refused = too_deadly(progress, RESTARTS, self._store.place)
        try:
            if once or (is_told_first(progress, self._claim, RESTARTS) and not self._cancel.is_set()):
                await self._entering.enter()
            if self._refused and not self._cancel.is_set():
                raise UsageError(self._refused)
            known = [each for each in (progress.requested, progress.configured) if each is not None]
            yield Pen(recorder=self._entering, run=progress.run, claim=self._claim, causes=known)
        except BaseException as error:
            cannot = isinstance(error, HansardError) and not isinstance(error, Fenced | Unavailable)
            # A ledger that cannot be written to, or a claim that was lost, says so in the error that is raised already.
            with suppress(HansardError):
                if len(progress.claims) == before and cannot and progress.seems_driven:
                    # Whoever had it is gone, and it is to be told once, and not each time that somebody finds out.
                    await self._entering.enter()
                if len(progress.claims) > before:
                    await self._left(error, once)
            raise

    async def _claimed(self) -> None:
        """Say on the record who holds it from here."""
        progress, claim = self.progress, self._claim
        causes = (progress.requested, *progress.claims[-1:], progress.resumed_by)
        fact = RunClaimed(epoch=claim.epoch, because=progress.freed(claim))
        recorded = await self._recorder.record(
            fact, actor=ENGINE, run=progress.run, causes=[each for each in causes if each is not None], claim=claim
        )
        progress.claim(recorded.seq)
        self._tell(progress.run, [recorded])

    async def _left(self, error: BaseException, once: bool) -> None:
        run, claimed = self.progress.run, self.progress.claims[-1]
        if any(self._store.select(Query(run=run, kind=RunEnded.KIND, after=claimed, limit=1))):
            # Whoever is cancelled in that commit has ended it all the same.
            return
        if self.progress.ended is not None:
            await self._ended_again(self.progress.ended)
        elif once:
            await self._failed("not_replayed")
        else:
            fact = without_secrets(interrupted(error), self._pool.secrets)
            await self._record([Step(fact, ENGINE, self.progress.claims[-1:])])

    async def _prepared(self, made: Convening, pen: Pen) -> Ready:
        async with self._or_cancelled():
            return await prepared(self._store, self._pool, made, pen, self._cancel, self._tell)

    async def _begin(self, ready: Ready, pen: Pen, pins: Pins) -> Sitting:
        made = ready.made
        async with self._or_ended():
            made.check()
        # A provider that cannot be opened here may be opened elsewhere, so that ends nothing.
        setting, runs = self._setting(made, calls=self._calls(made))
        setting = replace(setting, used_up=ready.nothing_left)
        async with self._or_ended():
            while True:
                # A crash may have left an empty directory behind, which is never used again [R-7.3-2].
                config = replace(setting.config, session_id=free_id(runs, made.config.session_id))
                try:
                    return await run_session(
                        replace(setting, config=config),
                        pen,
                        pins=pins,
                        runs=runs,
                        cancel=self._cancel,
                        listener=lambda recorded: self._tell(pen.run, [recorded]),
                        producer=made.producer,
                    )
                except Taken:
                    # Another process was quicker: the next id will do.
                    continue

    async def _go_on(self, made: Convening, pen: Pen, story: Story, pins: Pins | None) -> Sitting:
        gone = nothing_left(made.config, spent_on_record(self._store, pen.run, before=story.convened))
        # What the record says: experts and first answers came to it before the session began.
        made = replace(made, config=story.config)
        gone_us = self._gone_us(story)
        setting, runs = self._setting(made, answered=story.calls, calls=self._calls(made))
        return await resume_session(
            replace(setting, used_up=gone),
            pen,
            story,
            pins=pins or live(elapsed_before_us=gone_us, seed=story.seed),
            runs=runs,
            cancel=self._cancel,
            listener=lambda recorded: self._tell(pen.run, [recorded]),
            producer=made.producer,
        )

    def _setting(self, made: Convening, **how: int) -> tuple[Setting, Path | None]:
        """The setting, and where its directory is to be. A session that is only to end needs nobody who can be asked; what
        its directory says of its providers can be told only where they are, so it is left to be completed there.
        """
        try:
            if self._refused:
                raise UsageError(self._refused)
            return made.setting(self._pool, **how), Path(made.runs) if made.runs else None
        except (UsageError, ProviderError):
            if not self._cancel.is_set():
                raise
        agents = made.config.everybody
        nobody = {agent.provider: Nobody(agent.provider) for agent in agents}
        return Setting.of(made.config, providers=nobody, secrets=self._pool.secrets, shape=made.shape), None

    def _calls(self, made: Convening) -> int:
        """How many calls the run has made, where that is limited."""
        return 0 if made.max_calls is None else spent_on_record(self._store, self.progress.run).calls

    def _gone_us(self, story: Story) -> int:
        """How long the session has taken: what its newest turn says, and by the times of the entries only what came behind it.
        The clock on the wall may have been set meanwhile, or the machine may have slept."""

        def until(seq: int | None) -> int:
            before = None if seq is None else seq + 1
            return spent_on_record(self._store, self.progress.run, before=before).elapsed_us

        if story.timed is None:
            return until(None)
        return story.elapsed_us + until(None) - until(story.timed)

    def _made(self) -> Convening:
        """What it is held with, and what nobody is asked any more by now."""
        self.progress.questions.count_crashes()
        return replace(
            convening_of(self._store, self.progress.configured), given_up=given_up(self.progress.questions.crashes)
        )

    def _story(self) -> Story | None:
        run = self.progress.run
        return read_story(self._store, run) if has_session(self._store, run) else None

    @asynccontextmanager
    async def _or_ended(self) -> AsyncIterator[None]:
        """End the run where its session cannot begin, as without a directory: to try again would come to the same."""
        try:
            yield
        except (UsageError, StoreError) as error:
            if not isinstance(error, Fenced | Unavailable) and not has_session(self._store, self.progress.run):
                await self._failed(f"not_begun: {error}"[:MAX_TEXT])
            raise

    @asynccontextmanager
    async def _or_cancelled(self) -> AsyncIterator[None]:
        """End the run where it is to be cancelled and something of it cannot be read any more: nobody can end its session then."""
        try:
            yield
        except (UsageError, StoreError) as error:
            if self._cancel.is_set() and not isinstance(error, Fenced | Unavailable) and self.progress.ended is None:
                await self._failed("user_cancel", "cancelled")
            raise

    async def _failed(self, reason: str, state: EndState = "failed") -> None:
        await self._entering.enter()
        fact = _end(state, reason, spent_on_record(self._store, self.progress.run))
        await self._record([Step(fact, ENGINE, self.progress.claims[-1:])])

    async def _ended(self, sitting: Sitting, *, alone: bool = True) -> None:
        """The answer, where there is one, and the end of the run: one commit. `alone`: nobody was asked before the session."""
        held = sitting.held if sitting.held and alone else spent_on_record(self._store, self.progress.run)
        steps = []
        if sitting.reason == "synthesis":
            answer = sitting.artifact["canonical_transcript"][-1]["content"]["integrated_answer"]
            steps.append(Step(RunAnswered(complete=True, answer=Body.text(answer)), ENGINE, [held.ended_seq]))
        fact = _end(ENDS[sitting.reason], sitting.reason, held)
        steps.append(Step(fact, ENGINE, [Within(0) if steps else held.ended_seq]))
        await self._record(steps)

    async def _ended_again(self, ended: Entry) -> None:
        """The end is the last word: whoever completed the directory behind it says it again."""
        await self._entering.enter()
        await self._record([Step(decode(ended, {}), ENGINE, self.progress.claims[-1:])])

    async def _record(self, steps: list[Step]) -> None:
        run = self.progress.run
        self._tell(run, await self._entering.record_all(steps, run=run, claim=self._claim))


def free_id(runs: Path | None, session: str) -> str:
    """An id whose directory does not exist yet: this one, or this one with a number behind it [R-7.3-2]."""
    number, name = 0, session
    while runs is not None and os.path.lexists(runs / name):
        number += 1
        tail = f"-r{number}"
        name = session[: LONGEST_ID - len(tail)] + tail
    return name


def _end(state: EndState, reason: str, spent: Spent | Held) -> RunEnded:
    return RunEnded(
        state=state,
        reason=reason,
        calls=spent.calls,
        tokens=min(spent.tokens, MOST_SPENT),
        cost_usd_nano=min(spent.cost_usd_nano, MOST_SPENT),
        elapsed_us=spent.elapsed_us,
        priced=spent.priced,
    )
