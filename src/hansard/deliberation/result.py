"""What came back for a call, as it goes on the record, and back from there when a session is resumed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hansard.deliberation.documents import Usage
from hansard.deliberation.protocol.moves import Json
from hansard.deliberation.quoting import naming
from hansard.domain.exchange import Completion, ErrorKind, Failure, ToolEvent
from hansard.domain.fact import Body
from hansard.record.encoder import fastest

_encode = fastest()


def as_body(completion: Completion, usage: Mapping[str, Any], content: Json | str = "") -> Body:
    """The call's result with the model's words as they came; those that stand in the content of its message are named."""
    why = completion.failure
    said: dict[str, Any] = {
        "model": completion.returned_model,
        "finish": completion.finish,
        "text": naming(completion.text, content),
        "usage": usage,
        "latency_us": completion.latency_us,
    }
    if why is not None:
        said["failure"] = {
            "kind": why.kind,
            "message": why.message,
            "retryable": why.retryable,
            "details": dict(why.details),
            **({} if why.retry_after_s is None else {"retry_after_s": why.retry_after_s}),
        }
    if completion.tool_events:
        said["tool_events"] = events_data(completion.tool_events)
    return json_body(said)


def events_data(events: Sequence[ToolEvent]) -> list[dict[str, Any]]:
    """What tools did, in the order in which they ran."""
    return [
        {
            "name": each.name,
            "arguments": dict(each.arguments),
            "result": each.result,
            "error": each.error,
            "latency_us": each.latency_us,
        }
        for each in events
    ]


def json_body(said: object) -> Body:
    """JSON as it goes on the record."""
    try:
        return Body.json(_encode(said))
    except (TypeError, ValueError):
        # A third party may have put anything into details and arguments; it is recorded as text then.
        return Body.json(json.dumps(said, default=str).encode())


def from_body(body: Body, kind: ErrorKind) -> tuple[Completion, Usage]:
    """The failed call of a record, as far as the next attempt needs it."""
    said: Mapping[str, Any] = json.loads(body.data or b"{}")
    why = said.get("failure") or {}
    failure = Failure(
        kind=kind,
        message=str(why.get("message") or kind),
        retryable=why.get("retryable") is True,
        retry_after_s=None if (pause := why.get("retry_after_s")) is None else float(pause),
        details=why.get("details") or {},
    )
    usage = Usage.parse(said.get("usage"))
    model = str(said.get("model", ""))
    return (
        Completion(
            provider="",
            requested_model=model,
            returned_model=model,
            text=str(said.get("text", "")),
            finish="error",
            failure=failure,
        ),
        usage,
    )
