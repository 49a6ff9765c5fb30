"""Opens a provider that asks through the anthropic SDK. Reads no environment but the one that it is given."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any, get_args

import anthropic

from hansard.domain.exchange import ErrorKind, Exchange
from hansard.providers.anthropic import messages
from hansard.providers.anthropic.errors import kind_of
from hansard.providers.anthropic.models import SERVERS, STREAMS, Structured
from hansard.providers.anthropic.stream import MessagesFold
from hansard.providers.hosted import transport
from hansard.providers.hosted.dialect import Body, Fold, Said
from hansard.providers.hosted.faults import Fault
from hansard.providers.hosted.place import NO_KEY, Place, is_at, place_of
from hansard.providers.hosted.provider import Hosted, Progress
from hansard.providers.options import Options
from hansard.providers.prices import Prices

BASE_URL = "https://api.anthropic.com"
URL_ENV, KEY_ENV = "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"


class _Anthropic:
    """The Messages format, spoken through one client."""

    name = "messages"
    errors: tuple[type[Exception], ...] = (anthropic.AnthropicError,)

    def __init__(self, place: Place, best: Structured) -> None:
        self._best: Structured = best
        self._client = transport.OfTheLoop(partial(_client, place))

    def body(self, exchange: Exchange, model: str) -> dict[str, Any]:
        return messages.body(exchange, model, self._best)

    async def whole(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        reply = await self._messages.with_raw_response.create(**body, timeout=timeout_s)
        content: bytes = reply.http_response.content
        return content

    def stream(self, body: Mapping[str, Any], timeout_s: float) -> AbstractAsyncContextManager[Body]:
        create = self._messages.with_streaming_response.create
        opened: AbstractAsyncContextManager[Body] = create(**body, stream=True, timeout=timeout_s)
        return opened

    def fold(self) -> Fold:
        return MessagesFold()

    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said:
        return messages.read(reply, exchange)

    def classify(self, fault: Fault) -> ErrorKind:
        return kind_of(fault)

    async def close(self) -> None:
        await self._client.here().close()

    @property
    def _messages(self) -> Any:
        return self._client.here().messages


def _client(place: Place) -> anthropic.AsyncAnthropic:
    client = anthropic.AsyncAnthropic(
        api_key=place.key or NO_KEY,
        base_url=place.base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=transport.client(anthropic.DefaultAsyncHttpxClient, place.base_url),
    )
    # The SDK fills these from the process's environment, which we were not given.
    client._custom_headers = {}
    return client


def open_anthropic(
    id: str,
    table: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    prices: Prices | None = None,
    progress: Progress | None = None,
) -> Hosted:
    """A provider from its table in hansard.toml."""
    options = Options(id, table)
    place = place_of(id, options, environment, base_url=BASE_URL, url_env=URL_ENV, key_env=KEY_ENV)
    # The SDK adds the version; whoever has written it as for other servers means the same place.
    place = replace(place, base_url=place.base_url.removesuffix("/").removesuffix("/v1"))
    known = "anthropic" if is_at(place.base_url, BASE_URL) else "other"
    server = options.one_of("server", (known, *(name for name in SERVERS if name != known)))
    best = SERVERS[server]
    structured: Any = options.one_of("structured", (best, *(way for way in get_args(Structured) if way != best)))
    opened = Hosted(
        id=id,
        kind="anthropic",
        model=options.text("model"),
        place=place,
        dialect=_Anthropic(place, structured),
        prices=prices,
        progress=progress,
        streams=options.flag("stream", server in STREAMS),
        unmetered=options.flag("unmetered", False),
    )
    options.done()
    return opened
