import asyncio
import time

import pytest

from hansard.domain.exchange import Completion, Exchange, Failure
from hansard.errors import UsageError
from hansard.providers.base import failure
from hansard.providers.limits import LONGEST_REST_S, Bucket, Limited, Turnstile
from providers.pretend import Doing, asking, says


class Slow(Doing):
    """A provider that takes a while, and notes how many ask it at once."""

    def __init__(self, latency_s: float) -> None:
        self.now = self.peak = 0
        self.order: list[str] = []

        async def do(exchange: Exchange) -> Completion:
            self.now += 1
            self.peak = max(self.peak, self.now)
            self.order.append(exchange.messages[-1].content)
            try:
                await asyncio.sleep(latency_s)
            finally:
                self.now -= 1
            return says("done")

        super().__init__(do)


async def taking_turns(calls: int, limit: int, latency_s: float) -> float:
    """So many calls, each of which has its turn in the order in which it came. Gives the seconds that they took."""
    slow = Slow(latency_s)
    limited = Limited(slow, max_concurrent=limit)
    started = time.monotonic()
    found = await asyncio.gather(*(limited.complete(asking(str(number))) for number in range(calls)))
    took = time.monotonic() - started
    assert all(each.ok for each in found)
    assert slow.peak == limit
    assert slow.order == [str(number) for number in range(calls)]
    return took


async def test_250_calls_at_25_at_once_take_turns_in_the_order_in_which_they_came() -> None:
    await taking_turns(250, 25, 0.05)


@pytest.mark.long
async def test_250_calls_of_one_second_at_25_at_once_take_less_than_15_seconds() -> None:
    assert await taking_turns(250, 25, 1.0) < 15


async def test_a_limit_is_what_it_was_when_everybody_has_left() -> None:
    slow = Slow(0.01)
    limited = Limited(slow, max_concurrent=2)
    for _ in range(3):
        await asyncio.gather(*(limited.complete(asking("x")) for _ in range(5)))
    assert slow.peak == 2


async def test_who_is_cancelled_while_waiting_is_never_asked_and_holds_no_place() -> None:
    slow = Slow(0.05)
    limited = Limited(slow, max_concurrent=1)
    asked = [asyncio.create_task(limited.complete(asking(name))) for name in "abcd"]
    await asyncio.sleep(0.01)
    asked[1].cancel()
    asked[2].cancel()
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in done] == [False, True, True, False]
    assert slow.order == ["a", "d"]
    assert (await limited.complete(asking("e"))).ok


async def test_who_is_cancelled_while_being_answered_makes_room() -> None:
    slow = Slow(3600)
    limited = Limited(slow, max_concurrent=1)
    first = asyncio.create_task(limited.complete(asking("a")))
    second = asyncio.create_task(limited.complete(asking("b")))
    await asyncio.sleep(0.01)
    first.cancel()
    await asyncio.sleep(0.01)
    assert slow.order == ["a", "b"]
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert slow.now == 0


async def test_a_place_given_in_the_moment_of_cancellation_is_passed_on() -> None:
    door = Turnstile(1)
    entered: list[str] = []

    async def enter(name: str) -> None:
        async with door.turn():
            entered.append(name)
            await asyncio.sleep(0)

    async with door.turn():
        first, second = asyncio.create_task(enter("a")), asyncio.create_task(enter("b"))
        await asyncio.sleep(0)
    # The place is now a's, who has not run yet.
    first.cancel()
    await asyncio.wait({first, second}, timeout=30)
    assert entered == ["b"]
    assert second.done()
    async with asyncio.timeout(30):
        async with door.turn():
            pass


async def test_no_place_is_lost_however_many_are_cancelled() -> None:
    door = Turnstile(3)
    inside = 0

    async def enter(number: int) -> None:
        nonlocal inside
        async with door.turn():
            inside += 1
            assert inside <= 3
            try:
                await asyncio.sleep(0.001)
            finally:
                inside -= 1

    tasks = [asyncio.create_task(enter(number)) for number in range(300)]
    for number, task in enumerate(tasks):
        if number % 3:
            await asyncio.sleep(0)
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(30):
        async with door.turn(), door.turn(), door.turn():
            assert inside == 0


class Time:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


@pytest.mark.parametrize(("burst", "expected"), [(None, [0, 2, 4, 6]), (2, [0, 0, 2, 4])])
async def test_calls_are_spread_over_the_minute_behind_the_burst(burst: int | None, expected: list[float]) -> None:
    clock = Time()
    starts: list[float] = []

    async def do(_: Exchange) -> Completion:
        starts.append(round(clock(), 6))
        return says("x")

    limited = Limited(Doing(do), per_minute=30, burst=burst, clock=clock, sleep=clock.sleep)
    for _ in range(4):
        await limited.complete(asking())
    assert starts == expected


