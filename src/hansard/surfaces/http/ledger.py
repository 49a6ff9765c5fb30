"""The ledger over HTTP: entries, bodies, causes, proofs, verification, and the C2SP tlog-tiles paths for any auditor."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from hansard.app.ledgers.verifying import verify_apart
from hansard.app.serving import publishing
from hansard.app.views import View
from hansard.app.wiring import form_of
from hansard.surfaces.http.bodies import (
    DIGITS,
    MAX_SEQ,
    BrokenEntryView,
    CheckpointView,
    ConsistencyView,
    EntriesListing,
    EntryView,
    FullEntryView,
    Name,
    ReceiptView,
    Seq,
    StateListing,
    StateView,
    Strictly,
    SummaryView,
    VerifyRequest,
)
from hansard.surfaces.http.desk import answer, desk_of, page
from hansard.surfaces.http.problems import Refused, documented, refusing
from hansard.surfaces.http.runs import found

router = APIRouter(tags=["ledger"], route_class=Strictly)
At = Annotated[int, Path(ge=0, le=MAX_SEQ), DIGITS]
BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
NOTE: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
PART: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            # The first one is what a client takes that knows of one: bytes are right for either.
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            "text/plain": {"schema": {"type": "string"}},
        }
    }
}


class Receipting(BaseModel):
    model_config = ConfigDict(extra="forbid")
    disclose: Annotated[list[Name], Query(max_length=20)] = []
    cosigned: bool = Field(False, description="Under the checkpoint that the most witnesses have seen.")


class Between(BaseModel):
    model_config = ConfigDict(extra="forbid")
    start: Annotated[Seq, Query(alias="from")]
    to: Seq | None = None


@router.get("/v1/ledger/entries", response_model=list[EntryView | BrokenEntryView], responses=documented(404))
async def entries(request: Request, query: Annotated[EntriesListing, Query()]) -> Response:
    """Entries in their order behind `after`, from the beginning where it is left out."""
    desk = desk_of(request)
    ledger, run = desk.hansard.ledger, await found(desk, query.run) if query.run else None

    def read() -> list[View]:
        after = -1 if query.after is None else query.after
        return list(ledger.show(run=run, kind=query.kind, actor=query.actor, after=after, limit=query.limit + 1))

    # No index leads to an actor: that is a read of the whole ledger.
    views = await (desk.hansard.heavily(read) if query.actor else asyncio.to_thread(read))
    last = views[query.limit - 1]["seq"] if len(views) > query.limit else None
    # The newest run may be another one by then.
    return page(request, views[: query.limit], last, **({"run": run} if run else {}))


@router.get("/v1/ledger/entries/{seq}", response_model=FullEntryView, responses=documented(404))
async def entry(request: Request, seq: At) -> Response:
    """One entry with its parts, what caused it and what it caused."""
    with refusing(404):
        return answer(await asyncio.to_thread(desk_of(request).hansard.ledger.get, seq))


@router.get("/v1/ledger/entries/{seq}/causes", response_model=list[EntryView], responses=documented(404))
async def causes(request: Request, seq: At) -> Response:
    """Everything that led to an entry, itself last."""
    with refusing(404):
        return answer(await desk_of(request).hansard.heavily(desk_of(request).hansard.ledger.causes, seq))


@router.get("/v1/ledger/entries/{seq}/parts/{part}", response_class=Response, responses=PART | documented(404))
async def part(request: Request, seq: At, part: str) -> Response:
    """A body, byte for byte, after it was checked against its commitment. Nothing of it is ever run by a browser."""
    with refusing(404):
        data = await asyncio.to_thread(desk_of(request).hansard.ledger.part, seq, part)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return Response(data, media_type="application/octet-stream")
    return Response(data, media_type="text/plain")


@router.get("/v1/ledger/entries/{seq}/receipt", response_model=ReceiptView, responses=documented(404, 409))
async def receipt(request: Request, seq: At, query: Annotated[Receipting, Query()]) -> Response:
    """The proof of one entry that anyone can check offline."""
    desk = desk_of(request)
    with refusing(404):
        await asyncio.to_thread(desk.hansard.store.entry, seq)
    with refusing(409):
        return answer(await publishing.receipt(desk.hansard, seq, tuple(query.disclose), cosigned=query.cosigned))


@router.get("/v1/ledger/state", response_model=StateView, responses=documented(404))
async def state(request: Request, query: Annotated[StateListing, Query()]) -> Response:
    """What the record said when an entry had just been written, with its runs in their order."""
    hansard, after = desk_of(request).hansard, -1 if query.after is None else query.after
    with refusing(404):
        view = await hansard.heavily(hansard.ledger.state_at, query.at, after=after, limit=query.limit + 1)
    runs = view["runs"]
    view["runs"] = runs[: query.limit]
    last = runs[query.limit - 1]["first_seq"] if len(runs) > query.limit else None
    # More may be written until the next page is asked for.
    return page(request, view, last, at=str(view["at"]))


@router.get("/v1/ledger/summary", response_model=SummaryView, responses=documented())
async def summary(request: Request) -> Response:
    """Counts, runs, spend, over the whole ledger."""
    return answer(await desk_of(request).hansard.heavily(desk_of(request).hansard.ledger.summary))


@router.get("/v1/ledger/checkpoint", response_model=CheckpointView, responses=documented(404))
async def checkpoint(request: Request) -> Response:
    """The newest signed checkpoint."""
    with refusing(404):
        return answer(await asyncio.to_thread(publishing.newest_checkpoint, desk_of(request).hansard.store))


@router.get("/v1/ledger/proof/consistency", response_model=ConsistencyView, responses=documented(404, 409))
async def consistency(request: Request, query: Annotated[Between, Query()]) -> Response:
    """The proof that a checkpoint, the newest or that of size `to`, extends the log of size `from`."""
    with refusing(409):
        store = desk_of(request).hansard.store
        return answer(await asyncio.to_thread(publishing.consistency, store, query.start, query.to))


@router.post("/v1/ledger/verify", response_model=dict[str, Any], responses=documented(409, 415))
async def verify(request: Request, body: VerifyRequest | None = None) -> Response:
    """Check the whole ledger, in a process of its own."""
    desk, wanted = desk_of(request), body or VerifyRequest()
    location = desk.hansard.settings.ledger
    if form_of(location) == "memory":
        raise Refused(409, "a ledger in memory cannot be read by another process, and so not verified while it is open")

    def check() -> View:
        return verify_apart(location, **wanted.model_dump(), closed=desk.hansard.closed)

    with refusing(409):
        return answer(await desk.hansard.beside(check))


@router.get("/checkpoint", response_class=Response, responses=NOTE | documented(404), tags=["auditors"])
async def note(request: Request) -> Response:
    """The newest signed checkpoint as a note (C2SP tlog-checkpoint)."""
    with refusing(404):
        _, text = await asyncio.to_thread(publishing.signed_note, desk_of(request).hansard.store)
    return Response(text, media_type="text/plain")


@router.get("/tile/{path:path}", response_class=Response, responses=BYTES | documented(404), tags=["auditors"])
async def tile(request: Request, path: str) -> Response:
    """A tile, or a bundle of entries (C2SP tlog-tiles)."""
    with refusing(404):
        data = await asyncio.to_thread(publishing.tile, desk_of(request).hansard.store, f"tile/{path}")
    headers = {"cache-control": "private, max-age=604800, immutable"}
    return Response(data, headers=headers, media_type="application/octet-stream")
