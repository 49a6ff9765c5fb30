"""Work in a session that may be cancelled: what it gives, what ends it, and what passes through."""

import asyncio

import pytest

from hansard.deliberation.interruptible import Interruptible


class Work:
    """Waits until it is told to go on, and knows how it ended."""

    def __init__(self, *, stubborn: bool = False) -> None:
        self.started, self.go_on, self.ended = asyncio.Event(), asyncio.Event(), ""
        self._stubborn = stubborn

    async def __call__(self) -> str:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            if not self._stubborn:
                raise
        return "done"


async def cancelled_in(work: Work) -> str | None:
    cancel = asyncio.Event()
    async with Interruptible(cancel) as interruptible:
        running = asyncio.create_task(interruptible.run(work()))
        await work.started.wait()
        cancel.set()
        return await running


@pytest.mark.parametrize("cancel", [None, asyncio.Event()])
async def test_work_that_nobody_cancels_gives_what_it_gives(cancel: asyncio.Event | None) -> None:
    async with Interruptible(cancel) as interruptible:
        assert not interruptible.is_cancelled
        for _ in range(2):
            assert await interruptible.run(asyncio.sleep(0, "done")) == "done"


async def test_cancelling_ends_the_work() -> None:
    work = Work()
    assert await cancelled_in(work) is None
    assert work.ended == "cancelled"


async def test_work_that_ends_all_the_same_has_been_done() -> None:
    assert await cancelled_in(Work(stubborn=True)) == "done"


async def test_work_does_not_begin_after_the_cancellation() -> None:
    cancel, work = asyncio.Event(), Work()
    async with Interruptible(cancel) as interruptible:
        cancel.set()
        assert await interruptible.run(work()) is None
    assert not work.started.is_set()


async def test_the_task_of_the_work_goes_on_after_the_cancellation() -> None:
    cancel, work, task = asyncio.Event(), Work(), asyncio.current_task()
    assert task is not None
    async with Interruptible(cancel) as interruptible:
        asyncio.get_running_loop().call_soon(cancel.set)
        assert await interruptible.run(work()) is None
        assert work.ended == "cancelled"
        assert task.cancelling() == 0
        await asyncio.sleep(0)


async def test_of_both_cancellations_the_callers_has_the_last_word() -> None:
    cancel, work = asyncio.Event(), Work()
    async with Interruptible(cancel) as interruptible:
        running = asyncio.create_task(interruptible.run(work()))
        await work.started.wait()
        cancel.set()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_the_cancellation_of_the_caller_passes_through() -> None:
    work = Work()
    async with Interruptible(asyncio.Event()) as interruptible:
        running = asyncio.create_task(interruptible.run(work()))
        await work.started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert work.ended == "cancelled"


async def test_an_error_of_the_work_passes_through() -> None:
    async def late() -> None:
        raise TimeoutError

    async with Interruptible(asyncio.Event()) as interruptible:
        with pytest.raises(TimeoutError):
            await interruptible.run(late())
