"""Deliberations over HTTP: convene, go on from one that asks for something, look, read the transcript and the figures, follow."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from hansard.app.driving.chaining import Continuation, continuation, go_on
from hansard.app.finding import MODE, exact_deliberation
from hansard.app.service import Hansard
from hansard.app.setup.convening import DEFAULT_EXPANSIONS, Call, Convening, check_name, convening
from hansard.app.telling.deliberationviews import artifact_on_record, deliberation_view, metrics_on_record
from hansard.app.telling.recorded import ENDED
from hansard.app.views import View
from hansard.surfaces.afar import view_from_afar
from hansard.surfaces.http import runs
from hansard.surfaces.http.bodies import (
    ContinuationRequest,
    DeliberationRequest,
    DeliberationView,
    RunsListing,
    RunView,
    SessionRequest,
    Strictly,
)
from hansard.surfaces.http.desk import Desk, answer, desk_of, token_of
from hansard.surfaces.http.problems import documented, on_record, refusing
from hansard.surfaces.http.runs import STREAM, Waiting

router = APIRouter(tags=["deliberations"], route_class=Strictly)
FINISHED: dict[int | str, dict[str, Any]] = {200: {"model": DeliberationView, "description": "It is over."}}


@router.post(
    "/v1/deliberations", status_code=202, response_model=DeliberationView, responses=FINISHED | documented(409, 415)
)
async def convene(request: Request, body: DeliberationRequest, query: Annotated[Waiting, Query()]) -> Response:
    """Put a problem to a panel. 202 at once; with `wait`, 200 when it is over by then."""
    desk = desk_of(request)
    if isinstance(named := (body.config or {}).get("session_id"), str):
        check_name(named)
    with refusing(409):
        made = await asyncio.to_thread(_convening, desk, body)
        actor = token_of(request).actor
        convened = desk.hansard.deliberations.convene(made, surface="http", actor=actor, run=body.run)
        run = await desk.daemon.submit(convened)
    return await _accepted(request, run, query.wait)


@router.post(
    "/v1/deliberations/{run}/continue",
    status_code=202,
    response_model=DeliberationView,
    responses=FINISHED | documented(404, 409, 415),
)
async def go_on_from(
    request: Request, run: str, body: ContinuationRequest, query: Annotated[Waiting, Query()]
) -> Response:
    """Answer a session that ended with a question: a new one, a run of its own, takes up where it stopped."""
    desk = desk_of(request)
    before = await _found(desk, run)
    with refusing(409):
        found = await asyncio.to_thread(continuation_of, desk, before, body)
        deliberations, actor = desk.hansard.deliberations, token_of(request).actor
        new = await desk.daemon.submit(go_on(deliberations, found, surface="http", actor=actor, run=body.run))
    return await _accepted(request, new, query.wait)


async def _accepted(request: Request, run: str, wait_s: float) -> Response:
    await runs.waited(request, run, wait_s)
    with on_record(run):
        view = await asyncio.to_thread(_view, desk_of(request).hansard, run)
    return answer(view, 200 if view["state"] in ENDED else 202, {"location": f"/v1/deliberations/{run}"})


def _convening(desk: Desk, body: DeliberationRequest) -> Convening:
    call = replace(
        _call(desk, body),
        problem=body.problem,
        config=body.config,
        panel=body.panel,
        experts=tuple(body.experts),
        ensemble=body.ensemble,
        caps=body.caps(),
        max_expansions=DEFAULT_EXPANSIONS if body.max_expansions is None else body.max_expansions,
    )
    if body.provider is None and body.script is None:
        call = replace(call, wishes=desk.wishes)
    return convening(desk.hansard.settings, desk.hansard.pool, call)


def continuation_of(desk: Desk, run: str, body: ContinuationRequest) -> Continuation:
    """What goes on from a session with this body; UsageError where nothing does."""
    return continuation(
        desk.hansard.store,
        desk.hansard.pool,
        run,
        body.answer,
        call=_call(desk, body),
        experts=body.experts,
        max_expansions=body.max_expansions,
    )


def _call(desk: Desk, body: SessionRequest) -> Call:
    """What both ways to begin a session have in common. Nobody is asked whom only the daemon's flags name."""
    return Call(
        max_rounds=body.max_rounds,
        runs=desk.sessions,
        script=body.script,
        selector_script=body.selector_script,
        wishes=desk.wishes.asking(body.provider),
    )


@router.get("/v1/deliberations", response_model=list[RunView], responses=documented())
async def listed(request: Request, query: Annotated[RunsListing, Query()]) -> Response:
    """The newest first."""
    return await runs.listed_in(request, query, MODE)


@router.get("/v1/deliberations/{run}", response_model=DeliberationView, responses=documented(404))
async def show(request: Request, run: str) -> Response:
    """One deliberation."""
    desk = desk_of(request)
    known = await _found(desk, run)
    with refusing(404):
        return answer(await asyncio.to_thread(_view, desk.hansard, known))


@router.get("/v1/deliberations/{run}/transcript", response_model=list[dict[str, Any]], responses=documented(404, 409))
async def transcript(request: Request, run: str) -> Response:
    """What was said, in its order, of a deliberation that is over."""
    desk = desk_of(request)
    known = await _found(desk, run)
    with refusing(409):
        return answer((await asyncio.to_thread(artifact_on_record, desk.hansard.store, known))["canonical_transcript"])


@router.get("/v1/deliberations/{run}/metrics", response_model=dict[str, Any], responses=documented(404, 409))
async def metrics(request: Request, run: str) -> Response:
    """The figures of a deliberation that is over."""
    desk = desk_of(request)
    known = await _found(desk, run)
    with refusing(409):
        return answer(await asyncio.to_thread(metrics_on_record, desk.hansard.store, known))


@router.get("/v1/deliberations/{run}/events", response_class=Response, responses=STREAM | documented(404))
async def follow(
    request: Request, run: str, last_event_id: Annotated[str, Header(max_length=20, pattern="^[0-9]*$")] = ""
) -> Response:
    """What is recorded of a deliberation, until it is over (server-sent events)."""
    return await runs.follow(request, await _found(desk_of(request), run), last_event_id)


def _view(hansard: Hansard, run: str) -> View:
    return view_from_afar(deliberation_view(hansard.store, run), hansard, "http")


async def _found(desk: Desk, run: str) -> str:
    with refusing(404):
        return await asyncio.to_thread(exact_deliberation, desk.hansard.store, run)
