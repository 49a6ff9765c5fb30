"""The server: tools, resources, prompts and tasks put together, for every generation of the protocol at once."""

import logging
from collections.abc import Sequence
from typing import Any

from mcp.server import CacheHint, Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
)
from pydantic import ValidationError

from hansard.__about__ import __version__
from hansard.app.serving.tokens import Role
from hansard.errors import HansardError, UsageError
from hansard.surfaces.mcp import council, prompts, reading, resources, results, running, tasks
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.tool import Kind, TaskMade, Tool, described

NAME = "hansard"
INSTRUCTIONS = """\
Hansard runs teams of AI agents and keeps a record that anybody can verify. submit hands in a request and gives one judged
answer; deliberate puts a problem to a panel. Both take minutes: watch the progress, or let them go on as a task. Every
result names its run; run_show tells how it came about, ledger_get and causes show the record behind it, verify checks it."""
NEEDS: dict[Kind, Role] = {"reads": "reader", "runs": "operator", "changes": "operator"}
AN_HOUR = CacheHint(ttl_ms=3_600_000, scope="private")

log = logging.getLogger(__name__)


def build(desk: Desk) -> Server[Any]:
    """The server over one desk."""
    offered = {each.name: each for each in tools_of(desk)}

    async def list_tools(_: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[described(each) for each in offered.values()])

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        if params.name not in offered:
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name!r:.80}; tools/list shows what there is")
        return await called(desk, ctx, offered[params.name], params)  # type: ignore[return-value]

    server = Server(
        NAME,
        version=__version__,
        title="Hansard",
        description="Runs teams of AI agents and keeps the verbatim record.",
        instructions=INSTRUCTIONS,
        cache_hints=dict.fromkeys(("tools/list", "prompts/list", "resources/templates/list"), AN_HOUR),
        get_tool_input_schema=lambda name: described(offered[name]).input_schema if name in offered else None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_prompts=prompts.listed,
        on_get_prompt=prompts.get,
        on_list_resources=resources.lister(desk),
        on_list_resource_templates=resources.templates,
        on_read_resource=resources.reader(desk),
    )
    # What a client has to send back of a round trip is sealed: he cannot name another run.
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=NAME))
    server.middleware.append(worded(desk))
    tasks.install(server, desk)
    return server


def worded(desk: Desk) -> ServerMiddleware[Any]:
    """Whatever goes wrong outside of a tool is an error of the protocol in our words, and says nothing of our insides."""

    async def around(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        try:
            return await call_next(ctx)
        except HansardError as error:
            code = INVALID_PARAMS if isinstance(error, UsageError) else INTERNAL_ERROR
            raise MCPError(code, results.sendable(results.told(desk, error))) from error
        except (MCPError, ValidationError):
            raise
        except Exception as error:
            log.exception("%s", ctx.method)
            raise MCPError(INTERNAL_ERROR, f"{ctx.method}: a bug of ours; the server's log tells more") from error

    return around


def tools_of(desk: Desk) -> Sequence[Tool]:
    """The tools that are offered, in their order; decisions at gates only where that was granted."""
    return (*running.TOOLS, *reading.TOOLS, *council.TOOLS, *(running.GRANTED if desk.gates else ()))


async def called(
    desk: Desk, ctx: ServerRequestContext[Any, Any], tool: Tool, params: CallToolRequestParams
) -> CallToolResult | InputRequiredResult | dict[str, Any]:
    """Call a tool. Its mistakes are results, which the caller can read; ours say nothing of our insides."""
    call = results.call_of(desk, ctx, params)
    try:
        results.refuse_role(call, NEEDS[tool.kind])
        given = await tool.work(call, tool.takes.model_validate(params.arguments or {}))
        if isinstance(given, TaskMade):
            return {**await tasks.task_view(call, given.run), "resultType": "task"}
        return given if isinstance(given, InputRequiredResult) else results.of_view(given)
    except ValidationError as error:
        return results.of_error(f"{tool.name}: {results.faults(error)}")
    except HansardError as error:
        return results.of_error(results.told(desk, error))
    except MCPError:
        raise
    except Exception:
        log.exception("tool %s", tool.name)
        return results.of_error(f"{tool.name}: a bug of ours; the server's log tells more")
