"""Runs over HTTP: submit and walk away, or wait; look, follow, cancel, resume, retry, rerun, compare."""

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from hansard.app.driving.runs import mode_of
from hansard.app.finding import exact_run, is_deliberation
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.following import over_at
from hansard.app.telling.listing import runs_page
from hansard.app.telling.recorded import ENDED
from hansard.app.views import View
from hansard.surfaces.afar import view_from_afar
from hansard.surfaces.http.bodies import (
    FullRunView,
    PlanRequest,
    RerunRequest,
    RouteRequest,
    RouteView,
    RunRequest,
    RunsListing,
    RunView,
    Strictly,
)
from hansard.surfaces.http.desk import Desk, answer, desk_of, page, token_of
from hansard.surfaces.http.events import EVENT, MEDIA, Events, gone
from hansard.surfaces.http.problems import Refused, documented, on_record, refusing

router = APIRouter(tags=["runs"], route_class=Strictly)
CANCELLED_S = 10.0
MAX_WAIT_S = 600
FINISHED: dict[int | str, dict[str, Any]] = {200: {"model": FullRunView, "description": "The run has ended."}}
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA: {"schema": EVENT}}, "description": "Entries as they are recorded."},
    204: {"description": "The run is over and there is nothing behind that entry."},
}


class Waiting(BaseModel):
    model_config = ConfigDict(extra="forbid")
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 0


class Planning(Waiting):
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 60


@router.post("/v1/runs", status_code=202, response_model=FullRunView, responses=FINISHED | documented(409, 415))
async def submit(request: Request, body: RunRequest, query: Annotated[Waiting, Query()]) -> Response:
    """Hand in a request. 202 with the run at once; with `wait`, 200 when it has ended by then."""
    desk = desk_of(request)
    mode, wishes = "single" if body.single else "request", desk.wished(body.provider, **body.wished())
    run = await _submitted(request, desk, body.request, wishes, run=body.run, mode=mode, plan=body.plan, lane=body.lane)
    with on_record(run):
        return await _shown(request, run, query.wait, 202)


@router.post("/v1/plans", response_model=dict[str, Any], responses=documented(409, 415))
async def plan(request: Request, body: PlanRequest, query: Annotated[Planning, Query()]) -> Response:
    """Plan only, as `POST /v1/runs` takes it back. Waits for the plan, up to `wait` seconds."""
    desk = desk_of(request)
    wishes = desk.wished(body.provider, **body.wished())
    run = await _submitted(request, desk, body.request, wishes, run=body.run, mode="plan_only")
    await waited(request, run, query.wait)
    with on_record(run):
        made = await asyncio.to_thread(desk.hansard.runs.plan, run)
        if made is None:
            view = await asyncio.to_thread(desk.hansard.runs.show, run)
            raise _without_plan(view)
    return answer(made, headers={"location": f"/v1/runs/{run}"})


def _without_plan(view: View) -> Refused:
    """What whoever waited for a plan is told: why there is none, or that it may be there later."""
    run, state, unusable = view["run"], view["state"], view["unusable"]
    said = f"run {run} is {state} and has no plan"
    if state not in ENDED:
        said += f" yet; it goes on, and plan.seq of /v1/runs/{run} will name the entry whose part `plan` is the plan"
    elif unusable:
        said += f": the {unusable['role']} gave no usable answer ({unusable['error']}); entry {unusable['seq']} has what it said"
    elif view["reason"] != state:
        said += f": {view['reason']}"
    return Refused(409, said, {"location": f"/v1/runs/{run}"}, run=run)


@router.post("/v1/route", response_model=RouteView, responses=documented(409, 415))
async def route(request: Request, body: RouteRequest) -> Response:
    """Which lane a request belongs to, and why."""
    desk = desk_of(request)
    return answer(await desk.daemon.route(body.text, surface="http", actor=token_of(request).actor))


@router.get("/v1/runs", response_model=list[RunView], responses=documented())
async def listed(request: Request, query: Annotated[RunsListing, Query()]) -> Response:
    """The newest runs first."""
    return await listed_in(request, query)


async def listed_in(request: Request, query: RunsListing, mode: str | None = None) -> Response:
    """A page of the runs in this mode, or in any."""
    hansard = desk_of(request).hansard
    views, after = await hansard.heavily(
        runs_page, hansard.store, before=query.after, limit=query.limit, state=query.state, mode=mode
    )
    return page(request, views, after)


@router.get("/v1/runs/{run}", response_model=FullRunView, responses=documented(404))
async def show(request: Request, run: str) -> Response:
    """Everything about one run; `last` is the newest."""
    desk = desk_of(request)
    return await _shown(request, await found(desk, run), 0)


@router.get("/v1/runs/{run}/events", response_class=Response, responses=STREAM | documented(404))
async def follow(
    request: Request, run: str, last_event_id: Annotated[str, Header(max_length=20, pattern="^[0-9]*$")] = ""
) -> Response:
    """The entries of a run as they are recorded, until it ends (server-sent events)."""
    desk = desk_of(request)
    return await followed(desk, await found(desk, run), int(last_event_id or -1))


