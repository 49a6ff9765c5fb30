"""Tools that read: the ledger, its entries and proofs, how it stands, what waits at gates."""

import asyncio
from typing import Annotated

from pydantic import Field

from hansard.app.lanes.rosters import roster_of
from hansard.app.lanes.routing import route as find_route
from hansard.app.ledgers.verifying import verify_apart
from hansard.app.serving.publishing import receipt as make_receipt
from hansard.app.serving.publishing import status as status_view
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.mcp.tool import Arguments, Call, Nothing, Run, Text, Tool, tool
from hansard.surfaces.mcp.views import (
    EntriesView,
    FullEntryView,
    GatesView,
    ReceiptView,
    ReportView,
    RouteView,
    StateView,
    StatusView,
    SummaryView,
)
from hansard.surfaces.shapes import WHOLE, Name, Pin, Seq

MAX_PART = 200_000


class Routing(Arguments):
    text: Text


class Verifying(Arguments):
    path: Name | None = Field(None, description="A ledger, export or receipt in the project's folder; default: ours.")
    deep: bool = Field(False, description="Also check every body.")
    strict: bool = False
    pin: Pin | None = None


class Getting(Arguments):
    seq: Seq
    part: Name | None = Field(None, description="Also give the text of this part.")


class Causes(Arguments):
    seq: Seq


class Receipting(Arguments):
    seq: Seq
    disclose: Annotated[list[Name], Field(max_length=20)] = Field([], description="Parts to open in the receipt.")
    cosigned: bool = Field(False, description="Under the checkpoint that the most witnesses have seen.")


class Paged(Arguments):
    after: Seq | None = Field(None, description="Where the page begins: `after` of the page that came first.")


class Standing(Paged):
    limit: Annotated[int, Field(ge=1, le=1000), WHOLE] = 100
    at: Seq | None = Field(None, description="The entry; default: the last. For the next page: `at` of the first one.")


class Gates(Paged):
    limit: Annotated[int, Field(ge=1, le=500), WHOLE] = 100
    run: Run | None = None
    closed: bool = Field(False, description="Also gates that do not wait any more.")


@tool("Route", "reads", RouteView)
async def route(call: Call, asked: Routing) -> View:
    """Say which lane a request belongs to, and why. Asks no model."""
    settings = call.desk.hansard.settings
    return await asyncio.to_thread(lambda: find_route(asked.text, roster_of(settings)))


@tool("Status", "reads", StatusView)
async def status(call: Call, _: Nothing) -> View:
    """Say how the ledger stands: entries, root, what is signed, whether something is broken."""
    return await asyncio.to_thread(status_view, call.desk.hansard)


@tool("Verify", "reads", ReportView)
async def verify(call: Call, asked: Verifying) -> View:
    """Check the ledger, or an export or receipt in the project's folder, as a stranger would: in a process of its own."""
    place = str(call.desk.within(asked.path)) if asked.path else call.desk.hansard.settings.ledger
    if place == "memory:":
        raise UsageError("a ledger in memory has no file to verify")

    def verified() -> View:
        return verify_apart(place, deep=asked.deep, strict=asked.strict, pin=asked.pin, closed=call.desk.hansard.closed)

    report: View = await call.desk.hansard.beside(verified)
    return report


@tool("Ledger entry", "reads", FullEntryView)
async def ledger_get(call: Call, asked: Getting) -> View:
    """Give one entry of the ledger with its parts, its causes and effects; on demand the text of a part."""
    ledger = call.desk.hansard.ledger

    def got() -> View:
        view = ledger.get(asked.seq)
        if asked.part is not None:
            text = ledger.part(asked.seq, asked.part).decode("utf-8", "backslashreplace")
            view |= {"text": text[:MAX_PART], "text_cut": len(text) > MAX_PART}
        return view

    return await asyncio.to_thread(got)


@tool("Causes", "reads", EntriesView)
async def causes(call: Call, asked: Causes) -> View:
    """Give everything that led to an entry, itself last."""
    return {"entries": await call.desk.hansard.heavily(call.desk.hansard.ledger.causes, asked.seq)}


@tool("Summary", "reads", SummaryView)
async def summary(call: Call, _: Nothing) -> View:
    """Count what the ledger holds: entries by kind, runs by state, verdicts, calls, tokens, cost. Reads all of it."""
    return await call.desk.hansard.heavily(call.desk.hansard.ledger.summary)


@tool("Ledger state", "reads", StateView)
async def ledger_state(call: Call, asked: Standing) -> View:
    """Say what the record said when an entry had just been written, with its runs in their order. `after` says where the next
    page of runs begins, and is null on the last one."""
    hansard, after = call.desk.hansard, -1 if asked.after is None else asked.after
    view = await hansard.heavily(hansard.ledger.state_at, asked.at, after=after, limit=asked.limit + 1)
    runs, last = _page(view["runs"], asked.limit, "first_seq")
    return view | {"runs": runs, "after": last}


@tool("Receipt", "reads", ReceiptView)
async def receipt(call: Call, asked: Receipting) -> View:
    """Make the proof of one entry, which anyone can check offline: `hansard verify FILE`."""
    return await make_receipt(call.desk.hansard, asked.seq, tuple(asked.disclose), cosigned=asked.cosigned)


@tool("Gates", "reads", GatesView)
async def gates_list(call: Call, asked: Gates) -> View:
    """List the gates that wait for a person, the oldest first, with what each of them shows. `after` says where the next page
    begins, and is null on the last one."""
    hansard = call.desk.hansard
    run = await asyncio.to_thread(hansard.runs.find, asked.run) if asked.run else None
    found = await hansard.heavily(
        hansard.gates.listed,
        run=run,
        closed=asked.closed,
        questions=True,
        after=-1 if asked.after is None else asked.after,
        limit=asked.limit + 1,
    )
    gates, last = _page(found, asked.limit, "seq")
    return {"gates": gates, "after": last}


def _page(found: list[View], limit: int, seq: str) -> tuple[list[View], int | None]:
    """What fits on the page, and behind which entry the next one begins, where one more was found than fits."""
    return found[:limit], int(found[limit - 1][seq]) if len(found) > limit else None


TOOLS: tuple[Tool, ...] = (
    route,
    status,
    verify,
    ledger_get,
    causes,
    summary,
    ledger_state,
    receipt,
    gates_list,
)
