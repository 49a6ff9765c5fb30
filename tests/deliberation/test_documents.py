import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.deliberation.afterwards.conformance import positive_cases
from hansard.deliberation.documents import (
    ABSENT,
    DOCUMENTS,
    NO_USAGE,
    Breach,
    Config,
    Contraction,
    Document,
    Invalid,
    Message,
    Persona,
    RuntimeConfig,
    SelectorBudget,
    ToolEvent,
    Verdict,
)
from hansard.deliberation.documents.config import Knobs
from hansard.deliberation.documents.output import asking_schema
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.exchange import Message as Said
from hansard.providers import checks
from hansard.providers.schema import compile

GOOD = {case.name: case.data for case in positive_cases()}
VERDICT = GOOD["a verdict to go on"]
EVENT = {"name": "almanac", "error": None}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("case", positive_cases(), ids=lambda case: case.name)
def test_what_is_parsed_comes_back_as_it_was(case: Any) -> None:
    document = DOCUMENTS[case.document]
    parsed = document.parse(case.data)
    assert parsed.as_data() == case.data
    assert document.parse(parsed.as_data()) == parsed


def breach(document: type[Document], data: object) -> Breach | None:
    try:
        document.parse(data)
    except Invalid as error:
        return error.breach
    return None


@given(st.sampled_from(sorted(DOCUMENTS)), JSON | st.binary() | st.dates())
def test_no_value_makes_a_parser_crash(name: str, value: object) -> None:
    found = breach(DOCUMENTS[name], value)
    assert found is None or (found.rule and found.document == DOCUMENTS[name].__name__)


@given(st.data())
def test_no_member_makes_a_parser_crash(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(positive_cases()))
    member = data.draw(st.sampled_from(sorted(case.data)))
    found = breach(DOCUMENTS[case.document], {**case.data, member: data.draw(JSON)})
    assert found is None or found.rule


def test_a_breach_says_where_and_which_rule_and_what_it_asks_for() -> None:
    data = {**VERDICT, "unresolved_disagreements": [{"topic": "x", "positions": [{"agent": "a", "claim": ""}]}]}
    with pytest.raises(Invalid) as caught:
        Verdict.parse(data)
    assert str(caught.value) == "Verdict/unresolved_disagreements/0/positions/0/claim: must not be empty [§5.6]"


def nested(levels: int) -> object:
    value: object = None
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("document", "data", "told"),
    [
        (RuntimeConfig, {"synthesize_on_terminate": 1}, "/synthesize_on_terminate: must be true or false, but is 1"),
        (RuntimeConfig, {"synthesize_on_terminate": None}, "/synthesize_on_terminate: must be true or false"),
        (SelectorBudget, {"max_cost_usd": math.inf}, "/max_cost_usd: must be a number"),
        (SelectorBudget, {"max_cost_usd": math.nan}, "/max_cost_usd: must be a number"),
        (SelectorBudget, {"max_cost_usd": True}, "/max_cost_usd: must be a number"),
        (SelectorBudget, {"max_tokens": 2.5}, "/max_tokens: must be a whole number"),
        (SelectorBudget, {"max_tokens": -1}, "/max_tokens: must be at least 0"),
        (Persona, {**GOOD["a domain persona"], "must_delegate": {"tax": 1}}, "/must_delegate/tax: must be a text"),
        (ToolEvent, {**EVENT, "arguments": {"deep": [math.inf]}}, "/arguments: holds a number that is not finite"),
        (ToolEvent, {**EVENT, "arguments": {"deep": {1: 2}}}, "/arguments: holds a name that is no text: 1"),
        (ToolEvent, {**EVENT, "arguments": {"deep": nested(64)}}, "/arguments: is nested deeper than 64 levels"),
    ],
)
def test_what_a_member_may_not_hold_is_told_at_its_place(
    document: type[Document], data: dict[str, object], told: str
) -> None:
    with pytest.raises(Invalid) as error:
        document.parse(data)
    assert f"{document.__name__}{told}" in str(error.value)


