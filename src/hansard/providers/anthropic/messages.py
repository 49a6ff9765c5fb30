"""The Messages format: what is sent, and how replies are read."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Exchange, Finish, Message, Usage
from hansard.providers import shapes
from hansard.providers.anthropic import models
from hansard.providers.base import failure
from hansard.providers.dialect import Lost, Said, count

MAX_TOKENS = 4096
"""The format asks for a limit; this is ours where the caller names none."""

_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}


def body(exchange: Exchange, model: str, best: models.Structured) -> dict[str, Any]:
    """The arguments of messages.create."""
    way = models.structured(model, exchange.schema, best) if exchange.schema is not None else "none"
    messages = shapes.told(exchange) if way == "none" else exchange.messages
    rules = [each.content for each in messages if each.role == "system"]
    asked = [_message(each) for each in messages if each.role != "system"]
    said: dict[str, Any] = {
        "model": model,
        "max_tokens": exchange.limits.max_output_tokens or MAX_TOKENS,
        "messages": asked or [{"role": "user", "content": rules[0]}],
    }
    if rules and asked:
        said["system"] = rules[0]
    if exchange.sampling.stop:
        said["stop_sequences"] = list(exchange.sampling.stop)
    return said | models.sampling(model, exchange.sampling) | _shape(exchange, way, model)


def _message(message: Message) -> dict[str, str]:
    return {"role": "assistant" if message.role == "assistant" else "user", "content": message.content}


def _shape(exchange: Exchange, way: models.Structured, model: str) -> dict[str, Any]:
    effort = exchange.sampling.reasoning_effort
    config: dict[str, Any] = {"effort": effort} if effort and models.takes_effort(model, effort) else {}
    tool: dict[str, Any] = {}
    if exchange.schema is not None and way == "json_schema":
        config["format"] = {"type": "json_schema", "schema": models.native(exchange.schema)}
    elif exchange.schema is not None and way == "tool":
        name = shapes.label(exchange.schema_name)
        about = "Give the answer. Call this exactly once, with the whole answer as its input."
        tool = {
            "tools": [{"name": name, "description": about, "input_schema": exchange.schema}],
            "tool_choice": {"type": "tool", "name": name},
        }
    return tool | ({"output_config": config} if config else {})


def read(reply: Mapping[str, Any], exchange: Exchange) -> Said:
    """What a message says. The input of the tool that stands for the schema is the answer."""
    if not isinstance(reply.get("content"), list):
        raise Lost("internal", f"the reply holds no content; its keys are {', '.join(map(str, reply))}")
    blocks = [block for block in reply["content"] if isinstance(block, Mapping)]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    ended = reply.get("stop_reason")
    said = Said(
        text=text,
        finish=_FINISH.get(str(ended), "error"),
        usage=_usage(reply.get("usage")),
        model=str(reply.get("model") or ""),
    )
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    if ended == "refusal":
        return replace(said, failure=failure("content_filter", f"the model refused: {_why(reply) or text or ended}"))
    if calls:
        return _called(said, calls, exchange)
    if said.finish == "error":
        return replace(said, failure=failure("internal", f"the answer ended with {ended!r}, which no format knows"))
    return said


def _called(said: Said, calls: list[Mapping[str, Any]], exchange: Exchange) -> Said:
    wanted = shapes.label(exchange.schema_name) if exchange.schema is not None else None
    inputs = [call.get("input") for call in calls if call.get("name") == wanted]
    if len(inputs) != 1 or len(calls) != 1:
        names = ", ".join(str(call.get("name")) for call in calls)
        return replace(said, finish="error", failure=failure("tool_failure", f"the model called {names} unasked"))
    finish: Finish = "length" if said.finish == "length" else "stop"
    if isinstance(inputs[0], str):
        return replace(said, text=inputs[0], finish=finish)
    # The answer is the input; what the model says around it is no part of it.
    return replace(said, text=json.dumps(inputs[0], ensure_ascii=False), structured=inputs[0], finish=finish)


def _why(reply: Mapping[str, Any]) -> str:
    details = reply.get("stop_details")
    return str(details.get("explanation") or details.get("category") or "") if isinstance(details, Mapping) else ""


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + cached + count(usage, "cache_creation_input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=cached,
    )
