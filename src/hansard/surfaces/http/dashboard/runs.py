"""Pages of runs: the list, one run, two beside each other; and what operators do with a run."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from hansard.app.driving.gates import Gates
from hansard.app.driving.runs import Runs
from hansard.app.finding import is_deliberation
from hansard.app.service import Hansard
from hansard.app.telling.compare import has_answers, shown
from hansard.app.telling.listing import runs_page
from hansard.app.telling.nested_sessions import sessions_by_question
from hansard.app.telling.recorded import ENDED, STATES
from hansard.app.telling.runpage import run_page
from hansard.app.views import View, entry_view
from hansard.surfaces.afar import view_from_afar
from hansard.surfaces.http import runs as api
from hansard.surfaces.http.bodies import Seq
from hansard.surfaces.http.dashboard.graphs import MOST_DRAWN, timeline, waves
from hansard.surfaces.http.dashboard.pages import Page, form, page, to, to_keep
from hansard.surfaces.http.dashboard.spending import spend
from hansard.surfaces.http.desk import desk_of
from hansard.surfaces.http.problems import Refused

router = APIRouter(route_class=Page)
PAGE = 30
MOST_TEXTS = 200
"""Attempts of a run whose prompts and outputs stand on its page; of those behind them the entries are linked."""


class Wanted(BaseModel):
    after: Seq | None = None
    state: str = ""


@router.get("/dashboard/")
async def listed(request: Request, query: Annotated[Wanted, Query()]) -> Response:
    """The newest runs first."""
    desk = desk_of(request)
    seen = await desk.hansard.heavily(desk.hansard.ledger.size)
    views, after = await desk.hansard.heavily(
        runs_page, desk.hansard.store, before=query.after, limit=PAGE, state=query.state or None
    )
    await desk.hansard.heavily(_without_decided, desk.hansard.gates, views)
    return await page(
        request,
        "runs.html",
        seen=seen,
        runs=views,
        after=after,
        state=query.state,
        states=STATES,
        first=query.after is None,
    )


@router.get("/dashboard/runs/{run}")
async def show(request: Request, run: str) -> Response:
    """One run."""
    desk = desk_of(request)
    known = await api.found(desk, run)
    if await asyncio.to_thread(is_deliberation, desk.hansard.store, known):
        return to(f"/dashboard/deliberations/{known}")
    values = await desk.hansard.heavily(_run, desk.hansard, known)
    return await page(request, "run.html", **values)


def _without_decided(gates: Gates, views: list[View]) -> None:
    """Leave out gates that have got the words they need: they wait for a driver, and nobody can decide there any more."""
    for view in (each for each in views if each["open_gates"]):
        waiting = {each["gate"] for each in gates.listed(run=view["run"])}
        view["open_gates"] = [gate for gate in view["open_gates"] if gate in waiting]


def _run(hansard: Hansard, run: str) -> dict[str, Any]:
    runs = hansard.runs
    view, recorded = runs.show(run), runs.entries(run)
    entries = [entry_view(entry) for entry in recorded]
    unread = _with_texts(runs, view, entries)
    _without_decided(hansard.gates, [view])
    bars = timeline(entries)
    return {
        "run": view_from_afar(view, hansard, "http"),
        "graph": waves(view["tasks"]),
        "bars": bars[:MOST_DRAWN],
        "undrawn": len(bars[MOST_DRAWN:]),
        "sessions": sessions_by_question(recorded),
        "unread": unread,
        "spend": spend(view),
        "over": view["state"] in ENDED,
    }


def _with_texts(runs: Runs, view: View, entries: list[View]) -> int:
    """Gives how many attempts there are whose texts are not among them."""
    climbs: dict[str, list[str]] = {}
    for entry in entries:
        if entry["kind"] == "task.escalated":
            said = f"{entry['data']['from_rung']} to {entry['data']['to_rung']}"
            climbs.setdefault(entry["data"]["task"], []).append(said)
    left = MOST_TEXTS
    for task in view["tasks"]:
        task["escalations"] = climbs.get(task["task"], [])
        for attempt in task["attempts"]:
            returned = attempt["returned"]
            attempt["prompt"] = runs.text(attempt["seq"], "prompt") if left > 0 else None
            attempt["output"] = runs.text(returned["seq"], "output") if returned and left > 0 else None
            attempt["read"] = left > 0
            left -= 1
    return max(0, -left)


@router.get("/dashboard/data/runs/{run}/events")
async def follow(request: Request, run: str, after: int = -1) -> Response:
    """The entries of a run behind `after`, for the page that is open."""
    desk = desk_of(request)
    return await api.followed(desk, await api.found(desk, run), after)


@router.get("/dashboard/runs/{run}/page")
async def kept(request: Request, run: str) -> Response:
    """A run as one file that needs nothing else, to be kept or sent."""
    desk = desk_of(request)
    known = await api.found(desk, run)
    return to_keep(f"run-{known}.html", await desk.hansard.heavily(_kept, desk.hansard, known))


def _kept(hansard: Hansard, run: str) -> str:
    runs = hansard.runs
    view = view_from_afar(runs.show(run), hansard, "http")
    return run_page(hansard.store, view, runs.plan(run), runs.entries(run))


@router.get("/dashboard/compare")
async def compare(request: Request, run: Annotated[list[str] | None, Query()] = None) -> Response:
    """Two runs beside each other."""
    chosen = [each.strip() for each in run or () if each.strip()]
    if len(chosen) != 2:
        raise Refused(
            422,
            f"two runs can be compared, and {len(chosen) or 'none'} {'is' if len(chosen) == 1 else 'are'} ticked; tick two",
        )
    desk = desk_of(request)
    a, b = [await api.found(desk, each) for each in chosen]
    view = await desk.hansard.heavily(desk.hansard.runs.compare, a, b)
    return await page(request, "compare.html", a=a, b=b, rows=shown(view), view=view, answered=has_answers(view))


@router.post("/dashboard/runs/{run}/cancel")
async def cancel(request: Request, run: str) -> Response:
    await form(request)
    await api.cancel(request, run)
    return to(f"/dashboard/runs/{run}")


@router.post("/dashboard/runs/{run}/resume")
async def resume(request: Request, run: str) -> Response:
    await form(request)
    await api.resume(request, run, api.Waiting())
    return to(f"/dashboard/runs/{run}")


@router.post("/dashboard/runs/{run}/tasks/{task:path}/retry")
async def retry(request: Request, run: str, task: str) -> Response:
    await form(request)
    await api.retry(request, run, task, api.Waiting())
    return to(f"/dashboard/runs/{run}")
