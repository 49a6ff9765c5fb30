"""Work that ends when the session is cancelled: a call, a pause. Knows no provider and records nothing."""

import asyncio
from collections.abc import Awaitable
from typing import Self, TypeVar

T = TypeVar("T")


class Interruptible:
    """One piece of work at a time, between entering and leaving.

    One watcher serves the whole session: two tasks for each call would cost more than the rules do.
    """

    def __init__(self, cancel: asyncio.Event | None) -> None:
        self._cancel = cancel
        self._scope: asyncio.Timeout | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._cancel is not None:
            self._watcher = asyncio.create_task(self._watch(self._cancel), name="hansard-cancel")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait({self._watcher})

    @property
    def is_cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    async def run(self, work: Awaitable[T]) -> T | None:
        """What the work gives, or None when the session was cancelled first; nothing of it goes on then."""
        if self._cancel is None:
            return await work
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scope = scope
                if self._cancel.is_set():
                    self._end()
                return await work
        except TimeoutError:
            if not scope.expired():
                raise
            return None
        finally:
            self._scope = None

    async def _watch(self, cancel: asyncio.Event) -> None:
        await cancel.wait()
        self._end()

    def _end(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())
