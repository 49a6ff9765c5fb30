import asyncio
import gc
import weakref

import pytest

from hansard.providers.deadline import Deadline


async def late(seconds: float, work_s: float) -> str:
    try:
        with Deadline(seconds) as deadline:
            await asyncio.sleep(work_s)
            return "done"
    except TimeoutError:
        assert deadline.expired
        return "late"


async def test_work_that_takes_too_long_is_ended_and_its_task_goes_on() -> None:
    assert await late(0.01, 60) == "late"
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert await late(60, 0) == "done"


async def test_each_of_many_limits_ends_its_own_work_whatever_their_order() -> None:
    waits = [(0.05, 60.0), (60.0, 0.0), (0.01, 60.0), (0.03, 0.0), (0.02, 60.0), (1e18, 0.0), (float("inf"), 0.0)]
    found = await asyncio.gather(*(late(*each) for each in waits))
    assert found == ["late" if work else "done" for _, work in waits]


async def test_a_limit_that_comes_first_is_kept_although_a_later_one_was_set_before() -> None:
    first = asyncio.create_task(late(60, 0.05))
    await asyncio.sleep(0)
    started = asyncio.get_running_loop().time()
    assert await late(0.01, 60) == "late"
    assert asyncio.get_running_loop().time() - started < 10
    assert await first == "done"


async def test_behind_the_first_limit_that_is_over_comes_the_next_and_not_the_last() -> None:
    first, last, then = (asyncio.create_task(late(seconds, 3600)) for seconds in (0.01, 60, 0.03))
    assert (await first, await then) == ("late", "late")
    assert not last.done()
    last.cancel()


async def test_limits_within_limits_end_the_inner_work_only() -> None:
    with Deadline(60) as outer:
        assert await late(0.01, 60) == "late"
    assert not outer.expired


async def test_the_outer_limit_ends_the_inner_work_too() -> None:
    with pytest.raises(TimeoutError), Deadline(0.01) as outer:
        await late(60, 60)
    assert outer.expired


async def test_whoever_cancels_the_task_meanwhile_is_heard() -> None:
    task = asyncio.create_task(late(60, 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_at_the_same_moment_is_not_taken_for_the_limit() -> None:
    async def work() -> None:
        with Deadline(60) as deadline:
            try:
                await asyncio.sleep(60)
            finally:
                deadline.expire()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_limit_needs_a_task() -> None:
    async def work() -> None:
        loop, told = asyncio.get_running_loop(), []
        loop.call_soon(lambda: told.append(outside()))
        await asyncio.sleep(0)
        assert told == ["refused"]

    def outside() -> str:
        try:
            with Deadline(1):
                return "taken"
        except RuntimeError:
            return "refused"

    asyncio.run(work())


def test_a_loop_that_is_over_is_let_go_of() -> None:
    async def work() -> "weakref.ref[asyncio.AbstractEventLoop]":
        assert await late(60, 0) == "done"
        return weakref.ref(asyncio.get_running_loop())

    gone = asyncio.run(work())
    gc.collect()
    assert gone() is None


async def test_work_that_refuses_to_be_cancelled_takes_no_other_limit_with_it() -> None:
    class Stubborn(asyncio.Future[None]):
        def cancel(self, msg: object = None) -> bool:
            raise ValueError("no")

    told, work = list[object](), Stubborn()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: told.append(about["exception"]))

    async def stubborn() -> None:
        with Deadline(0.01):
            await work

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    assert await late(0.05, 60) == "late"
    assert [type(each) for each in told] == [ValueError]
    assert not task.done()
    work.set_result(None)
    await task


def test_a_loop_that_was_closed_in_the_middle_of_a_block_is_let_go_of() -> None:
    loop = asyncio.new_event_loop()
    task = loop.create_task(late(60, 60))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    gone = weakref.ref(loop)
    del loop, task
    gc.collect()
    assert gone() is None
