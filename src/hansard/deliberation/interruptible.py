"""Work that ends when the session is cancelled: a call, a pause. Knows no provider and records nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from hansard.errors import Broken

T = TypeVar("T")


class Interruptible:
    """One piece of work at a time, between entering and leaving.

    One watcher serves the whole session: two tasks for each call would cost more than the rules do.
    """

    def __init__(self, cancel: asyncio.Event | None) -> None:
        self._cancel = cancel
        self._working: asyncio.Task[Any] | None = None
        self._ended = False
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

    async def run(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What the work gives, or None when the session was cancelled first; nothing of it goes on then."""
        if self._cancel is None:
            return await work
        task = asyncio.current_task()
        if task is None:
            raise Broken("a session is held outside of any task")
        if self._cancel.is_set():
            work.close()
            return None
        before, self._working, self._ended = task.cancelling(), task, False
        try:
            return await work
        except asyncio.CancelledError:
            if not self._ended or task.cancelling() > before + 1:
                # Somebody else wants the whole task to end.
                raise
            return None
        finally:
            self._working = None
            if self._ended:
                task.uncancel()

    async def _watch(self, cancel: asyncio.Event) -> None:
        await cancel.wait()
        self._end()

    def _end(self) -> None:
        if self._working is not None and not self._ended:
            self._ended = True
            self._working.cancel()