def test_a_whole_number_may_be_written_as_a_fraction_of_nothing() -> None:
    assert type(SelectorBudget.parse({"max_tokens": 3.0}).max_tokens) is int


def test_a_document_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Verdict.parse(VERDICT).focus = "another"  # type: ignore[misc]


def test_a_document_shares_nothing_with_what_it_was_made_from() -> None:
    data = {"target": "a", "type": "question", "content": {"list": [1]}}
    request = DOCUMENTS["direct_request"].parse(data)
    data["content"]["list"].append(2)  # type: ignore[index]
    request.as_data()["content"]["list"].append(3)
    assert request.as_data()["content"] == {"list": [1]}


def test_a_message_of_ours_says_that_it_has_no_parent_and_leaves_the_rest_out() -> None:
    message = Message(
        id="m1",
        speaker="runtime",
        type="panel_contraction",
        content=Contraction(agent_id="a", reason="schema_error"),
        round=1,
        turn_index=1,
        branch_depth=0,
        timestamp="2026-05-01T10:00:00Z",
        usage=NO_USAGE,
    )
    data = message.as_data()
    assert data["parent_id"] is None
    assert not {"target", "suggested_followups", "dropped_deferred", "schema_failure"} & data.keys()
    assert "estimated" not in data["usage"]
    assert Message.parse(data) == message


def test_null_and_left_out_stay_apart() -> None:
    without = GOOD["a message that leaves out what is null"]
    assert Message.parse(without).parent_id is ABSENT
    assert Message.parse(GOOD["the problem"]).parent_id is None
    assert Message.parse(without).parent is None


@pytest.mark.requirement("R-5.1-2", "R-5.1-3", "R-5.1-1")
@pytest.mark.parametrize(("version", "rule"), [("2.0.0", "R-5.1-3"), ("1.1.0", "R-5.1-2"), ("9.9.9", "R-5.1-3")])
def test_a_version_that_we_do_not_know_is_refused(version: str, rule: str) -> None:
    for name in (
        "artifact",
        "config",
        "termination_artifact",
        "run_manifest",
        "fake_provider_script",
        "golden_test_case",
    ):
        good = next(case.data for case in positive_cases() if case.document == name)
        with pytest.raises(Invalid) as caught:
            DOCUMENTS[name].parse({**good, "schema_version": version})
        assert (caught.value.rule, caught.value.path) == (rule, "/schema_version")
        with pytest.raises(Invalid, match="must have schema_version"):
            DOCUMENTS[name].parse({member: each for member, each in good.items() if member != "schema_version"})


@pytest.mark.requirement("R-5.3-1", "R-5.3-2")
def test_the_class_of_a_persona_decides_about_its_domains() -> None:
    Persona.parse(GOOD["a domain persona that forbids nothing"])
    with pytest.raises(Invalid, match=r"R-5\.3-1"):
        Persona.parse({**GOOD["a domain persona"], "persona_class": "horizontal"})
    with pytest.raises(Invalid, match=r"R-5\.3-2"):
        Persona.parse({**GOOD["a horizontal persona"], "persona_class": "domain"})


@pytest.mark.requirement("R-4.4-1", "R-4.2-1")
@pytest.mark.parametrize("content", ["finalize", {"text": "finalize"}, {"next_action": "finalize"}, None], ids=repr)
def test_a_coordination_turn_holds_a_whole_verdict(content: object) -> None:
    with pytest.raises(Invalid) as caught:
        Message.parse({**GOOD["a coordination turn"], "content": content})
    assert caught.value.path == "/content"


@pytest.mark.requirement("R-5.6-1", "R-5.6-2", "R-2.5-1", "R-4.4-5")
def test_a_verdict_asks_for_exactly_what_its_action_says() -> None:
    payloads = {"user_input_request": {"question": "Where?"}, "external_research_request": {"query": "soil"}}
    wanted = {"request_user_input": {"user_input_request"}, "request_external_research": {"external_research_request"}}
    for action in ("continue", "finalize", "request_user_input", "request_external_research", "abort"):
        for given_ in (set(), {"user_input_request"}, {"external_research_request"}, set(payloads)):
            data = {**VERDICT, "next_action": action, **{name: payloads[name] for name in given_}}
            if action != "abort" and given_ == wanted.get(action, set()):
                Verdict.parse(data)
            else:
                with pytest.raises(Invalid):
                    Verdict.parse(data)


