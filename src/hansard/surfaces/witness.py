"""A witness over HTTP, by the standard library alone: add-checkpoint of C2SP tlog-witness, and what it cosigned last.

There is no token: whoever can reach it may ask, and only a log that is known and signed well gets an answer.
"""

import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer, ThreadingMixIn
from types import FrameType
from typing import Any

from hansard.app.witness import Refused, Service
from hansard.errors import HansardError, StoreError

MOST_BODY = 1 << 20
MOST_AT_ONCE = 64
PATIENCE_S, LONGEST_S = 10.0, 30.0
"""For each piece of a request, and for the whole of it."""
TEXT, SIZE = "text/plain; charset=utf-8", "text/x.tlog.size"
_CHECKPOINT = re.compile("/logs/([0-9a-f]{64})/checkpoint")


def serve(service: Service, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Answer until SIGTERM or SIGINT."""
    try:
        server = _Server(host, port, service)
    except OSError as error:
        raise StoreError(f"cannot listen on {host} port {port}: {error.strerror}; name another --port") from error

    def stop(_: int, __: FrameType | None) -> None:
        # From here it would wait for itself.
        threading.Thread(target=server.shutdown, daemon=True).start()

    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, stop)
    with server:
        ready(f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}")
        server.serve_forever(poll_interval=0.1)


class _Server(ThreadingMixIn, TCPServer):
    """A thread for each caller, up to so many; whoever comes then waits in the system's queue."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, host: str, port: int, service: Service) -> None:
        self.service = service
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._places.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Told in a line: mostly it is a caller that hung up."""
        _say(f"{client_address[0]} {sys.exc_info()[1]!r}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = PATIENCE_S
    server_version, sys_version = "hansard-witness", ""

    def handle_one_request(self) -> None:
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
        length = self.headers.get("content-length", "")
        if not length.isascii() or not length.isdigit():
            return self._refuse(411, "say how long the body is")
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
            _say(str(error))
            return self._answer(500, "the witness cannot keep what it sees\n")

    def do_GET(self) -> None:
        if self.path == "/":
            return self._answer(200, f"{self.server.service.key}\n")
        asked = _CHECKPOINT.fullmatch(self.path)
        found = self.server.service.newest(asked[1]) if asked else None
        return (
            self._answer(404, "nothing was cosigned under this name\n") if found is None else self._answer(200, found)
        )

    def _refuse(self, status: int, why: str) -> None:
        """Refuse a body that is not read: nothing else can come on this connection."""
        self.close_connection = True
        self._answer(status, f"{why}\n")

    def _answer(self, status: int, text: str, media: str = TEXT) -> None:
        data = text.encode()
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
