"""Calls for tools, as every wire format has them: an id, the name of a tool, and arguments that ought to be a JSON object.

Runs nothing and judges nothing: whether a tool was offered is the business of `checks`, and what a call may do that of whoever
offered it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hansard.domain.exchange import Exchange, Message, ToolCall
from hansard.providers import parse
from hansard.providers.base import failure
from hansard.providers.hosted.dialect import Said

Asked = tuple[Any, Any, Any]
"""A call as it came: its id, the name of its tool, and its arguments as text or as JSON."""


def called(said: Said, asked: Sequence[Asked], exchange: Exchange) -> Said:
    """What a reply with these calls says. Where no tool was offered and the answer ends beside them, they are none."""
    if said.failure or said.finish == "content_filter" or not (asked or said.finish == "tool_call"):
        return said
    if not asked:
        return replace(said, failure=failure("tool_failure", "the answer ended with a call for a tool, and holds none"))
    if said.finish == "stop" and said.text and not exchange.tools:
        return said
    if said.finish == "length":
        why = failure("context_length_exceeded", "the limit of tokens was used up within a call for a tool")
        return replace(said, failure=why)
    return replace(said, calls=_calls(asked, exchange), finish="tool_call")


def is_result(message: Message) -> bool:
    """Whether it answers a call. What a tool says of itself is, to the model, what the user brings."""
    return message.role == "tool" and message.call_id is not None


def written(arguments: Any) -> str:
    """Arguments in the formats that want them as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _calls(asked: Sequence[Asked], exchange: Exchange) -> tuple[ToolCall, ...]:
    ids = _ids([id for id, _, _ in asked], exchange)
    return tuple(
        ToolCall(id=id, name=name if isinstance(name, str) else "", arguments=_arguments(arguments))
        for id, (_, name, arguments) in zip(ids, asked, strict=True)
    )


def _ids(given: Sequence[Any], exchange: Exchange) -> list[str]:
    """The ids as given; where there is none, or another call has it, one that nobody has in the whole conversation."""
    taken = {call.id for message in exchange.messages for call in message.calls} | {str(id) for id in given}
    made_up = (id for id in map("call_{}".format, count(1)) if id not in taken)
    kept: dict[str, None] = {}
    for id in given:
        kept[id if isinstance(id, str) and id and id not in kept else next(made_up)] = None
    return list(kept)


def _arguments(said: Any) -> Any:
    """The object that was said; where it is none that we take, the text of it."""
    if said is None or (isinstance(said, str) and not said.strip()):
        return {}
    reading = parse.whole(said) if isinstance(said, str) else parse.plain(said)
    return reading.value if isinstance(reading.value, dict) else written(said)
