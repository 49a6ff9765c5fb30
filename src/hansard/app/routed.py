"""Routes that go on the record: a question that costs nothing and always gets the same answer is a whole run in one commit."""

import asyncio
import secrets
import time

from hansard.app.ids import new_run_id
from hansard.app.routing import route_view
from hansard.app.settings import Settings
from hansard.app.views import View
from hansard.domain.fact import Body
from hansard.domain.roster import Roster
from hansard.domain.work import RunClaimed, RunEnded, RunRequested, RunRouted, Surface
from hansard.errors import Fenced, HansardError
from hansard.orchestration.roles import as_json
from hansard.orchestration.route import Router
from hansard.record.recorder import Recorder, Step, Within
from hansard.store.base import Claim, Store

LEASE_S = 15.0


class Routes:
    """Answers which lane a request belongs to. It drives its runs under one claim, its own: none of them outlives its commit."""

    def __init__(self, recorder: Recorder, store: Store, settings: Settings) -> None:
        self._recorder, self._store, self._settings = recorder, store, settings
        self._router: Router | None = None
        self._roster: dict[str, str] = {}
        self._claim: Claim | None = None
        self._opening = asyncio.Lock()

    async def route(self, text: str, *, surface: Surface, actor: str) -> View:
        """Where this request would go, and why, with the run that says so."""
        began = time.monotonic()
        router, claim = await self._open()
        run, found = new_run_id(), router.route(text)
        view = route_view(found)
        routed = RunRouted(
            tier=found.tier,
            lane=found.lane,
            runner_up=found.runner_up,
            confidence_ppm=found.confidence_ppm,
            evidence=Body.json(as_json({**view, "roster": self._roster})),
        )
        took = int((time.monotonic() - began) * 1_000_000)
        ended = RunEnded(state="answered", reason="routed", calls=0, tokens=0, cost_usd_nano=0, elapsed_us=took)
        steps = [
            Step(RunRequested(mode="route", surface=surface, request=Body.text(text)), actor),
            Step(RunClaimed(epoch=claim.epoch, because="new"), "engine", [Within(0)]),
            Step(routed, "router", [Within(0)]),
            Step(ended, "engine", [Within(2)]),
        ]
        await self._recorder.record_all(steps, run=run, claim=claim)
        return {"run": run, **view}

    async def work(self) -> None:
        """Keep the claim until cancelled."""
        await self._open()
        while True:
            await asyncio.sleep(LEASE_S / 3)
            if self._claim:
                try:
                    await asyncio.to_thread(self._store.renew, self._claim, LEASE_S)
                except Fenced:
                    # Held up for longer than the lease: the next route takes another one.
                    self._claim = None

    def close(self) -> None:
        if self._claim:
            try:
                self._store.release(self._claim)
            except HansardError:
                # Fenced, or the store is gone: then nothing is ours to give back.
                return

    async def _open(self) -> tuple[Router, Claim]:
        async with self._opening:
            if self._router is None:
                # Building it reads every lane, which is too long for the event loop.
                self._router = await asyncio.to_thread(self._build)
            if self._claim is None:
                self._claim = await asyncio.to_thread(self._store.claim, f"routes-{secrets.token_hex(4)}", LEASE_S)
            return self._router, self._claim

    def _build(self) -> Router:
        roster = self._settings.roster or Roster.default()
        self._roster = {"name": roster.name, "digest": roster.digest}
        return Router(roster)
