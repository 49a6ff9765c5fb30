"""A provider that asks a model over HTTP through its vendor's SDK: what all such providers have in common.

One question is one request: the SDK's own retries are off. What is said on the wire, and what its errors mean, is the
business of a Dialect.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from hansard.domain.exchange import Completion, ErrorKind, Exchange, Failure, Finish, Usage
from hansard.errors import UsageError
from hansard.providers import checks, faults, parse, transport
from hansard.providers.base import Heard, answer, failed, failure
from hansard.providers.prices import Prices
from hansard.providers.schema import compile
from hansard.providers.scrubbed import scrubbed
from hansard.providers.secrets import Secrets

NO_KEY = "no-key-configured"
"""Sent where no key is configured: SDKs insist on one, and servers without keys do not look."""

Progress = Callable[[Exchange, str], None]
"""Told each piece of text as it arrives, and for which question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a reply says, whichever format it came in."""

    text: str = ""
    structured: Any = None
    finish: Finish = "stop"
    usage: Usage | None = None
    model: str = ""
    fingerprint: str | None = None
    failure: Failure | None = None


class Lost(Exception):
    """There is no reply to read, for a reason that no SDK raises."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


class Fold(Protocol):
    """Puts the events of a stream together into the reply that would have come whole."""

    @property
    def done(self) -> bool: ...
    def take(self, event: Mapping[str, Any]) -> str:
        """Take one event; the text that it adds to the answer."""
        ...

    def reply(self) -> dict[str, Any]: ...


class Event(Protocol):
    def to_dict(self, *, mode: Any = ..., warnings: bool = ...) -> dict[str, object]: ...


class Stream(AbstractAsyncContextManager[Any], Protocol):
    def __aiter__(self) -> AsyncIterator[Event]: ...


class Dialect(Protocol):
    """One wire format, spoken through one SDK."""

    @property
    def name(self) -> str: ...
    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the SDK raises."""
        ...

    def body(self, exchange: Exchange, model: str) -> dict[str, Any]: ...
    async def whole(self, body: Mapping[str, Any], timeout_s: float) -> bytes: ...
    async def stream(self, body: Mapping[str, Any], timeout_s: float) -> Stream: ...
    def fold(self) -> Fold: ...
    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said: ...
    def classify(self, fault: faults.Fault) -> ErrorKind: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a provider asks and with which key. The value of the key is known to the secrets, and never shown."""

    base_url: str
    key: str = ""
    key_from: str = "no variable (no key is configured)"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc


