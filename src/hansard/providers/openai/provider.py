"""Opens a provider that asks through the openai SDK. Reads no environment but the one that it is given."""

from collections.abc import Mapping
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import openai

from hansard.domain.exchange import ErrorKind, Exchange
from hansard.errors import UsageError
from hansard.providers import transport
from hansard.providers.faults import Fault
from hansard.providers.hosted import NO_KEY, Fold, Hosted, Place, Progress, Said, Stream, place_of
from hansard.providers.openai import chat, responses
from hansard.providers.openai.errors import kind_of
from hansard.providers.openai.servers import SERVERS, Server, Structured
from hansard.providers.prices import Prices

BASE_URL = "https://api.openai.com/v1"
KEY_ENV = "OPENAI_API_KEY"
Api = Literal["chat", "responses"]
OPTIONS = frozenset({"model", "base_url", "base_url_env", "api_key_env", "api", "server", "structured", "unmetered"})


class _Openai:
    """One of the two formats, spoken through one client."""

    errors: tuple[type[Exception], ...] = (openai.OpenAIError,)

    def __init__(self, place: Place, api: Api, server: Server, structured: Structured) -> None:
        self._api, self._server, self._structured = api, server, structured
        self._client = openai.AsyncOpenAI(
            api_key=place.key or NO_KEY,
            base_url=place.base_url,
            max_retries=0,
            http_client=transport.client(openai.DefaultAsyncHttpxClient),
        )
        # The SDK fills these from the process's environment, which we were not given.
        self._client.organization = self._client.project = self._client.admin_api_key = None

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

    async def stream(self, body: Mapping[str, Any], timeout_s: float) -> Stream:
        usage = {"stream_options": {"include_usage": True}} if self._api == "chat" else {}
        stream: Stream = await self._resource().create(**body, **usage, stream=True, timeout=timeout_s)
        return stream

    def fold(self) -> Fold:
        return chat.ChatFold() if self._api == "chat" else responses.ResponsesFold()

    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said:
        return chat.read(reply) if self._api == "chat" else responses.read(reply)

    def classify(self, fault: Fault) -> ErrorKind:
        return kind_of(fault)

    async def close(self) -> None:
        await self._client.close()

    def _resource(self) -> Any:
        return self._client.chat.completions if self._api == "chat" else self._client.responses


def open_openai(
    id: str,
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    prices: Prices | None = None,
    progress: Progress | None = None,
) -> Hosted:
    """A provider from its table in hansard.toml."""
    where = f"[providers.{id}]"
    if unknown := sorted(set(options) - OPTIONS):
        raise UsageError(f"{where}: unknown key {unknown[0]}; known are {', '.join(sorted(OPTIONS))}")
    place = place_of(options, environment, id=id, base_url=BASE_URL, key_env=KEY_ENV)
    api = _chosen(options.get("api", "chat"), get_args(Api), f"{where} api")
    own = urlsplit(place.base_url).hostname == urlsplit(BASE_URL).hostname
    server = SERVERS[_chosen(options.get("server", "openai" if own else "other"), tuple(SERVERS), f"{where} server")]
    known = server.chat if api == "chat" else server.responses
    structured = _chosen(options.get("structured", known), get_args(Structured), f"{where} structured")
    return Hosted(
        id=id,
        kind="openai",
        model=options.get("model"),
        place=place,
        dialect=_Openai(place, api, server, structured),
        prices=prices,
        progress=progress,
        unmetered=bool(options.get("unmetered", False)),
    )


def _chosen(value: Any, allowed: tuple[str, ...], what: str) -> Any:
    if value not in allowed:
        raise UsageError(f"{what} must be one of {', '.join(allowed)}, not {value!r}")
    return value
