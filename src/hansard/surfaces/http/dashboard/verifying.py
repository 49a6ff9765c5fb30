"""What the verifier in the browser reads: lines and checkpoints as they are kept. Nothing here is summed up or judged."""

import json
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from hansard.app.ledgers.ledger import LedgerService
from hansard.surfaces.http.bodies import Seq
from hansard.surfaces.http.dashboard.pages import Page, made
from hansard.surfaces.http.desk import answer, desk_of

router = APIRouter(route_class=Page)
PAGE = 1_000
PAGE_BYTES = 4 << 20
LENGTH = 4


class Wanted(BaseModel):
    start: Seq = 0


@router.get("/dashboard/verify")
async def verify(request: Request) -> Response:
    return made(request, "verify.html")


@router.get("/dashboard/data/head")
async def head(request: Request) -> Response:
    """How long the log is, for pages that look again when it has grown."""
    desk = desk_of(request)
    return answer({"entries": await desk.hansard.heavily(desk.hansard.ledger.size)})


@router.get("/dashboard/data/lines")
async def lines(request: Request, query: Annotated[Wanted, Query()]) -> Response:
    """Entry lines byte for byte from `start` on, each behind its length in four bytes: a damaged one may hold anything."""
    desk = desk_of(request)
    data = await desk.hansard.heavily(_lines, desk.hansard.ledger, query.start)
    return Response(data, media_type="application/octet-stream")


def _lines(ledger: LedgerService, start: int) -> bytes:
    found, held = [], 0
    # Without an end: where entries are missing, those behind them come next, and are seen to follow nothing.
    for line in islice(ledger.store.lines(start), PAGE):
        found += [len(line).to_bytes(LENGTH, "big"), line]
        held += len(line)
        if held > PAGE_BYTES:
            break
    return b"".join(found)


@router.get("/dashboard/data/checkpoints")
async def checkpoints(request: Request) -> Response:
    """Every checkpoint that is kept, as JSON lines of {"note"}."""
    desk = desk_of(request)
    data = await desk.hansard.heavily(_checkpoints, desk.hansard.ledger)
    return Response(data, media_type="application/octet-stream")


def _checkpoints(ledger: LedgerService) -> bytes:
    return "".join(json.dumps({"note": each.note}) + "\n" for each in ledger.store.checkpoints()).encode()
