"""How a question quotes what was said. On the record it names the messages instead, and is put together again from them.

So each word stands there once, however many are shown it, and whoever redacts a message has redacted it in every question.
The words of a message are what they were when the question was asked: with the annotations that it had by then.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hansard.deliberation.documents import jcs
from hansard.deliberation.protocol.moves import Json

SAID = "said"
"""Stands for the words of the message of this number."""
RECALLED = "recalled"
"""Stands for the messages from the first number to before the second, each with who said it when."""
Content = str | Sequence[str | Mapping[str, Any]]
"""A text, or its pieces one behind the other: text, `{"said": 7}`, `{"recalled": [1, 7]}`."""

_OPENING = "[speaker:"
_HEADER = re.compile(r"(?m)^([^\S\n]*)(\[speaker:)")
_ANNOTATIONS = ("suggested_followups", "dropped_deferred", "schema_failure")


def as_json(value: Any) -> str:
    """In canonical form: the same for what is at hand and for what the record holds of it."""
    return jcs(value).decode()


def quoted(text: str) -> str:
    """The text without a line that could be taken for the beginning of somebody's turn."""
    # A bracket is found ten times as fast as a word.
    return _HEADER.sub(r"\1> \2", text) if "[" in text and _OPENING in text else text


def words_of(message: Json) -> str:
    """What a message says, as others are shown it."""
    content = message["content"]
    if isinstance(content, str):
        return quoted(content)
    if "text" not in content:
        return quoted(as_json(content))
    parts = [str(content["text"])]
    if content.get("direct_requests"):
        parts.append(f"Direct requests: {as_json(content['direct_requests'])}")
    parts += [f"{name}: {as_json(message[name])}" for name in _ANNOTATIONS if message.get(name)]
    return quoted("\n".join(parts))


def recalled(said: Iterable[tuple[Json, str]]) -> str:
    """Messages of earlier rounds with their words."""
    return "\n\n".join(
        [f"{message['speaker']} (round {message['round']}, {message['type']}): {words}" for message, words in said]
    )


def put_together(content: Content, messages: Sequence[Json]) -> str:
    """A content of the record as it was asked, where these are all messages up to then."""
    if isinstance(content, str):
        return content
    return "".join([piece if isinstance(piece, str) else _quotation(piece, messages) for piece in content])


def _quotation(piece: Mapping[str, Any], messages: Sequence[Json]) -> str:
    if SAID in piece:
        return words_of(messages[piece[SAID]])
    first, end = piece[RECALLED]
    return recalled((message, words_of(message)) for message in messages[first:end])
