"""The Responses format, for servers that are better asked in it. Stateless: nothing is stored, nothing continued."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Exchange, Finish, Message, Usage
from hansard.providers.base import failure, joined
from hansard.providers.calls import called, is_result
from hansard.providers.checks import count
from hansard.providers.hosted import faults, shapes
from hansard.providers.hosted.dialect import Said, answer_tokens, none_in, reports
from hansard.providers.openai.calls import in_response, response_calls, response_tools
from hansard.providers.openai.errors import kind_of
from hansard.providers.openai.servers import Server, Structured, sampling, shape, tells

_FINISH: Mapping[str, Finish] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ENDINGS = ("response.completed", "response.incomplete", "response.failed")


def body(exchange: Exchange, model: str, server: Server, structured: Structured) -> dict[str, Any]:
    """The arguments of responses.create."""
    messages = shapes.told(exchange) if tells(server, structured) else exchange.messages
    rules = [each.content for each in messages if each.role == "system"]
    asked = [item for each in messages if each.role != "system" for item in _items(each)]
    said: dict[str, Any] = {"model": model, "input": asked or rules[0], "store": False}
    if rules and asked:
        said["instructions"] = rules[0]
    wish = sampling(exchange, model, server)
    if (effort := wish.pop("reasoning_effort", None)) is not None:
        said["reasoning"] = {"effort": effort}
    said |= wish
    if exchange.limits.max_output_tokens is not None:
        said["max_output_tokens"] = exchange.limits.max_output_tokens
    if (form := shape(exchange, structured)) is not None:
        said["text"] = {"format": form}
    if exchange.tools:
        said["tools"] = response_tools(exchange.tools)
    return said


def _items(message: Message) -> list[dict[str, Any]]:
    if is_result(message):
        return [{"type": "function_call_output", "call_id": message.call_id, "output": message.content}]
    role = "user" if message.role == "tool" else message.role
    spoken = [{"role": role, "content": message.content}] if message.content or not message.calls else []
    return spoken + response_calls(message.calls)


def read(reply: Mapping[str, Any], exchange: Exchange) -> Said:
    """What a response says."""
    if not isinstance(reply.get("output"), list) and reply.get("status") != "failed":
        raise none_in(reply, "output")
    parts = _parts(reply.get("output"))
    refusal = _joined(parts, "refusal", "refusal")
    said = Said(
        text=_joined(parts, "output_text", "text") or refusal,
        usage=_usage(reply.get("usage")),
        model=str(reply.get("model") or ""),
        fingerprint=reply.get("system_fingerprint") or None,
    )
    if refusal:
        why = failure("content_filter", f"the model refused: {refusal}")
        return replace(said, finish="content_filter", failure=why)
    return called(_ended(said, reply), in_response(reply.get("output")), exchange)


def _ended(said: Said, reply: Mapping[str, Any]) -> Said:
    details = reply.get("incomplete_details")
    reason = str(details.get("reason")) if isinstance(details, Mapping) else ""
    match reply.get("status"):
        case "completed":
            return said
        case "incomplete" if reason in _FINISH:
            return replace(said, finish=_FINISH[reason])
        case "failed":
            fault = faults.read_error(reply.get("error"))
            why = faults.told(fault, kind_of(fault), server="the server", key="its configuration")
            return replace(said, finish="error", failure=why)
        case status:
            why = failure("internal", f"the response ended as {status!r} {reason}".rstrip())
            return replace(said, finish="error", failure=why)


def _parts(output: Any) -> list[Mapping[str, Any]]:
    """The parts of the answer. What a model says on its way to one is none of them, unless there is nothing else."""
    items = output if isinstance(output, list) else []
    messages = [item for item in items if isinstance(item, Mapping) and item.get("type") == "message"]
    final = [item for item in messages if item.get("phase") != "commentary"]
    contents = [item.get("content") for item in final or messages]
    return [part for content in contents if isinstance(content, list) for part in content if isinstance(part, Mapping)]


def _joined(parts: list[Mapping[str, Any]], kind: str, name: str) -> str:
    return "".join(str(part.get(name) or "") for part in parts if part.get("type") == kind)


def _usage(usage: Any) -> Usage | None:
    if not reports(usage, "input_tokens", "output_tokens"):
        return None
    return Usage(
        input_tokens=count(usage, "input_tokens"),
        output_tokens=answer_tokens(usage, "input_tokens", "output_tokens"),
        cached_tokens=count(usage.get("input_tokens_details"), "cached_tokens"),
    )


class ResponsesFold:
    """A response put together from its events. Its last event holds it whole, or leaves out what the others have told."""

    def __init__(self) -> None:
        self._begun: dict[str, Any] = {}
        self._text: list[str] = []
        self._items: list[dict[str, Any]] = []
        self._ended: dict[str, Any] | None = None
        self.held = 0

    @property
    def done(self) -> bool:
        return self._ended is not None

    @property
    def over(self) -> bool:
        return self.done

    def take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "response.created" if isinstance(event.get("response"), dict):
                self._begun = event["response"]
            case "response.output_text.delta":
                self._text.append(str(event.get("delta") or ""))
                self.held += len(self._text[-1])
                return self._text[-1]
            case "response.output_item.done" if isinstance(event.get("item"), dict):
                self._items.append(event["item"])
                self.held += len(str(event["item"]))
            case "error":
                error = {name: event.get(name) for name in ("code", "message")}
                self._ended = {**self.reply(), "status": "failed", "error": error}
            case ending if ending in _ENDINGS and isinstance(event.get("response"), dict):
                self._ended = event["response"]
        return ""

    def end(self) -> None:
        """Its events say that by themselves."""

    def reply(self) -> dict[str, Any]:
        if self._ended is not None and self._ended.get("output"):
            return self._ended
        return {**(self._begun if self._ended is None else self._ended), "output": self._output()}

    def _output(self) -> list[dict[str, Any]]:
        """The items that were done; the text as it came, which an item may lack."""
        if not self._text:
            return self._items
        part = {"type": "output_text", "text": joined(self._text)}
        message = {"type": "message", "role": "assistant", "content": [part]}
        return [*(item for item in self._items if item.get("type") != "message"), message]
