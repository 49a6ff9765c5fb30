"""A provider that asks a model over HTTP through its vendor's SDK: what all such providers have in common.

One question is one request: the SDK's own retries are off. What is said on the wire, and what its errors mean, is the
business of a Dialect.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx2

from hansard.domain.exchange import Completion, Exchange, Failure, Usage
from hansard.providers import checks, parse
from hansard.providers.base import Heard, answer, failed, failure
from hansard.providers.hosted import faults, transport
from hansard.providers.hosted.dialect import Dialect, Lost, Refused, Said
from hansard.providers.hosted.place import Place
from hansard.providers.hosted.streaming import Stream
from hansard.providers.prices import Prices
from hansard.providers.schema import compile
from hansard.providers.scrubbed import scrubbed
from hansard.providers.secrets import Secrets

Progress = Callable[[Exchange, str], None]
"""Told each piece of text as it arrives, and for which question."""


class Hosted:
    """A model behind an HTTP server."""

    def __init__(
        self,
        *,
        id: str,
        kind: str,
        model: str,
        place: Place,
        dialect: Dialect,
        prices: Prices | None = None,
        progress: Progress | None = None,
        streams: bool = False,
        unmetered: bool = False,
    ) -> None:
        self.id, self.unmetered = id, unmetered
        self._kind, self._model, self._place, self._dialect = kind, model, place, dialect
        self._prices, self._progress = prices or Prices(), progress
        self._streams = streams or progress is not None
        self._raised: tuple[type[Exception], ...] = (
            *dialect.errors,
            httpx2.HTTPError,
            transport.Overrun,
            transport.Compressed,
        )
        self._secrets = Secrets({place.key_from: place.key} if place.key else {})

    def describe(self) -> Mapping[str, str]:
        said = {"id": self.id, "kind": self._kind, "api": self._dialect.name, "base_url": self._place.base_url}
        return said | ({"model": self._model} if self._model else {})

    async def close(self) -> None:
        await self._dialect.close()

    async def complete(self, exchange: Exchange) -> Completion:
        completion = self._priced(await answer(self, exchange, self._asked))
        clean = scrubbed(completion, self._secrets)
        # A mark in place of the key may miss the schema.
        return completion if clean == completion else checks.checked(exchange, clean)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def _asked(self, exchange: Exchange, heard: Heard) -> Completion:
        model = exchange.model or self._model
        if not model:
            why = failure("invalid_request", f"no model is named for {self.id}; set `model` in its table")
            return failed(self, exchange, why)
        server, key = self._place.host, self._place.key_from
        try:
            reply = await self._reply(exchange, self._dialect.body(exchange, model), heard)
            said = self._dialect.read(reply, exchange)
        except Lost as lost:
            return failed(self, exchange, failure(lost.kind, f"{server}: {lost}"), heard=heard)
        except Refused as refused:
            why = faults.told(refused.fault, self._dialect.classify(refused.fault), server=server, key=key)
            return failed(self, exchange, why, heard=heard)
        except self._raised as error:
            why, body = faults.failure_of(error, self._dialect.classify, server=server, key=key)
            heard.raw = body if body is not None else heard.raw
            return failed(self, exchange, why, heard=heard)
        return _completion(self.id, model, exchange, said, heard)

    async def _reply(self, exchange: Exchange, body: Mapping[str, Any], heard: Heard) -> Mapping[str, Any]:
        room = transport.allow(exchange.limits.max_output_bytes)
        if self._streams:
            return await self._streamed(exchange, body, heard, room)
        heard.raw = await self._dialect.whole(body, exchange.limits.timeout_s)
        return self._object(heard.raw)

    def _object(self, raw: bytes) -> dict[str, Any]:
        """The reply that came whole."""
        try:
            reply = json.loads(raw)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            begins = raw[:80].decode(errors="replace")
            raise Lost("internal", f"what came with status 200 is no {self._dialect.name} reply; it begins {begins!r}")
        return reply

    async def _streamed(
        self, exchange: Exchange, body: Mapping[str, Any], heard: Heard, room: int
    ) -> Mapping[str, Any]:
        def hear(piece: str) -> None:
            heard.add(piece)
            if self._progress:
                self._progress(exchange, piece)

        fold = self._dialect.fold()
        stream = Stream(fold, exchange.limits.max_output_bytes, room, hear)
        try:
            await stream.read(self._dialect.stream(body, exchange.limits.timeout_s))
        finally:
            # Also when we are cancelled or late: what was said so far was paid for.
            if stream.begun:
                reply = fold.reply()
                # As JSON writes it, half of a character can be kept.
                heard.raw = json.dumps(reply, ensure_ascii=False).encode(errors="backslashreplace")
                heard.usage = None if fold.done else self._counted(exchange, reply, heard.text)
            elif stream.came:
                heard.raw = bytes(stream.came[: faults.LONGEST_BODY])
        if not stream.begun:
            # Not every server streams, and errors come whole also where a stream was asked for.
            heard.raw = bytes(stream.came)
            return self._object(heard.raw)
        if not fold.done:
            raise Lost("network", "the stream ended before the answer did")
        return fold.reply()

    def _counted(self, exchange: Exchange, reply: Mapping[str, Any], text: str) -> Usage | None:
        """What a stream that broke off has told of the tokens. Its count of the answer is the one of its beginning."""
        try:
            told = self._dialect.read(reply, exchange).usage
        except (Lost, Refused):
            return None
        if told is None or not told.total:
            return None
        return replace(told, output_tokens=max(told.output_tokens, checks.estimated(text)), estimated=True)

    def _priced(self, completion: Completion) -> Completion:
        model = self._prices.known(completion.returned_model, completion.requested_model)
        if not model or not completion.usage.total:
            return completion
        cost = self._prices.cost(model, completion.usage)
        return replace(completion, cost=checks.settled_cost(cost, unmetered=self.unmetered))


def _completion(id: str, model: str, exchange: Exchange, said: Said, heard: Heard) -> Completion:
    why = said.failure or _unusable(exchange, said)
    completion = Completion(
        provider=id,
        requested_model=model,
        returned_model=said.model or model,
        text=said.text,
        structured=None if why else said.structured,
        calls=() if why else said.calls,
        thought=None if why else said.thought,
        finish=said.finish,
        raw=heard.raw,
        fingerprint=said.fingerprint,
        failure=why,
    )
    heard.usage = _counts(said.usage, checks.guessed(exchange, completion)) if said.usage and said.usage.total else None
    return replace(completion, usage=heard.usage or Usage())


def _counts(told: Usage, guess: Usage) -> Usage:
    """What a server counts. Nobody was asked for nothing: one that says 0 has not counted, and a budget would not either."""
    missing = {name: getattr(guess, name) for name in ("input_tokens", "output_tokens") if not getattr(told, name)}
    return replace(told, **missing, estimated=True) if any(missing.values()) else told


def _unusable(exchange: Exchange, said: Said) -> Failure | None:
    """Why a reply that came well is no answer."""
    if said.finish == "content_filter":
        # A filter that struck after the object was complete has taken nothing from it.
        if exchange.schema is not None and parse.read(said.text, compile(exchange.schema)).breach is None:
            return None
        return failure("content_filter", "the answer was withheld or cut off by the server's content filter")
    if said.text or said.structured is not None or exchange.schema is not None or said.finish == "tool_call":
        return None
    if said.finish == "length":
        return failure("context_length_exceeded", "the limit of tokens was used up before a word of the answer came")
    return failure("internal", "the model answered with nothing")
