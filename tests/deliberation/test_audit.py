"""A finished transcript is held to the rules: what the machine makes passes, and what it would not have made is named."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deliberating import PANEL, Play, play, rules, some_plays, turn, usual, verdict
from hansard.deliberation.documents.breach import Breach
from hansard.deliberation.protocol.audit import breaches

requirement = pytest.mark.requirement
Messages = list[dict[str, Any]]


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


@requirement("R-4.10-3")
def test_a_round_without_its_coordination_turn_is_caught() -> None:
    [found] = audited(play(rules(), [turn(), turn(), turn(), verdict()]), lambda m: m.pop(4))
    assert found.rule == "R-4.10-3"


@requirement("R-4.8-4", "R-4.1-5")
@pytest.mark.parametrize(
    ("session", "reason"),
    [
        (play(rules()), "budget_exceeded"),
        (play(rules(), [turn(), turn(), turn(), verdict("request_user_input")]), "provider_unrecoverable"),
        (play(rules(max_rounds=1), lambda ask: verdict() if ask.expect == "verdict" else usual(ask)), "schema_error"),
    ],
)
def test_an_outcome_that_the_rules_do_not_lead_to_is_caught(session: Play, reason: str) -> None:
    [found] = audited(session, kind="termination", termination_artifact={"reason": reason})
    assert found.path == "/outcome"


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