@pytest.mark.parametrize(
    ("why", "rest_s"),
    [
        (failure("rate_limit", "slow down", retry_after_s=5.0), 5.0),
        (failure("rate_limit", "slow down", retry_after_s=0.5), 0.5),
        (failure("network", "503", retry_after_s=5.0), 5.0),
        (failure("rate_limit", "come back tomorrow", retry_after_s=86_400.0), LONGEST_REST_S),
        (failure("rate_limit", "slow down"), 0.0),
        (failure("quota_exhausted", "not asked", retry_after_s=5.0), 0.0),
    ],
)
async def test_who_asks_for_time_is_left_alone_by_all(why: Failure, rest_s: float) -> None:
    clock = Time()
    starts: list[float] = []

    async def do(_: Exchange) -> Completion:
        starts.append(clock())
        return says("x") if len(starts) > 1 else says("x", failure=why)

    limited = Limited(Doing(do), max_concurrent=8, clock=clock, sleep=clock.sleep)
    for _ in range(3):
        await limited.complete(asking())
    assert starts == [0.0, rest_s, rest_s]


async def test_a_shorter_wish_that_comes_later_does_not_end_a_longer_rest() -> None:
    clock = Time()
    starts: list[float] = []
    wishes = [30.0, 5.0]

    async def do(_: Exchange) -> Completion:
        starts.append(clock())
        await asyncio.sleep(0)
        return says("x", failure=failure("rate_limit", "slow down", retry_after_s=wishes.pop(0)) if wishes else None)

    limited = Limited(Doing(do), max_concurrent=2, clock=clock, sleep=clock.sleep)
    await asyncio.gather(limited.complete(asking()), limited.complete(asking()))
    await limited.complete(asking())
    assert starts == [0.0, 0.0, 30.0]


async def test_a_limit_may_be_less_than_one_call_a_minute() -> None:
    clock = Time()
    bucket = Bucket(0.5, clock=clock, sleep=clock.sleep)
    for _ in range(3):
        await bucket.take()
    assert clock() == pytest.approx(240.0)


async def test_a_burst_after_a_rest_is_as_large_as_it_may_be() -> None:
    clock = Time()
    bucket = Bucket(60, burst=3, clock=clock, sleep=clock.sleep)
    clock.now_s = 1000.0
    for _ in range(5):
        await bucket.take()
    assert clock.slept == [pytest.approx(1.0)] * 2


async def test_no_minute_sees_more_calls_than_it_may_but_for_the_burst() -> None:
    clock = Time()
    bucket = Bucket(600, burst=10, clock=clock, sleep=clock.sleep)
    taken = []
    for _ in range(3000):
        await bucket.take()
        taken.append(clock())
    for first in range(0, 2000, 97):
        within = sum(1 for moment in taken if taken[first] <= moment < taken[first] + 60)
        assert within <= 610


async def test_a_cancelled_wait_for_a_token_takes_none() -> None:
    clock = Time()
    stuck = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if not stuck.is_set():
            await asyncio.sleep(3600)
        await clock.sleep(seconds)

    bucket = Bucket(60, clock=clock, sleep=sleep)
    await bucket.take()
    waiting = asyncio.create_task(bucket.take())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    stuck.set()
    await bucket.take()
    assert clock() == pytest.approx(1.0)


async def test_a_clock_that_goes_back_gives_no_tokens_and_takes_none() -> None:
    clock = Time()
    bucket = Bucket(60, clock=clock, sleep=clock.sleep)
    await bucket.take()
    clock.now_s = -100.0
    await bucket.take()
    assert clock.slept == [pytest.approx(1.0)]


@pytest.mark.parametrize(
    "limits", [{"max_concurrent": 0}, {"max_concurrent": -1}, {"per_minute": 0}, {"per_minute": -5}]
)
def test_a_limit_that_lets_nobody_in_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="lets nobody in"):
        Limited(Slow(0), **limits)  # type: ignore[arg-type]


async def test_a_wrapper_speaks_for_what_it_wraps() -> None:
    slow = Slow(0)
    limited = Limited(slow)
    assert (limited.id, limited.unmetered, limited.describe()) == (slow.id, slow.unmetered, slow.describe())
    assert (await limited.complete(asking())).ok
    await limited.close()
    assert slow.closed == 1


async def test_a_burst_beyond_all_numbers_is_a_large_one() -> None:
    bucket = Bucket(60, burst=10**400)
    for _ in range(3):
        await bucket.take()