class Hosted:
    """A model behind an HTTP server. Made once per event loop."""

    def __init__(
        self,
        *,
        id: str,
        kind: str,
        model: str | None,
        place: Place,
        dialect: Dialect,
        prices: Prices | None = None,
        progress: Progress | None = None,
        unmetered: bool = False,
    ) -> None:
        self.id, self.unmetered = id, unmetered
        self._kind, self._model, self._place, self._dialect = kind, model, place, dialect
        self._prices, self._progress = prices or Prices(), progress
        self._raised = (*dialect.errors, httpx2.HTTPError, transport.Overrun, transport.Compressed)
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
        transport.allow(exchange.limits.max_output_bytes)
        try:
            reply = await self._reply(exchange, self._dialect.body(exchange, model), heard)
            said = self._dialect.read(reply, exchange)
        except Lost as lost:
            return failed(self, exchange, failure(lost.kind, f"{self._place.host}: {lost}"), heard=heard)
        except self._raised as error:
            server, key = self._place.host, self._place.key_from
            why, body = faults.failure_of(error, self._dialect.classify, server=server, key=key)
            heard.raw = body if body is not None else heard.raw
            return failed(self, exchange, why, heard=heard)
        return _completion(self.id, model, exchange, said, heard)

    async def _reply(self, exchange: Exchange, body: Mapping[str, Any], heard: Heard) -> Mapping[str, Any]:
        if self._progress:
            return await self._streamed(exchange, body, heard, self._progress)
        heard.raw = await self._dialect.whole(body, exchange.limits.timeout_s)
        try:
            reply = json.loads(heard.raw)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict):
            begins = heard.raw[:80].decode(errors="replace")
            raise Lost("internal", f"what came with status 200 is no {self._dialect.name} reply; it begins {begins!r}")
        return reply

    async def _streamed(
        self, exchange: Exchange, body: Mapping[str, Any], heard: Heard, progress: Progress
    ) -> Mapping[str, Any]:
        fold, room = self._dialect.fold(), exchange.limits.max_output_bytes
        try:
            async with await self._dialect.stream(body, exchange.limits.timeout_s) as stream:
                async for event in stream:
                    if piece := fold.take(event.to_dict(mode="json", warnings=False)):
                        heard.add(piece)
                        progress(exchange, piece)
                        room -= len(piece.encode(errors="replace"))
                    if room < 0:
                        raise transport.Overrun(f"more text than {exchange.limits.max_output_bytes} bytes")
        except ValueError as error:
            raise Lost("internal", f"an event of the stream is no JSON: {error}") from error
        finally:
            # Also when we are cancelled or late: what was said so far was paid for.
            heard.raw = json.dumps(fold.reply(), ensure_ascii=False).encode(errors="replace")
        if not fold.done:
            raise Lost("network", "the stream ended before the answer did")
        return fold.reply()

    def _priced(self, completion: Completion) -> Completion:
        names = (completion.returned_model, completion.requested_model)
        model = next((name for name in names if self._prices.find(name)), "")
        if not model or not completion.usage.total:
            return completion
        cost = self._prices.cost(model, completion.usage)
        return replace(completion, cost=replace(cost, basis="estimate") if self.unmetered else cost)


def _completion(id: str, model: str, exchange: Exchange, said: Said, heard: Heard) -> Completion:
    heard.usage = said.usage
    why = said.failure or _unusable(exchange, said)
    return Completion(
        provider=id,
        requested_model=model,
        returned_model=said.model or model,
        text=said.text,
        structured=None if why else said.structured,
        finish=said.finish,
        usage=said.usage or Usage(),
        raw=heard.raw,
        fingerprint=said.fingerprint,
        failure=why,
    )


def _unusable(exchange: Exchange, said: Said) -> Failure | None:
    """Why a reply that came well is no answer."""
    if said.finish == "content_filter":
        # A filter that struck after the object was complete has taken nothing from it.
        if exchange.schema and parse.read(said.text, compile(exchange.schema)).breach is None:
            return None
        return failure("content_filter", "the answer was withheld or cut off by the server's content filter")
    if said.text or said.structured is not None or exchange.schema:
        return None
    if said.finish == "length":
        return failure("context_length_exceeded", "the limit of tokens was used up before a word of the answer came")
    return failure("internal", "the model answered with nothing")


def count(counts: Any, name: str) -> int:
    """A number of tokens, and 0 where there is none that makes sense."""
    value = counts.get(name) if isinstance(counts, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def place_of(
    options: Mapping[str, Any], environment: Mapping[str, str], *, id: str, base_url: str, key_env: str
) -> Place:
    """Where to ask, from `base_url` or `base_url_env`, and `api_key_env`: the NAMES of environment variables.

    `key_env` is read where nothing is named, and only for the vendor's own address: a key goes where it belongs.
    """
    where = f"[providers.{id}]"
    named = options.get("base_url_env")
    if named is not None and not environment.get(named):
        raise UsageError(f"{where}: base_url_env names {named}, which is not set")
    url = str(environment[named] if named is not None else options.get("base_url") or base_url)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"{where}: base_url must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        raise UsageError(f"{where}: base_url must hold no user, password or query; name the key with api_key_env")
    own = parts.hostname == urlsplit(base_url).hostname
    name = options.get("api_key_env") or (key_env if own else None)
    if name is None:
        return Place(base_url=url)
    if not (key := environment.get(name, "").strip()):
        raise UsageError(f"{where}: no key: the environment variable {name} is not set")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UsageError(f"{where}: the key in {name} holds characters that no key has; copy it again")
    return Place(base_url=url, key=key, key_from=name)
