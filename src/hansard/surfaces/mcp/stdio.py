"""The server over standard input and output, one JSON-RPC message a line. Whatever comes in gets an answer, and the server lives on.

While it serves, standard input is empty and standard output goes to standard error, so that no program that a run starts can
read or spoil the wire.
"""

import asyncio
import os
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from mcp.server import Server
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError, JSONRPCMessage

from hansard.surfaces.mcp import messages
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.server import build

MAX_LINE = 16_000_000
CHUNK = 1 << 16
LAST_WORDS_S = 5.0
"""How long a client who has closed his end may still read."""


@contextmanager
def wire() -> Iterator[tuple[int, int]]:
    """Standard input and output for ourselves alone, as descriptors."""
    source, target, nothing = os.dup(0), os.dup(1), os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, target
    finally:
        # Both stay open: a thread may still wait on one of them, and must not find another file under its number.
        os.dup2(target, 1)


async def serve(desk: Desk, source: int, target: int) -> None:
    """Serve one client until he closes his end."""
    server: Server[Any] = build(desk)
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, out = anyio.create_memory_object_stream[SessionMessage](0)
    refusals = write.clone()
    async with asyncio.TaskGroup() as group:
        writing = group.create_task(_write(out, target))
        group.create_task(_read(desk, source, into, refusals))
        await server.run(read, write, server.create_initialization_options())
        # He has closed his end; what he does not read now, he never will.
        await asyncio.wait({writing}, timeout=LAST_WORDS_S)
        writing.cancel()


async def _read(desk: Desk, source: int, into: Any, refusals: Any) -> None:
    lines: asyncio.Queue[bytes | None] = asyncio.Queue(64)
    loop = asyncio.get_running_loop()
    # A daemon thread: one that waits for a client who says nothing must not keep the process alive.
    threading.Thread(target=_take, args=(source, lines, loop), daemon=True, name="hansard-mcp-stdin").start()
    async with into, refusals:
        while (line := await lines.get()) is not None:
            message = parsed(line)
            if isinstance(message, ErrorData):
                await refusals.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=messages.id_of(line), error=message)))
            elif message is not None:
                await into.send(SessionMessage(message))
        # Before the calls under way are dropped: a client who leaves has not cancelled them.
        desk.closing = True


def _take(source: int, lines: "asyncio.Queue[bytes | None]", loop: asyncio.AbstractEventLoop) -> None:
    """Reads in a thread of its own, no faster than lines are taken. Of a line that is too long only the beginning is kept."""

    def put(line: bytes | None) -> None:
        asyncio.run_coroutine_threadsafe(lines.put(line), loop).result()

    kept = bytearray()
    try:
        while chunk := os.read(source, CHUNK):
            *ended, rest = chunk.split(b"\n")
            for each in ended:
                kept += each[: MAX_LINE + 1 - len(kept)]
                put(bytes(kept))
                kept.clear()
            kept += rest[: MAX_LINE + 1 - len(kept)]
        if kept:
            put(bytes(kept))
        put(None)
    except (OSError, RuntimeError, asyncio.CancelledError, FutureCancelled):
        # The loop is gone, and with it everybody who would read on.
        return


def parsed(line: bytes) -> JSONRPCMessage | ErrorData | None:
    """The message in a line, None for an empty one, or what is wrong with it."""
    if not line.strip():
        return None
    if len(line) > MAX_LINE:
        return ErrorData(code=INVALID_REQUEST, message=f"the message has more than {MAX_LINE:,} bytes")
    return messages.parsed(line, where="this line")


async def _write(out: Any, target: int) -> None:
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    written: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    # A daemon thread here too: one that waits for a client who reads nothing must not keep the process alive.
    threading.Thread(target=_put, args=(target, lines, written, loop), daemon=True, name="hansard-mcp-stdout").start()
    try:
        async with out:
            async for session_message in out:
                text = session_message.message.model_dump_json(by_alias=True, exclude_unset=True)
                lines.put(text.encode() + b"\n")
                await written.get()
    finally:
        lines.put(None)


def _put(
    target: int,
    lines: "queue.SimpleQueue[bytes | None]",
    written: "asyncio.Queue[None]",
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Writes in a thread of its own, line by line."""
    while (data := lines.get()) is not None:
        # Where nobody reads any more, it is let go: what is under way goes on until standard input ends too.
        with suppress(OSError):
            while data:
                data = data[os.write(target, data) :]
        try:
            loop.call_soon_threadsafe(written.put_nowait, None)
        except RuntimeError:
            # The loop is gone.
            return
