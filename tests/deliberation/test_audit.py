"""A finished transcript is held to the rules: what the machine makes passes, and what it would not have made is named."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliberating import PANEL, Heard, Play, fails, play, rules, some_plays, turn, usual, verdict
from hansard.deliberation.documents.breach import Breach
from hansard.deliberation.protocol.audit import CUT_SHORT, FROM_OUTSIDE, breaches
from hansard.deliberation.protocol.moves import Stopped

requirement = pytest.mark.requirement
Messages = list[dict[str, Any]]
LOST = {"agent_id": "cyd", "provider": "fake", "kind": "auth_failure", "message": "no"}


def audited(session: Play, change: Callable[[Messages], object] = lambda _: None, **outcome: Any) -> list[Breach]:
    messages = session.messages()
    change(messages)
    state = session.machine.state
    return breaches(state.rules, state.panel, messages, {**session.outcome_data(), **outcome})


def forked() -> Play:
    """Two rounds with a fork, a drain, a dropped request and one that nobody can answer."""
    return play(
        rules(max_queue=1),
        [turn("ben", "cyd", "ben", "nobody"), turn("cyd"), turn(), turn(), verdict()],
    )


@given(some_plays())
def test_what_the_machine_plays_keeps_its_own_rules(session: Play) -> None:
    assert audited(session) == []


def renumbered(messages: Messages) -> None:
    for each in messages[2:]:
        each["turn_index"] += 1


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda m: m.pop(3), "R-4.10-2"),
        (lambda m: m[3].update(speaker="cyd"), "R-4.10-2"),
        (renumbered, "R-4.5-7"),
        (lambda m: m[2].update(parent_id="msg-000"), "R-4.6-2"),
        (lambda m: m[2].update(branch_depth=0), "R-4.5-3"),
        (lambda m: m[1].update(parent_id="msg-000"), "R-4.5-3"),
        (lambda m: m[3].update(round=2), "R-4.2-4"),
        (lambda m: m[2].update(type="primary_turn"), "R-4.2-4"),
        (lambda m: m[2].pop("suggested_followups"), "R-4.5-4"),
        (lambda m: m[1].pop("dropped_deferred"), "R-4.6-4"),
        (lambda m: m[1].pop("schema_failure"), "R-4.5-5"),
        (lambda m: m[3].update(schema_failure=[{"offending_request": {}, "reason": "x"}]), "R-4.5-5"),
        (lambda m: m[0].update(content="Another problem"), "R-4.1-3"),
        (lambda m: m[5]["content"].update(next_action="finalize"), "R-4.2-4"),
        (lambda m: m.append(dict(m[-1], id="msg-999", turn_index=99)), "R-4.10-8"),
        (lambda m: m[1]["usage"].update(total_tokens=10**9), "R-4.10-8"),
        (lambda m: m[1]["usage"].update(cost_usd=1e308), "R-4.10-8"),
    ],
)
def test_a_transcript_that_no_machine_would_have_written_is_caught(change: Any, rule: str) -> None:
    found = audited(forked(), change)
    assert [each.rule for each in found] == [rule]


def test_each_runtime_says_in_its_own_words_why_nobody_could_be_asked() -> None:
    def reworded(messages: Messages) -> None:
        messages[1]["schema_failure"][0]["reason"] = "no such member"

    assert audited(forked(), reworded) == []


def test_in_a_flat_transcript_who_leaves_in_a_fork_leaves_outside_of_it_and_whoever_speaks_there_does_not() -> None:
    answers: list[Heard] = [turn("ben"), fails("auth_failure"), turn("ada")]
    session = play(rules(on_agent_failure="continue_without"), answers)
    state, messages = session.machine.state, session.messages()
    assert [each["branch_depth"] for each in messages[:5]] == [0, 0, 1, 0, 1]
    assert messages[2]["type"] == "panel_contraction"

    def found(*, flat: bool) -> list[tuple[str, str]]:
        course = breaches(state.rules, state.panel, messages, session.outcome_data(), flat=flat)
        return [(each.path, each.rule) for each in course]

    assert found(flat=False) == []
    assert found(flat=True) == [("/canonical_transcript/2/branch_depth", "R-4.5-3")]
    messages[2].update(branch_depth=0, parent_id=None)
    assert found(flat=True) == []
    assert found(flat=False) == [("/canonical_transcript/2/branch_depth", "R-4.5-3")]


@requirement("R-4.10-3")
def test_a_round_without_its_coordination_turn_is_caught() -> None:
    [found] = audited(play(rules(), [turn(), turn(), turn(), verdict()]), lambda m: m.pop(4))
    assert found.rule == "R-4.10-3"


@requirement("R-4.8-4", "R-4.1-5")
@pytest.mark.parametrize(
    ("session", "reason", "rule"),
    [
        (play(rules()), "budget_exceeded", "R-4.8-4"),
        (play(rules(), [turn(), turn(), turn(), verdict("request_user_input")]), "provider_unrecoverable", "R-4.1-5"),
        (
            play(rules(max_rounds=1), lambda ask: verdict() if ask.expect == "verdict" else usual(ask)),
            "schema_error",
            "R-4.1-5",
        ),
    ],
)
def test_an_outcome_that_the_rules_do_not_lead_to_is_caught(session: Play, reason: str, rule: str) -> None:
    [found] = audited(session, kind="termination", termination_artifact={"reason": reason})
    assert (found.path, found.rule) == ("/outcome", rule)


def ended_in(session: Play, round: int) -> list[Breach]:
    assert isinstance(session.outcome, Stopped)
    ending = {"reason": session.reason, "final_round": round}
    return audited(session, kind="termination", termination_artifact=ending)


@pytest.mark.parametrize(
    ("session", "rounds"),
    [
        (play(rules(), [turn(), turn(), turn(), verdict("request_user_input")]), {1}),
        (play(rules(), [turn(), turn(), fails()]), {1}),
        (play(rules(), [turn(), turn(), turn(), verdict(), fails()]), {2}),
        (play(rules(), [turn(), turn(), turn(), verdict("finalize"), fails()]), {1}),
        (play(rules(max_total_tokens=30), [turn(), turn(), turn(), verdict()]), {1}),
        # Failed calls, which no transcript shows, come before the next round or in it.
        (play(rules(max_total_tokens=40), [turn(), turn(), turn(), verdict(), fails(tokens=1)]), {1, 2}),
        (play(rules(), [fails()]), {0, 1}),
    ],
)
def test_the_last_round_of_a_termination_is_the_one_that_the_rules_opened(session: Play, rounds: set[int]) -> None:
    assert session.machine.state.round in rounds
    assert {round for round in range(6) if not ended_in(session, round)} == rounds
    for each in set(range(6)) - rounds:
        assert [found.path for found in ended_in(session, each)] == ["/outcome/termination_artifact/final_round"]


@pytest.mark.parametrize(
    ("reason", "who", "rounds"),
    [
        ("provider_unrecoverable", "ada", {1}),
        ("schema_error", "ada", {1}),
        # Whom a selector asked.
        ("provider_unrecoverable", "chair", {0}),
        ("provider_unrecoverable", None, {1}),
        ("schema_error", None, {1}),
        ("budget_exceeded", None, {1}),
        ("user_cancel", None, {0, 1}),
        ("timeout", None, {0, 1}),
    ],
)
def test_where_nobody_spoke_the_first_round_was_opened_if_somebody_of_the_panel_was_asked(
    reason: str, who: str | None, rounds: set[int]
) -> None:
    kind = "malformed_response" if reason == "schema_error" else "auth_failure"
    failure = {"last_provider_failure": {**LOST, "agent_id": who, "kind": kind}} if who else {}
    state, [problem] = play(rules(), [fails()]).machine.state, play(rules(), [fails()]).messages()

    def accepted(panel: tuple[str, ...] | None, unopened: frozenset[str]) -> set[int]:
        endings = [{"reason": reason, "final_round": round, **failure} for round in range(3)]
        outcomes = [{"kind": "termination", "termination_artifact": ending} for ending in endings]
        course = [breaches(state.rules, panel, [problem], each, unopened=unopened) for each in outcomes]
        return {round for round, found in enumerate(course) if not found}

    assert accepted(PANEL, FROM_OUTSIDE) == rounds
    assert accepted(PANEL, CUT_SHORT) == (rounds if who else {0, 1})
    # Where no panel may sit, nobody of it was asked.
    assert accepted(None, CUT_SHORT) == (set() if who == "ada" else {0})


@pytest.mark.parametrize("reason", ["user_cancel", "timeout", "budget_exceeded"])
@pytest.mark.parametrize("is_noted", [False, True])
def test_what_is_noted_as_a_round_opens_tells_that_it_was_opened(reason: str, is_noted: bool) -> None:
    answers: list[Heard] = [turn("ben", "cyd"), turn(), turn(), fails("auth_failure"), verdict()]
    session = play(rules(on_agent_failure="continue_without"), [*answers, fails("auth_failure")])
    messages = session.messages()[:6]
    assert [each["type"] for each in messages[4:]] == ["panel_contraction", "coordination_turn"]
    assert messages[1]["schema_failure"]
    if not is_noted:
        del messages[1]["schema_failure"]
    state = session.machine.state
    for round in range(4):
        ending = {"reason": reason, "final_round": round}
        found = breaches(state.rules, PANEL, messages, {"kind": "termination", "termination_artifact": ending})
        assert (found == []) == (round == 1 + is_noted)


@requirement("R-4.5-5")
@pytest.mark.parametrize(("reason", "missed"), [("user_cancel", False), ("timeout", False), ("schema_error", True)])
def test_what_was_decided_before_the_call_that_failed_is_noted(reason: str, missed: bool) -> None:
    session = play(rules(), [turn("nobody", "ben"), fails("malformed_response", retriable=False)])
    assert audited(session) == []
    ending = {"reason": reason, "final_round": 1}
    found = audited(session, lambda m: m[1].pop("schema_failure"), kind="termination", termination_artifact=ending)
    assert [each.rule for each in found] == (["R-4.5-5"] if missed else [])


@requirement("R-4.9-4")
@pytest.mark.parametrize(
    ("reason", "failure", "member"),
    [
        ("provider_unrecoverable", LOST, None),
        ("schema_error", {**LOST, "kind": "malformed_response"}, None),
        ("provider_unrecoverable", {**LOST, "kind": "malformed_response"}, "reason"),
        ("schema_error", LOST, "reason"),
        ("provider_unrecoverable", {**LOST, "agent_id": "ada"}, "last_provider_failure/agent_id"),
        ("timeout", LOST, "last_provider_failure"),
    ],
)
def test_a_failure_is_that_of_whom_the_rules_asked_last_and_leads_to_its_reason(
    reason: str, failure: dict[str, Any], member: str | None
) -> None:
    session = play(rules(), [turn(), turn(), fails("auth_failure")])
    ending = {"reason": reason, "final_round": 1, "last_provider_failure": failure}
    found = audited(session, kind="termination", termination_artifact=ending)
    assert [each.path for each in found] == ([f"/outcome/termination_artifact/{member}"] if member else [])


@pytest.mark.parametrize("saves", [False, True])
def test_the_last_who_leaves_may_have_failed_with_anything(saves: bool) -> None:
    given = rules(on_agent_failure="continue_without", retries=0, synthesize_on_terminate=saves)
    session = play(given, [turn(), verdict(), fails("malformed_response"), fails()], panel=("ada",))
    ending = session.outcome_data()["termination_artifact"]
    failure = {**LOST, "agent_id": "ada", "kind": "malformed_response"}
    told = {**ending, "last_provider_failure": failure}
    assert ending["reason"] == "provider_unrecoverable"
    assert audited(session, kind="termination", termination_artifact=told) == []


def test_a_termination_that_claims_a_synthesis_is_caught() -> None:
    session = play(rules(), [turn(), turn(), turn(), verdict("request_user_input")])
    [found] = audited(session, kind="synthesis", synthesis_message_id="msg-004")
    assert found.rule == "R-4.8-4"


@given(some_plays(), st.data())
def test_two_messages_that_changed_places_are_caught(session: Play, data: st.DataObject) -> None:
    if len(session.spoken) < 2:
        return
    at = data.draw(st.integers(1, len(session.spoken) - 1))

    def swap(messages: Messages) -> None:
        messages[at], messages[at + 1] = messages[at + 1], messages[at]

    assert audited(session, swap)


def test_a_transcript_that_was_cut_is_no_synthesis() -> None:
    session = forked()
    assert session.reason == "synthesis"
    for length in range(1, len(session.spoken) + 1):
        assert audited(session, lambda messages, at=length: messages.__delitem__(slice(at, None)))  # type: ignore[misc]


def test_the_panel_is_what_was_selected_and_not_what_was_declared() -> None:
    session = play(rules(), panel=PANEL[1:])
    assert audited(session) == []
    assert breaches(session.machine.state.rules, PANEL, session.messages(), session.outcome_data())
