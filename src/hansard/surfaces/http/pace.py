"""A burst of writers must not hold up everybody else: one begins in each turn of the event loop."""

import asyncio
from collections import deque

from starlette.types import ASGIApp, Receive, Scope, Send

A_TURN = 1


class Pace:
    """Stands before the application. Reading is never held up."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._begun = 0
        self._turning = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            await self._turn()
        await self._app(scope, receive, send)

    async def _turn(self) -> None:
        if not self._turning:
            self._turning = True
            asyncio.get_running_loop().call_soon(self._next)
        if self._begun < A_TURN and not self._waiting:
            self._begun += 1
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _next(self) -> None:
        """A turn is over: the next ones may begin."""
        self._begun = 0
        while self._waiting and self._begun < A_TURN:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                self._begun += 1
        self._turning = bool(self._begun)
        if self._turning:
            asyncio.get_running_loop().call_soon(self._next)
