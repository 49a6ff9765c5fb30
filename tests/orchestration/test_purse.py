"""What is spent and set aside never passes a limit, in whatever order calls begin and end."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.domain.budget import Budget, Spend
from hansard.domain.exchange import Completion, Cost, Exchange, Limits, Message, Usage
from hansard.orchestration.purse import LEAST_OUTPUT_TOKENS, Breach, Purse, Reserved, estimated_tokens
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
