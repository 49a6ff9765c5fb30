"""A witness over HTTP, by the standard library alone: add-checkpoint of C2SP tlog-witness, and what it cosigned last.

There is no token: whoever can reach it may ask, and only a log that is known and signed well gets an answer.
"""

import io
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import FrameType
from typing import Any

from hansard.app.ledgers.witness import Refused, Service
from hansard.errors import HansardError, UsageError, plainly

MOST_HEAD, MOST_BODY = 1 << 17, 1 << 20
MOST_AT_ONCE = 64
LOOK_S = 0.1
"""A wish to stop is noticed within this time."""
PATIENCE_S, LONGEST_S = 10.0, 30.0
"""For each piece of a request, and for the whole of it."""
TEXT, SIZE = "text/plain; charset=utf-8", "text/x.tlog.size"
_CHECKPOINT = re.compile("/logs/([0-9a-f]{64})/checkpoint")


def serve(service: Service, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Answer until SIGTERM or SIGINT."""
    if not host:
        # The system takes it for every address that there is.
        raise UsageError("--host is empty; leave it out, or name an address: 0.0.0.0 is all of them")
    try:
        server = _Server(host, port, service)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {plainly(error)}; choose another --host or --port"
        ) from error

    def stop(_: int, __: FrameType | None) -> None:
        # From here it would wait for itself.
        threading.Thread(target=server.stop, daemon=True).start()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    with server:
        ready(f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}")
        server.serve_forever(poll_interval=LOOK_S)


class _Server(ThreadingMixIn, TCPServer):
    """A thread for each caller, up to so many; whoever comes then waits in the system's queue."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, service: Service) -> None:
        self.service = service
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._over = False
        self.crowded = False
        """Whether somebody waits for a place."""
        super().__init__((host, port), _Handler)

    def stop(self) -> None:
        self._over = True
        self.shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._places.acquire(timeout=LOOK_S):
            self.crowded = True
            if self._over:
                return self.shutdown_request(request)
        self.crowded = False
        try:
            super().process_request(request, client_address)
        except BaseException:
            # There was no thread to be had, and so nobody who would give the place back.
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Told in a line: mostly it is a caller that hung up."""
        _say(f"{client_address[0]} {sys.exc_info()[1]!r}")


class _Reader(io.BufferedReader):
    """A connection whose requests each have a head of so many bytes. The library's own limit is a hundred lines of 64 KiB."""

    left = MOST_HEAD

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        self.left -= len(line)
        if self.left < 0:
            raise HTTPException(f"no head has more than {MOST_HEAD:,} bytes")
        return line


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    server_version, sys_version = "hansard-witness", ""

    def setup(self) -> None:
        super().setup()
        self._reader = self.rfile = _Reader(self.rfile.detach())

    def handle_one_request(self) -> None:
        self._reader.left = MOST_HEAD
        late = threading.Timer(LONGEST_S, self._hang_up)
        late.daemon = True
        late.start()
        try:
            super().handle_one_request()
        finally:
            late.cancel()

    def do_POST(self) -> None:
        if self.path != "/add-checkpoint":
            return self._refuse(404, "only /add-checkpoint takes anything")
        # A body whose length is said twice, or in chunks, could end elsewhere for a proxy than for us.
        lengths = [] if "transfer-encoding" in self.headers else self.headers.get_all("content-length", [])
        length = lengths[0] if len(lengths) == 1 else ""
        if not length.isascii() or not length.isdigit():
            return self._refuse(411, "say how long the body is, once and in no chunks")
        if len(length) > 9 or int(length) > MOST_BODY:
            return self._refuse(413, f"no body has more than {MOST_BODY:,} bytes")
        data = self.rfile.read(int(length))
        try:
            return self._answer(200, self.server.service.cosign(data))
        except Refused as error:
            if error.size is not None:
                return self._answer(error.status, f"{error.size}\n", SIZE)
            return self._answer(error.status, f"{error}\n")
        except HansardError as error:
            return self._failed(error)

    def do_GET(self) -> None:
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            # A body is not read, and must not pass for the next request.
            self.close_connection = True
        if self.path == "/":
            return self._answer(200, f"{self.server.service.key}\n")
        asked = _CHECKPOINT.fullmatch(self.path)
        try:
            found = self.server.service.newest(asked[1]) if asked else None
        except HansardError as error:
            return self._failed(error)
        return (
            self._answer(404, "nothing was cosigned under this name\n") if found is None else self._answer(200, found)
        )

    def _failed(self, error: HansardError) -> None:
        _say(str(error))
        self._answer(500, "the witness cannot use what it keeps; its own log says why\n")

    def _refuse(self, status: int, why: str) -> None:
        """Refuse a body that is not read: nothing else can come on this connection."""
        self.close_connection = True
        self._answer(status, f"{why}\n")

    def _answer(self, status: int, text: str, media: str = TEXT) -> None:
        data = text.encode()
        # Whoever has had an answer makes room for those who wait.
        self.close_connection |= self.server.crowded
        self.send_response(status, HTTPStatus(status).phrase)
        self.send_header("content-type", media)
        self.send_header("content-length", str(len(data)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        _say(f"{self.address_string()} {format % args}")


def _say(line: str) -> None:
    """A line of the log; what a caller has sent must not steer the terminal."""
    print("".join(each if each.isprintable() else ascii(each)[1:-1] for each in line), file=sys.stderr, flush=True)