async def followed(desk: Desk, run: str, seen: int) -> Response:
    """The entries of a run behind the last one that was seen."""
    store = desk.hansard.store
    over, size = await asyncio.to_thread(lambda: (over_at(store, run), store.head().size))
    # An id from behind the end is of a ledger that was put back: whoever shows it hears of what comes, and of the end.
    after = min(seen, size - 1)
    # 204 tells a browser not to come back (WHATWG HTML, 9.2.3).
    return Response(status_code=204) if over is not None and after >= over else Events(desk, run, after)


@router.post("/v1/runs/{run}/cancel", response_model=FullRunView, responses=documented(404, 409, 415))
async def cancel(request: Request, run: str) -> Response:
    """Stop a run, whoever drives it."""
    desk = desk_of(request)
    known = await found(desk, run)
    with refusing(409):
        actor = token_of(request).actor
        stop = partial(desk.hansard.runs.cancel, known, surface="http", actor=actor)
        await desk.daemon.ask(known, lambda accepted: stop(accepted=accepted))
    return await _shown(request, known, CANCELLED_S)


@router.post(
    "/v1/runs/{run}/resume", status_code=202, response_model=FullRunView, responses=FINISHED | documented(404, 409, 415)
)
async def resume(request: Request, run: str, query: Annotated[Waiting, Query()]) -> Response:
    """Go on with a run that was cut short."""
    desk = desk_of(request)
    known = await found(desk, run)
    with refusing(409):
        await desk.daemon.resume(known, surface="http", actor=token_of(request).actor)
    return await _shown(request, known, query.wait, 202)


@router.post(
    "/v1/runs/{run}/tasks/{task:path}/retry",
    status_code=202,
    response_model=FullRunView,
    responses=FINISHED | documented(404, 409, 415),
)
async def retry(request: Request, run: str, task: str, query: Annotated[Waiting, Query()]) -> Response:
    """Do a task again, and whatever was built on it."""
    desk = desk_of(request)
    known = await found(desk, run)
    with refusing(409):
        await desk.daemon.retry(known, task, surface="http", actor=token_of(request).actor)
    return await _shown(request, known, query.wait, 202)


@router.post("/v1/runs/{run}/rerun", response_model=dict[str, Any], responses=documented(404, 409, 415))
async def rerun(request: Request, run: str, body: RerunRequest | None = None) -> Response:
    """Run it again from the record alone, and say where it came out otherwise. Nothing is recorded."""
    desk = desk_of(request)
    known, swap = await found(desk, run), dict(body.swap) if body else {}
    if await asyncio.to_thread(is_deliberation, desk.hansard.store, known):
        raise Refused(409, f"run {known} is a deliberation; `hansard session execution-replay` holds it again")
    with refusing(409):
        if swap:
            return answer(await desk.hansard.runs.rerun(known, swap))
        # Without a live provider it is work for one processor, and belongs into a thread with a loop of its own.
        return answer(await desk.hansard.heavily(lambda: asyncio.run(desk.hansard.runs.rerun(known))))


@router.get("/v1/runs/{run}/capsule", response_model=dict[str, Any], responses=documented(404))
async def capsule(request: Request, run: str) -> Response:
    """What a run knows, small enough to be given to the next one."""
    desk = desk_of(request)
    known = await found(desk, run)
    return answer(await asyncio.to_thread(desk.hansard.runs.capsule, known))


class Compared(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: str
    b: str


@router.get("/v1/compare", response_model=dict[str, Any], responses=documented(404))
async def compare(request: Request, query: Annotated[Compared, Query()]) -> Response:
    """What changed between two runs."""
    desk = desk_of(request)
    a, b = await found(desk, query.a), await found(desk, query.b)
    return answer(await desk.hansard.heavily(desk.hansard.runs.compare, a, b))


async def found(desk: Desk, run: str) -> str:
    """The run of this id; 404 where there is none."""
    with refusing(404):
        return await asyncio.to_thread(exact_run, desk.hansard.store, run)


async def _submitted(request: Request, desk: Desk, text: str, wishes: Wishes, **how: Any) -> str:
    with refusing(409):
        config = desk.daemon.config(wishes, mode_of(how["mode"], how.get("plan"), how.get("lane")))
        how |= {"commands": desk.commands, "surface": "http", "actor": token_of(request).actor}
        return await desk.daemon.submit(desk.hansard.runs.submit(text, config, **how))


async def waited(request: Request, run: str, seconds: float) -> None:
    """Wait for a run, for so long or until its caller has gone: the place of somebody who is not there is nobody's."""
    waiting = asyncio.ensure_future(desk_of(request).daemon.wait(run, seconds))
    leaving = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            waiting.result()
    finally:
        for each in (waiting, leaving):
            each.cancel()
        await asyncio.gather(waiting, leaving, return_exceptions=True)
    if not request.scope["hansard.may_go_on"]():
        raise Refused(401, f"this token has ended meanwhile; run {run} is on the record", run=run)


async def _shown(request: Request, run: str, wait_s: float, status: int | None = None) -> Response:
    """The run; 200 when it has ended, or where nothing else is said."""
    if wait_s:
        await waited(request, run, wait_s)
    hansard = desk_of(request).hansard
    view = view_from_afar(await asyncio.to_thread(hansard.runs.show, run), hansard, "http")
    over = view["state"] in ENDED
    return answer(view, 200 if over or status is None else status, {"location": f"/v1/runs/{run}"})
