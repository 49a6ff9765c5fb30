"""The page of one deliberation, as far as it has come: who said what in which round, and who disagrees on what."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hansard.app.driving.chaining import after_it, before_it
from hansard.app.finding import exact_session
from hansard.app.service import Hansard
from hansard.app.telling.deliberationviews import artifact_on_record, asked_for, deliberation_view, held_none
from hansard.app.telling.nested_view import nested_artifact, nested_entries, nested_view
from hansard.app.telling.recorded import ENDED
from hansard.app.telling.sessionpage import disagreements, said, session_page
from hansard.app.views import View
from hansard.errors import HansardError, StoreError
from hansard.surfaces.afar import from_afar, view_from_afar
from hansard.surfaces.http import deliberations as api
from hansard.surfaces.http import runs
from hansard.surfaces.http.bodies import ContinuationRequest
from hansard.surfaces.http.dashboard.pages import Page, checked, form, one, page, to, to_keep
from hansard.surfaces.http.dashboard.spending import spend
from hansard.surfaces.http.desk import Desk, desk_of
from hansard.surfaces.http.problems import Refused, refusing

router = APIRouter(route_class=Page)
Message = Mapping[str, Any]


@router.get("/dashboard/deliberations/{name}")
async def show(request: Request, name: str) -> Response:
    """One deliberation, by its run; or a session that met inside of a run, by its id."""
    desk = desk_of(request)
    with refusing(404):
        run, session = await asyncio.to_thread(exact_session, desk.hansard.store, name)
    try:
        values = await desk.hansard.heavily(_deliberation, desk, run, session)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(
            f"a message of {session or run} is not what was recorded ({error!r:.80}); hansard verify --deep names it"
        ) from error
    return await page(request, "deliberation.html", **values)


@router.get("/dashboard/deliberations/{name}/page")
async def kept(request: Request, name: str) -> Response:
    """A session that has ended, as one file."""
    desk = desk_of(request)
    with refusing(404):
        run, session = await asyncio.to_thread(exact_session, desk.hansard.store, name)
        html = await desk.hansard.heavily(_kept, desk.hansard, run, session)
    return to_keep(f"session-{session or run}.html", html)


def _kept(hansard: Hansard, run: str, session: str | None) -> str:
    store = hansard.store
    return session_page(nested_artifact(store, run, session) if session else artifact_on_record(store, run))


@router.post("/dashboard/deliberations/{run}/continue")
async def go_on_from(request: Request, run: str) -> Response:
    """Answer what a session asked for, and see the one that goes on from it. The form is there once, and so is its answer."""
    fields = await form(request)
    body = checked(ContinuationRequest, {"answer": one(fields, "answer")})
    desk = desk_of(request)
    # Who presses twice sends both at once: the second looks when the first is on the record.
    async with desk.answering:
        if after := await asyncio.to_thread(after_it, desk.hansard.store, run):
            raise Refused(409, f"this was answered already, and goes on in {after}; nothing came of what you sent now")
        accepted = await api.go_on_from(request, run, body, runs.Waiting())
    return to(f"/dashboard/deliberations/{json.loads(bytes(accepted.body))['run']}")


def _deliberation(desk: Desk, run: str, session: str | None) -> dict[str, Any]:
    hansard, store = desk.hansard, desk.hansard.store
    entries = whole = hansard.runs.views(run)
    if session is None:
        view = deliberation_view(store, run) | {"within": None}
    else:
        view, entries = nested_view(store, run, session), nested_entries(store, run, session)
    found = _messages(hansard, entries)
    messages, pending = list(found.values()), view.get("pending")
    rounds: dict[int, list[Message]] = {}
    for message in messages:
        if message["type"] != "problem_statement":
            rounds.setdefault(message["round"], []).append({**message, "said": _said(message)})
    failures = [entry for entry in entries if entry["kind"] == "turn.failed"]
    return {
        "view": view_from_afar(view, hansard, "http"),
        # Nobody goes on from a session inside of a run but the run.
        "before": None if session else before_it(store, run),
        "after": None if session else after_it(store, run),
        "asked": asked_for(pending) if pending else None,
        "hindered": hindrance(desk, run) if pending and not session else None,
        "round": view["rounds"] if "rounds" in view else _round(entries),
        "rounds": rounds,
        "verdicts": [message for message in messages if message["type"] == "coordination_turn"],
        "disagreements": disagreements(messages),
        "failures": failures,
        "gone": [entry for entry in entries if entry["kind"] == "turn.taken" and entry["seq"] not in found],
        "spend": spend(view),
        "over": view["state"] in ENDED,
        "unheld": whole[-1]["data"]["reason"].replace("_", " ") if held_none(store, run) else None,
        "last_seq": whole[-1]["seq"],
    }


def hindrance(desk: Desk, run: str) -> str | None:
    """Why an answer alone would be refused; None where a session goes on from it."""
    try:
        api.continuation_of(desk, run, checked(ContinuationRequest, {"answer": "any"}))
    except HansardError as error:
        return from_afar(str(error), desk.hansard, "http")
    return None


def _round(entries: Iterable[View]) -> int:
    """The round that a session has come to, also where nobody has spoken in it."""
    return max((each["data"]["round"] for each in entries if each["kind"] in ("turn.asked", "turn.taken")), default=0)


def _messages(hansard: Hansard, entries: Iterable[View]) -> dict[int, Message]:
    """The transcript so far, by the entries of its turns; what was annotated later stands in place of what it annotates."""
    found: dict[int, Message] = {}
    used: list[View] = []
    for entry in entries:
        if entry["kind"] == "tools.called":
            used.append(entry)
        if entry["kind"] not in ("turn.taken", "turn.amended"):
            continue
        text, place = hansard.runs.text(entry["seq"], "message"), entry["data"].get("amends", entry["seq"])
        tools = [call for call in used if entry["data"].get("tools")] or found.get(place, {}).get("used", [])
        if text is not None:
            found[place] = {**json.loads(text), "seq": entry["seq"], "used": tools}
        used = []
    return found


def _said(message: Message) -> str:
    kind, content = message["type"], message["content"]
    return f"{content['focus']}\n{content['rationale']}" if kind == "coordination_turn" else said(kind, content)
