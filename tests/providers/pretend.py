"""Providers that no vendor made: one that does as it is told and keeps no contract, and small ones for single tests."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from hansard.domain.exchange import Completion, Exchange, Message, Usage
from hansard.providers.base import failure
from hansard.providers.conformance import Behaviour

KEY = "sk-pretend/0123456789+abcdef"


class Rude:
    """A third party's provider: it checks nothing, counts little, raises what it likes, and repeats its key."""

    id = "rude"
    unmetered = False

    def __init__(self, behaviour: Behaviour) -> None:
        self.at_work = 0
        self._behaviour = behaviour

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "rude", "model": "rude-1"}

    async def close(self) -> None:
        """Nothing to let go of."""

    async def complete(self, exchange: Exchange) -> Completion:
        self.at_work += 1
        try:
            await asyncio.sleep(3600 if self._behaviour.hangs else 0)
            return self._said(exchange)
        finally:
            self.at_work -= 1

    def _said(self, exchange: Exchange) -> Completion:
        told = self._behaviour
        text = exchange.messages[-1].content if told.echoes else told.says
        if told.leaks:
            text = f"{text} (my key is {KEY})"
        if told.fails == "internal":
            raise RuntimeError(f"out of luck, with {KEY}")
        why = failure(told.fails, text, retry_after_s=told.retry_after_s) if told.fails else None
        return Completion(
            provider="",
            requested_model="",
            returned_model="",
            text="" if why else text,
            finish="length" if told.cut_off else "stop",
            usage=told.usage or Usage(),
            failure=why,
        )


class Doing:
    """A provider that does whatever a test says."""

    unmetered = False

    def __init__(self, do: Callable[[Exchange], Awaitable[Any]], *, id: str = "doing") -> None:
        self.id = id
        self.asked: list[Exchange] = []
        self.closed = 0
        self._do = do

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "doing", "model": "m-1"}

    async def close(self) -> None:
        self.closed += 1

    async def complete(self, exchange: Exchange) -> Completion:
        self.asked.append(exchange)
        found: Completion = await self._do(exchange)
        return found


def says(text: str = "", **fields: Any) -> Completion:
    """A completion with sensible values for what a test does not care about."""
    known: dict[str, Any] = {"provider": "doing", "requested_model": "m-1", "returned_model": "m-1", "text": text}
    return Completion(**{**known, **fields})


def saying(*texts: str) -> Doing:
    """A provider that says these in turn."""
    rest = list(texts)

    async def do(_: Exchange) -> Completion:
        return says(rest.pop(0))

    return Doing(do)


def asking(text: str = "Well?", **fields: Any) -> Exchange:
    return Exchange(messages=(Message(role="user", content=text),), **fields)
