"""A message put together from the events of its stream."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hansard.providers.base import joined
from hansard.providers.hosted.dialect import Head

_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_INPUT = "partial_json"


@dataclass(slots=True)
class _Begun:
    """A block as it began, and what has come of it since, by name."""

    head: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def block(self) -> dict[str, Any]:
        said = {name: joined(pieces) for name, pieces in self.pieces.items()}
        grown = {name: f"{self.head.get(name) or ''}{text}" for name, text in said.items() if text and name != _INPUT}
        return {**self.head, **grown, **({"input": _value(said[_INPUT])} if said.get(_INPUT) else {})}


class MessagesFold:
    """Begins with the message's head, grows block by block, is done when it says why it ended, and over when it says so."""

    def __init__(self) -> None:
        self._head = Head()
        self._blocks: list[_Begun] = []
        self._at: dict[int | None, _Begun] = {}
        self.done = False
        self.over = False
        self._held = 0

    @property
    def held(self) -> int:
        return self._held + self._head.size

    def take(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._head = Head()
                self._head.take(message)
            case {"type": "content_block_start", "content_block": dict(block)}:
                self._begin(_index(event), block)
            case {"type": "content_block_delta", "delta": dict(delta)}:
                return self._grow(_index(event), delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._head.take({name: value for name, value in delta.items() if value is not None})
                self._count(event.get("usage"))
                self.done = self._head.said.get("stop_reason") is not None
            case {"type": "message_stop"}:
                self.over = self.done
        return ""

    def _begin(self, index: int | None, block: dict[str, Any]) -> _Begun:
        """Some servers count none of their blocks, or all as the first: one that begins takes nothing from those before it."""
        begun = self._at[index] = _Begun(block)
        self._blocks.append(begun)
        self._held += len(str(block))
        return begun

    def _grow(self, index: int | None, delta: dict[str, Any]) -> str:
        begun = self._at.get(index) or self._begin(index, {"type": "text", "text": ""})
        kind = str(delta.get("type"))
        name = _INPUT if kind == "input_json_delta" else _GROWS.get(kind)
        if name is None:
            return ""
        piece = str(delta.get(name) or "")
        self._held += len(piece)
        begun.pieces.setdefault(name, []).append(piece)
        return piece if name == "text" else ""

    def _count(self, usage: Any) -> None:
        """Counts only grow. Some servers tell those of the question once, at the beginning, and are back at 0 at the end.

        What the beginning says of the answer is no count of it.
        """
        before = self._head.said.get("usage")
        told = dict(before) if isinstance(before, Mapping) else {}
        if not self.done and "output_tokens" in told:
            told["output_tokens"] = 0
        counts = usage if isinstance(usage, Mapping) else {}
        reported = {name: value for name, value in counts.items() if value or (value == 0 and name not in told)}
        if said := {**told, **reported}:
            self._head.take({"usage": said})

    def end(self) -> None:
        """Its events say that by themselves."""

    def reply(self) -> dict[str, Any]:
        return {**self._head.said, "content": [each.block() for each in self._blocks]}


def _index(event: Mapping[str, Any]) -> int | None:
    index = event.get("index")
    return index if isinstance(index, int) else None


def _value(text: str) -> Any:
    """The input of a tool; as text where it breaks off."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
