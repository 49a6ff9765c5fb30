"""Chat Completions, the format that every compatible server speaks: what is sent, and how replies are read."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Exchange, Finish, Message, Usage
from hansard.providers.base import failure, joined
from hansard.providers.calls import called, is_result
from hansard.providers.checks import count
from hansard.providers.hosted import faults, shapes
from hansard.providers.hosted.dialect import Head, Said, answer_tokens, none_in, reports
from hansard.providers.openai.calls import CallPieces, chat_calls, chat_tools, in_chat
from hansard.providers.openai.errors import kind_of
from hansard.providers.openai.servers import Server, Structured, reasons, sampling, shape, tells
from hansard.providers.openai.thoughts import ThoughtPieces, sent_back, thought_of

_NAME = re.compile(r"[^\s<|\\/>]{1,64}")
_FINISH: Mapping[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_call",
    "function_call": "tool_call",
    # What other servers of this format say: Together, text-generation-inference, Mistral.
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "model_length": "length",
}


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
    if exchange.tools:
        said["tools"] = chat_tools(exchange.tools)
    return said


def _message(message: Message) -> dict[str, Any]:
    if is_result(message):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    role = "user" if message.role == "tool" else message.role
    name = {"name": message.name} if message.name and _NAME.fullmatch(message.name) else {}
    if message.calls:
        said, extras = sent_back(message.thought)
        calls = chat_calls(message.calls, extras)
        return {"role": role, "content": message.content or None, **name, **said, "tool_calls": calls}
    return {"role": role, "content": message.content, **name}


def read(reply: Mapping[str, Any], exchange: Exchange) -> Said:
    """What a chat completion says."""
    choice = _first(reply.get("choices"))
    message = choice.get("message")
    if not isinstance(message, Mapping):
        raise none_in(reply, "message")
    ended = choice.get("finish_reason")
    refusal = message.get("refusal")
    said = Said(
        text=text_of(message.get("content")) or (refusal if isinstance(refusal, str) else ""),
        # Some servers never say why: what came whole has ended.
        finish=_FINISH.get(str(ended), "error") if ended or choice.get("error") else "stop",
        usage=usage_of(reply.get("usage")),
        model=str(reply.get("model") or ""),
        fingerprint=reply.get("system_fingerprint") or None,
    )
    if refusal:
        why = failure("content_filter", f"the model refused: {refusal}")
        return replace(said, finish="content_filter", failure=why)
    said = called(said, in_chat(message), exchange)
    said = replace(said, thought=thought_of(message, said.calls)) if said.calls else said
    if said.finish == "error" and choice.get("error"):
        fault = faults.read_error(choice)
        why = faults.told(fault, kind_of(fault), server="the server", key="its configuration")
        return replace(said, failure=why)
    if said.finish == "error":
        return replace(said, failure=failure("internal", f"the answer ended with {ended!r}, which no format knows"))
    return said


def text_of(content: Any) -> str:
    """The text of a message: some servers send it in parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(
        str(part.get("text") or "") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"
    )


def usage_of(usage: Any) -> Usage | None:
    if not reports(usage, "prompt_tokens", "completion_tokens"):
        return None
    details = usage.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=answer_tokens(usage, "prompt_tokens", "completion_tokens"),
        cached_tokens=count(details, "cached_tokens"),
    )


def _first(choices: Any) -> Mapping[str, Any]:
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, Mapping) else {}


class ChatFold:
    """A chat completion put together from its chunks."""

    over = False
    """Never by itself: what was used is told behind the end of the answer, and the stream says when that was all."""

    def __init__(self) -> None:
        self._head = Head()
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._thought = ThoughtPieces()
        self._calls = CallPieces()
        self._finish: str | None = None
        self._is_ended = False
        self._held = 0

    @property
    def done(self) -> bool:
        return self._finish is not None or self._is_ended

    @property
    def held(self) -> int:
        return self._held + self._head.size

    def take(self, event: Mapping[str, Any]) -> str:
        self._head.take({name: value for name, value in event.items() if name != "choices" and value is not None})
        choice = _first(event.get("choices"))
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        refusal, piece = delta.get("refusal"), text_of(delta.get("content"))
        self._held += self._thought.take(delta) + self._calls.take(delta.get("tool_calls"))
        if isinstance(refusal, str):
            self._refusal.append(refusal)
            self._held += len(refusal)
        self._text.append(piece)
        self._held += len(piece)
        return piece

    def end(self) -> None:
        """Some servers never say why an answer ended, and that it did."""
        self._is_ended = bool(self._held)

    def reply(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": joined(self._text), **self._thought.said()}
        if refusal := joined(self._refusal):
            message["refusal"] = refusal
        if calls := self._calls.calls():
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head.said, "object": "chat.completion", "choices": [choice]}
