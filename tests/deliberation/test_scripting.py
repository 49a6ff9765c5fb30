import json
from typing import Any

import pytest

from hansard.deliberation.afterwards.conformance import positive_cases
from hansard.deliberation.documents import FakeProviderScript, Invalid, Usage
from hansard.deliberation.documents.output import asking_schema
from hansard.deliberation.documents.scripting import neutral_script, usage_of
from hansard.domain.exchange import Completion, Cost, Exchange, Message
from hansard.domain.exchange import Usage as Tokens
from hansard.providers.scripted import Scripted

GOOD = {case.name: case.data for case in positive_cases()}
RESULT = GOOD["a good result"]


def script(*entries: dict[str, Any], **members: Any) -> FakeProviderScript:
    return FakeProviderScript.parse({"schema_version": "1.0.0", "entries": list(entries), **members})


def provider(*entries: dict[str, Any], **members: Any) -> Scripted:
    return Scripted(neutral_script(script(*entries, **members)), one_at_a_time=True)


def question(agent: str = "gardener", round: int = 1) -> Exchange:
    return Exchange(
        messages=(Message(role="user", content="When?"),),
        schema=asking_schema("turn_structured_output"),
        schema_name="turn_structured_output",
        metadata={"agent_id": agent, "round": round, "turn_index": 1},
    )


@pytest.mark.requirement("R-6.14-1", "R-9.1-1")
async def test_call_n_gets_entry_n_with_its_usage_to_the_letter() -> None:
    odd = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 9, "cost_usd": 1e-12, "estimated": False}
    asked = provider({"result": RESULT}, {"result": {**RESULT, "usage": odd}})
    first, second = await asked.complete(question()), await asked.complete(question())
    assert first.structured == RESULT["structured_output"]
    assert usage_of(first, scripted=True).as_data() == RESULT["usage"]
    assert usage_of(second, scripted=True).as_data() == odd


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("prompt_tokens", 10**9 + 1),
        ("completion_tokens", 2**60),
        ("total_tokens", 10**30),
        ("cost_usd", 1e300),
        ("cost_usd", 100_001),
    ],
)
def test_a_script_that_says_it_used_more_than_anybody_can_is_refused_when_it_is_read(name: str, figure: float) -> None:
    good, bad = {"result": RESULT}, {"result": {**RESULT, "usage": {**RESULT["usage"], name: figure}}}
    with pytest.raises(Invalid, match=f"^FakeProviderScript/entries/1/result/usage/{name}: must be 1?2?[0,]+ at most"):
        neutral_script(script(good, bad))


async def test_an_answer_without_words_has_those_of_its_structure() -> None:
    result = {**RESULT, "messages": []}
    answered = await provider({"result": result}).complete(question())
    assert json.loads(answered.text) == answered.structured == RESULT["structured_output"]


@pytest.mark.requirement("R-9.1-1")
async def test_the_same_script_and_questions_give_the_same_answers() -> None:
    entries = ({"result": RESULT}, {"result": GOOD["a result that failed"]})
    one, other = provider(*entries), provider(*entries)
    for _ in entries:
        mine, theirs = await one.complete(question()), await other.complete(question())
        assert (mine.structured, mine.failure, mine.output) == (theirs.structured, theirs.failure, theirs.output)


@pytest.mark.requirement("R-9.1-1")
@pytest.mark.parametrize(
    ("match", "said"),
    [
        ({"agent_id": "baker"}, "agent_id: expected 'baker', got 'gardener'"),
        ({"round": 2}, "round: expected 2, got 1"),
        ({"turn_index": 0}, "turn_index: expected 0, got 1"),
        ({"expected_output_schema": "verdict"}, "schema: expected 'verdict', got 'turn_structured_output'"),
    ],
    ids=str,
)
async def test_an_entry_for_somebody_else_is_an_internal_error(match: dict[str, Any], said: str) -> None:
    answer = await provider({"match": match, "result": RESULT}).complete(question())
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retryable) == ("internal", False)
    assert answer.failure.message == f"fake_provider_script: match assertion failed at entry 1: {said}"


@pytest.mark.requirement("R-9.1-1")
async def test_a_script_that_is_used_up_says_so_or_begins_again() -> None:
    ends, begins = provider({"result": RESULT}), provider({"result": RESULT}, on_exhaustion="loop")
    for asked in (ends, begins):
        assert (await asked.complete(question())).ok
    late = await ends.complete(question())
    assert late.failure is not None
    assert late.failure.message == "fake_provider_script: entries exhausted"
    assert (await begins.complete(question())).ok


@pytest.mark.requirement("R-9.1-1", "R-6.2-1")
async def test_a_scripted_answer_that_misses_its_schema_is_malformed() -> None:
    answer = await provider({"result": {**RESULT, "structured_output": {"speech": "x"}}}).complete(question())
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retryable) == ("malformed_response", True)


@pytest.mark.requirement("R-2.8-4")
async def test_neither_output_nor_error_is_malformed_even_when_the_text_is_json() -> None:
    messages = [{"role": "assistant", "content": json.dumps(RESULT["structured_output"])}]
    answer = await provider({"result": {**RESULT, "messages": messages, "structured_output": None}}).complete(
        question()
    )
    assert answer.failure is not None
    assert answer.failure.kind == "malformed_response"


@pytest.mark.parametrize("kind", ["timeout", "rate_limit", "quota_exhausted", "tool_failure", "internal"])
async def test_an_error_keeps_its_kind_its_retry_and_its_pause(kind: str) -> None:
    error = {"kind": kind, "message": "no", "retriable": True, "details": {"retry_after_seconds": 2}}
    answer = await provider({"result": {**GOOD["a result that failed"], "error": error}}).complete(question())
    assert answer.failure is not None
    assert (answer.failure.kind, answer.failure.retryable, answer.failure.retry_after_s) == (kind, True, 2.0)


@pytest.mark.requirement("R-6.4-2")
async def test_tool_events_stay_in_their_order() -> None:
    answer = await provider({"result": GOOD["a result with tools and a vendor's own words"]}).complete(question())
    assert [event.name for event in answer.tool_events] == ["almanac", "almanac", "note"]
    assert [event.error for event in answer.tool_events] == [None, "no month", None]
    assert json.loads(answer.tool_events[0].result or "") == {"frost": False}


async def test_a_selector_may_answer_in_text() -> None:
    data = script({"result": {**RESULT, "structured_output": None}})
    asked = Scripted(neutral_script(data, for_selector=True))
    answer = await asked.complete(Exchange(messages=(Message(role="user", content="Who?"),)))
    assert answer.ok
    assert answer.text == "Plant after the last frost."


def test_only_the_scripted_provider_is_believed_about_its_usage() -> None:
    completion = Completion(
        provider="p",
        requested_model="m",
        returned_model="m",
        usage=Tokens(input_tokens=5, output_tokens=7),
        cost=Cost(usd_nano=2_100_000, basis="price_table"),
        output=json.dumps({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost_usd": 0}).encode(),
    )
    assert usage_of(completion) == Usage(prompt_tokens=5, completion_tokens=7, total_tokens=12, cost_usd=0.0021)


def test_an_estimate_is_called_one() -> None:
    completion = Completion(provider="p", requested_model="m", returned_model="m", usage=Tokens(estimated=True))
    assert usage_of(completion).estimated is True
