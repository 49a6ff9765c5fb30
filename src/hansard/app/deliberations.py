"""Deliberations, for every surface: convene, hold, cancel, resume, list, replay. A deliberation is a run of its own mode.

The run is on the record before its session, and its end behind it; what is shown of it is what the record says.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from hansard.app.adapting import prepared
from hansard.app.claiming import beginning, claimed
from hansard.app.convening import UNNAMED, Convening
from hansard.app.deliberationviews import (
    MODE,
    PERSONA,
    Spent,
    convening_of,
    deliberation_view,
    deliberation_views,
    directory_of,
    has_session,
    listing_of,
    spent_on_record,
)
from hansard.app.ids import new_nonce
from hansard.app.listening import harmless
from hansard.app.people import human
from hansard.app.pool import Pool
from hansard.app.views import View
from hansard.app.wiring import SOFTWARE
from hansard.deliberation.archive import Taken, lacking
from hansard.deliberation.chair import Held
from hansard.deliberation.documents import Config, Persona
from hansard.deliberation.documents.vocabulary import PinningCondition
from hansard.deliberation.pins import Pins
from hansard.deliberation.replay import LONGEST_ID, ExecutionReplay, execution_replay, fresh_id, read_original
from hansard.deliberation.session import Pen, Sitting, resume_session, run_session
from hansard.deliberation.story import Story, read_story
from hansard.domain.council import SessionArchived
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value
from hansard.domain.work import (
    CancelAsked,
    EndState,
    ResumeAsked,
    RunAnswered,
    RunClaimed,
    RunConfigured,
    RunEnded,
    RunInterrupted,
    RunRequested,
    Surface,
)
from hansard.errors import Fenced, ProviderError, StoreError, Unavailable, UsageError
from hansard.orchestration.ending import Ended, ended_before
from hansard.orchestration.progress import Progress, progress_of
from hansard.record.codec import MAX_TEXT, decode
from hansard.record.reading import read_entries
from hansard.record.recorder import Recorded, Recorder, Step, Within
from hansard.store.base import Claim, Query, Store

ENGINE = "engine"
NANO = 1_000_000_000
ENDS: dict[str, EndState] = {
    "synthesis": "answered",
    "schema_error": "failed",
    "provider_unrecoverable": "failed",
    "budget_exceeded": "stopped",
    "timeout": "stopped",
    "user_cancel": "cancelled",
    "user_input_required": "stopped",
    "external_research_required": "stopped",
}
"""How a run ends when its session ends so."""

Listener = Callable[[str, Recorded[Fact]], None]
Mode = Literal["deliberation", "persona"]
Made = Coroutine[Any, Any, tuple[Ended, Persona | None]]
"""What makes a persona: how its run ended, and what came of it."""


@value
class Sat:
    """A deliberation that is over."""

    run: str
    sitting: Sitting


class Deliberations:
    """The deliberations of one open ledger."""

    def __init__(self, recorder: Recorder, store: Store, pool: Pool) -> None:
        self._recorder, self._store, self._pool = recorder, store, pool
        self._listeners: list[Listener] = []
        self._cancels: dict[str, asyncio.Event] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of everything that sessions of this process record; gives what ends it. Errors of a listener end nothing else."""
        heard = harmless(listener)
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    async def convene(
        self,
        made: Convening,
        *,
        surface: Surface = "python",
        actor: str | None = None,
        causes: Sequence[int] = (),
        mode: Mode = MODE,
        run: str | None = None,
    ) -> str:
        """Put a session on the record with everything that it is to be held with; gives the run's id, which may be the caller's
        own. Nobody is asked yet.

        `causes` are the ends of the session from which this one goes on, where it does.
        """
        made.check()
        config, secrets = made.config, self._pool.secrets
        requested = RunRequested(mode=mode, surface=surface, request=Body.text(secrets.scrub(config.problem_statement)))
        async with beginning(self._store, run) as id:
            written = made.named(self._free_id(made, id))
            configured = RunConfigured(
                nonce=new_nonce(),
                software=SOFTWARE,
                max_calls=made.max_calls,
                max_tokens=config.budget.max_total_tokens,
                max_cost_usd_nano=round(config.budget.max_total_cost_usd * NANO),
                max_seconds=config.budget.max_wallclock_seconds,
                config=Body.json(secrets.scrub(written.as_json())),
            )
            steps = [Step(requested, actor or human(), causes), Step(configured, ENGINE, [Within(0)])]
            self._tell(id, await self._recorder.record_all(steps, run=id))
        return id

    async def hold(self, run: str, *, pins: Pins | None = None) -> Sat:
        """Hold the session of a run, or what is left of it. Fenced when another process holds it."""
        async with self._claimed(run) as (progress, claim, cancel):
            return await self._held(progress, claim, cancel, pins)

    async def _held(self, progress: Progress, claim: Claim, cancel: asyncio.Event, pins: Pins | None = None) -> Sat:
        run, pen = progress.run, await self._taken(progress, claim)
        try:
            made, story = convening_of(self._store, progress.configured), self._story(run)
            if story is None:
                ready = await prepared(self._store, self._pool, made, pen, cancel, self._tell)
                sitting = await self._begin(ready.made, replace(pen, causes=ready.causes), pins, cancel)
            else:
                sitting = await self._go_on(made, pen, story, pins, cancel)
        except asyncio.CancelledError:
            if progress.ended is None:
                await self._interrupted(progress, pen)
            raise
        finally:
            if progress.ended is not None:
                # The end is the last word: whoever completed the directory behind it says it again.
                await self._record(pen, [Step(decode(progress.ended, {}), ENGINE, progress.claims[-1:])])
        if progress.ended is None:
            await self._ended(pen, sitting, alone=not made.experts and not made.ensemble)
        return Sat(run=run, sitting=sitting)

    async def generate(self, made: Convening, *, surface: Surface = "python", actor: str | None = None) -> View:
        """Make a persona for the one need that is named, and hold no session: a run of its own."""
        return await self.generated(await self.ask_for_persona(made, surface=surface, actor=actor))

    async def ask_for_persona(self, made: Convening, *, surface: Surface = "python", actor: str | None = None) -> str:
        """Put it on the record that a persona is wanted; gives the run. Nobody is asked yet."""
        return await self.convene(replace(made, runs=None, ensemble=False), surface=surface, actor=actor, mode=PERSONA)

    async def generated(self, run: str, drive: Callable[[Made], Made] | None = None) -> View:
        """The persona of such a run, which is made here and now, or by `drive`, where runs wait for each other."""
        ended, persona = await (drive(self._generated(run)) if drive else self._generated(run))
        if persona is None and ended.state == "stopped":
            raise UsageError(f"no persona came of run {run}: {ended.detail}; allow more in [budget], or by flags")
        if persona is None:
            raise ProviderError(f"no persona came of it; `hansard runs follow {run}` shows what was said")
        return {"run": run, "persona": persona.as_data()}

    async def _generated(self, run: str) -> tuple[Ended, Persona | None]:
        async with self._claimed(run) as (progress, claim, cancel):
            if progress.ended is not None:
                return ended_before(progress.ended), None
            pen = await self._taken(progress, claim)
            made = convening_of(self._store, progress.configured)
            before = {agent.id for agent in made.config.agents}
            try:
                ready = await prepared(self._store, self._pool, made, pen, cancel, self._tell)
            except asyncio.CancelledError:
                await self._interrupted(progress, pen)
                raise
            refs = [agent.persona_ref for agent in ready.made.config.agents if agent.id not in before]
            found = next((each for each in refs if isinstance(each, Persona)), None)
            state: EndState = "answered" if found else "cancelled" if cancel.is_set() else "failed"
            reason = "persona_made" if found else "no_persona"
            if ready.used_up and state == "failed":
                state, reason = "stopped", "budget_exceeded"
            fact = _end(state, reason, spent_on_record(self._store, run))
            await self._record(pen, [Step(fact, ENGINE, ready.causes[len(pen.causes) :] or progress.claims[-1:])])
            return Ended(run=run, state=state, reason=reason, detail=ready.used_up or ""), found

    async def drive(self, run: str) -> Ended:
        """The same for whoever drives runs of every mode."""
        if self._progress(run).mode == PERSONA:
            return (await self._generated(run))[0]
        async with self._claimed(run) as (progress, claim, cancel):
            if progress.ended is not None:
                return ended_before(progress.ended)
            sat = await self._held(progress, claim, cancel)
            return Ended(run=run, state=ENDS[sat.sitting.reason], reason=sat.sitting.reason)

    async def cancel(self, run: str, *, surface: Surface = "python", actor: str | None = None) -> None:
        """End a session with user_cancel, whoever holds it. Where nobody does, this carries it out."""
        requested = self._unfinished(run)
        fact = CancelAsked(surface=surface)
        recorded = await self._recorder.record(fact, actor=actor or human(), run=run, causes=[requested])
        self._tell(run, [recorded])
        if run in self._cancels:
            self._cancels[run].set()
            return
        try:
            await self.drive(run)
        except Fenced:
            # Another process holds it, and will see the request in the record.
            return

    async def resume(self, run: str, *, surface: Surface = "python", actor: str | None = None) -> Sat:
        """Hold the rest of a session that was interrupted, or complete its directory."""
        progress = self._progress(run)
        if progress.ended is not None and not self._is_left_open(progress):
            raise UsageError(f"run {run} has ended ({progress.ended.data['reason']}); there is nothing to resume")
        assert progress.requested is not None
        recorded = await self._recorder.record(
            ResumeAsked(surface=surface), actor=actor or human(), run=run, causes=[progress.requested]
        )
        self._tell(run, [recorded])
        sat = await self.hold(run)
        if progress.ended is not None and sat.sitting.fault is not None:
            raise StoreError(sat.sitting.fault)
        return sat

    def _is_left_open(self, progress: Progress) -> bool:
        """Whether a run that has ended has something to do: its directory is not whole, or somebody was at it who never ended."""
        assert progress.ended is not None
        if progress.claims and progress.claims[-1] > progress.ended.seq:
            return True
        folder, run = directory_of(self._store, progress.run), progress.run
        if folder is None or not has_session(self._store, run):
            return False
        if not any(self._store.select(Query(run=run, kind=SessionArchived.KIND, limit=1))):
            return True
        listed = listing_of(self._store, run)
        return listed is not None and bool(lacking(folder, json.loads(listed)))

    async def replay(
        self,
        folder: Path,
        make: Callable[[Config], Convening],
        *,
        assumed: Collection[PinningCondition] = (),
        surface: Surface = "python",
    ) -> ExecutionReplay:
        """Hold a finished session again. PinningViolation where something that decided it is not as it was."""
        original = read_original(folder)
        made = make(original.config)
        if made.cut:
            raise UsageError(f"a session is held again only with the limits that it had: {'; '.join(made.cut)}")
        runs = Path(made.runs) if made.runs else None
        run = await self.convene(made.named(fresh_id(original.config.session_id, runs)), surface=surface)
        async with self._claimed(run) as (progress, claim, _):
            pen = await self._taken(progress, claim)
            try:
                done = await execution_replay(
                    original,
                    lambda config: made.named(config.session_id).setting(self._pool),
                    pen,
                    assumed=assumed,
                    runs=runs,
                    producer=made.producer,
                )
            except BaseException:
                # Whatever it was: nobody goes on with a replay, so it has ended.
                fact = _end("failed", "not_replayed", spent_on_record(self._store, run))
                await self._record(pen, [Step(fact, ENGINE, [progress.claims[-1]])])
                raise
            await self._ended(pen, done.fresh)
            return done

    def show(self, run: str) -> View:
        """What the record says of one deliberation."""
        self._progress(run)
        return deliberation_view(self._store, run)

    def listed(self, *, limit: int = 20) -> list[View]:
        """The newest first."""
        return list(islice(deliberation_views(self._store), limit))

    async def _begin(self, made: Convening, pen: Pen, pins: Pins | None, cancel: asyncio.Event) -> Sitting:
        runs = Path(made.runs) if made.runs else None
        async with self._or_ended(pen):
            made.check()
        # A provider that cannot be opened here may be opened elsewhere, so that ends nothing.
        setting = made.setting(self._pool, calls=self._calls(made, pen.run))
        async with self._or_ended(pen):
            while True:
                # A crash may have left an empty directory behind, which is never used again [R-7.3-2].
                config = replace(setting.config, session_id=_free(runs, made.config.session_id))
                try:
                    return await run_session(
                        replace(setting, config=config),
                        pen,
                        pins=pins,
                        runs=runs,
                        cancel=cancel,
                        listener=lambda recorded: self._tell(pen.run, [recorded]),
                        producer=made.producer,
                    )
                except Taken:
                    # Another process was quicker: the next id will do.
                    continue

    @asynccontextmanager
    async def _or_ended(self, pen: Pen) -> "AsyncIterator[None]":
        """End the run where its session cannot begin, as without a directory: to try again would come to the same."""
        try:
            yield
        except (UsageError, StoreError) as error:
            if not isinstance(error, Fenced | Unavailable) and not has_session(self._store, pen.run):
                fact = _end("failed", f"not_begun: {error}"[:MAX_TEXT], spent_on_record(self._store, pen.run))
                await self._record(pen, [Step(fact, ENGINE, self._progress(pen.run).claims[-1:])])
            raise

    def _calls(self, made: Convening, run: str) -> int:
        """How many calls the run has made, where that is limited."""
        return 0 if made.max_calls is None else spent_on_record(self._store, run).calls

    async def _go_on(
        self, made: Convening, pen: Pen, story: Story, pins: Pins | None, cancel: asyncio.Event
    ) -> Sitting:
        # What the record says: experts and first answers came to it before the session began.
        made = replace(made, config=story.config)
        return await resume_session(
            made.setting(self._pool, answered=story.calls, calls=self._calls(made, pen.run)),
            pen,
            story,
            pins=pins,
            runs=Path(made.runs) if made.runs else None,
            cancel=cancel,
            listener=lambda recorded: self._tell(pen.run, [recorded]),
            producer=made.producer,
        )

    @asynccontextmanager
    async def _claimed(self, run: str) -> "AsyncIterator[tuple[Progress, Claim, asyncio.Event]]":
        """The run under a claim that is kept as long as this lasts; the event is set when somebody asks to cancel."""
        # What is no deliberation is refused before there is a claim of that name.
        self._progress(run)
        cancel = asyncio.Event()
        async with claimed(self._store, run, cancel) as (progress, claim):
            self._cancels[run] = cancel
            try:
                yield progress, claim, cancel
            finally:
                self._cancels.pop(run, None)
                self._recorder.seal_soon()

    async def _taken(self, progress: Progress, claim: Claim) -> Pen:
        """Say on the record who holds it from here."""
        causes = (progress.requested, *progress.claims[-1:], progress.resumed_by)
        fact = RunClaimed(epoch=claim.epoch, because=claim.because)  # type: ignore[arg-type]
        recorded = await self._recorder.record(
            fact, actor=ENGINE, run=progress.run, causes=[each for each in causes if each is not None], claim=claim
        )
        self._tell(progress.run, [recorded])
        progress.claims.append(recorded.seq)
        known = [each for each in (progress.requested, progress.configured) if each is not None]
        return Pen(recorder=self._recorder, run=progress.run, claim=claim, causes=known)

    async def _ended(self, pen: Pen, sitting: Sitting, *, alone: bool = True) -> None:
        """The answer, where there is one, and the end of the run: one commit. `alone`: nobody was asked before the session."""
        held = sitting.held if sitting.held and alone else spent_on_record(self._store, pen.run)
        steps = []
        if sitting.reason == "synthesis":
            answer = sitting.artifact["canonical_transcript"][-1]["content"]["integrated_answer"]
            steps.append(Step(RunAnswered(complete=True, answer=Body.text(answer)), ENGINE, [held.ended_seq]))
        fact = _end(ENDS[sitting.reason], sitting.reason, held)
        steps.append(Step(fact, ENGINE, [Within(0) if steps else held.ended_seq]))
        await self._record(pen, steps)

    async def _interrupted(self, progress: Progress, pen: Pen) -> None:
        fact = RunInterrupted(by="signal")
        await self._record(pen, [Step(fact, ENGINE, [progress.claims[-1]])])

    async def _record(self, pen: Pen, steps: list[Step]) -> None:
        self._tell(pen.run, await self._recorder.record_all(steps, run=pen.run, claim=pen.claim))

    def _free_id(self, made: Convening, run: str) -> str:
        """The session's own id; the run's where it has none, another where its directory is taken."""
        id = run if made.config.session_id == UNNAMED else made.config.session_id
        return _free(Path(made.runs) if made.runs else None, id)

    def _story(self, run: str) -> Story | None:
        return read_story(self._store, run) if has_session(self._store, run) else None

    def _progress(self, run: str) -> Progress:
        progress = progress_of(run, read_entries(self._store, Query(run=run)))
        if progress.requested is None or progress.configured is None or progress.mode not in (MODE, PERSONA):
            raise UsageError(
                f"there is no deliberation {run!r} in {self._store.place}; `hansard runs` lists what there is"
            )
        return progress

    def _unfinished(self, run: str) -> int:
        progress = self._progress(run)
        if progress.ended is not None:
            raise UsageError(f"run {run} has ended ({progress.ended.data['reason']})")
        assert progress.requested is not None
        return progress.requested

    def _tell(self, run: str, recorded: Iterable[Recorded[Any]]) -> None:
        for each in recorded:
            for listener in self._listeners:
                listener(run, each)


def _end(state: EndState, reason: str, spent: Spent | Held) -> RunEnded:
    return RunEnded(
        state=state,
        reason=reason,
        calls=spent.calls,
        tokens=spent.tokens,
        cost_usd_nano=spent.cost_usd_nano,
        elapsed_us=spent.elapsed_us,
    )


def _free(runs: Path | None, session: str) -> str:
    """An id whose directory does not exist yet: this one, or this one with a number behind it [R-7.3-2]."""
    number, name = 0, session
    while runs is not None and os.path.lexists(runs / name):
        number += 1
        tail = f"-r{number}"
        name = session[: LONGEST_ID - len(tail)] + tail
    return name
