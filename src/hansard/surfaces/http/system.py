"""How the daemon does: health for whoever asks, status and metrics for readers. All of it costs the same on any ledger."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from hansard.app.serving.publishing import status as ledger_status
from hansard.app.views import moment
from hansard.errors import StoreError
from hansard.surfaces.http.bodies import HealthView, StatusView, Strictly
from hansard.surfaces.http.desk import answer, desk_of
from hansard.surfaces.http.metrics import MEDIA
from hansard.surfaces.http.problems import Refused, documented

router = APIRouter(tags=["daemon"], route_class=Strictly)
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/health", response_model=HealthView, responses=documented())
async def health(request: Request) -> Response:
    """Whether it takes requests. Needs no token."""
    if desk_of(request).daemon.draining:
        raise Refused(503, "the daemon is shutting down", {"retry-after": "2"})
    return answer({"ok": True})


@router.get("/v1/status", response_model=StatusView, responses=documented())
async def status(request: Request) -> Response:
    """How the ledger and the daemon stand."""
    desk = desk_of(request)
    view = await asyncio.to_thread(ledger_status, desk.hansard)
    daemon = desk.daemon
    return answer(
        {
            **view,
            "started": moment(int(daemon.tally.started_s * 1_000_000)),
            "driving": daemon.driving,
            "followers": daemon.follower.count,
            "draining": daemon.draining,
        }
    )


@router.get("/metrics", response_class=Response, responses=TEXT | documented())
async def metrics(request: Request) -> Response:
    """Counts in Prometheus' text format. Where the ledger is away they are without those of it, and say so."""
    desk = desk_of(request)
    try:
        view = await asyncio.to_thread(ledger_status, desk.hansard)
    except StoreError:
        view = None
    return Response(desk.metrics.text(desk.daemon, view), media_type=MEDIA)
