"""Long work as a task: the extension io.modelcontextprotocol/tasks (SEP-2663) over runs. A task's id is its run's id.

Nothing is kept here: a task is what the record says of its run, so that it outlives the server. Whoever asks for the task of
a run that came in here and was cut short, and may run something, sets it going again.
"""

import asyncio
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import (
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    InputResponses,
    RequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

from hansard.app.finding import exact_run
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.mcp import results
from hansard.surfaces.mcp.asking import can_be_asked, decide, questions
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.tool import Call, TaskMade

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 1_000
ACCEPTED_S = 5.0
STATUS = {
    "answered": "completed",
    "partial": "completed",
    "failed": "completed",
    "stopped": "completed",
    "cancelled": "cancelled",
}


class OfTask(RequestParams):
    """Which task."""

    task_id: str = Field(alias="taskId", max_length=200)


class Update(OfTask):
    """What the person behind the client says."""

    input_responses: InputResponses = Field(alias="inputResponses")


def declares(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client of this request can be given a task."""
    known = ctx.session.client_capabilities
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS and EXTENSION in ((known and known.extensions) or {})


def as_task(call: Call, run: str) -> TaskMade | None:
    """Let a run that is on the record go on as a task, where the client can deal with one."""
    if not declares(call.ctx):
        return None
    call.desk.drive(run)
    return TaskMade(run=run)


async def task_view(call: Call, run: str) -> dict[str, Any]:
    """The task of a run, with its result or with what it asks."""
    brief = await asyncio.to_thread(call.desk.hansard.runs.show, run)
    state = brief["state"]
    task: dict[str, Any] = {
        "taskId": run,
        "status": STATUS.get(state, "working"),
        "statusMessage": _message(brief),
        "createdAt": brief["started"],
        "lastUpdatedAt": brief["last"],
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
    if (
        brief["open_gates"]
        and state not in STATUS
        and can_be_asked(call)
        and (asked := await asyncio.to_thread(questions, call, run))
    ):
        forms = {key: each.model_dump(by_alias=True, mode="json", exclude_none=True) for key, each in asked.items()}
        return task | {"status": "input_required", "inputRequests": forms}
    if task["status"] == "completed":
        return task | {"result": results.of_view(await call.desk.shown(run))}
    return task


def _message(brief: View) -> str:
    if brief["open_gates"] and brief["state"] not in STATUS:
        return f"waiting at a gate: {', '.join(brief['open_gates'])}"
    return ": ".join(dict.fromkeys(each for each in (brief["state"], brief["reason"]) if each))


def install(server: Server[Any], desk: Desk) -> None:
    """Serve the three methods, and say so."""

    async def get(ctx: ServerRequestContext[Any, Any], params: OfTask) -> dict[str, Any]:
        call, run = await _known(desk, ctx, params)
        view = await task_view(call, run)
        may = not desk.draining and (call.token is None or call.token.may("operator"))
        if may and view["status"] == "working" and await asyncio.to_thread(_came_in_here, desk, run):
            desk.drive(run)
        return view

    async def update(ctx: ServerRequestContext[Any, Any], params: Update) -> dict[str, Any]:
        call, run = await _known(desk, ctx, params)
        if can_be_asked(call):
            await decide(call, run, params.input_responses)
        return {}

    async def cancel(ctx: ServerRequestContext[Any, Any], params: OfTask) -> dict[str, Any]:
        call, run = await _known(desk, ctx, params)
        results.refuse_role(call, "operator")
        # Carried out in the background when it takes long; the client asks for the task when he wants to know.
        done, _ = await asyncio.wait({desk.cancel(run, call.actor)}, timeout=ACCEPTED_S)
        for each in done:
            each.result()
        return {}

    server.add_request_handler("tasks/get", OfTask, get)
    server.add_request_handler("tasks/update", Update, update)
    server.add_request_handler("tasks/cancel", OfTask, cancel)
    server.extensions[EXTENSION] = {}


async def _known(desk: Desk, ctx: ServerRequestContext[Any, Any], params: OfTask) -> tuple[Call, str]:
    """The run of a task that a client asks about, if he may."""
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
    if not declares(ctx):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", needed)
    if params.task_id == "last":
        raise UsageError("there is no task 'last'")
    return results.call_of(desk, ctx), await asyncio.to_thread(exact_run, desk.hansard.store, params.task_id)


def _came_in_here(desk: Desk, run: str) -> bool:
    first = desk.hansard.runs.views(run)[0]
    return bool(first["data"].get("surface") == "mcp")
