"""What a cancellation may not leave half done."""

import asyncio

import pytest

from hansard.finishing import to_the_end


async def test_work_is_finished_before_cancellations_pass_however_many() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        done.append("all of it")

    task = asyncio.create_task(to_the_end(work()))
    for _ in range(3):
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["all of it"]


async def test_what_became_of_it_is_told() -> None:
    async def failing() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await to_the_end(failing())
    assert await to_the_end(asyncio.sleep(0, "all of it")) == "all of it"


async def test_a_cancellation_says_more_than_a_failure_behind_it() -> None:
    async def failing() -> None:
        await asyncio.sleep(0.05)
        raise ValueError("no")

    task = asyncio.create_task(to_the_end(failing()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
