"""A client for load: HTTP/1.1 over plain sockets, with keep-alive where the other side keeps it. Measures and judges nothing."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to ask, and as whom."""

    port: int
    token: str

    def request(self, method: str, path: str, body: Any = None) -> bytes:
        data = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        if data:
            head += f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        return head.encode() + b"\r\n" + data


class Caller:
    """One connection, made anew when the other side has closed it."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._wires: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        reader, writer = self._wires or await asyncio.open_connection("127.0.0.1", self._target.port)
        self._wires = reader, writer
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
        body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
        if fields.get(b"connection") == b"close":
            await self.close()
        return int(head.split(b" ")[1]), body

    async def close(self) -> None:
        if self._wires:
            self._wires[1].close()
            self._wires = None


async def rate(target: Target, request: bytes, callers: int, seconds: float) -> tuple[int, float]:
    """How many answers of 200, and in which time, when so many ask without a pause."""
    began, count = time.perf_counter(), 0

    async def ask() -> None:
        nonlocal count
        caller = Caller(target)
        while time.perf_counter() - began < seconds:
            status, body = await caller.ask(request)
            if status != 200:
                raise RuntimeError(f"answered {status}: {body[:200]!r}")
            count += 1
        await caller.close()

    await asyncio.gather(*(ask() for _ in range(callers)))
    return count, time.perf_counter() - began


async def at_once(target: Target, request: bytes, count: int) -> float:
    """How long it takes until so many, asked at once, are answered."""
    callers = [Caller(target) for _ in range(count)]
    began = time.perf_counter()
    answers = await asyncio.gather(*(caller.ask(request) for caller in callers))
    took = time.perf_counter() - began
    for caller in callers:
        await caller.close()
    if wrong := [status for status, _ in answers if status != 200]:
        raise RuntimeError(f"{len(wrong)} of {count} were answered with {wrong[0]}")
    return took


def p99(found: list[float]) -> float:
    return found[int(len(found) * 0.99)]
