"""What can be read by address: runs, the transcripts of deliberations, entries of the ledger. All JSON."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from hansard.app.finding import exact_deliberation, exact_run
from hansard.app.telling.listing import runs_page
from hansard.app.views import View, whole
from hansard.errors import UsageError
from hansard.surfaces.afar import view_from_afar
from hansard.surfaces.mcp import results
from hansard.surfaces.mcp.desk import Desk

PAGE = 50
MEDIA = "application/json"
TITLE = 80
_ADDRESS = re.compile(r"(run|transcript|ledger)://([^/?#]{1,64})/?")
TEMPLATES = (
    ("run", "run://{run}", "One run: route, plan, tasks, verdicts, spend, answer. `last` is the newest."),
    ("transcript", "transcript://{run}", "What was said in a deliberation, message by message, as far as it has come."),
    ("ledger", "ledger://{seq}", "One entry of the ledger, with its parts, causes and effects."),
)

Context = ServerRequestContext[Any, Any]


def lister(desk: Desk) -> Callable[[Context, PaginatedRequestParams | None], Awaitable[ListResourcesResult]]:
    """Lists the runs, the newest first; the cursor is where the next page begins."""

    async def listed(_: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        cursor = params.cursor if params else None
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 15):
            raise MCPError(INVALID_PARAMS, "this cursor is none of ours")
        before = int(cursor) if cursor else None
        store = desk.hansard.store
        views, following = await asyncio.to_thread(runs_page, store, before=before, limit=PAGE)
        found = [each for view in views for each in _resources(view)]
        return ListResourcesResult(resources=found, next_cursor=None if following is None else str(following))

    return listed


def _resources(view: View) -> list[Resource]:
    run, title = view["run"], results.sendable(" ".join((view["request"] or "").split())[:TITLE])
    made = [Resource(uri=f"run://{run}", name=f"run {run}", title=title, description=view["state"], mime_type=MEDIA)]
    if view["mode"] == "deliberation":
        made.append(Resource(uri=f"transcript://{run}", name=f"transcript {run}", title=title, mime_type=MEDIA))
    return made


async def templates(_: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
    made = [
        ResourceTemplate(name=name, uri_template=address, description=words, mime_type=MEDIA)
        for name, address, words in TEMPLATES
    ]
    return ListResourceTemplatesResult(resource_templates=made)


def reader(desk: Desk) -> Callable[[Context, ReadResourceRequestParams], Awaitable[ReadResourceResult]]:
    async def read(_: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        address = str(params.uri)
        found = _ADDRESS.fullmatch(address)
        if found is None:
            raise MCPError(INVALID_PARAMS, f"there is no resource {address!r:.100}", {"uri": address[:200]})
        try:
            value = await asyncio.to_thread(_READERS[found[1]], desk, found[2])
        except UsageError as error:
            raise MCPError(INVALID_PARAMS, results.told(desk, error), {"uri": address[:200]}) from error
        text = whole(json.dumps(value, ensure_ascii=False))
        return ReadResourceResult(contents=[TextResourceContents(uri=address, text=text, mime_type=MEDIA)])

    return read


def _run(desk: Desk, name: str) -> View:
    hansard = desk.hansard
    return view_from_afar(hansard.runs.show(exact_run(hansard.store, name)), hansard, "mcp")


def _transcript(desk: Desk, name: str) -> View:
    runs = desk.hansard.runs
    run = exact_run(desk.hansard.store, name)
    turns: dict[int, int] = {}
    for each in runs.views(run):
        if each["kind"] in ("turn.taken", "turn.amended"):
            # What was annotated later stands in place of what it annotates.
            turns[each["data"].get("amends", each["seq"])] = each["seq"]
    if not turns:
        # Nothing was said yet, then, or there is nobody who could say anything.
        exact_deliberation(desk.hansard.store, run)
    said = [runs.text(seq, "message") for seq in turns.values()]
    return {"run": run, "messages": [json.loads(each) if each else None for each in said]}


def _entry(desk: Desk, name: str) -> View:
    if not (name.isascii() and name.isdigit() and len(name) <= 15):
        raise MCPError(INVALID_PARAMS, f"{name!r} is no number of an entry")
    return desk.hansard.ledger.get(int(name))


_READERS: dict[str, Callable[[Desk, str], View]] = {"run": _run, "transcript": _transcript, "ledger": _entry}
