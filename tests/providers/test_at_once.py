"""Many questions at once: the limit holds, and the time is that of the server and not ours."""

import asyncio
import time

import pytest

from hansard.providers.limits import Limited
from providers.asking import CHAT, FORMS, MESSAGES, Form, asked, opened, run
from providers.wire import Say, serving


@pytest.mark.parametrize("form", [CHAT[0], MESSAGES[0]], ids=str)
def test_50_calls_of_a_second_with_25_at_once_take_three_seconds_at_most(form: Form) -> None:
    assert_within_half_again(form, calls=50, at_once=25, latency_s=1.0)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_250_calls_of_a_second_with_25_at_once_take_fifteen_seconds_at_most(form: Form) -> None:
    assert_within_half_again(form, calls=250, at_once=25, latency_s=1.0)


def assert_within_half_again(form: Form, *, calls: int, at_once: int, latency_s: float) -> None:
    with serving(Say(delay_s=latency_s)) as slow:

        async def all_of_them() -> float:
            async with opened(form, slow) as provider:
                limited = Limited(provider, max_concurrent=at_once)
                # The first call pays for what is loaded lazily.
                await limited.complete(asked())
                started = time.monotonic()
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(limited.complete(asked(f"Question {n}"))) for n in range(calls)]
                assert all(task.result().ok for task in tasks)
                return time.monotonic() - started

        took = run(all_of_them())
        assert slow.most_at_once <= at_once
        assert took <= 1.5 * calls * latency_s / at_once
