"""What is spent and set aside never passes a limit, in whatever order calls begin and end."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.domain.budget import Budget, Spend, usd
from hansard.domain.exchange import Completion, Cost, Exchange, Limits, Message, Usage
from hansard.orchestration.purse import (
    LEAST_OUTPUT_TOKENS,
    USUAL_OUTPUT_TOKENS,
    Breach,
    Purse,
    Reserved,
    estimated_tokens,
)
from hansard.providers.checks import BYTES_PER_TOKEN
from hansard.providers.hosted.shapes import told
from hansard.providers.prices import Price

PRICE = Price(input=1_000_000, output=5_000_000)


def question(characters: int = 400, most: int | None = 100) -> Exchange:
    return Exchange(messages=(Message(role="user", content="x" * characters),), limits=Limits(max_output_tokens=most))


def said(exchange: Exchange, output: int) -> Completion:
    """An answer that keeps the bounds of its question, at its price."""
    usage = Usage(input_tokens=estimated_tokens(exchange), output_tokens=output)
    return Completion(
        provider="p", requested_model="m", returned_model="m", usage=usage, cost=Cost(usd_nano=PRICE.of(usage))
    )


@settings(max_examples=50)
@given(
    st.integers(1, 12),
    st.integers(50, 3_000),
    st.integers(100, 10_000),
    st.data(),
)
def test_spent_never_passes_a_limit_however_calls_overlap(
    calls: int, tokens: int, cost: int, data: st.DataObject
) -> None:
    budget = Budget(max_calls=calls, max_tokens=tokens, max_cost_usd_nano=cost)
    purse = Purse(budget)
    held: list[Reserved] = []
    for _ in range(40):
        if len(held) > 0 and data.draw(st.booleans()):
            done = held.pop(data.draw(st.integers(0, len(held) - 1)))
            most = done.exchange.limits.max_output_tokens or 0
            heard = said(done.exchange, data.draw(st.integers(0, most)))
            purse.settle(done, heard if data.draw(st.booleans()) else None)
        else:
            try:
                held.append(purse.reserve(question(data.draw(st.integers(0, 2_000))), PRICE))
            except Breach:
                continue
        spent = purse.spent
        assert spent.calls + len(held) <= calls
        assert spent.tokens + sum(each.tokens for each in held) <= tokens
        assert spent.cost_usd_nano + sum(each.cost_usd_nano for each in held) <= cost


def test_an_answer_is_bounded_to_what_is_left_and_refused_where_too_little_is() -> None:
    asked = question(400, most=1_000)
    purse = Purse(Budget(max_tokens=400))
    assert purse.reserve(asked, None).exchange.limits.max_output_tokens == 300
    with pytest.raises(Breach) as breach:
        purse.reserve(asked, None)
    assert (breach.value.unit, breach.value.limit, breach.value.spent) == ("tokens", 400, 0)
    assert Purse(Budget(max_tokens=100 + LEAST_OUTPUT_TOKENS)).reserve(asked, None).tokens == 100 + LEAST_OUTPUT_TOKENS


def test_the_shape_of_an_answer_is_set_aside_with_the_question_that_tells_it() -> None:
    plain = question(400)
    shaped = replace(plain, schema={"type": "object", "properties": {"lane": {"enum": ["x" * 40] * 10}}})
    sent = sum(len(message.content) for message in told(shaped)) // BYTES_PER_TOKEN
    assert sent > 2 * estimated_tokens(plain)
    assert Purse(Budget(max_tokens=10_000)).reserve(shaped, None).tokens >= sent + 100
    with pytest.raises(Breach):
        Purse(Budget(max_tokens=sent)).reserve(shaped, None)


def test_a_breach_names_the_unit_that_ended() -> None:
    with pytest.raises(Breach) as calls:
        Purse(Budget(max_calls=2), Spend(calls=2)).reserve(question(), None)
    assert (calls.value.unit, calls.value.limit, calls.value.spent, calls.value.lane) == ("calls", 2, 2, None)
    with pytest.raises(Breach) as money:
        Purse(Budget(max_cost_usd_nano=100), Spend(cost_usd_nano=60), "alpha").reserve(question(), PRICE)
    assert (money.value.unit, money.value.limit, money.value.spent, money.value.lane) == (
        "cost_usd_nano",
        100,
        60,
        "alpha",
    )
    with pytest.raises(Breach) as either:
        Purse(Budget(max_tokens=10_000, max_cost_usd_nano=100)).reserve(question(), PRICE)
    assert either.value.unit == "cost_usd_nano"


def test_an_answer_that_costs_nothing_is_bounded_by_no_money_and_its_question_is() -> None:
    free = Price(input=1_000_000, output=0)
    assert Purse(Budget(max_cost_usd_nano=100)).reserve(question(400, 5_000), free).exchange == question(400, 5_000)
    with pytest.raises(Breach):
        Purse(Budget(max_cost_usd_nano=99)).reserve(question(400, 5_000), free)


def test_who_sends_no_bill_is_not_held_up_by_a_limit_of_money() -> None:
    assert Purse(Budget(max_cost_usd_nano=0)).reserve(question(), None).cost_usd_nano == 0


def test_a_call_that_never_was_gives_everything_back() -> None:
    purse = Purse(Budget(max_calls=1, max_tokens=1_000))
    purse.settle(purse.reserve(question(), None), None)
    assert purse.spent == Spend()
    assert purse.reserve(question(), None).exchange == question()


def test_without_limits_a_question_is_asked_as_it_is() -> None:
    asked = replace(question(), limits=Limits())
    assert Purse(Budget()).reserve(asked, PRICE).exchange is asked


@pytest.mark.parametrize(
    ("budget", "price", "bound"),
    [
        (Budget(max_tokens=10_000), None, USUAL_OUTPUT_TOKENS),
        (Budget(max_cost_usd_nano=10**9), PRICE, USUAL_OUTPUT_TOKENS),
        (Budget(max_cost_usd_nano=10**9), None, None),
    ],
)
def test_an_answer_without_a_bound_gets_one_where_a_limit_counts_it(
    budget: Budget, price: Price | None, bound: int | None
) -> None:
    reserved = Purse(budget).reserve(question(most=None), price)
    assert reserved.exchange == question(most=bound)
    assert reserved.cost_usd_nano == (price.of(Usage(input_tokens=100, output_tokens=bound or 0)) if price else 0)


def test_the_seconds_of_a_lane_bound_a_call_and_those_of_a_run_are_its_drivers_affair() -> None:
    budget, spent = Budget(max_seconds=10), Spend(elapsed_us=4_000_000)
    assert Purse(budget, spent).reserve(question(), None).exchange == question()
    lane = Purse(budget, spent, "alpha")
    assert lane.reserve(question(), None).exchange.limits.timeout_s == 6
    brief = replace(question(), limits=Limits(timeout_s=5))
    assert lane.reserve(brief, None).exchange == brief
    took = replace(said(question(), 10), latency_us=6_000_000)
    for purse, elapsed_us in ((lane, 10_000_000), (Purse(budget, spent), 4_000_000)):
        purse.charge(took)
        assert purse.spent.elapsed_us == elapsed_us
    with pytest.raises(Breach) as breach:
        lane.reserve(question(), None)
    assert (breach.value.unit, breach.value.limit, breach.value.spent, breach.value.lane) == (
        "seconds",
        10,
        10,
        "alpha",
    )


def test_a_session_gets_its_share_or_what_is_left_where_that_is_less() -> None:
    budget = Budget(max_calls=10, max_tokens=1_000, max_cost_usd_nano=500, max_seconds=9)
    purse = Purse(budget, Spend(calls=1, tokens=100, cost_usd_nano=50, elapsed_us=2_000_000), "alpha")
    first = purse.carve(
        question(), Budget(max_calls=4, max_tokens=300, max_cost_usd_nano=200, max_seconds=3), metered=True
    )
    assert first.share == Budget(max_calls=4, max_tokens=300, max_cost_usd_nano=200, max_seconds=3)
    assert (first.calls, first.tokens, first.cost_usd_nano) == (4, 300, 200)
    rest = purse.carve(question(), Budget(), metered=True)
    assert rest.share == Budget(max_calls=5, max_tokens=600, max_cost_usd_nano=250, max_seconds=7)
    with pytest.raises(Breach) as nothing:
        purse.carve(question(), Budget(), metered=True)
    assert (nothing.value.unit, nothing.value.limit, nothing.value.spent) == ("calls", 10, 1)
    assert nothing.value.passing
    for each in (first, rest):
        purse.settle(each, None)
    assert purse.carve(question(), Budget(), metered=True).share == replace(
        budget, max_calls=9, max_tokens=900, max_cost_usd_nano=450, max_seconds=7
    )


def test_a_share_without_limits_sets_one_call_aside_and_money_counts_only_where_there_is_a_bill() -> None:
    purse = Purse(Budget(max_cost_usd_nano=100), Spend(cost_usd_nano=100))
    free = purse.carve(question(), Budget(), metered=False)
    assert free.share == Budget()
    assert (free.calls, free.tokens, free.cost_usd_nano) == (1, 0, 0)
    with pytest.raises(Breach) as money:
        purse.carve(question(), Budget(), metered=True)
    assert money.value.unit == "cost_usd_nano"
    share = Budget(max_calls=3, max_tokens=7)
    assert purse.carve(question(), share, metered=False).share == share


def test_the_last_call_that_is_left_is_given_to_who_wants_more() -> None:
    purse = Purse(Budget(max_calls=2), Spend(calls=1))
    assert purse.carve(question(), Budget(max_calls=5), metered=True).share == Budget(max_calls=1)


def test_a_session_that_goes_on_gets_nothing_where_all_is_spent_and_waits_for_calls_under_way() -> None:
    budget = Budget(max_calls=2, max_tokens=100, max_cost_usd_nano=50, max_seconds=3)
    spent = Spend(calls=3, tokens=120, cost_usd_nano=60, elapsed_us=4_000_000)
    purse = Purse(budget, spent, "alpha")
    with pytest.raises(Breach):
        purse.carve(question(), Budget(), metered=True)
    kept = purse.carve(question(), Budget(), metered=True, goes_on=True)
    assert (kept.calls, kept.tokens, kept.cost_usd_nano) == (0, 0, 0)
    other = Purse(budget, Spend(calls=1), "alpha")
    other.reserve(question(0, 10), PRICE)
    with pytest.raises(Breach):
        other.carve(question(), Budget(), metered=True, goes_on=True)


@pytest.mark.parametrize(
    ("nano", "told"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (99_999, "0.000099999"),
        (123_456, "0.000123"),
        (12_345_678, "0.0123"),
        (120_000_000, "0.12"),
        (3_000_000_000, "3.00"),
        (1_234_567_890, "1.23"),
    ],
)
def test_money_is_told_with_as_many_places_as_it_needs(nano: int, told: str) -> None:
    assert usd(nano) == told


def test_limits_are_recorded_in_whole_numbers_and_a_part_of_a_second_is_one() -> None:
    limits = {"max_calls": 1, "max_tokens": 2, "max_cost_usd_nano": 3, "max_seconds": 5}
    assert Budget(max_calls=1, max_tokens=2, max_cost_usd_nano=3, max_seconds=4.2).recorded() == limits
    assert set(Budget().recorded().values()) == {None}


def test_one_call_without_a_price_leaves_a_sum_without_one() -> None:
    sums = [Spend(priced=before).more(1, 1, 1, priced=now).priced for before in (True, False) for now in (True, False)]
    assert sums == [True, False, False, False]
