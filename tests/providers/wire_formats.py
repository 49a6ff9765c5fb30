"""One answer, said in each wire format: Chat Completions, Responses and Messages, whole or as a stream of events."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Events = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """An answer. `finish` is the vendor's own word; None picks its word for a natural end."""

    text: str = "Paris."
    echoes: bool = False
    """Say the last message of the question instead of the text."""
    finish: str | None = None
    model: str | None = None
    tokens: tuple[int, int, int] | None = (12, 5, 4)
    """Fresh input, output and cached input; None reports no usage."""
    refusal: str | None = None
    tool: str | None = None
    arguments: Any = None
    thinking: str | None = None
    error: Any = None
    """Sent within a stream, instead of its end."""
    delay_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


def _pieces(text: str) -> list[str]:
    size = max(4, len(text) // 200)
    return [text[start : start + size] for start in range(0, len(text), size)]


def _plain_events(events: Events) -> bytes:
    """As OpenAI's chat endpoint sends them: no names, and a marker at the end."""
    return b"".join(f"data: {json.dumps(data)}\n\n".encode() for _, data in events) + b"data: [DONE]\n\n"


def _named_events(events: Events) -> bytes:
    return b"".join(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode() for name, data in events)


def chat(say: Say, body: Any, stream: bool) -> bytes:
    if stream:
        return _plain_events(_chat_events(say, body))
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None, "refusal": say.refusal}
    if say.tool:
        message["tool_calls"] = [_chat_call(say)]
    choice = {"index": 0, "message": message, "finish_reason": _chat_finish(say), "logprobs": None}
    reply = {**_chat_head(say, body, "chat.completion"), "choices": [choice]}
    return json.dumps(reply | ({"usage": _chat_usage(say)} if say.tokens else {})).encode()


def _chat_head(say: Say, body: Any, kind: str) -> dict[str, Any]:
    model = say.model or f"{body['model']}-2024-08-06"
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": model, "system_fingerprint": "fp_44709d"}


def _chat_finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.tool else "stop")


def _chat_call(say: Say) -> dict[str, Any]:
    function = {"name": say.tool, "arguments": json.dumps(say.arguments)}
    return {"index": 0, "id": "call_1", "type": "function", "function": function}


def _chat_usage(say: Say) -> dict[str, Any]:
    assert say.tokens is not None
    fresh, output, cached = say.tokens
    total = fresh + cached + output
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": fresh + cached, "completion_tokens": output, "total_tokens": total, **details}


def _chat_events(say: Say, body: Any) -> Events:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return "", {**_chat_head(say, body, "chat.completion.chunk"), "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _pieces(say.text):
        yield chunk({"content": piece})
    for piece in _pieces(say.refusal or ""):
        yield chunk({"refusal": piece})
    if say.tool:
        yield chunk({"tool_calls": [_chat_call(say)]})
    if say.error is not None:
        yield "", {"error": say.error}
        return
    yield chunk({}, _chat_finish(say))
    if say.tokens and (body.get("stream_options") or {}).get("include_usage"):
        yield "", {**_chat_head(say, body, "chat.completion.chunk"), "choices": [], "usage": _chat_usage(say)}


def responses(say: Say, body: Any, stream: bool) -> bytes:
    return _named_events(_response_events(say, body)) if stream else json.dumps(_response(say, body)).encode()


def _response(say: Say, body: Any) -> dict[str, Any]:
    """`finish` may be `max_output_tokens`, `content_filter` or `failed`."""
    parts: list[dict[str, Any]] = []
    if say.text:
        parts.append({"type": "output_text", "text": say.text, "annotations": []})
    if say.refusal:
        parts.append({"type": "refusal", "refusal": say.refusal})
    status = "completed" if say.finish is None else "failed" if say.finish == "failed" else "incomplete"
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": parts}
    reply: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": say.model or f"{body['model']}-2024-08-06",
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, message],
        "error": say.error,
        "incomplete_details": {"reason": say.finish} if status == "incomplete" else None,
    }
    if say.tokens:
        fresh, output, cached = say.tokens
        counts = {"input_tokens": fresh + cached, "output_tokens": output, "total_tokens": fresh + cached + output}
        reply["usage"] = {**counts, "input_tokens_details": {"cached_tokens": cached}}
    return reply


def _response_events(say: Say, body: Any) -> Events:
    begun = {"id": "resp_1", "object": "response", "status": "in_progress", "model": body["model"], "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    events += [
        {
            "type": "response.output_text.delta",
            "item_id": "msg_1",
            "output_index": 1,
            "content_index": 0,
            "delta": piece,
        }
        for piece in _pieces(say.text)
    ]
    if say.error is not None and say.finish != "failed":
        events.append({"type": "error", **say.error})
    else:
        ending = _response(say, body)
        events.append({"type": f"response.{ending['status']}", "response": ending})
    for number, event in enumerate(events):
        yield event["type"], {**event, "sequence_number": number}


def messages(say: Say, body: Any, stream: bool) -> bytes:
    if stream:
        return _named_events(_message_events(say, body))
    return json.dumps(_message(say, body, blocks=_blocks(say), finish=_message_finish(say))).encode()


def _blocks(say: Say) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if say.thinking:
        blocks.append({"type": "thinking", "thinking": say.thinking, "signature": "s"})
    if say.text:
        blocks.append({"type": "text", "text": say.text})
    if say.tool:
        blocks.append({"type": "tool_use", "id": "toolu_1", "name": say.tool, "input": say.arguments})
    return blocks


def _message_finish(say: Say) -> str:
    return say.finish or ("tool_use" if say.tool else "end_turn")


def _message(say: Say, body: Any, *, blocks: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    fresh, output, cached = say.tokens or (0, 0, 0)
    counts = {"input_tokens": fresh - 2, "cache_creation_input_tokens": 2, "cache_read_input_tokens": cached}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": say.model or f"{body['model']}-20251001",
        "content": blocks,
        "stop_reason": finish,
        "stop_sequence": None,
        **({"usage": {**counts, "output_tokens": output if finish else 1}} if say.tokens else {}),
    }


def _message_events(say: Say, body: Any) -> Events:
    yield "message_start", {"type": "message_start", "message": _message(say, body, blocks=[], finish=None)}
    yield "ping", {"type": "ping"}
    for index, block in enumerate(_blocks(say)):
        yield from _block_events(index, block)
    if say.error is not None:
        yield "error", {"type": "error", "error": say.error}
        return
    delta = {"stop_reason": _message_finish(say), "stop_sequence": None}
    usage = {"usage": {"output_tokens": say.tokens[1]}} if say.tokens else {}
    yield "message_delta", {"type": "message_delta", "delta": delta, **usage}
    yield "message_stop", {"type": "message_stop"}


def _block_events(index: int, block: dict[str, Any]) -> Events:
    empties: dict[str, dict[str, Any]] = {"thinking": {"thinking": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
    empty = empties[block["type"]]
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
    for delta in _block_deltas(block):
        yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}


def _block_deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    match block["type"]:
        case "text":
            return [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
        case "thinking":
            return [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        case _:
            # A text is sent as it is: the beginning of an object that is cut off.
            whole = block["input"]
            pieces = _pieces(whole if isinstance(whole, str) else json.dumps(whole))
            return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


Speak = Callable[[Say, Any, bool], bytes]
FORMATS: dict[str, Speak] = {"chat/completions": chat, "responses": responses, "messages": messages}
