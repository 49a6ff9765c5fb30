"""Server-sent events: the entries of a run as they are recorded, resumable by Last-Event-ID, which is an entry's seq."""

import asyncio

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hansard.app.telling.following import GOES_ON, OVER, Frame, Subscription, frames_after
from hansard.surfaces.http.desk import Desk

MEDIA = "text/event-stream"
ALIVE_S = 15.0
PAGE = 200
EVENT = {
    "type": "object",
    "description": "One event: its id is the seq of an entry, its name the kind, its data the entry as JSON.",
    "properties": {"id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"}},
}


class Events(Response):
    """The stream of one follower: from the record first, then as it is written, until the run ends."""

    media_type = MEDIA

    def __init__(self, desk: Desk, run: str, after: int) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._desk, self._run, self._last = desk, run, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        stream = asyncio.ensure_future(self._stream(send))
        leaving = asyncio.ensure_future(gone(receive))
        try:
            await asyncio.wait({stream, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (stream, leaving):
                each.cancel()
            await asyncio.gather(stream, leaving, return_exceptions=True)
        if not stream.cancelled() and stream.exception() is None:
            await send({"type": "http.response.body", "body": b""})

    async def _stream(self, send: Send) -> None:
        with self._desk.daemon.follower.follow(self._run) as heard:
            over = await self._from_record(send)
            while not over and not heard.closed:
                over = await self._live(heard, send)
            if heard.closed and not over:
                await _write(send, b": the daemon shuts down; come back\n\n")

    async def _from_record(self, send: Send) -> bool:
        """Everything that is recorded and was not sent; gives whether the run is over."""
        over = False
        while True:
            frames = await asyncio.to_thread(frames_after, self._desk.hansard.store, self._run, self._last, PAGE)
            over = await self._give(frames, send, over)
            if len(frames) < PAGE:
                return over

    async def _live(self, heard: Subscription, send: Send) -> bool:
        frames = await heard.wait(ALIVE_S)
        if heard.behind:
            heard.behind = False
            return await self._from_record(send)
        fresh = [frame for frame in frames if frame.seq > self._last]
        if not frames and not heard.closed:
            await _write(send, b": still here\n\n")
        return await self._give(fresh, send, False)

    async def _give(self, frames: list[Frame], send: Send, over: bool) -> bool:
        if not frames:
            return over
        await _write(send, b"".join(frame.data for frame in frames))
        self._last = frames[-1].seq
        for frame in frames:
            over = frame.kind == OVER or (over and frame.kind != GOES_ON)
        return over


async def _write(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def gone(receive: Receive) -> None:
    """Return when whoever asked has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
