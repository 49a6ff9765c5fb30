"""Chat Completions, the format that every compatible server speaks: what is sent, and how replies are read."""

import re
from collections.abc import Mapping
from typing import Any

from hansard.domain.exchange import Exchange, Finish, Message, Usage
from hansard.providers import shapes
from hansard.providers.base import failure
from hansard.providers.dialect import Lost, Said, count
from hansard.providers.openai.servers import Server, Structured, reasons, sampling, shape, tells

_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_FINISH: Mapping[str, Finish] = {"stop": "stop", "length": "length", "content_filter": "content_filter"}
_CALLS = frozenset({"tool_calls", "function_call"})


def body(exchange: Exchange, model: str, server: Server, structured: Structured) -> dict[str, Any]:
    """The arguments of chat.completions.create."""
    messages = shapes.told(exchange) if tells(server, structured) else exchange.messages
    wish = exchange.sampling
    said: dict[str, Any] = {"model": model, "messages": [_message(each) for each in messages]}
    said |= sampling(exchange, model, server)
    if wish.seed is not None:
        said["seed"] = wish.seed
    if wish.stop and not reasons(model, server):
        said["stop"] = list(wish.stop)
    if exchange.limits.max_output_tokens is not None:
        said[server.token_limit] = exchange.limits.max_output_tokens
    if (form := shape(exchange, structured)) is not None:
        inner = {name: value for name, value in form.items() if name != "type"}
        said["response_format"] = {"type": form["type"]} | ({"json_schema": inner} if inner else {})
    return said


def _message(message: Message) -> dict[str, Any]:
    # A tool's message needs the id of a call, and no call is ever made: to the model it is what the user brings.
    role = "user" if message.role == "tool" else message.role
    name = {"name": message.name} if message.name and _NAME.fullmatch(message.name) else {}
    return {"role": role, "content": message.content, **name}


def read(reply: Mapping[str, Any]) -> Said:
    """What a chat completion says."""
    choice = _first(reply.get("choices"))
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise Lost("internal", f"the reply holds no message; its keys are {', '.join(map(str, reply))}")
    ended = choice.get("finish_reason")
    refusal = message.get("refusal")
    said = Said(
        text=text_of(message.get("content")) or (refusal if isinstance(refusal, str) else ""),
        finish=_FINISH.get(str(ended), "error"),
        usage=usage_of(reply.get("usage")),
        model=str(reply.get("model") or ""),
        fingerprint=reply.get("system_fingerprint") or None,
    )
    if refusal:
        return _failed(said, "content_filter", f"the model refused: {refusal}", "content_filter")
    if ended in _CALLS or (message.get("tool_calls") and not said.text):
        return _failed(said, "tool_failure", "the model asked for a tool, and none was offered")
    if said.finish == "error":
        return _failed(said, "internal", f"the answer ended with {ended!r}, which no format knows")
    return said


def _failed(said: Said, kind: Any, message: str, finish: Finish = "error") -> Said:
    return Said(
        text=said.text,
        finish=finish,
        usage=said.usage,
        model=said.model,
        fingerprint=said.fingerprint,
        failure=failure(kind, message),
    )


def text_of(content: Any) -> str:
    """The text of a message: some servers send it in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(
        str(part.get("text", "")) for part in parts if isinstance(part, Mapping) and part.get("type") == "text"
    )


def usage_of(usage: Any) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        cached_tokens=count(details, "cached_tokens"),
    )


def _first(choices: Any) -> Mapping[str, Any]:
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


class ChatFold:
    """A chat completion put together from its chunks."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[Any] = []
        self._finish: str | None = None
        self.held = 0

    @property
    def done(self) -> bool:
        return self._finish is not None

    def take(self, event: Mapping[str, Any]) -> str:
        self._head |= {name: value for name, value in event.items() if name != "choices" and value is not None}
        choice = _first(event.get("choices"))
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        calls, refusal, piece = delta.get("tool_calls"), delta.get("refusal"), text_of(delta.get("content"))
        if isinstance(calls, list):
            self._calls.extend(calls)
            self.held += len(str(calls))
        if isinstance(refusal, str):
            self._refusal.append(refusal)
            self.held += len(refusal)
        self._text.append(piece)
        self.held += len(piece)
        return piece

    def reply(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text)}
        if refusal := "".join(self._refusal):
            message["refusal"] = refusal
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice]}
