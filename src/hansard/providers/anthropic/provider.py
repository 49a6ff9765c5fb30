"""Opens a provider that asks through the anthropic SDK. Reads no environment but the one that it is given."""

from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import urlsplit

import anthropic

from hansard.domain.exchange import ErrorKind, Exchange
from hansard.errors import UsageError
from hansard.providers import transport
from hansard.providers.anthropic import messages
from hansard.providers.anthropic.errors import kind_of
from hansard.providers.anthropic.models import SERVERS, Structured
from hansard.providers.anthropic.stream import MessagesFold
from hansard.providers.faults import Fault
from hansard.providers.hosted import NO_KEY, Fold, Hosted, Place, Progress, Said, Stream, place_of
from hansard.providers.prices import Prices

BASE_URL = "https://api.anthropic.com"
KEY_ENV = "ANTHROPIC_API_KEY"
OPTIONS = frozenset({"model", "base_url", "base_url_env", "api_key_env", "server", "structured", "unmetered"})


class _Anthropic:
    """The Messages format, spoken through one client."""

    name = "messages"
    errors: tuple[type[Exception], ...] = (anthropic.AnthropicError,)

    def __init__(self, place: Place, best: Structured) -> None:
        self._best: Structured = best
        self._client = anthropic.AsyncAnthropic(
            api_key=place.key or NO_KEY,
            base_url=place.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=transport.client(anthropic.DefaultAsyncHttpxClient),
        )

    def body(self, exchange: Exchange, model: str) -> dict[str, Any]:
        return messages.body(exchange, model, self._best)

    async def whole(self, body: Mapping[str, Any], timeout_s: float) -> bytes:
        reply = await self._messages.with_raw_response.create(**body, timeout=timeout_s)
        content: bytes = reply.http_response.content
        return content

    async def stream(self, body: Mapping[str, Any], timeout_s: float) -> Stream:
        stream: Stream = await self._messages.create(**body, stream=True, timeout=timeout_s)
        return stream

    def fold(self) -> Fold:
        return MessagesFold()

    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said:
        return messages.read(reply, exchange)

    def classify(self, fault: Fault) -> ErrorKind:
        return kind_of(fault)

    async def close(self) -> None:
        await self._client.close()

    @property
    def _messages(self) -> Any:
        return self._client.messages


def open_anthropic(
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
    own = urlsplit(place.base_url).hostname == urlsplit(BASE_URL).hostname
    server = options.get("server", "anthropic" if own else "other")
    if server not in SERVERS:
        raise UsageError(f"{where}: server must be one of {', '.join(SERVERS)}, not {server!r}")
    best = options.get("structured", SERVERS[server])
    if best not in get_args(Structured):
        raise UsageError(f"{where}: structured must be one of {', '.join(get_args(Structured))}, not {best!r}")
    return Hosted(
        id=id,
        kind="anthropic",
        model=options.get("model"),
        place=place,
        dialect=_Anthropic(place, best),
        prices=prices,
        progress=progress,
        unmetered=bool(options.get("unmetered", False)),
    )
