"""Many questions at once: the limit holds and is used, and the time is that of the server and not ours."""

import asyncio
import time

import pytest

from hansard.providers.limits import Limited
from providers.asking import CHAT, FORMS, MESSAGES, Form, asked, opened, run
from providers.wire import Say, Together, Turn, serving


@pytest.mark.parametrize("form", [CHAT[0], MESSAGES[0]], ids=str)
def test_of_50_calls_25_are_on_the_wire_at_once_and_never_more(form: Form) -> None:
    # Were there fewer at any time, the server would not answer.
    seconds_of(form, Together(count=25), calls=50, at_once=25)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_250_calls_of_a_second_with_25_at_once_take_fifteen_seconds_at_most(form: Form) -> None:
    assert seconds_of(form, Say(delay_s=1.0), calls=250, at_once=25) <= 15


def seconds_of(form: Form, turn: Turn, *, calls: int, at_once: int) -> float:
    with serving(turn) as wire:

        async def all_of_them() -> float:
            async with opened(form, wire.will(Say())) as provider:
                limited = Limited(provider, max_concurrent=at_once)
                # The first call pays for what is loaded lazily.
                await limited.complete(asked())
                started = time.monotonic()
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(limited.complete(asked(f"Question {n}"))) for n in range(calls)]
                assert all(task.result().ok for task in tasks)
                return time.monotonic() - started

        took = run(all_of_them())
        assert wire.most_at_once == at_once
        return took
