"""Reads a stream of server-sent events: each one's data, as JSON. Knows no vendor.

By bytes and not by lines of text: what Unicode takes for the end of a line may stand within a JSON string.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from typing import Any

END = b"[DONE]"
DRAIN_S = 0.1
LINGER_S = 5.0
BOM = b"\xef\xbb\xbf"


class NotAnEvent(ValueError):
    """The data of an event is no JSON object."""


class _Lines:
    """Bytes put together into lines, however they were cut on the way. A line ends with CR, LF or both."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._ended_with_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk ends."""
        if self._ended_with_cr:
            chunk = chunk.removeprefix(b"\n")
        self._ended_with_cr = chunk.endswith(b"\r")
        first, *rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._begun.append(first)
        if not rest:
            return []
        ended = [b"".join(self._begun), *rest[:-1]]
        self._begun = [rest[-1]]
        return ended


async def events(
    chunks: AsyncIterator[bytes], ended: Callable[[], None] = lambda: None
) -> AsyncGenerator[dict[str, Any], None]:
    """The data of each event in turn. What is no data (names, comments, ids), and an event without any, is passed over.

    `ended` is told where the stream says that it is over.
    """
    lines, data, first = _Lines(), list[bytes](), True
    async for chunk in chunks:
        for line in lines.feed(chunk):
            if first:
                # Some servers begin their text with a byte order mark, which is no part of it.
                line, first = line.removeprefix(BOM), False
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                whole, data = b"\n".join(data), []
                if whole.startswith(END):
                    ended()
                    await drain(chunks)
                    return
                if whole:
                    yield _object(whole)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise NotAnEvent(f"an event of the stream is no JSON object; it begins {data[:80].decode(errors='replace')!r}")
    return value


async def following(stream: AsyncGenerator[dict[str, Any], None], until: float | None) -> dict[str, Any] | None:
    """The next event; None behind the last, and when it has not come until then, by the clock of the loop."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            return await anext(stream, None)
    return None


def lingering() -> float:
    """Until when a stream is heard whose answer is there: what that cost may follow, and is not waited for long."""
    return asyncio.get_running_loop().time() + LINGER_S


async def drain(rest: AsyncIterator[object]) -> None:
    """Read what is left, so that the connection can be used again; a server that has more to say is not waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in rest:
                pass
