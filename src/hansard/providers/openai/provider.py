"""Opens a provider that asks through the openai SDK. Reads no environment but the one that it is given."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Literal, get_args

import openai

from hansard.domain.exchange import ErrorKind, Exchange
from hansard.providers.hosted import transport
from hansard.providers.hosted.dialect import Body, Fold, Said
from hansard.providers.hosted.faults import Fault
from hansard.providers.hosted.place import NO_KEY, Place, is_at, place_of
from hansard.providers.hosted.provider import Hosted, Progress
from hansard.providers.openai import chat, responses
from hansard.providers.openai.errors import kind_of
from hansard.providers.openai.servers import SERVERS, Server, Structured, relax
from hansard.providers.options import Options
from hansard.providers.prices import Prices

BASE_URL = "https://api.openai.com/v1"
URL_ENV, KEY_ENV = "OPENAI_BASE_URL", "OPENAI_API_KEY"
Api = Literal["chat", "responses"]


class _Openai:
    """One of the two formats, spoken through one client."""

    errors: tuple[type[Exception], ...] = (openai.OpenAIError,)

    def __init__(self, place: Place, api: Api, server: Server, structured: Structured) -> None:
        self._api, self._server, self._structured = api, server, structured
        self._client = transport.OfTheLoop(partial(_client, place))

    @property
    def name(self) -> str:
        return self._api

    def body(self, exchange: Exchange, model: str) -> dict[str, Any]:
        make = chat.body if self._api == "chat" else responses.body
        return make(exchange, model, self._server, self._structured)

    async def whole(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        reply = await self._resource().with_raw_response.create(**body, timeout=timeout_s)
        content: bytes = reply.http_response.content
        return content

    def stream(self, body: Mapping[str, Any], timeout_s: float) -> AbstractAsyncContextManager[Body]:
        usage = {"stream_options": {"include_usage": True}} if self._api == "chat" else {}
        create = self._resource().with_streaming_response.create
        opened: AbstractAsyncContextManager[Body] = create(**body, **usage, stream=True, timeout=timeout_s)
        return opened

    def fold(self) -> Fold:
        return chat.ChatFold() if self._api == "chat" else responses.ResponsesFold()

    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said:
        read = chat.read if self._api == "chat" else responses.read
        return relax(read(reply, exchange), exchange, self._structured)

    def classify(self, fault: Fault) -> ErrorKind:
        return kind_of(fault)

    async def close(self) -> None:
        await self._client.here().close()

    def _resource(self) -> Any:
        client = self._client.here()
        return client.chat.completions if self._api == "chat" else client.responses


def _client(place: Place) -> openai.AsyncOpenAI:
    client = openai.AsyncOpenAI(
        api_key=place.key or NO_KEY,
        base_url=place.base_url,
        max_retries=0,
        http_client=transport.client(openai.DefaultAsyncHttpxClient, place.base_url),
    )
    # The SDK fills these from the process's environment, which we were not given.
    client.organization = client.project = client.admin_api_key = None
    client._custom_headers = {}
    return client


def open_openai(
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
    api: Any = options.one_of("api", get_args(Api))
    known = "openai" if is_at(place.base_url, BASE_URL) else "other"
    server = SERVERS[options.one_of("server", (known, *(name for name in SERVERS if name != known)))]
    best = server.chat if api == "chat" else server.responses
    structured: Any = options.one_of("structured", (best, *(way for way in get_args(Structured) if way != best)))
    opened = Hosted(
        id=id,
        kind="openai",
        model=options.text("model"),
        place=place,
        dialect=_Openai(place, api, server, structured),
        prices=prices,
        progress=progress,
        streams=options.flag("stream", server.streams),
        unmetered=options.flag("unmetered", False),
    )
    options.done()
    return opened
