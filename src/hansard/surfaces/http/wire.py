"""The connection itself: how many there may be, how long and how slow a head may be, how long a reader may stall.

What comes behind the head is the guard's.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hansard.surfaces.http.problems import MEDIA, body_of

HEAD_BYTES = 64 * 1024
TAKEN_BYTES = 64 * 1024
"""What a reader takes of a long answer while he is waited for, at the least."""
WHOLE = "hansard.whole"


class Together:
    """The transport of answers: a head is sent with the body that follows it at once, and what nothing follows goes alone."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif data:
            self._held = data
            self._loop.call_soon(self.send)

    def close(self) -> None:
        self.send()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def send(self) -> None:
        """What is held."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)


class Connection(HttpToolsProtocol):
    """A connection that is closed when its head is too long, too slow or one too many, or its reader takes next to nothing."""

    most = 4_096
    patience_s = 10.0
    looks_round = False
    """Whether somebody looks for connections that are too slow; one for all of a server."""
    _head_bytes = 0
    _waiting_since: float | None = None
    """Since when a head is awaited; None where none is."""
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._answers = Together(transport, self.loop)
        if not self.looks_round:
            self._look_round()
        if len(self.connections) > self.most:
            self.refuse(503, "too many connections; try again in a moment")
            return
        self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        self._flows_again()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        self._flows_again()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._answers.send()
        super().shutdown()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._waiting_since is None and (self.cycle is None or self.cycle.response_complete):
            self._wait_for_head()
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_is_here()
        if not self.transport.is_closing():
            self._hold_to_target()
            super().on_headers_complete()
            if self.cycle is not None:
                self.cycle.transport = self._answers  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        if self.cycle is not None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.cycle is not None:
            # The body is here, most often before anybody asks for it.
            self.scope[WHOLE] = True  # type: ignore[literal-required]
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "this is no HTTP request that can be understood")

    def refuse(self, status: int, detail: str) -> None:
        """Answer and hang up, before there is a request to speak of."""
        body = body_of(status, detail, None)
        head = (
            f"HTTP/1.1 {status} \r\ncontent-type: {MEDIA}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _hold_to_target(self) -> None:
        """The authority of a target in absolute form stands in place of what Host says (RFC 9112, 3.2.2), also for the guard."""
        authority = self.url.partition(b"://")[2].partition(b"/")[0]
        if authority and not self.url.startswith(b"/"):
            self.headers[:] = [(name, authority if name == b"host" else value) for name, value in self.headers]

    def _count(self, length: int) -> None:
        self._head_bytes += length
        if self._head_bytes > HEAD_BYTES and not self.transport.is_closing():
            self.refuse(431, f"the head of the request has more than {HEAD_BYTES:,} bytes")

    def _look_round(self) -> None:
        """Hang up on whoever is too slow. One look at all connections now and then: a timer for each request costs more."""
        latest = self.loop.time() - self.patience_s
        for each in list(self.connections):
            if isinstance(each, Connection) and each._waiting_since is not None and each._waiting_since < latest:
                each._too_slow()
        type(self).looks_round = bool(self.connections)
        if self.connections:
            self.loop.call_later(min(1.0, self.patience_s / 5), self._look_round)

    def _wait_for_head(self) -> None:
        self._waiting_since = self.loop.time()

    def _head_is_here(self) -> None:
        self._waiting_since = None

    def _flows_again(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch_reader(self) -> None:
        held = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self.patience_s, self._look_at_reader, held)

    def _look_at_reader(self, held: int) -> None:
        """Wait on for whoever reads on: a long answer may take many times as long as anybody is waited for."""
        if held - self.transport.get_write_buffer_size() >= TAKEN_BYTES:
            self._watch_reader()
        else:
            # Not closed in good order: that would wait for the reader.
            self.transport.abort()

    def _too_slow(self) -> None:
        self._waiting_since = None
        if not self.transport.is_closing():
            self.refuse(408, f"the head of the request did not come within {self.patience_s:g} s")
