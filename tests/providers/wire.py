"""A loopback server that speaks the wire formats of both model vendors, well and badly, on demand.

It runs in a thread of its own, so that a client under test may do with its event loop what it likes. Every request is
kept, and so is every connection that the client gave up before the answer was complete.
"""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Self

import pytest

from providers.wire_formats import FORMATS
from providers.wire_formats import Say as Say

PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with this status and body."""

    status: int
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    missing: int = 0
    """How many bytes more are promised than sent, before the connection is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Answer 200 with exactly these bytes."""

    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Begin the answer and close the connection after a part of it; `cleanly` ends the body as if that were all.

    `silently` says no more, and closes nothing.
    """

    say: Say = field(default_factory=Say)
    keep: float = 0.5
    cleanly: bool = False
    silently: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trickle:
    """Send the answer byte by byte, with a pause after each."""

    say: Say = field(default_factory=Say)
    pause_s: float = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """Send an answer that does not end, with this status."""

    status: int = 200
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endless:
    """Send this stream, and then one event of it again and again."""

    body: bytes
    event: bytes
    pause_s: float = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """Take the request and say nothing; `after_headers` sends the status line first."""

    after_headers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """Take the request and close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Answer when so many are asking at once, and not before."""

    count: int


Turn = Say | Refuse | Raw | Cut | Trickle | Flood | Endless | Hang | Drop | Together


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: Any


class _Gone(Exception):
    """The client closed its side."""


class Wire:
    """The server. Queue turns with `will`; when the queue is empty, `otherwise` answers."""

    def __init__(self, otherwise: Turn | None = None) -> None:
        self.otherwise: Turn = otherwise or Say()
        self.seen: list[Seen] = []
        self.most_at_once = 0
        self._turns: list[Turn] = []
        self._busy = 0
        self._barriers: dict[int, asyncio.Barrier] = {}
        self._given_up = threading.Semaphore(0)
        self._asked = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def busy(self) -> int:
        """How many requests are being answered at this moment."""
        return self._busy

    @property
    def last(self) -> Seen:
        return self.seen[-1]

    def will(self, *turns: Turn) -> Self:
        self._turns.extend(turns)
        return self

    def drop_turns(self) -> None:
        """Forget the turns that nobody has come for."""
        self._turns.clear()

    def forget(self) -> None:
        """Forget what was asked, so that `is_asked` waits for the next question."""
        self._asked.clear()

    def is_asked(self, within_s: float = PATIENCE_S) -> bool:
        """Whether a question has come since `forget`."""
        return self._asked.wait(within_s)

    def was_given_up(self, within_s: float = PATIENCE_S) -> bool:
        """Whether a client closed its connection before the answer was complete; each such event is told once."""
        return self._given_up.acquire(timeout=within_s)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, _Gone):
            pass
        finally:
            self._connections.discard(task)
            with suppress(ConnectionError):
                writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its answer. False when the connection is not to be used again."""
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        peer = writer.get_extra_info("peername")
        headers["x-peer"] = f"{peer[0]}:{peer[1]}"
        self.seen.append(Seen(path=first.split()[1], headers=headers, body=json.loads(body) if body else None))
        turn = self._turns.pop(0) if self._turns else self.otherwise
        self._busy += 1
        self._asked.set()
        self.most_at_once = max(self.most_at_once, self._busy)
        try:
            return await self._answer(turn, self.seen[-1], _Line(reader, writer))
        except (_Gone, ConnectionError):
            self._given_up.release()
            raise
        finally:
            self._busy -= 1

    async def _answer(self, turn: Turn, seen: Seen, line: "_Line") -> bool:
        match turn:
            case Say():
                await line.pause(turn.delay_s)
                await line.send(_spoken(turn, seen))
                return True
            case Refuse():
                await line.pause(turn.delay_s)
                body = turn.body if isinstance(turn.body, bytes) else json.dumps(turn.body).encode()
                await line.send(_head(turn.status, "application/json", len(body) + turn.missing, turn.headers) + body)
                return not turn.missing
            case Raw():
                await line.send(_head(200, turn.content_type, len(turn.body), turn.headers) + turn.body)
                return True
            case Cut():
                whole = _spoken(turn.say, seen)
                start = whole.index(b"\r\n\r\n") + 4
                part = whole[start : start + int((len(whole) - start) * turn.keep)]
                if turn.cleanly:
                    part = part[: part.rindex(b"\n\n") + 2]
                    await line.send(_head(200, "text/event-stream", len(part)) + part)
                else:
                    await line.send(whole[:start] + part)
                    await line.pause(PATIENCE_S * 10 if turn.silently else 0)
                return False
            case Trickle():
                for byte in _spoken(turn.say, seen):
                    await line.send(bytes([byte]))
                    await line.pause(turn.pause_s)
                return True
            case Flood():
                await line.send(_head(turn.status, turn.content_type, None))
                while True:
                    await line.send(b" " * 65536)
            case Endless():
                await line.send(_head(200, "text/event-stream", None) + turn.body)
                while True:
                    await line.send(turn.event)
                    await line.pause(turn.pause_s)
            case Hang():
                if turn.after_headers:
                    await line.send(_head(200, "application/json", 1000))
                await line.pause(PATIENCE_S * 10)
                return False
            case Drop():
                return False
            case Together():
                await self._barriers.setdefault(turn.count, asyncio.Barrier(turn.count)).wait()
                await line.send(_spoken(Say(), seen))
                return True


class _Line:
    """One connection while an answer is under way. Notices when the other side hangs up."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def pause(self, seconds: float) -> None:
        if seconds <= 0:
            return
        try:
            more = await asyncio.wait_for(self._reader.read(1), seconds)
        except TimeoutError:
            return
        # A client does not speak while it waits for an answer, so this is the end of its side.
        assert more == b""
        raise _Gone


def _spoken(say: Say, seen: Seen) -> bytes:
    """The whole response, head and body, in the format of the path that was asked."""
    speak = FORMATS[seen.path.split("?")[0].removeprefix("/v1/")]
    stream = bool((seen.body or {}).get("stream"))
    if say.echoes:
        asked = seen.body.get("messages") or seen.body["input"]
        say = replace(say, text=asked[-1]["content"])
    body = speak(say, seen.body, stream)
    return _head(200, "text/event-stream" if stream else "application/json", len(body), say.headers) + body


def _head(status: int, content_type: str, length: int | None, headers: dict[str, str] | None = None) -> bytes:
    size = {} if length is None else {"content-length": str(length)}
    lines = {"content-type": content_type, **size, **(headers or {})}
    return "".join([f"HTTP/1.1 {status} X\r\n", *(f"{k}: {v}\r\n" for k, v in lines.items()), "\r\n"]).encode()


@contextmanager
def serving(otherwise: Turn | None = None) -> Iterator[Wire]:
    with pytest.MonkeyPatch.context() as patch, Wire(otherwise) as wire:
        # Loopback is not reached through whatever proxy the machine may have.
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        yield wire
