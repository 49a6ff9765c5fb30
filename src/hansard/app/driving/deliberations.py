"""Deliberations, for every surface: convene, hold, cancel, resume, list, replay. A deliberation is a run of its own mode.

The run is on the record before its session, and its end behind it; what is shown of it is what the record says.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from hansard.app.driving.claiming import beginning, claimed
from hansard.app.driving.holding import ENGINE, Hold, free_id
from hansard.app.driving.listening import listening
from hansard.app.finding import MODE, PERSONA
from hansard.app.ids import new_nonce
from hansard.app.people import human
from hansard.app.pool import Pool
from hansard.app.setup.convening import UNNAMED, Convening
from hansard.app.telling.deliberationviews import ENDS, deliberation_view, deliberation_views, has_session
from hansard.app.telling.directories import directory_of, listing_of
from hansard.app.views import View
from hansard.app.wiring import SOFTWARE
from hansard.deliberation.afterwards.replay import ExecutionReplay, check_assumed, fresh_id, most_calls, read_original
from hansard.deliberation.documents import Config, Persona
from hansard.deliberation.documents.vocabulary import PinningCondition
from hansard.deliberation.inventory import lacking
from hansard.deliberation.pins import Pins
from hansard.deliberation.session import Sitting
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.council import SessionArchived
from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.domain.work import CancelAsked, ResumeAsked, RunConfigured, RunRequested, Surface
from hansard.errors import Fenced, HansardError, ProviderError, StoreError, UsageError
from hansard.orchestration.ending import Ended, ended_before
from hansard.orchestration.journal import Listener
from hansard.orchestration.progress import Progress, progress_of
from hansard.orchestration.watching import Ask, Watch
from hansard.record.reading import read_entries
from hansard.record.recorder import Recorded, Recorder, Step, Within
from hansard.store.base import Query, Store

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
        self._watch = Watch(store)
        self._listeners: list[Listener] = []
        self._cancels: dict[str, asyncio.Event] = {}

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Hear of everything that sessions of this process record; gives what ends it. Errors of a listener end nothing else."""
        return listening(self._listeners, listener)

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
                max_cost_usd_nano=round(config.budget.max_total_cost_usd * NANO_PER_USD),
                max_seconds=config.budget.max_wallclock_seconds,
                config=Body.json(secrets.scrub(written.as_json())),
            )
            steps = [Step(requested, actor or human(), causes), Step(configured, ENGINE, [Within(0)])]
            self._tell(id, await self._recorder.record_all(steps, run=id))
        return id

    async def hold(self, run: str, *, pins: Pins | None = None, ask: Ask | None = None) -> Sat:
        """Hold the session of a run, or what is left of it. Fenced when another process holds it; `ask` records what is asked
        of it, once it does not."""
        async with self._held(run, ask) as hold:
            return Sat(run=run, sitting=await hold.session(pins))

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
            follow = f"hansard runs follow {run} --ledger {quote(self._store.place)}"
            raise ProviderError(f"no persona came of it; `{follow}` shows what was said")
        return {"run": run, "persona": persona.as_data()}

    async def _generated(self, run: str, ask: Ask | None = None) -> tuple[Ended, Persona | None]:
        async with self._held(run, ask) as hold:
            return await hold.persona()

    async def drive(self, run: str, ask: Ask | None = None) -> Ended:
        """The same for whoever drives runs of every mode."""
        try:
            if self._progress(run).mode == PERSONA:
                return (await self._generated(run, ask))[0]
            async with self._held(run, ask) as hold:
                if hold.progress.ended is not None:
                    return ended_before(hold.progress.ended)
                sitting = await hold.session()
                return Ended(run=run, state=ENDS[sitting.reason], reason=sitting.reason)
        except HansardError:
            ended = self._progress(run).ended
            if ended is None or ended.data["state"] != "cancelled":
                raise
            # It could not be read any more, and is cancelled all the same.
            return ended_before(ended)

    async def cancel(self, run: str, *, surface: Surface = "python", actor: str | None = None) -> None:
        """End a session with user_cancel, whoever holds it. Where nobody does, this carries it out."""
        requested = await asyncio.to_thread(self._unfinished, run)
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
        """Hold the rest of a session that was interrupted, or complete its directory. Fenced, and nothing is recorded, where
        another process holds it."""
        progress = await asyncio.to_thread(self._resumed, run)
        requested = progress.requested
        assert requested is not None

        async def ask() -> None:
            fact = ResumeAsked(surface=surface)
            self._tell(run, [await self._recorder.record(fact, actor=actor or human(), run=run, causes=[requested])])

        sat = await self.hold(run, ask=ask)
        if progress.ended is not None and sat.sitting.fault is not None:
            raise StoreError(sat.sitting.fault)
        return sat

    def _resumed(self, run: str) -> Progress:
        progress = self._progress(run)
        if progress.ended is not None and not self._is_left_open(progress):
            raise UsageError(f"run {run} has ended ({progress.ended.data['reason']}); there is nothing to resume")
        return progress

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
        check_assumed(assumed)
        original = read_original(folder)
        made = make(original.config)
        if made.cut:
            raise UsageError(f"a session is held again only with the limits that it had: {'; '.join(made.cut)}")
        most = most_calls(original.artifact["canonical_transcript"])
        made = replace(made, max_calls=most if made.max_calls is None else min(most, made.max_calls))
        runs = Path(made.runs) if made.runs else None
        run = await self.convene(made.named(fresh_id(original.config.session_id, runs)), surface=surface)
        async with self._held(run) as hold:
            return await hold.replay(original, made, runs, assumed)

    def show(self, run: str) -> View:
        """What the record says of one deliberation."""
        self._progress(run)
        return deliberation_view(self._store, run)

    def listed(self, *, limit: int = 20) -> list[View]:
        """The newest first."""
        return list(islice(deliberation_views(self._store), limit))

    @asynccontextmanager
    async def _held(self, run: str, ask: Ask | None = None) -> AsyncIterator[Hold]:
        """The run under a claim that is kept as long as this lasts."""
        # Known from the first moment on: whoever cancels while the claim is taken would else take it himself.
        cancel = asyncio.Event()
        self._cancels.setdefault(run, cancel)
        try:
            # What is no deliberation is refused before there is a claim of that name.
            await asyncio.to_thread(self._progress, run)
            async with claimed(self._store, self._watch, run, cancel, ask) as (progress, claim):
                try:
                    yield Hold(self._recorder, self._store, self._pool, progress, claim, cancel, self._tell)
                finally:
                    self._let_go(run, cancel)
                    self._recorder.seal_soon()
        finally:
            self._let_go(run, cancel)

    def _let_go(self, run: str, cancel: asyncio.Event) -> None:
        """Whoever cancels the run from now on carries it out himself."""
        if self._cancels.get(run) is cancel:
            del self._cancels[run]

    def _free_id(self, made: Convening, run: str) -> str:
        """The session's own id; the run's where it has none, another where its directory is taken."""
        id = run if made.config.session_id == UNNAMED else made.config.session_id
        return free_id(Path(made.runs) if made.runs else None, id)

    def _progress(self, run: str) -> Progress:
        progress = progress_of(run, read_entries(self._store, Query(run=run)))
        if progress.requested is None or progress.configured is None or progress.mode not in (MODE, PERSONA):
            place = self._store.place
            raise UsageError(
                f"there is no deliberation {run!r} in {place}; `hansard runs --ledger {quote(place)}` lists what there is"
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
            for listener in tuple(self._listeners):
                listener(run, each)
