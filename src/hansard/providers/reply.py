"""An answer that is written down, in a script or in a recording, and the completion that it stands for."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import field
from typing import Any, Self, get_args

from hansard.domain.exchange import (
    RETRYABLE,
    Completion,
    Cost,
    CostBasis,
    ErrorKind,
    Failure,
    Finish,
    ToolCall,
    ToolEvent,
    Usage,
)
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import UsageError


@value
class Reply:
    """What to answer. A usage of None was not written down, and will be estimated; any other is given out verbatim."""

    text: str = ""
    structured: Any = None
    finish: Finish = "stop"
    usage: Usage | None = None
    cost: Cost = field(default_factory=Cost)
    returned_model: str = ""
    failure: Failure | None = None
    calls: tuple[ToolCall, ...] = ()
    tool_events: tuple[ToolEvent, ...] = ()
    latency_us: int = 0
    exit_code: int | None = None
    output: bytes | None = None
    stderr: bytes | None = None

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """From the fields of a table; the caller calls `done` when it has read its own."""
        failure = _read_failure(Fields(fields.any("failure"), f"{fields.where}, failure")) if _given(fields) else None
        calls = tuple(_read_call(each, number) for number, each in enumerate(fields.tables("calls"), 1))
        natural = "error" if failure else "tool_call" if calls else "stop"
        output, stderr = fields.any("output"), fields.any("stderr")
        return cls(
            text=fields.text("text"),
            structured=fields.any("structured"),
            finish=fields.choice("finish", get_args(Finish), natural),  # type: ignore[arg-type]
            usage=_read_usage(Fields(fields.any("usage"), f"{fields.where}, usage")) if fields.has("usage") else None,
            cost=_read_cost(fields),
            returned_model=fields.text("returned_model"),
            failure=failure,
            calls=calls,
            tool_events=tuple(_read_event(each) for each in fields.tables("tool_events")),
            latency_us=fields.count("latency_us"),
            exit_code=fields.any("exit_code"),
            output=None if output is None else fields.text("output").encode(),
            stderr=None if stderr is None else fields.text("stderr").encode(),
        )

    def completion(self, provider: str, requested_model: str) -> Completion:
        """The completion. Whoever settles it copies what it holds as JSON; of the rest nothing is shared that anybody could change."""
        return Completion(
            provider=provider,
            requested_model=requested_model,
            returned_model=self.returned_model or requested_model,
            text=self.text,
            structured=self.structured,
            finish=self.finish,
            usage=self.usage or Usage(),
            cost=self.cost,
            latency_us=self.latency_us,
            calls=self.calls,
            tool_events=deepcopy(self.tool_events) if self.tool_events else (),
            failure=deepcopy(self.failure) if self.failure else None,
            exit_code=self.exit_code,
            output=self.output,
            stderr=self.stderr,
        )


def _given(fields: Fields) -> bool:
    return fields.any("failure") is not None


def _read_failure(fields: Fields) -> Failure:
    kind = fields.choice("kind", get_args(ErrorKind), "internal")
    failure = Failure(
        kind=kind,
        message=fields.text("message", kind.replace("_", " ")),
        retryable=fields.flag("retryable", kind in RETRYABLE),
        retry_after_s=fields.number("retry_after_s"),
        details=fields.table("details"),
    )
    fields.done()
    return failure


def _read_usage(fields: Fields) -> Usage:
    usage = Usage(
        input_tokens=fields.count("input_tokens"),
        output_tokens=fields.count("output_tokens"),
        cached_tokens=fields.count("cached_tokens"),
        estimated=fields.flag("estimated"),
    )
    fields.done()
    return usage


def _read_cost(fields: Fields) -> Cost:
    given = fields.has("cost_usd_nano")
    basis = fields.choice("cost_basis", get_args(CostBasis), "reported" if given else "unknown")
    return Cost(usd_nano=fields.count("cost_usd_nano"), basis=basis)


def _read_call(fields: Fields, number: int) -> ToolCall:
    call = ToolCall(
        id=fields.text("id", f"call_{number}"), name=fields.text("name"), arguments=fields.any("arguments", {})
    )
    fields.done()
    if not call.id or not call.name:
        raise UsageError(f"{fields.where}: a call needs the name of a tool, and an id that is not empty")
    return call


def _read_event(fields: Fields) -> ToolEvent:
    arguments: Mapping[str, Any] = fields.table("arguments")
    event = ToolEvent(
        name=fields.text("name"),
        arguments=arguments,
        result=fields.any("result"),
        error=fields.any("error"),
        latency_us=fields.count("latency_us"),
    )
    fields.done()
    return event
