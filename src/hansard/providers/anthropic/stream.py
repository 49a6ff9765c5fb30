"""A message put together from the events of its stream."""

import json
from collections.abc import Mapping
from typing import Any

from hansard.providers.hosted.dialect import Head

_GROWS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesFold:
    """Begins with the message's head, grows block by block, and is done when the message says so."""

    def __init__(self) -> None:
        self._head = Head()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self.done = False
        self._held = 0

    @property
    def over(self) -> bool:
        return self.done

    @property
    def held(self) -> int:
        return self._held + self._head.size

    def take(self, event: Mapping[str, Any]) -> str:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._head = Head()
                self._head.take(message)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                self._blocks[index] = block
                self._held += len(str(block))
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return self._grow(index, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._head.take({name: value for name, value in delta.items() if value is not None})
                self._count(event.get("usage"))
            case {"type": "message_stop"}:
                self.done = self._head.said.get("stop_reason") is not None
        return ""

    def _grow(self, index: int, delta: dict[str, Any]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        if delta.get("type") == "input_json_delta":
            part = str(delta.get("partial_json") or "")
            self._inputs.setdefault(index, []).append(part)
            self._held += len(part)
            return ""
        name = _GROWS.get(str(delta.get("type")))
        if name is None:
            return ""
        piece = str(delta.get(name) or "")
        self._held += len(piece)
        block.setdefault("pieces", []).append((name, piece))
        return piece if name == "text" else ""

    def _count(self, usage: Any) -> None:
        if isinstance(usage, Mapping):
            reported = {name: value for name, value in usage.items() if value is not None}
            self._head.take({"usage": {**(self._head.said.get("usage") or {}), **reported}})

    def reply(self) -> dict[str, Any]:
        return {**self._head.said, "content": [self._block(index) for index in sorted(self._blocks)]}

    def _block(self, index: int) -> dict[str, Any]:
        block = {name: value for name, value in self._blocks[index].items() if name != "pieces"}
        for name in _GROWS.values():
            grown = "".join(piece for part, piece in self._blocks[index].get("pieces", []) if part == name)
            if grown:
                block[name] = f"{block.get(name) or ''}{grown}"
        if index in self._inputs:
            block["input"] = _value("".join(self._inputs[index]))
        return block


def _value(text: str) -> Any:
    """The input of a tool; as text where it breaks off."""
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return text