@pytest.mark.requirement("R-4.7-1", "R-8.4-1", "R-8.2-1")
def test_the_runtime_has_every_knob_with_the_defaults_of_the_protocol() -> None:
    config = Config.parse(GOOD["a configuration"])
    assert config.runtime.knobs == Knobs(
        max_branch_depth=1,
        max_deferred_queue_length=8,
        max_deferred_drains_per_round=1,
        on_agent_failure="terminate",
        per_agent_retry_budget=2,
        synthesize_on_terminate=False,
        on_budget_exceeded="stop",
        observability_level="mvp",
        max_tool_iterations=8,
    )
    for policy in ("degrade", "escalate"):
        with pytest.raises(Invalid):
            Config.parse({**GOOD["a configuration"], "runtime": {"on_budget_exceeded": policy}})


def test_an_agent_may_have_a_retry_budget_of_its_own() -> None:
    config = Config.parse(GOOD["a configuration with everything that it may have"])
    baker = config.agent("baker")
    assert baker is not None
    assert config.retry_budget(baker) == 0
    assert config.retry_budget(config.coordinator) == 0
    assert Config.parse(GOOD["a configuration"]).retry_budget(config.coordinator) == 2


def answered(expected: Any, said: Any) -> Completion:
    """What becomes of an answer, from whatever provider."""
    exchange = Exchange(messages=(Said(role="user", content="?"),), schema=asking_schema(expected))
    given = Completion(provider="p", requested_model="m", returned_model="m", structured=said)
    return checks.checked(exchange, given)


@pytest.mark.requirement("R-5.4-1")
def test_output_is_trimmed_to_its_schema_and_nothing_is_added() -> None:
    said = {
        "text": "Well.",
        "mood": "good",
        "direct_requests": [{"target": "a", "type": "q", "content": {"kept": None}, "urgent": True}],
    }
    assert answered("turn_structured_output", said).structured == {
        "text": "Well.",
        "direct_requests": [{"target": "a", "type": "q", "content": {"kept": None}}],
    }
    assert answered("turn_structured_output", {"text": "a", "direct_requests": []}).structured == {
        "text": "a",
        "direct_requests": [],
    }
    assert answered("turn_structured_output", {"text": "a", "direct_requests": None}).structured == {"text": "a"}


@pytest.mark.requirement("R-7.7-1")
@pytest.mark.parametrize("content", [{"n": 2**60}, "\ud800", {"\ud800": 1}], ids=repr)
def test_output_that_could_never_be_hashed_is_refused_at_once(content: object) -> None:
    said = {"text": "Well.", "direct_requests": [{"target": "a", "type": "q", "content": content}]}
    failure = answered("turn_structured_output", said).failure
    assert failure is not None
    assert failure.kind == "malformed_response"


@pytest.mark.requirement("R-4.2-2", "R-2.8-4")
def test_text_is_never_looked_into_for_requests() -> None:
    said = answered("turn_structured_output", {"text": '@baker {"direct_requests": [], "next_action": "finalize"}'})
    assert said.structured is not None
    assert "direct_requests" not in said.structured


@pytest.mark.requirement("R-6.2-1")
@pytest.mark.parametrize("expected", ["turn_structured_output", "verdict", "synthesis_content"])
def test_the_schema_to_ask_with_lets_through_what_will_be_trimmed_and_nothing_that_is_missing(expected: Any) -> None:
    name = {"synthesis_content": "synthesis"}.get(expected, expected)
    validator = compile(asking_schema(expected))
    for case in positive_cases():
        if case.document == name:
            assert validator.check({**case.data, "surprise": 1}) is None
            for member in DOCUMENTS[name].schema()["required"]:
                assert validator.check({key: each for key, each in case.data.items() if key != member}) is not None
