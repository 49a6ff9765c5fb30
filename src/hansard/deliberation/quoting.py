"""How a question quotes what was said, and how an answer is what its message says. On the record both name the messages instead,
and are put together again from them.

So each word stands there once, however many are shown it, and whoever redacts a message has redacted it wherever it is quoted.
The words of a message are what they were when the question was asked: with the annotations that it had by then.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hansard.deliberation.documents import jcs
from hansard.deliberation.protocol.moves import Json
from hansard.ledger.canonical import Malformed
from hansard.record.encoder import fastest

SAID, AT, RECALLED, MARK = "said", "at", "recalled", "mark"
Piece = str | Mapping[str, Any]
"""A text; `{"said": 7}`, the words of message 7; `{"said": 7, "at": ["focus"]}`, this part of its content;
`{"recalled": [1, 7], "mark": "2f0c"}`, messages 1 to 6, each with who said it when behind this mark (earlier records have none).
In an answer, `{"at": ["text"]}`: the canonical JSON of this part of the content of its own message."""
Content = str | Sequence[Piece]
"""A text, or its pieces one behind the other."""

_OPENING = "[speaker:"
_HEADER = re.compile(r"(?m)^([^\S\n]*)(\[speaker:)")
ANNOTATIONS = ("suggested_followups", "dropped_deferred", "schema_failure")
LONG = 64
"""Characters. What names a shorter text is no shorter than the text."""
MOST = 1 << 28
"""Characters of a question or an answer: more than any of a whole panel has. A body that names one text ever again is small."""
_HEAD = 32
_encode = fastest()


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
    content = message["content"]
    found = content if isinstance(content, str) else _under(content, path)
    return quoted(found if isinstance(found, str) else as_json(found))


def _under(content: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        content = content[step]
    return content


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
    return _joined(content, lambda piece: _quotation(piece, messages))


def naming(answer: str, content: Json | str) -> Content:
    """A model's answer as the record has it, beside a message with this content: long texts of the content are named where they
    stand in the answer for the first time. What a model wrote otherwise than in canonical form stays as it came.
    """
    if isinstance(content, str):
        return answer
    pieces: list[Piece] = [answer]
    for name, member in content.items():
        if type(member) is not str or len(member) < LONG:
            continue
        literal = _encode(member).decode()
        for number, piece in enumerate(pieces):
            # Python studies the whole of a long text before it looks for it; its head is found in a tenth of the time.
            if (
                type(piece) is str
                and (at := piece.find(literal[:_HEAD])) >= 0
                and (piece.startswith(literal, at) or (at := piece.find(literal, at)) >= 0)
            ):
                pieces[number : number + 1] = piece[:at], {AT: [name]}, piece[at + len(literal) :]
                break
    return pieces if len(pieces) > 1 else answer


def answer_of(text: object, message: Json) -> str:
    """The answer word for word, from the text of the result and the message that it became. Malformed where it is none."""
    return _joined(text, lambda piece: _literal(piece, message))


def _joined(content: object, words: Callable[[object], str]) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple) or not any(isinstance(piece, Mapping) for piece in content):
        raise Malformed("a content is a text, or a list of pieces that quotes a message")
    texts, length = [], 0
    for piece in content:
        texts.append(piece if isinstance(piece, str) else words(piece))
        length += len(texts[-1])
        if length > MOST:
            raise Malformed(f"what its pieces name is longer than {MOST:,} characters")
    return "".join(texts)


def _literal(piece: object, message: Json) -> str:
    match piece:
        case {"at": [*path], **rest} if not rest:
            try:
                return as_json(_under(message["content"], path))
            except (LookupError, TypeError):
                raise Malformed(f"its message has no {path!r:.80}") from None
    raise Malformed(f"{piece!r:.80} names nothing")


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
