"""What is set aside for a session inside of a run: a share of what is left, given back when it is over, charged call by call."""

import pytest

from hansard.domain.budget import Budget, Spend
from hansard.domain.exchange import Exchange, Limits, Message
from hansard.orchestration.purse import Breach, Purse
from running import completion

EXCHANGE = Exchange(messages=(Message(role="user", content="x" * 400),), limits=Limits(timeout_s=600))
SHARE = Budget(max_calls=10, max_tokens=1_000, max_cost_usd_nano=5_000, max_seconds=60)


def purse(lane: str | None = None, spent: Spend | None = None, **limits: int) -> Purse:
    return Purse(Budget(**limits), spent, lane)


def test_where_enough_is_left_a_session_gets_its_whole_share() -> None:
    held = purse(max_calls=100, max_tokens=9_000, max_cost_usd_nano=9_000).carve(EXCHANGE, SHARE, metered=True)
    assert held.share == SHARE


def test_where_less_is_left_it_gets_what_is_left() -> None:
    left = purse(spent=Spend(calls=95, tokens=8_900, cost_usd_nano=8_000), max_calls=100, max_tokens=9_000)
    held = left.carve(EXCHANGE, SHARE, metered=True)
    assert held.share == Budget(max_calls=5, max_tokens=100, max_cost_usd_nano=5_000, max_seconds=60)


def test_without_limits_of_the_run_the_panels_own_hold() -> None:
    assert purse().carve(EXCHANGE, SHARE, metered=True).share == SHARE


@pytest.mark.parametrize(("unit", "said"), [("calls", "calls"), ("tokens", "tokens"), ("cost_usd_nano", "money")])
def test_where_nothing_is_left_it_does_not_begin(unit: str, said: str) -> None:
    spent = Spend(calls=3, tokens=3, cost_usd_nano=3)
    with pytest.raises(Breach, match=said):
        Purse(Budget(**{f"max_{unit}": 3}), spent).carve(EXCHANGE, SHARE, metered=True)


def test_where_nobody_sends_a_bill_money_is_no_limit() -> None:
    spent = Spend(cost_usd_nano=3)
    assert purse(spent=spent, max_cost_usd_nano=3).carve(EXCHANGE, SHARE, metered=False).share == SHARE


def test_what_is_set_aside_is_not_there_for_others_until_it_is_given_back() -> None:
    shared = purse(max_calls=10, max_tokens=1_000)
    held = shared.carve(EXCHANGE, SHARE, metered=True)
    with pytest.raises(Breach) as breach:
        shared.reserve(EXCHANGE, None)
    assert breach.value.passing
    shared.charge(completion(tokens=(10, 5)))
    shared.settle(held, None)
    assert (shared.spent.calls, shared.spent.tokens) == (1, 15)
    assert shared.reserve(EXCHANGE, None)


def test_a_lanes_time_bounds_the_session() -> None:
    lane = purse("alpha", Spend(elapsed_us=50_000_000), max_seconds=60)
    share = lane.carve(EXCHANGE, SHARE, metered=True).share
    assert share is not None
    assert share.max_seconds == 10
    lane.charge(completion(latency_us=10_000_000))
    with pytest.raises(Breach, match="seconds"):
        lane.carve(EXCHANGE, SHARE, metered=True)
