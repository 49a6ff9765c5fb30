"""Whatever a server writes in place of each member of a reply, whole or in an event of a stream, the reading of it stands."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from hansard.domain.exchange import Exchange, Message, Tool
from hansard.providers.anthropic import messages
from hansard.providers.anthropic.stream import MessagesFold
from hansard.providers.hosted.dialect import Lost, Refused
from hansard.providers.openai import chat, responses
from hansard.providers.openai.chat import ChatFold
from hansard.providers.openai.responses import ResponsesFold
from providers.wire_formats import FORMATS, Call, Say

ODD: tuple[Any, ...] = (None, 1, -1, True, 1.5, "x", "", [], [1], [[]], [{}], {}, {"a": 1}, {"type": []}, 10**400)
LOOK = Tool(name="look", description="Look at a place.", input_schema={"type": "object"})
ASKED = Exchange(messages=(Message(role="user", content="Where?"),), tools=(LOOK,))
BODY = {"model": "m", "stream_options": {"include_usage": True}}
CALLS = (Call(id="a", name="look", arguments={"at": "x"}, extra={"signed": "y"}), Call(id="b", name="look"))
SAID = {
    "calls": Say(text="Let me see.", thinking="Hm.", calls=CALLS),
    "text": Say(text="There."),
    "refusal": Say(text="", refusal="No."),
}
FORMS: dict[str, Any] = {
    "chat/completions": (ChatFold, chat.read),
    "responses": (ResponsesFold, responses.read),
    "messages": (MessagesFold, messages.read),
}
each_form = pytest.mark.parametrize("form", FORMS)
each_answer = pytest.mark.parametrize("said", SAID)


def spoiled(whole: Any) -> Iterator[Any]:
    """The value with each of its members, at whatever depth, replaced by each odd one."""
    for path in _paths(whole):
        for odd in ODD:
            twin = deepcopy(whole)
            inner = twin
            for step in path[:-1]:
                inner = inner[step]
            inner[path[-1]] = odd
            yield twin


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    steps = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps:
        yield (*path, step)
        yield from _paths(value[step], (*path, step))


def check_reading(form: str, reply: Any) -> None:
    try:
        said = FORMS[form][1](reply, ASKED)
    except (Lost, Refused):
        return
    json.dumps(said.thought)


@each_form
@each_answer
def test_a_reply_with_any_odd_member_is_read_or_told_in_words(form: str, said: str) -> None:
    for reply in spoiled(json.loads(FORMATS[form](SAID[said], BODY, False))):
        check_reading(form, reply)


@each_form
@each_answer
def test_a_stream_with_any_odd_member_of_an_event_is_read_or_told_in_words(form: str, said: str) -> None:
    lines = FORMATS[form](SAID[said], BODY, True).decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    for place, event in enumerate(events):
        for odd in spoiled(event):
            fold = FORMS[form][0]()
            for each in (*events[:place], odd, *events[place + 1 :]):
                fold.take(each)
            fold.end()
            assert isinstance(fold.held, int)
            check_reading(form, fold.reply())
