"""One reply as it streams in, up to the end of its answer and a little beyond. Knows no vendor."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import httpx2

from hansard.providers.hosted import faults, transport
from hansard.providers.hosted.dialect import Body, Fold, Lost, Refused
from hansard.providers.hosted.events import NotAnEvent, drain, events, following, lingering


class Stream:
    """What has come of a reply: events in `fold`, or, where none has begun, bytes in `came`. `hear` is told each piece of text."""

    def __init__(self, fold: Fold, most_bytes: int, room: int, hear: Callable[[str], None]) -> None:
        self.begun, self.came = False, bytearray()
        self._fold, self._hear, self._room = fold, hear, room
        self._most = self._left = most_bytes

    async def read(self, opened: AbstractAsyncContextManager[Body]) -> None:
        """Take events until the answer is whole, or the stream ends. What goes wrong behind a whole answer takes nothing from it."""
        fold = self._fold
        until: float | None = None
        try:
            async with opened as response, aclosing(events(self._chunks(response), fold.end)) as stream:
                while (event := await following(stream, until)) is not None:
                    if fold.done and event.get("error"):
                        break
                    self._take(event)
                    if fold.over:
                        await drain(stream)
                        break
                    if fold.done and until is None:
                        until = lingering()
        except NotAnEvent as error:
            if not fold.done:
                raise Lost("internal", str(error)) from error
        except httpx2.HTTPError:
            if not fold.done:
                raise

    async def _chunks(self, response: Body) -> AsyncIterator[bytes]:
        async for chunk in response.iter_bytes():
            if not self.begun:
                self.came.extend(chunk[: self._room - len(self.came)])
            yield chunk

    def _take(self, event: Mapping[str, Any]) -> None:
        if event.get("error"):
            raise Refused(faults.read_error(event))
        self.begun = True
        if piece := self._fold.take(event):
            self._hear(piece)
            self._left -= len(piece.encode(errors="replace"))
        if self._left < 0 or self._fold.held > self._room:
            raise transport.Overrun(f"more came than the {self._most} bytes allowed")
