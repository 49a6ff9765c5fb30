"""What a model thought before its calls for tools, in Chat Completions. Some servers take a result only with that beside it.

OpenAI's own format has no place for it; others have put it there: DeepSeek and Moonshot a text, OpenRouter a list, Gemini a
signature beside each call.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from hansard.domain.exchange import ToolCall
from hansard.providers.base import joined
from hansard.providers.openai.calls import EXTRA, extras_in, tables

_TEXT, _LIST = "reasoning_content", "reasoning_details"
_GROW = ("text", "summary")


def thought_of(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> dict[str, Any] | None:
    """What has to go back with these calls of a message; None where nothing has."""
    text, details, extras = message.get(_TEXT), list(tables(message.get(_LIST))), extras_in(message, calls)
    # Also an empty text: a server that sends one misses it.
    said = {_TEXT: text} if isinstance(text, str) else {}
    return {**said, **({_LIST: details} if details else {}), **({EXTRA: extras} if extras else {})} or None


def sent_back(thought: Any) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """The members of the message, and what stands beside each call by its id."""
    if not isinstance(thought, Mapping):
        return {}, {}
    return {name: thought[name] for name in (_TEXT, _LIST) if name in thought}, thought.get(EXTRA) or {}


class ThoughtPieces:
    """What was thought, put together from the pieces in the chunks of a completion."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._details: list[Mapping[str, Any]] = []

    def take(self, delta: Mapping[str, Any]) -> int:
        """Take the pieces of one chunk; how many characters they add."""
        size, text = 0, delta.get(_TEXT)
        if isinstance(text, str):
            self._text.append(text)
            size += len(text)
        for piece in tables(delta.get(_LIST)):
            self._details.append(piece)
            size += len(str(piece))
        return size

    def said(self) -> dict[str, Any]:
        """The members as they would have come whole."""
        said: dict[str, Any] = {_TEXT: joined(self._text)} if self._text else {}
        if self._details:
            said[_LIST] = [_whole(list(run)) for _, run in groupby(self._numbered(), key=lambda each: each[0])]
        return said

    def _numbered(self) -> list[tuple[Any, Mapping[str, Any]]]:
        """The pieces, each with what those of one block have in common."""
        return [
            ((piece.get("type"), piece["index"]) if piece.get("index") is not None else (number,), piece)
            for number, piece in enumerate(self._details)
        ]


def _whole(run: list[tuple[Any, Mapping[str, Any]]]) -> dict[str, Any]:
    """A block of what was thought: its texts grow, of the rest the last word counts."""
    said: dict[str, Any] = {}
    for _, piece in run:
        said |= {name: told for name, told in piece.items() if told is not None}
    grown = {name: [piece[name] for _, piece in run if isinstance(piece.get(name), str)] for name in _GROW}
    return said | {name: joined(pieces) for name, pieces in grown.items() if pieces}
