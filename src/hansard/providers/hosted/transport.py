"""The HTTP client under the vendors' SDKs: bounded, uncompressed, and following nobody to another host.

Proxies are those of the SDK; a server on this machine is asked without one, which would look for it on its own.

Imported together with an SDK, which brings httpx2 along. Knows neither vendors nor wire formats.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import cache, partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from weakref import ref

import httpx2

from hansard.errors import UsageError

ENVELOPE = 64 * 1024
ESCAPED = 6
"""A character of an answer may take six in JSON."""
LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
"""As many connections as the SDKs take."""

_room: ContextVar[int] = ContextVar("room", default=16 * 1024 * 1024)


class Overrun(Exception):
    """A body is longer than anything that was asked for."""


class Compressed(Exception):
    """A body is compressed although that was not wanted: a small one may hide one that fills the memory."""


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends with Overrun when it grows beyond its bounds; of a stream of events, when one event does.

    The body of an error is cut off instead, and one that is compressed not read at all: what counts is its status and how it begins.
    """

    def __init__(self, inner: httpx2.AsyncByteStream, room: int, *, events: bool, error: bool) -> None:
        self._inner, self._room, self._events, self._error = inner, room, events, error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left, before = self._room, b""
        async for chunk in self._inner:
            # With what came before it: the empty line that ends an event may come apart.
            seen = before + chunk
            before = seen[-2:]
            end = max(seen.rfind(b"\n\n"), seen.rfind(b"\n\r\n")) if self._events else -1
            left = left - len(chunk) if end < 0 else self._room - (len(seen) - end)
            if left < 0 and self._error:
                return
            if left < 0:
                raise Overrun(f"the server sent more than {self._room} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bound(response: httpx2.Response) -> None:
    encoding = response.headers.get("content-encoding") or "identity"
    error = response.status_code >= 300
    packed = encoding.lower() != "identity"
    if packed and not error:
        await response.aclose()
        raise Compressed(f"the server sent a body in {encoding} although identity was asked for")
    response.headers.pop("content-encoding", None)
    events = response.headers.get("content-type", "").startswith("text/event-stream")
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    room = _room.get() if not error else 0 if packed else ENVELOPE
    response.stream = _Bounded(response.stream, room, events=events and not error, error=error)


def allow(answer_bytes: int) -> int:
    """Set the room for the calls of this task, and say it: an answer of so many bytes, escaped, in its envelope."""
    room = ENVELOPE + ESCAPED * max(0, answer_bytes)
    _room.set(room)
    return room


@cache
def _trust() -> ssl.SSLContext:
    """The certificates that are trusted, read once: to read them takes as long as a short answer."""
    try:
        return httpx2.create_ssl_context()
    except OSError as error:
        raise UsageError(
            "the certificates that the environment names (SSL_CERT_FILE, SSL_CERT_DIR) cannot be used: "
            f"{error.strerror or error}"
        ) from error


class OfTheLoop:
    """An SDK's client for the event loop that runs, made anew in another one: its connections belong to the loop that opened them.

    Made at once for whichever comes first, so that what cannot work is told when a provider is opened.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._client = make, make()
        # Not held: with its connections it could never be let go of.
        self._loop: ref[asyncio.AbstractEventLoop] | None = None

    def here(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop() is not loop:
            self._client = self._make()
        self._loop = ref(loop)
        return self._client


def client(make: Callable[..., Any], url: str) -> Any:
    """A client for this address, made with an SDK's own class, so that its pools and proxies are those of the SDK."""
    try:
        httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise UsageError(f"base_url is no address: {error}") from error
    # A redirect would carry the key to a host that nobody configured.
    ours = partial(
        make,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_bound]},
    )
    parts = urlsplit(url)
    if _is_here(parts.hostname or ""):
        # Without TLS there is nobody to be trusted.
        trust = _trust() if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ours(transport=httpx2.AsyncHTTPTransport(verify=trust, limits=LIMITS))
    try:
        return ours(verify=_trust())
    except (ImportError, ValueError, httpx2.InvalidURL):
        # One of the proxies cannot be used. That matters only where it is the one that leads there.
        return ours(transport=_way(_proxy_of(url)))


def _way(proxy: str | None) -> httpx2.AsyncHTTPTransport:
    """Through this proxy, or straight; UsageError where nothing can go through it. The proxy is not quoted: it may hold a password."""
    try:
        return httpx2.AsyncHTTPTransport(verify=_trust(), limits=LIMITS, proxy=proxy)
    except ImportError as error:
        raise UsageError(
            "the environment names a SOCKS proxy (ALL_PROXY or the like), for which socksio is not installed; "
            "run: pip install socksio, or name an HTTP proxy"
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise UsageError(
            "the environment names a proxy (HTTPS_PROXY, HTTP_PROXY or ALL_PROXY) that is none; write http://HOST:PORT"
        ) from error


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment of the process names for this address."""
    # Imported when it is used: it takes long, and hardly anybody needs it.
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(url), getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    if not found or proxy_bypass(parts.netloc):
        return None
    return found if "://" in found else f"http://{found}"


def _is_here(host: str) -> bool:
    """Whether it is this machine, to which no proxy leads."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def kind_of(error: BaseException | None) -> tuple[str, str] | None:
    """What a transport error means, as a kind and a sentence; None where it is no transport error.

    Looks through what wraps it: an SDK says "connection error" also where we stopped reading.
    """
    seen = error
    while seen is not None:
        if isinstance(seen, Overrun):
            return "malformed_response", str(seen)
        if isinstance(seen, Compressed):
            return "internal", str(seen)
        seen = seen.__cause__
    if isinstance(error, httpx2.TimeoutException):
        return "timeout", "the server did not answer in time"
    if isinstance(error, httpx2.TransportError):
        return "network", f"the connection broke: {error or type(error).__name__}"
    return None
