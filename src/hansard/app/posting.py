"""One POST to a server of somebody else, with an end: no answer takes longer than its time, or more than its bytes."""

import asyncio
import errno
import http.client
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from ipaddress import ip_address
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from hansard.errors import UsageError

T = TypeVar("T")


class Answer(NamedTuple):
    """What came back: the status, and the beginning of the body."""

    status: int
    data: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float, most_bytes: int = 0) -> Answer:
    """Ask once, following nothing. OSError or HTTPException where there is no answer in time."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    make = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = make(parts.hostname, parts.port, timeout=timeout_s)
    ends = time.monotonic() + timeout_s
    try:
        # Before there is a connection nothing can be hung up: several addresses, each tried in vain, may take all the time.
        connection.connect()
        late = threading.Timer(max(0.0, ends - time.monotonic()), _hang_up, [connection.sock])
        late.daemon = True
        _begin(late)
        try:
            path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            connection.request("POST", path, body, dict(headers))
            with connection.getresponse() as answer:
                data = answer.read(most_bytes) if most_bytes else b""
                if time.monotonic() >= ends:
                    raise TimeoutError("timed out")
                if answer.length and len(data) < most_bytes:
                    raise http.client.IncompleteRead(data, answer.length)
                return Answer(answer.status, data)
        except ValueError as error:
            # Chunks of a size below zero are no HTTP, and the standard library tries to read them.
            raise http.client.HTTPException(str(error)) from error
        finally:
            late.cancel()
    finally:
        connection.close()


def aside(call: Callable[[], T]) -> "asyncio.Future[T]":
    """Made in a thread of its own, for which nobody waits at the end: a server that hangs holds up no reader and no exit."""
    made: Future[T] = Future()

    def carried_out() -> None:
        if not made.set_running_or_notify_cancel():
            return
        try:
            made.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever waits is told, whatever it is
            made.set_exception(error)

    try:
        _begin(threading.Thread(target=carried_out, name="hansard-posting", daemon=True))
    except OSError as error:
        made.set_exception(error)
    return asyncio.wrap_future(made)


def _begin(thread: threading.Thread) -> None:
    """Start a thread; OSError, as from a network that is away for a while, where the system gives no more."""
    try:
        thread.start()
    except RuntimeError as error:
        raise BlockingIOError(errno.EAGAIN, str(error)) from error


def check_url(url: str, where: str) -> None:
    """UsageError unless this is a URL that can be called."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")
    except ValueError:
        fits = False
    if "@" in url.partition("//")[2].partition("/")[0]:
        # Not quoted: messages are kept in places where nobody looks for a password.
        raise UsageError(f"{where}: a name or password stands before the @ of this URL; write it without")
    if not fits or not url.isascii() or not url.isprintable():
        shown = "" if "@" in url else f" {url!r:.100}"
        raise UsageError(f"{where}{shown}: write http://… or https://…, in ASCII")


def is_loopback(host: str) -> bool:
    """Whether this name or address is of this machine alone."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _hang_up(connected: socket.socket) -> None:
    """The limit of a socket is for each of its bytes: an answer can come in time for ever and never be there."""
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
