"""The Messages format: what is sent, and how replies are read."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from hansard.domain.exchange import Exchange, Finish, Message, Tool, Usage
from hansard.providers.anthropic import models
from hansard.providers.base import failure
from hansard.providers.calls import called, is_result
from hansard.providers.checks import count
from hansard.providers.hosted import shapes
from hansard.providers.hosted.dialect import Lost, Said, none_in, reports

MAX_TOKENS = 4096
"""The format asks for a limit; this is ours where the caller names none."""

NOTHING = "(no text)"
"""Sent in place of blanks: the format takes no text without a word in it."""

_FINISH: Mapping[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "tool_use": "tool_call",
}


_THOUGHTS = ("thinking", "redacted_thinking")


def body(exchange: Exchange, model: str, best: models.Structured) -> dict[str, Any]:
    """The arguments of messages.create."""
    way = models.structured(model, exchange.schema, best) if exchange.schema is not None else "none"
    messages = shapes.told(exchange) if way == "none" else exchange.messages
    rules = [each.content for each in messages if each.role == "system"]
    asked = _conversation([each for each in messages if each.role != "system"])
    said: dict[str, Any] = {
        "model": model,
        "max_tokens": exchange.limits.max_output_tokens or MAX_TOKENS,
        "messages": asked or [{"role": "user", "content": rules[0]}],
    }
    if rules and asked:
        said["system"] = rules[0]
    if exchange.sampling.stop:
        said["stop_sequences"] = list(exchange.sampling.stop)
    return said | models.sampling(model, exchange.sampling) | _config(exchange, way, model) | _tools(exchange, way)


def _conversation(messages: list[Message]) -> list[dict[str, Any]]:
    """The messages as the format has them: all results that follow one another are one message of the user's."""
    said: list[dict[str, Any]] = []
    for results, run in groupby(messages, key=is_result):
        if results:
            said.append({"role": "user", "content": [_result(each) for each in run]})
        else:
            said += [_message(each) for each in run]
    return said


def _result(message: Message) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}


def _message(message: Message) -> dict[str, Any]:
    role = "assistant" if message.role == "assistant" else "user"
    if not message.calls:
        return {"role": role, "content": message.content if message.content.strip() else NOTHING}
    if isinstance(message.thought, list):
        return {"role": role, "content": message.thought}
    spoken = [{"type": "text", "text": message.content}] if message.content.strip() else []
    uses = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.calls]
    return {"role": role, "content": [*spoken, *uses]}


def _config(exchange: Exchange, way: models.Structured, model: str) -> dict[str, Any]:
    effort = exchange.sampling.reasoning_effort
    config: dict[str, Any] = {"effort": effort} if effort and models.takes_effort(model, effort) else {}
    if exchange.schema is not None and way == "json_schema":
        config["format"] = {"type": "json_schema", "schema": models.native(exchange.schema)}
    return {"output_config": config} if config else {}


def _tools(exchange: Exchange, way: models.Structured) -> dict[str, Any]:
    """The tools that are offered, and the one that stands for the schema, of which one must be called then."""
    tools = exchange.tools
    if exchange.schema is None or way != "tool":
        return {"tools": [_tool(each) for each in tools]} if tools else {}
    name = shapes.label(exchange.schema_name)
    if _offers(exchange, name):
        raise Lost("invalid_request", f"the tool {name} has the name under which the answer is asked for; rename one")
    about = "Give the answer. Call this exactly once, with the whole answer as its input."
    answer = Tool(name=name, description=about, input_schema=exchange.schema)
    choice = {"type": "any"} if tools else {"type": "tool", "name": name}
    return {"tools": [_tool(each) for each in (*tools, answer)], "tool_choice": choice}


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


def _offers(exchange: Exchange, name: str) -> bool:
    return any(tool.name == name for tool in exchange.tools)


def read(reply: Mapping[str, Any], exchange: Exchange) -> Said:
    """What a message says. The input of the tool that stands for the schema is the answer."""
    if not isinstance(reply.get("content"), list):
        raise none_in(reply, "content")
    blocks = [block for block in reply["content"] if isinstance(block, Mapping)]
    text = "".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text")
    ended = reply.get("stop_reason")
    said = Said(
        text=text,
        finish=_FINISH.get(str(ended), "error"),
        usage=_usage(reply.get("usage")),
        model=str(reply.get("model") or ""),
    )
    if ended == "refusal":
        return replace(said, failure=failure("content_filter", f"the model refused: {_why(reply) or text or ended}"))
    if said.finish == "error":
        return replace(said, failure=failure("internal", f"the answer ended with {ended!r}, which no format knows"))
    return _called(said, blocks, exchange)


def _called(said: Said, blocks: list[Mapping[str, Any]], exchange: Exchange) -> Said:
    """What the tools that it uses make of a message. An answer beside calls is given too early, and dropped."""
    wanted, uses = _answer_tool(exchange), [block for block in blocks if block.get("type") == "tool_use"]
    answers = [use.get("input") for use in uses if wanted and use.get("name") == wanted]
    asked = [(use.get("id"), use.get("name"), use.get("input")) for use in uses if use.get("name") != wanted]
    if asked or not answers:
        said = called(said, asked, exchange)
        return replace(said, thought=_thought(blocks, said)) if said.calls else said
    if len(answers) > 1:
        return replace(said, failure=failure("tool_failure", f"the model gave {len(answers)} answers at once"))
    return _answered(said, answers[0])


def _thought(blocks: list[Mapping[str, Any]], said: Said) -> list[Mapping[str, Any]] | None:
    """The message as it came, where the model thought before its calls: it is taken back with every block in its place."""
    ids = {call.id for call in said.calls}
    kept = [block for block in blocks if _is_taken_back(block, ids)]
    called = {block["id"] for block in kept if block.get("type") == "tool_use"}
    return kept if called == ids and any(block.get("type") in _THOUGHTS for block in kept) else None


def _is_taken_back(block: Mapping[str, Any], calls: set[str]) -> bool:
    match block.get("type"):
        case "text":
            return bool(str(block.get("text") or "").strip())
        case "tool_use":
            return isinstance(id := block.get("id"), str) and id in calls
        case kind:
            return kind in _THOUGHTS


def _answer_tool(exchange: Exchange) -> str:
    """The tool that stands for the schema; nothing where there is no schema, or an offered tool has its name."""
    name = shapes.label(exchange.schema_name)
    return "" if exchange.schema is None or _offers(exchange, name) else name


def _answered(said: Said, answer: Any) -> Said:
    finish: Finish = "length" if said.finish == "length" else "stop"
    if isinstance(answer, str):
        return replace(said, text=answer, finish=finish)
    # The answer is the input; what the model says around it is no part of it.
    return replace(said, text=json.dumps(answer, ensure_ascii=False), structured=answer, finish=finish)


def _why(reply: Mapping[str, Any]) -> str:
    details = reply.get("stop_details")
    return str(details.get("explanation") or details.get("category") or "") if isinstance(details, Mapping) else ""


def _usage(usage: Any) -> Usage | None:
    if not reports(usage, "input_tokens", "output_tokens"):
        return None
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + cached + count(usage, "cache_creation_input_tokens"),
        output_tokens=count(usage, "output_tokens"),
        cached_tokens=cached,
    )
