"""Routes that go on the record: a question that costs nothing and always gets the same answer is one entry."""

import asyncio
from typing import NamedTuple

from hansard.app.lanes.routing import route_view
from hansard.app.settings import Settings
from hansard.app.views import View
from hansard.domain.fact import Body
from hansard.domain.roster import Roster
from hansard.domain.work import RouteGiven, Surface
from hansard.orchestration.journal import without_secrets
from hansard.orchestration.roles import as_json
from hansard.orchestration.route import Route, Router
from hansard.providers.secrets import Secrets
from hansard.record.recorder import Recorder

MOST_KNOWN, LONGEST_KNOWN = 1_024, 2_000


class _Known(NamedTuple):
    """A route that was found before: the roster stays as it is, so it is found once."""

    found: Route
    view: View
    evidence: Body


class Routes:
    """Answers which lane a request belongs to."""

    def __init__(self, recorder: Recorder, settings: Settings, secrets: Secrets) -> None:
        self._recorder, self._settings, self._secrets = recorder, settings, secrets
        self._router: Router | None = None
        self._roster: dict[str, str] = {}
        self._known: dict[str, _Known] = {}
        self._opening = asyncio.Lock()

    async def route(self, text: str, *, surface: Surface, actor: str) -> View:
        """Where this request would go, and why, with the entry that says so."""
        known = self._known.get(text) or self._find(self._router or await self._opened(), text)
        found = known.found
        fact = RouteGiven(
            surface=surface,
            tier=found.tier,
            lane=found.lane,
            runner_up=found.runner_up,
            confidence_ppm=found.confidence_ppm,
            request=Body.text(text),
            evidence=known.evidence,
        )
        recorded = await self._recorder.record(without_secrets(fact, self._secrets), actor=actor)
        return {"entry": recorded.seq, **known.view}

    def _find(self, router: Router, text: str) -> _Known:
        found = router.route(text)
        view = route_view(found)
        known = _Known(found, view, Body.json(as_json({**view, "roster": self._roster})))
        if len(text) <= LONGEST_KNOWN:
            if len(self._known) >= MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[text] = known
        return known

    async def _opened(self) -> Router:
        async with self._opening:
            if self._router is None:
                # Building it reads every lane, which is too long for the event loop.
                self._router = await asyncio.to_thread(self._build)
            return self._router

    def _build(self) -> Router:
        roster = self._settings.roster or Roster.default()
        self._roster = {"name": roster.name, "digest": roster.digest}
        return Router(roster)
