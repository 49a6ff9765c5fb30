"""A time limit around one call, as asyncio.timeout gives it. All limits of a loop share one timer of it.

A limit is hardly ever reached, and a timer for each call costs the loop more than whatever else a call does here.
"""

import asyncio
from math import inf
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary, ref

LATE_S = 0.001
"""A limit may come this much late: no loop is more exact, and most limits of a session end at the same moment."""


class Deadline:
    """Cancels what its task does within the block once so many seconds have passed; TimeoutError comes out of the block then."""

    __slots__ = ("_before", "_clock", "_seconds", "_task", "expired")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.expired = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task that it can cancel")
        loop = task.get_loop()
        self._task, self._before, self._clock = ref(task), task.cancelling(), _clock_of(loop)
        self._clock.watch(loop, self, self._seconds)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._clock.forget(self)
        task = self._task() if self.expired else None
        if task is not None and task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        self.expired = True
        if (task := self._task()) is not None:
            task.cancel()


class _Clock:
    """The limits of one loop that run now. Its timer is set for the first of them, and stays set when that is over in time.

    Nothing here holds the loop, which could never be let go of otherwise.
    """

    def __init__(self) -> None:
        self._running: dict[Deadline, float] = {}
        self._timer: ref[asyncio.TimerHandle] | None = None
        self._set_for = inf

    def watch(self, loop: asyncio.AbstractEventLoop, deadline: Deadline, seconds: float) -> None:
        self._running[deadline] = when = loop.time() + seconds
        if when < self._set_for - LATE_S:
            self._set(loop, when)

    def forget(self, deadline: Deadline) -> None:
        self._running.pop(deadline, None)

    def _set(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        if self._timer is not None and (timer := self._timer()) is not None:
            timer.cancel()
        self._timer, self._set_for = ref(loop.call_at(when, self._ring)), when

    def _ring(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer, self._set_for, now = None, inf, loop.time()
        over = [each for each, when in self._running.items() if when <= now]
        for deadline in over:
            self.forget(deadline)
        if self._running:
            self._set(loop, min(self._running.values()))
        for deadline in over:
            try:
                deadline.expire()
            except Exception as error:  # noqa: BLE001 - what somebody awaits may refuse to be cancelled; the others end all the same
                loop.call_exception_handler({"message": "a time limit could not end its work", "exception": error})


_CLOCKS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Clock] = WeakKeyDictionary()


def _clock_of(loop: asyncio.AbstractEventLoop) -> _Clock:
    clock = _CLOCKS.get(loop)
    if clock is None:
        clock = _CLOCKS[loop] = _Clock()
    return clock
