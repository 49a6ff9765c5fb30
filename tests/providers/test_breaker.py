import asyncio
from typing import get_args

import pytest

from hansard.domain.exchange import Completion, ErrorKind, Exchange
from hansard.errors import UsageError
from hansard.providers.base import failure
from hansard.providers.breaker import Breaker
from providers.pretend import Doing, asking, says


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Moody(Doing):
    """Fails with `mood`, or answers when it is None."""

    def __init__(self, mood: ErrorKind | None) -> None:
        self.mood = mood

        async def do(_: Exchange) -> Completion:
            await asyncio.sleep(0)
            return says("", failure=failure(self.mood, "no")) if self.mood else says("yes")

        super().__init__(do)


async def kinds(breaker: Breaker, times: int) -> list[str | None]:
    found = [await breaker.complete(asking()) for _ in range(times)]
    return [each.failure.kind if each.failure else None for each in found]


def breaker_on(mood: ErrorKind | None) -> tuple[Breaker, Moody, Clock]:
    clock, moody = Clock(), Moody(mood)
    return Breaker(moody, after=3, cool_down_s=60, clock=clock), moody, clock


@pytest.mark.parametrize("kind", ["auth_failure", "quota_exhausted"])
async def test_after_three_in_a_row_nobody_is_asked_and_the_kind_stays(kind: ErrorKind) -> None:
    breaker, moody, _ = breaker_on(kind)
    assert await kinds(breaker, 10) == [kind] * 10
    assert len(moody.asked) == 3
    assert breaker.is_open


async def test_a_refusal_says_that_nobody_was_asked_and_when_somebody_will_be() -> None:
    breaker, _, clock = breaker_on("auth_failure")
    await kinds(breaker, 3)
    clock.now_s = 20
    completion = await breaker.complete(asking(model="m-9"))
    assert completion.failure is not None
    assert completion.failure.message.startswith(
        "not asked: 3 calls in a row failed with auth_failure; the next try is in 40 s"
    )
    assert completion.failure.retry_after_s == 40
    assert completion.failure.details["circuit"] == "open"
    assert not completion.failure.retryable
    assert (completion.provider, completion.requested_model, completion.usage.total) == ("doing", "m-9", 0)


async def test_a_breaker_may_open_at_once_and_probe_at_once() -> None:
    clock, moody = Clock(), Moody("auth_failure")
    once = Breaker(moody, after=1, cool_down_s=0.5, clock=clock)
    assert await kinds(once, 3) == ["auth_failure"] * 3
    assert len(moody.asked) == 1
    await kinds(Breaker(moody, after=1, cool_down_s=0, clock=clock), 3)
    assert len(moody.asked) == 4


@pytest.mark.parametrize("kind", sorted(set(get_args(ErrorKind)) - {"auth_failure", "quota_exhausted"}))
async def test_no_other_failure_opens_the_circuit(kind: ErrorKind) -> None:
    breaker, moody, _ = breaker_on(kind)
    await kinds(breaker, 10)
    assert len(moody.asked) == 10


async def test_an_answer_in_between_starts_the_count_anew() -> None:
    breaker, moody, _ = breaker_on("auth_failure")
    await kinds(breaker, 2)
    moody.mood = None
    await kinds(breaker, 1)
    moody.mood = "auth_failure"
    await kinds(breaker, 2)
    assert not breaker.is_open


async def test_a_complaint_about_something_else_means_that_the_key_was_good() -> None:
    breaker, moody, _ = breaker_on("auth_failure")
    await kinds(breaker, 2)
    moody.mood = "invalid_request"
    await kinds(breaker, 1)
    moody.mood = "auth_failure"
    await kinds(breaker, 2)
    assert not breaker.is_open


async def test_a_timeout_in_between_says_nothing_about_the_key() -> None:
    breaker, moody, _ = breaker_on("auth_failure")
    await kinds(breaker, 2)
    moody.mood = "timeout"
    await kinds(breaker, 5)
    moody.mood = "auth_failure"
    await kinds(breaker, 1)
    assert breaker.is_open


async def test_after_the_pause_one_call_probes_and_closes_the_circuit() -> None:
    breaker, moody, clock = breaker_on("quota_exhausted")
    await kinds(breaker, 3)
    clock.now_s = 59.9
    assert await kinds(breaker, 1) == ["quota_exhausted"]
    assert len(moody.asked) == 3
    clock.now_s = 60
    moody.mood = None
    assert await kinds(breaker, 2) == [None, None]
    assert not breaker.is_open


async def test_a_probe_that_fails_opens_the_circuit_for_another_pause() -> None:
    breaker, moody, clock = breaker_on("auth_failure")
    await kinds(breaker, 3)
    clock.now_s = 60
    await kinds(breaker, 3)
    assert len(moody.asked) == 4
    clock.now_s = 120
    await kinds(breaker, 3)
    assert len(moody.asked) == 5


async def test_only_one_of_many_probes() -> None:
    breaker, moody, clock = breaker_on("auth_failure")
    await kinds(breaker, 3)
    clock.now_s = 60
    moody.mood = None
    found = await asyncio.gather(*(breaker.complete(asking()) for _ in range(10)))
    assert sum(each.ok for each in found) == 1
    assert len(moody.asked) == 4


async def test_a_probe_that_is_cancelled_leaves_the_next_one_to_probe() -> None:
    breaker, moody, clock = breaker_on("auth_failure")
    await kinds(breaker, 3)
    clock.now_s = 60
    probe = asyncio.create_task(breaker.complete(asking()))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    moody.mood = None
    assert await kinds(breaker, 1) == [None]


@pytest.mark.parametrize(("after", "cool_down_s"), [(0, 1.0), (1, -1.0), (1, float("nan"))])
def test_a_breaker_that_makes_no_sense_is_refused(after: int, cool_down_s: float) -> None:
    with pytest.raises(UsageError):
        Breaker(Moody(None), after=after, cool_down_s=cool_down_s)
