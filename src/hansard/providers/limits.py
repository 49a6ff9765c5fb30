"""Keeps a provider from being asked too often or too much at once. First come, first served. One that wants to be left alone
for a while is left alone by all.

Waiting for a turn is not part of the call: the time limit of an exchange begins when it is really asked. Who does not
want to wait longer cancels, and leaves no trace in the queue.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from sys import float_info

from hansard.domain.exchange import Completion, Exchange, Failure
from hansard.errors import UsageError
from hansard.providers.base import Provider, Wrapper

LONGEST_REST_S = 60.0
"""Who wants to be left alone for longer is asked all the same: whoever asks is to learn why nothing goes on."""


class Turnstile:
    """So many at once, in the order of their coming. A waiter that is cancelled passes its place on."""

    def __init__(self, places: int) -> None:
        if places < 1:
            raise UsageError(f"a limit of {places} at once lets nobody in; it must be 1 or more")
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        # A place is free only when nobody waits: who leaves hands it on.
        if self._free:
            self._free -= 1
            return
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if not mine.cancelled():
                # The place was given to us in the moment in which we were cancelled.
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            following = self._waiting.popleft()
            if not following.done():
                following.set_result(None)
                return
        self._free += 1


class Bucket:
    """A token bucket: so many calls a minute on average, and `burst` of them at once after a rest."""

    def __init__(
        self,
        per_minute: float,
        *,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not per_minute > 0:
            raise UsageError(f"a limit of {per_minute} calls a minute lets nobody in; it must be more than 0")
        self._per_s = per_minute / 60
        self._size = min(float_info.max, max(1.0, int(self._per_s) if burst is None else burst))
        self._level = self._size
        self._clock, self._sleep = clock, sleep
        self._filled_at = clock()
        self._door = Turnstile(1)

    async def take(self) -> None:
        """Wait for a token and take it. Who is cancelled while waiting takes none."""
        async with self._door.turn():
            while (short := 1 - self._fill()) > 0:
                await self._sleep(short / self._per_s)
            self._level -= 1

    def _fill(self) -> float:
        now = self._clock()
        self._level = min(self._size, self._level + max(0.0, now - self._filled_at) * self._per_s)
        self._filled_at = now
        # What floating point leaves short of a whole token is a token.
        if self._level > 1 - 1e-9:
            self._level = max(1.0, self._level)
        return self._level


class Limited(Wrapper):
    """A provider of which at most `max_concurrent` are asked at once, and at most `per_minute` a minute, and nobody while it wants to
    be left alone.
    """

    def __init__(
        self,
        inner: Provider,
        *,
        max_concurrent: int | None = None,
        per_minute: float | None = None,
        burst: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(inner)
        self._places = Turnstile(max_concurrent) if max_concurrent is not None else None
        self._bucket = Bucket(per_minute, burst=burst, clock=clock, sleep=sleep) if per_minute is not None else None
        self._clock, self._sleep = clock, sleep
        self._rests_until = clock()

    async def complete(self, exchange: Exchange) -> Completion:
        if self._places is None:
            return await self._paced(exchange)
        async with self._places.turn():
            return await self._paced(exchange)

    async def _paced(self, exchange: Exchange) -> Completion:
        if self._bucket:
            await self._bucket.take()
        while (rest_s := self._rests_until - self._clock()) > 0:
            await self._sleep(rest_s)
        completion = await self.inner.complete(exchange)
        if completion.failure is not None:
            self._rest(completion.failure)
        return completion

    def _rest(self, why: Failure) -> None:
        """Ask nobody else into a limit that one call has met: each would be refused, and be an attempt that came to nothing."""
        if why.retryable and why.retry_after_s:
            self._rests_until = max(self._rests_until, self._clock() + min(why.retry_after_s, LONGEST_REST_S))
