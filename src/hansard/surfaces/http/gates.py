"""Gates over HTTP: what waits for people, and what they decide. Who decides is whoever the token belongs to."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from hansard.surfaces.http.bodies import DecisionRequest, FullGateView, GatesListing, GateView, Strictly
from hansard.surfaces.http.desk import answer, check_role, desk_of, page, token_of
from hansard.surfaces.http.problems import documented, refusing
from hansard.surfaces.http.runs import found

router = APIRouter(tags=["gates"], route_class=Strictly)


@router.get("/v1/gates", response_model=list[GateView], responses=documented(404))
async def listed(request: Request, query: Annotated[GatesListing, Query()]) -> Response:
    """Gates that wait, the oldest first; with `closed` also the others."""
    desk = desk_of(request)
    run = await found(desk, query.run) if query.run else None
    after = -1 if query.after is None else query.after
    views = await desk.hansard.heavily(
        desk.hansard.gates.listed, run=run, closed=query.closed, after=after, limit=query.limit + 1
    )
    last = views[query.limit - 1]["seq"] if len(views) > query.limit else None
    # The newest run may be another one by then.
    return page(request, views[: query.limit], last, **({"run": run} if run else {}))


@router.get("/v1/gates/{gate}", response_model=FullGateView, responses=documented(404))
async def show(request: Request, gate: str) -> Response:
    """One gate with what it shows."""
    desk = desk_of(request)
    with refusing(404):
        return answer(await desk.hansard.heavily(desk.hansard.gates.show, gate))


@router.post("/v1/gates/{gate}/decision", response_model=FullGateView, responses=documented(404, 409, 415))
async def decide(request: Request, gate: str, body: DecisionRequest) -> Response:
    """Approve, reject or edit."""
    desk, token = desk_of(request), token_of(request)
    # Asked here too: the door knows a path by its letters, and the router leads others here (one with a line end behind it).
    check_role(token, "approver")
    with refusing(404):
        await asyncio.to_thread(desk.hansard.gates.show, gate)
    with refusing(409):
        view = await desk.hansard.gates.decide(
            gate,
            body.decision,
            actor=token.actor,
            note=body.note,
            edit=body.edit,
            commands=desk.commands,
            authenticated=True,
            shown=None if body.shown is None else tuple(body.shown),
        )
    return answer(view)
