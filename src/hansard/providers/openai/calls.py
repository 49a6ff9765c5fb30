"""Tools and calls for them in OpenAI's two formats: how they are offered, how calls are sent back, and where they stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hansard.domain.exchange import Tool, ToolCall
from hansard.providers.base import joined
from hansard.providers.calls import Asked, written

EXTRA = "extra_content"


def chat_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", "function": _function(tool)} for tool in tools]


def response_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"type": "function", **_function(tool), "strict": False} for tool in tools]


def _function(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}


def chat_calls(calls: Sequence[ToolCall], extras: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls of an assistant's message, with what their server said beside each."""
    return [_chat_call(call.id, call.name, written(call.arguments), extras.get(call.id)) for call in calls]


def _chat_call(id: str, name: str, arguments: str, extra: Any) -> dict[str, Any]:
    said = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return said if extra is None else {**said, EXTRA: extra}


def response_calls(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """The calls as items of a conversation."""
    return [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written(call.arguments)}
        for call in calls
    ]


def in_chat(message: Mapping[str, Any]) -> list[Asked]:
    """The calls that a chat message makes."""
    return [(call.get("id"), said.get("name"), said.get("arguments")) for call, said in _functions(message)]


def extras_in(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> dict[str, Any]:
    """What a chat message says beside its calls, by their ids: Gemini's signature of what it thought, without which it takes no
    result.
    """
    said = [call.get(EXTRA) for call, _ in _functions(message)]
    return {call.id: extra for call, extra in zip(calls, said, strict=True) if isinstance(extra, Mapping)}


def _functions(message: Mapping[str, Any]) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    called = [(call, call.get("function")) for call in tables(message.get("tool_calls"))]
    return [(call, function) for call, function in called if isinstance(function, Mapping)]


def in_response(output: Any) -> list[Asked]:
    """The calls among the items of a response."""
    return [
        (item.get("call_id"), item.get("name"), item.get("arguments"))
        for item in tables(output)
        if item.get("type") == "function_call"
    ]


def tables(items: Any) -> Iterable[Mapping[str, Any]]:
    """Those of a list that came which are tables."""
    return (item for item in items if isinstance(item, Mapping)) if isinstance(items, list) else ()


@dataclass(slots=True, kw_only=True)
class _Begun:
    id: str = ""
    name: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    extra: Any = None


class CallPieces:
    """The calls of a chat completion, put together from the pieces in its chunks by their index."""

    def __init__(self) -> None:
        self._begun: list[_Begun] = []
        self._at: dict[Any, _Begun] = {}

    def take(self, pieces: Any) -> int:
        """Take the pieces of one chunk; how many characters they add."""
        return sum(self._add(piece) for piece in tables(pieces))

    def _add(self, piece: Mapping[str, Any]) -> int:
        function = piece.get("function")
        said = function if isinstance(function, Mapping) else {}
        name, arguments = said.get("name"), said.get("arguments")
        call = self._call(piece, is_named=bool(name))
        # Some servers say the whole name again with every piece of the arguments.
        if isinstance(name, str) and name and [name] != call.name:
            call.name.append(name)
        if arguments is not None:
            call.arguments.append(written(arguments))
        call.extra = piece.get(EXTRA) or call.extra
        return len(str(piece))

    def _call(self, piece: Mapping[str, Any], *, is_named: bool) -> _Begun:
        id, index = piece.get("id"), piece.get("index")
        said = id if isinstance(id, str) else ""
        place = index if isinstance(index, int) else None
        call = self._at.get(place)
        if call is None and place is None and self._begun and not (said or is_named):
            # What stands beside a call may come behind it, without a word on which one.
            return self._begun[-1]
        # Some servers count none of their calls, or all of them as the first: another id is another call. Others make up
        # an id for every piece: where it names no tool, it belongs to the call before it.
        if call is None or (is_named and said and call.id and said != call.id):
            call = self._at[place] = _Begun()
            self._begun.append(call)
        call.id = call.id or said
        return call

    def calls(self) -> list[dict[str, Any]]:
        """The calls as they would have come whole, in the order in which they began."""
        return [_chat_call(each.id, "".join(each.name), joined(each.arguments), each.extra) for each in self._begun]
