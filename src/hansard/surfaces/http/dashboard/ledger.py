"""The record itself: entries in their order, one entry with its parts, and what lies before and behind it."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from hansard.app.finding import find_named
from hansard.app.ledgers.ledger import LedgerService
from hansard.app.serving import publishing
from hansard.app.views import View
from hansard.errors import HansardError, StoreError, UsageError
from hansard.surfaces.http.bodies import DIGITS, MAX_SEQ, Seq
from hansard.surfaces.http.dashboard.graphs import causal
from hansard.surfaces.http.dashboard.pages import Page, page
from hansard.surfaces.http.desk import desk_of
from hansard.surfaces.http.problems import refusing

router = APIRouter(route_class=Page)
At = Annotated[int, Path(ge=0, le=MAX_SEQ), DIGITS]
PAGE = 100


class Wanted(BaseModel):
    run: str = ""
    kind: str = ""
    actor: str = ""
    after: int | None = None
    before: Seq | None = None


@router.get("/dashboard/ledger")
async def listed(request: Request, query: Annotated[Wanted, Query()]) -> Response:
    """The newest entries, or the newest before `before`, or those behind `after`."""
    desk = desk_of(request)
    ledger = desk.hansard.ledger
    chosen = {name: value.strip() for name, value in query.model_dump(include={"run", "kind", "actor"}).items()}
    filters: dict[str, Any] = {name: value or None for name, value in chosen.items()}
    if chosen["run"]:
        # Pages name a run by the end of its id, and people type what they see.
        with refusing(404):
            filters["run"] = await desk.hansard.heavily(find_named, desk.hansard.store, chosen["run"])

    def read() -> list[View]:
        return list(ledger.show(**filters, after=query.after, before=query.before, limit=PAGE))

    seen = await desk.hansard.heavily(ledger.size)
    views = await desk.hansard.heavily(read)
    return await page(
        request,
        "ledger.html",
        seen=seen,
        entries=views,
        chosen=chosen,
        filtered=any(chosen.values()),
        after=query.after,
        newest=query.after is None and query.before is None,
        size=PAGE,
    )


@router.get("/dashboard/ledger/{seq}")
async def entry(request: Request, seq: At) -> Response:
    """One entry."""
    ledger = desk_of(request).hansard.ledger
    with refusing(404):
        values = await desk_of(request).hansard.heavily(_entry, ledger, seq)
    return await page(request, "entry.html", **values)


def _entry(ledger: LedgerService, seq: int) -> dict[str, Any]:
    view = ledger.get(seq)
    parts = [{**each, "text": _text(ledger, seq, each)} for each in view["parts"]]
    return {"entry": view, "parts_of": parts, "graph": causal(view, lambda other: _neighbour(ledger, other))}


def _neighbour(ledger: LedgerService, seq: int) -> View | None:
    try:
        return ledger.get(seq)
    except HansardError:
        return None


def _text(ledger: LedgerService, seq: int, part: View) -> str | None:
    """A body for showing; None where it is not here, is not the one that was committed to, or is no text."""
    try:
        return ledger.part(seq, part["part"]).decode()
    except (UsageError, StoreError, UnicodeDecodeError):
        return None


@router.get("/dashboard/ledger/{seq}/receipt")
async def receipt(request: Request, seq: At, disclose: Annotated[list[str] | None, Query()] = None) -> Response:
    """The proof of one entry as a file, with the parts that were ticked."""
    hansard = desk_of(request).hansard
    with refusing(404):
        await asyncio.to_thread(hansard.store.entry, seq)
    with refusing(409):
        made = await publishing.receipt(hansard, seq, tuple(disclose or ()))
    headers = {"content-disposition": f'attachment; filename="entry-{seq}.tlog-proof"'}
    return Response(made["receipt"], 200, headers, "text/plain; charset=utf-8")
