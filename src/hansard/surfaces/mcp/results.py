"""Between the protocol and the tools: who calls, what he may, and how what a tool gives goes out."""

import json
from typing import Any

from mcp.server import ServerRequestContext
from mcp.types import CallToolRequestParams, CallToolResult, TextContent
from pydantic import ValidationError

from hansard.app.serving.tokens import Role, Token
from hansard.app.views import View, whole
from hansard.errors import HansardError, UsageError
from hansard.surfaces.afar import from_afar
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.tool import Call

SHOWN_FAULTS = 10


def call_of(desk: Desk, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams | None = None) -> Call:
    """The call, with the token that the guard of a daemon has found."""
    scope = getattr(ctx.request, "scope", None) or {}
    token = scope.get("hansard.token")
    return Call(
        desk=desk,
        ctx=ctx,
        token=token if isinstance(token, Token) else None,
        answers=params.input_responses if params else None,
        state=params.request_state if params else None,
    )


def refuse_role(call: Call, role: Role) -> None:
    """UsageError where the caller's token is not for this."""
    if call.token is not None and not call.token.may(role):
        raise UsageError(f"token {call.token.name!r} has the roles {', '.join(call.token.roles)}; this needs {role}")


def of_view(view: View) -> dict[str, Any]:
    """A view as the result of a tool: structured, and as text for clients that know no structure."""
    text = whole(json.dumps(view, ensure_ascii=False, separators=(",", ":")))
    found = CallToolResult(content=[TextContent(text=text)], structured_content=json.loads(text))
    return found.model_dump(by_alias=True, mode="json", exclude_none=True)


def sendable(text: str) -> str:
    """A text of the record as UTF-8 can carry it: half of a surrogate pair is spelled out."""
    return text.encode(errors="backslashreplace").decode()


def told(desk: Desk, error: HansardError) -> str:
    """An error of ours as it is told to a caller."""
    return from_afar(desk.hansard.pool.secrets.scrub(str(error)), desk.hansard, "mcp")


def of_error(message: str) -> CallToolResult:
    """A mistake that the caller can read and put right."""
    return CallToolResult(content=[TextContent(text=sendable(message))], is_error=True)


def faults(error: ValidationError) -> str:
    """What is wrong with arguments, without repeating them."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    told = [
        # What we said ourselves comes with a word of the library's before it.
        f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {each['msg'].removeprefix('Value error, ')}"
        for each in found[:SHOWN_FAULTS]
    ]
    return "; ".join(told)
