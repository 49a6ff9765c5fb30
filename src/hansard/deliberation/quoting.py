"""How a question quotes what was said. On the record it names the messages instead, and is put together again from them.

So each word stands there once, however many are shown it, and whoever redacts a message has redacted it wherever it is quoted.
The words of a message are what they were when the question was asked: with the annotations that it had by then.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hansard.deliberation.documents import jcs
from hansard.deliberation.protocol.moves import Json
from hansard.ledger.canonical import Malformed

SAID, AT, RECALLED, MARK = "said", "at", "recalled", "mark"
Piece = str | Mapping[str, Any]
"""A text; `{"said": 7}`, the words of message 7; `{"said": 7, "at": ["focus"]}`, this part of its content;
`{"recalled": [1, 7], "mark": "2f0c"}`, messages 1 to 6, each with who said it when behind this mark (earlier records have none)."""
Content = str | Sequence[Piece]
"""A text, or its pieces one behind the other."""

_OPENING = "[speaker:"
_HEADER = re.compile(r"(?m)^([^\S\n]*)(\[speaker:)")
ANNOTATIONS = ("suggested_followups", "dropped_deferred", "schema_failure")


def quoted(text: str) -> str:
    """The text without a line that could be taken for the beginning of somebody's turn."""
    # A bracket is found ten times as fast as a word.
    return _HEADER.sub(r"\1> \2", text) if "[" in text and _OPENING in text else text


def as_json(value: Any) -> str:
    """In canonical form: the same for what is at hand and for what the record holds of it."""
    return jcs(value).decode()


def words_of(message: Json) -> str:
    """What a message says, as others are shown it."""
    content = message["content"]
    if isinstance(content, str):
        return quoted(content)
    if "text" not in content:
        return quoted(as_json(content))
    words = str(content["text"])
    if requests := content.get("direct_requests"):
        words += f"\nDirect requests: {as_json(requests)}"
    for name in ANNOTATIONS:
        if added := message.get(name):
            words += f"\n{name}: {as_json(added)}"
    return quoted(words)


def part_of(message: Json, path: Sequence[str | int]) -> str:
    """A part of what a message says: a text as it is, anything else as JSON. What stands for a redacted message has no parts."""
    found: Any = message["content"]
    for step in () if isinstance(found, str) else path:
        found = found[step]
    return quoted(found if isinstance(found, str) else as_json(found))


def recalled(said: Iterable[tuple[Json, str]], mark: str) -> str:
    """Messages of earlier rounds with their words. Whoever spoke there did not know the mark, so he cannot speak as another."""
    opening = mark and f"[{mark}] "
    return "\n\n".join(
        [
            f"{opening}{message['speaker']} (round {message['round']}, {message['type']}): {words}"
            for message, words in said
        ]
    )


def put_together(content: object, messages: Sequence[Json]) -> str:
    """A content of the record as it was asked, where these are all messages up to then. Malformed where it is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not any(isinstance(piece, Mapping) for piece in content):
        raise Malformed("a content is a text, or a list of pieces that quotes a message")
    return "".join([piece if isinstance(piece, str) else _quotation(piece, messages) for piece in content])


def _quotation(piece: object, messages: Sequence[Json]) -> str:
    match piece:
        case {"said": number, **rest} if not rest:
            return words_of(messages[_number(number, len(messages) - 1)])
        case {"said": number, "at": [*path], **rest} if not rest:
            message = messages[_number(number, len(messages) - 1)]
            try:
                return part_of(message, path)
            except (LookupError, TypeError):
                raise Malformed(f"message {number} has no {path!r:.80}") from None
        case {"recalled": [first, end], **rest} if rest.keys() <= {MARK} and isinstance(
            mark := rest.get(MARK, ""), str
        ):
            some = messages[_number(first, len(messages)) : _number(end, len(messages))]
            return recalled(((message, words_of(message)) for message in some), mark)
    raise Malformed(f"{piece!r:.80} quotes nothing")


def _number(number: object, most: int) -> int:
    if type(number) is not int or not 0 <= number <= most:
        raise Malformed(f"there is no message {number!r:.40}")
    return number
