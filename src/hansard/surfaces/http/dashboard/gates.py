"""Gates that wait for people: exactly what is shown there, and the form in which somebody decides."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hansard.app.driving.gates import Gates, approvals
from hansard.surfaces.http import gates as api
from hansard.surfaces.http import runs
from hansard.surfaces.http.bodies import DecisionRequest
from hansard.surfaces.http.dashboard.pages import Page, checked, form, one, page, to
from hansard.surfaces.http.desk import desk_of

router = APIRouter(route_class=Page)
MOST_SHOWN = 50


@router.get("/dashboard/gates")
async def listed(request: Request, run: str = "") -> Response:
    """What waits, in all runs or in one, the oldest first."""
    desk = desk_of(request)
    known = await runs.found(desk, run) if run else None
    seen = await desk.hansard.heavily(desk.hansard.ledger.size)
    found, more = await desk.hansard.heavily(_open, desk.hansard.gates, known)
    return await page(request, "gates.html", seen=seen, gates=found, more=more, of=known)


def _open(gates: Gates, run: str | None) -> tuple[list[dict[str, Any]], int]:
    waiting = gates.listed(run=run, questions=True)
    found = [{**each, "text": gates.in_question(each), "approved": approvals(each)} for each in waiting[:MOST_SHOWN]]
    return found, max(0, len(waiting) - MOST_SHOWN)


@router.post("/dashboard/gates/{gate}/decision")
async def decide(request: Request, gate: str) -> Response:
    """Record a decision, bound to what the page showed."""
    fields = await form(request)
    decision = one(fields, "decision")
    said: dict[str, Any] = {"decision": decision, "note": one(fields, "note") or None, "shown": fields.get("shown", [])}
    if decision == "edit":
        said["edit"] = one(fields, "edit")
    await api.decide(request, gate, checked(DecisionRequest, said))
    return to("/dashboard/gates")
