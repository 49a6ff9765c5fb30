"""One answer, said in each wire format: Chat Completions, Responses and Messages, whole or as a stream of events."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

Events = Iterator[tuple[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call for a tool. Arguments that are a text are sent as they are; without an id none is sent."""

    name: str
    arguments: Any = field(default_factory=dict)
    id: str | None = None
    extra: Any = None
    """What a chat says beside it."""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    def named(self, key: str) -> dict[str, str]:
        """The id under this key, where there is one."""
        return {} if self.id is None else {key: self.id}


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
    """One call, for a tool of this name."""
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    error: Any = None
    """Sent within a stream, instead of its end."""
    delay_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def all_calls(self) -> tuple[Call, ...]:
        return (*self.calls, *([Call(id="call_1", name=self.tool, arguments=self.arguments)] if self.tool else []))


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
    if say.thinking is not None:
        message["reasoning_content"] = say.thinking
    if say.all_calls:
        message["tool_calls"] = [_chat_call(call, call.text) for call in say.all_calls]
    choice = {"index": 0, "message": message, "finish_reason": _chat_finish(say), "logprobs": None}
    reply = {**_chat_head(say, body, "chat.completion"), "choices": [choice]}
    return json.dumps(reply | ({"usage": _chat_usage(say)} if say.tokens else {})).encode()


def _chat_head(say: Say, body: Any, kind: str) -> dict[str, Any]:
    model = say.model or f"{body['model']}-2024-08-06"
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": model, "system_fingerprint": "fp_44709d"}


def _chat_finish(say: Say) -> str:
    return say.finish or ("tool_calls" if say.all_calls else "stop")


def _chat_call(call: Call, arguments: str) -> dict[str, Any]:
    extra = {} if call.extra is None else {"extra_content": call.extra}
    return {**call.named("id"), "type": "function", "function": {"name": call.name, "arguments": arguments}, **extra}


def _chat_call_deltas(calls: tuple[Call, ...]) -> Iterator[dict[str, Any]]:
    """The beginnings of all calls, and then their arguments, a piece of each in turn."""
    for index, call in enumerate(calls):
        yield {"index": index, **_chat_call(call, "")}
    for pieces in zip_longest(*(_pieces(call.text) for call in calls)):
        for index, piece in enumerate(pieces):
            if piece is not None:
                yield {"index": index, "function": {"arguments": piece}}


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

    yield chunk({"role": "assistant", "content": ""} | ({} if say.thinking is None else {"reasoning_content": ""}))
    for piece in _pieces(say.thinking or ""):
        yield chunk({"reasoning_content": piece})
    for piece in _pieces(say.text):
        yield chunk({"content": piece})
    for piece in _pieces(say.refusal or ""):
        yield chunk({"refusal": piece})
    for delta in _chat_call_deltas(say.all_calls):
        yield chunk({"tool_calls": [delta]})
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
        "output": [{"type": "reasoning", "id": "rs_1", "summary": []}, message, *_response_calls(say)],
        "error": say.error,
        "incomplete_details": {"reason": say.finish} if status == "incomplete" else None,
    }
    if say.tokens:
        fresh, output, cached = say.tokens
        counts = {"input_tokens": fresh + cached, "output_tokens": output, "total_tokens": fresh + cached + output}
        reply["usage"] = {**counts, "input_tokens_details": {"cached_tokens": cached}}
    return reply


def _response_calls(say: Say) -> list[dict[str, Any]]:
    return [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            **call.named("call_id"),
            "name": call.name,
            "arguments": call.text,
            "status": "completed",
        }
        for number, call in enumerate(say.all_calls, 1)
    ]


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
    for item in _response_calls(say):
        events.append({"type": "response.output_item.added", "output_index": 2, "item": {**item, "arguments": ""}})
        events += [
            {"type": "response.function_call_arguments.delta", "item_id": item["id"], "delta": piece}
            for piece in _pieces(item["arguments"])
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
    blocks += [
        {"type": "tool_use", **call.named("id"), "name": call.name, "input": call.arguments} for call in say.all_calls
    ]
    return blocks


def _message_finish(say: Say) -> str:
    return say.finish or ("tool_use" if say.all_calls else "end_turn")


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
