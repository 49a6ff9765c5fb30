"""Many questions at once: the limit holds, and the time is that of the server and not ours."""

import asyncio
import time

import pytest

from hansard.providers.limits import Limited
from providers.asking import CHAT, FORMS, MESSAGES, Form, asked, opened, run
from providers.wire import Say, serving


@pytest.mark.parametrize("form", [CHAT[0], MESSAGES[0]], ids=str)
def test_50_calls_with_25_at_once_use_every_place_and_no_more(form: Form) -> None:
    # Other tests run beside this one: how long it takes is for the long one to say.
    _, most_at_once = times_of_ideal(form, calls=50, at_once=25, latency_s=1.0)
    assert most_at_once == 25


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_250_calls_of_a_second_with_25_at_once_take_fifteen_seconds_at_most(form: Form) -> None:
    times, most_at_once = times_of_ideal(form, calls=250, at_once=25, latency_s=1.0)
    assert most_at_once <= 25
    assert times <= 1.5


def times_of_ideal(form: Form, *, calls: int, at_once: int, latency_s: float) -> tuple[float, int]:
    """How many times as long it took as the server alone would, and how many it had to answer at once."""
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

        return run(all_of_them()) / (calls * latency_s / at_once), slow.most_at_once
