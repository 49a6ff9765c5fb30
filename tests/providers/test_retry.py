from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.domain.exchange import ErrorKind
from hansard.providers.base import failure
from hansard.providers.retry import Retries, may_retry


def most() -> float:
    return 1.0


def pause(kind: ErrorKind = "network", made: int = 1, **more: float | None) -> float | None:
    wish = more.pop("retry_after_s", None)
    return Retries().pause_s(failure(kind, "x", retry_after_s=wish), made, random=most, **more)


def test_only_what_may_pass_by_itself_is_tried_again() -> None:
    again = {kind for kind in get_args(ErrorKind) if may_retry(failure(kind, "x"))}
    assert again == {"timeout", "network", "rate_limit", "malformed_response"}
    assert {kind for kind in get_args(ErrorKind) if pause(kind) is not None} == again


def test_a_tool_may_say_that_another_try_helps_and_nobody_else_may() -> None:
    assert may_retry(failure("tool_failure", "x", retryable=True))
    assert not may_retry(failure("auth_failure", "x", retryable=True))
    assert not may_retry(failure("network", "x", retryable=False))


def test_the_interval_doubles_from_half_a_second_to_thirty() -> None:
    assert [Retries().interval_s(made) for made in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert Retries().interval_s(100_000) == 30


@given(st.floats(0, 1), st.integers(1, 2))
def test_the_pause_is_anything_up_to_the_interval(chance: float, made: int) -> None:
    found = Retries().pause_s(failure("timeout", "x"), made, random=lambda: chance)
    assert found is not None
    assert found == chance * Retries().interval_s(made)


def test_a_budget_of_retries_allows_that_many_and_one_more_call() -> None:
    assert [pause(made=made) is not None for made in (1, 2, 3)] == [True, True, False]
    assert Retries(retries=0).pause_s(failure("network", "x"), 1, random=most) is None


def test_a_malformed_answer_is_corrected_without_waiting() -> None:
    assert pause("malformed_response") == 0


def test_what_the_server_asks_for_is_waited() -> None:
    assert pause("rate_limit", retry_after_s=12.0) == 12


def test_nobody_waits_beyond_the_time_that_is_left() -> None:
    assert pause("rate_limit", retry_after_s=3600.0, remaining_s=5.0) == 5
    assert pause(made=2, remaining_s=0.25) == 0.25
    assert pause("rate_limit", retry_after_s=1e9) == 600


def test_without_time_there_is_no_other_try() -> None:
    assert pause(remaining_s=0.0) is None
    assert pause("malformed_response", remaining_s=-1.0) is None


@pytest.mark.parametrize("wish", [float("nan"), float("inf"), -5.0])
def test_a_wish_that_makes_no_sense_is_passed_over(wish: float) -> None:
    assert pause("rate_limit", retry_after_s=wish) == 0.5
