"""Tools of the host: what a model may ask for while it answers, and what it hears of them [§6.4].

A call is checked before anything runs: its tool was offered, and its arguments fit the tool's schema. What fails ends the answer
with `tool_failure`; only a handler that refuses by itself lets the model go on without a result.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol

from hansard.domain.exchange import (
    Completion,
    ErrorKind,
    Exchange,
    Failure,
    Message,
    Tool,
    ToolCall,
    ToolEvent,
    Usage,
)
from hansard.domain.value import replace, value
from hansard.errors import told_of
from hansard.providers.base import Provider, failure, refusal_of
from hansard.providers.checks import spoiled
from hansard.providers.schema import compile

MOST_RESULT_BYTES = 1024 * 1024
MOST_REASON = 2_000
MOST_CALLS = 128
"""In one batch: their names stand in one line of the record."""
LEAST_S = 0.001
Handler = Callable[[Mapping[str, Any]], Awaitable[object]]
"""Does what a tool is asked for. Gives text or JSON, or a Refusal."""


@value
class Refusal:
    """What a handler gives when it cannot do what it is asked for and the model is to know why."""

    message: str


class Witness(Protocol):
    """Is told of each batch of calls before any of them runs, and of what came of them. It counts what each batch took."""

    async def called(self, iteration: int, completion: Completion) -> Failure | None:
        """None lets the tools run; a failure says why none of them may, and ends the answer."""
        ...

    async def returned(self, iteration: int, events: Sequence[ToolEvent], *, asks_again: bool) -> None:
        """Whether the model is asked again with the results; otherwise they have ended the answer."""
        ...


@value
class Toolbox:
    """The handlers of a host, how often one answer may ask for them, and what no text of theirs may hold."""

    handlers: Mapping[str, Handler]
    most_iterations: int = 8
    clean: Callable[[str], str] = str


async def with_tools(provider: Provider, exchange: Exchange, box: Toolbox, witness: Witness) -> Completion:
    """One answer, with every tool run that it takes. The time limit covers all of it.

    What the calls for tools used is the witness's to count; the answer says what was used since.
    """
    until, ran, iteration, latency_us = time.monotonic() + exchange.limits.timeout_s, list[ToolEvent](), 0, 0

    def over(last: Completion) -> Completion:
        return replace(last, latency_us=latency_us, tool_events=(*ran, *last.tool_events))

    while True:
        left_s = max(LEAST_S, until - time.monotonic())
        completion = await provider.complete(replace(exchange, limits=replace(exchange.limits, timeout_s=left_s)))
        latency_us += completion.latency_us
        if not completion.calls:
            return over(completion)
        iteration += 1
        if too_much := _too_much(iteration, completion, box):
            return over(spoiled(completion, failure("tool_failure", too_much)))
        if refused := await witness.called(iteration, completion):
            return over(_counted(completion, refused))
        events, results, broken = await _batch(completion.calls, exchange.tools, box, until)
        ran += events
        asked = Message(role="assistant", content=completion.text, calls=completion.calls, thought=completion.thought)
        exchange = replace(exchange, messages=(*exchange.messages, asked, *results))
        asks_again = not broken and refusal_of(provider, exchange) is None
        await witness.returned(iteration, events, asks_again=asks_again)
        if broken:
            return over(_counted(completion, broken))


def _counted(completion: Completion, why: Failure) -> Completion:
    """The failure of an answer whose last call the witness has counted."""
    return replace(spoiled(completion, why), usage=Usage(), cost=replace(completion.cost, usd_nano=0))


def _too_much(iteration: int, completion: Completion, box: Toolbox) -> str | None:
    if iteration > box.most_iterations:
        return f"the model asked for tools more than {box.most_iterations} times"
    count = len(completion.calls)
    return f"the model asked for {count} tools at once; at most {MOST_CALLS} are run" if count > MOST_CALLS else None


async def _batch(
    calls: Sequence[ToolCall], tools: Sequence[Tool], box: Toolbox, until: float
) -> tuple[list[ToolEvent], list[Message], Failure | None]:
    """Run the calls of one batch in their order, or none of them when one is wrong."""
    offered = {tool.name: tool for tool in tools}
    for call in calls:
        if wrong := _wrong(call, offered.get(call.name), box):
            return (
                [ToolEvent(name=call.name, arguments=_arguments(call), error=wrong)],
                [],
                failure("tool_failure", wrong),
            )
    events: list[ToolEvent] = []
    results: list[Message] = []
    for call in calls:
        event, broken = await _run(call, box, until)
        events.append(event)
        if broken:
            return events, results, broken
        said = json.dumps({"error": event.error}) if event.error is not None else event.result
        content = "null" if said is None else said
        results.append(Message(role="tool", content=content, name=call.name, call_id=call.id))
    return events, results, None


def _wrong(call: ToolCall, tool: Tool | None, box: Toolbox) -> str | None:
    if tool is None:
        return f"the model asked for the tool {call.name!r:.80}, which was not offered"
    if call.name not in box.handlers:
        return f"the tool {call.name} has no handler"
    if not isinstance(call.arguments, dict):
        return f"the arguments of {call.name} are no JSON object"
    breach = compile(tool.input_schema).check(call.arguments)
    return f"the arguments of {call.name} do not fit its schema: {breach}" if breach else None


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    return call.arguments if isinstance(call.arguments, dict) else {"text": str(call.arguments)}


async def _run(call: ToolCall, box: Toolbox, until: float) -> tuple[ToolEvent, Failure | None]:
    started, deadline = time.perf_counter(), asyncio.timeout(max(0.0, until - time.monotonic()))
    result, refused, broken = None, None, None
    try:
        async with deadline:
            # A copy: what the model asked for is on the record, and stays as it is.
            said = await box.handlers[call.name](deepcopy(call.arguments))
        result, refused = _said(call.name, said, box)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        broken = failure("tool_failure", f"the tool {call.name} was cancelled from inside")
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises ends this answer and nothing else
        late = isinstance(error, TimeoutError) and deadline.expired()
        why = "did not end in time" if late else f"raised {_short(told_of(error))}"
        kind: ErrorKind = "timeout" if late else "tool_failure"
        broken = failure(kind, box.clean(f"the tool {call.name} {why}"))
    event = ToolEvent(
        name=call.name,
        arguments=call.arguments,
        result=result,
        error=broken.message if broken else refused,
        latency_us=int((time.perf_counter() - started) * 1_000_000),
    )
    return event, broken


def _said(name: str, said: object, box: Toolbox) -> tuple[str | None, str | None]:
    """What a handler gave, as text: the result, or why there is none."""
    if isinstance(said, Refusal):
        return None, box.clean(_short(said.message))
    if said is None:
        return None, None
    text = box.clean(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str))
    size = len(text.encode("utf-8", "replace"))
    if size > MOST_RESULT_BYTES:
        return None, f"the result of {name} has {size} bytes; at most {MOST_RESULT_BYTES} are given to a model"
    return text.encode("utf-8", "replace").decode(), None


def _short(said: object) -> str:
    """Why something did not work, as text that can be recorded and is no longer than anybody reads."""
    return str(said)[:MOST_REASON].encode("utf-8", "replace").decode()
