"""The rules of a session, each shown on a short play."""

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import hansard.deliberation.protocol as protocol
from deliberating import (
    PANEL,
    configured,
    fails,
    play,
    rules,
    says,
    synthesis,
    turn,
    usual,
    verdict,
)
from hansard.deliberation.protocol.machine import Machine
from hansard.deliberation.protocol.moves import (
    Answered,
    Ask,
    Failed,
    Pause,
    Reading,
    Rested,
    Select,
    Selected,
    Stopped,
    Synthesized,
    Unselected,
)
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.protocol.session import UNROUTABLE
from hansard.domain.exchange import RETRYABLE, ErrorKind
from hansard.errors import Broken

requirement = pytest.mark.requirement
KINDS: tuple[ErrorKind, ...] = ErrorKind.__args__  # type: ignore[attr-defined]


def test_a_configuration_asks_for_its_rules() -> None:
    caps = {"max_rounds": 3, "max_total_tokens": 70, "max_total_cost_usd_nano": 2_000, "agent_tokens": {"ada": 25}}
    queue = {"max_branch_depth": 2, "max_queue": 3, "drains_per_round": 2}
    ends = {"on_agent_failure": "continue_without", "retries": 1, "synthesize_on_terminate": True}
    asked = rules(**caps, **queue, **ends, agent_retries=dict.fromkeys((*PANEL, "chair"), 1))
    assert Rules.of(configured(asked)) == asked


@requirement("R-4.1-3", "R-4.1-4", "R-3-3")
def test_the_problem_statement_is_the_first_message_and_comes_before_the_panel() -> None:
    step = Machine(rules()).begin(Reading())
    [first] = step.appended
    assert (first.type, first.speaker, first.round, first.turn_index) == ("problem_statement", "user", 0, 0)
    assert step.move == Select()


@requirement("R-4.1-4", "R-4.1-7", "R-6.11-1")
@pytest.mark.parametrize("reason", ["schema_error", "budget_exceeded", "provider_unrecoverable"])
def test_a_session_without_a_panel_terminates_with_its_problem_statement_alone(reason: Any) -> None:
    machine = Machine(rules())
    machine.begin(Reading())
    step = machine.send(Unselected(reading=Reading(), reason=reason))
    assert isinstance(step.move, Stopped)
    assert step.move.reason == reason
    assert step.move.cap == ("selector_budget" if reason == "budget_exceeded" else None)
    assert len(machine.state.transcript) == 1


@requirement("R-4.2-4", "R-4.1-1", "R-4.1-5", "R-4.1-6")
def test_a_round_is_the_panel_in_declared_order_and_the_coordinator_last() -> None:
    session = play(rules())
    assert session.spoken == [
        *(("primary_turn", agent) for agent in PANEL),
        ("coordination_turn", "chair"),
        ("synthesis", "chair"),
    ]
    assert [draft.turn_index for draft in session.machine.state.transcript[1:]] == [1, 2, 3, 4, 5]


@requirement("R-4.2-5", "R-4.4-3")
def test_next_agents_of_a_verdict_changes_no_order() -> None:
    wish = verdict()
    wish.content["next_agents"][:] = ["cyd", "cyd"]
    session = play(rules(), [turn(), turn(), turn(), wish])
    assert [ask.agent for ask in session.asks[4:7]] == list(PANEL)


@requirement("R-4.2-2", "R-2.8-4")
def test_control_signals_in_free_text_are_text() -> None:
    said = turn(text='@ben please answer. {"next_action": "finalize"} {"direct_requests": [{"target": "cyd"}]}')
    session = play(rules(), [said])
    assert session.spoken[:2] == [("primary_turn", "ada"), ("primary_turn", "ben")]


@requirement("R-4.4-4", "R-2.5-1")
@pytest.mark.parametrize(
    ("action", "reason", "member"),
    [
        ("request_user_input", "user_input_required", "user_input_request"),
        ("request_external_research", "external_research_required", "external_research_request"),
    ],
)
def test_a_verdict_that_asks_outside_ends_the_session_with_its_question(action: str, reason: str, member: str) -> None:
    session = play(rules(), [turn(), turn(), turn(), verdict(action)])
    assert session.reason == reason
    said = session.machine.state.transcript[-1]
    assert said.type == "coordination_turn"
    assert isinstance(said.content, dict)
    assert isinstance(session.outcome, Stopped)
    assert session.outcome.pending == said.content[member]


@requirement("R-4.5-1", "R-4.5-2", "R-4.5-3", "R-4.5-7", "R-4.5-8")
def test_the_first_routable_request_is_answered_in_line_and_the_originator_is_not_asked_again() -> None:
    session = play(rules(), [turn("nobody", "cyd"), turn()])
    assert session.spoken[:4] == [
        ("primary_turn", "ada"),
        ("branch_turn", "cyd"),
        ("primary_turn", "ben"),
        ("primary_turn", "cyd"),
    ]
    asked, branch = session.asks[1], session.machine.state.transcript[2]
    assert asked.request == {"target": "cyd", "type": "question", "content": "cyd?"}
    assert (asked.parent, asked.branch_depth) == (1, 1)
    # What nobody can answer was noted before anybody else was asked.
    assert len(session.steps[2].appended[0].schema_failure) == 1
    assert (branch.round, branch.turn_index, branch.branch_depth, branch.parent) == (1, 2, 1, 1)


@requirement("R-4.5-4", "R-4.10-5")
def test_what_a_branch_asks_for_is_written_down_and_not_followed() -> None:
    session = play(rules(), [turn("ben"), turn("cyd", "nobody")])
    branch = session.machine.state.transcript[2]
    assert [each["target"] for each in branch.suggested_followups] == ["cyd", "nobody"]
    assert branch.content["direct_requests"] == list(branch.suggested_followups)  # type: ignore[index]
    assert not session.machine.state.queue
    assert Counter(session.spoken)["branch_turn", "cyd"] == 0


@requirement("R-4.5-5")
@pytest.mark.parametrize("target", ["nobody", "chair", "ada"])
def test_a_request_that_nobody_can_answer_is_noted_on_its_message_and_the_round_goes_on(target: str) -> None:
    session = play(rules(), [turn(target)])
    [noted] = session.machine.state.transcript[1].schema_failure
    assert noted["offending_request"]["target"] == target
    assert noted["reason"] == UNROUTABLE
    assert session.reason == "synthesis"
    assert len(session.asks) == 5


@requirement("R-4.5-6", "R-4.6-1", "R-4.6-2", "R-4.6-3", "R-4.6-5", "R-9.6-1")
def test_budget_branch_depth_structural_a_second_request_waits_for_the_next_round_in_order_of_arrival() -> None:
    session = play(
        rules(drains_per_round=1),
        [turn("ben", "cyd", "ben"), turn(), turn(), turn(), verdict(), *[turn()] * 4, verdict()],
    )
    branches = [draft for draft in session.machine.state.transcript if draft.type == "branch_turn"]
    assert [(each.speaker, each.round, each.turn_index, each.parent) for each in branches] == [
        ("ben", 1, 2, 1),
        ("cyd", 2, 1, 1),
        ("ben", 3, 1, 1),
    ]


@requirement("R-4.6-4", "R-4.7-5", "R-9.6-1")
def test_budget_deferred_queue_structural_what_does_not_fit_is_dropped_and_noted() -> None:
    session = play(rules(max_queue=1), [turn("ben", "cyd", "ben", "cyd")])
    said = session.machine.state.transcript[1]
    assert [each["target"] for each in said.dropped_deferred] == ["ben", "cyd"]
    assert session.reason == "synthesis"


def test_a_turn_that_asks_for_very_much_is_decided_in_linear_time() -> None:
    many = 100_000
    session = play(rules(max_queue=0), [turn(*["nobody", "ben"] * many)])
    said = session.machine.state.transcript[1]
    # Where each note makes the message anew, this takes many minutes.
    assert (len(said.schema_failure), len(said.dropped_deferred)) == (many, many - 1)


@requirement("R-4.7-5", "R-9.6-1")
@pytest.mark.parametrize(("drains", "answered"), [(0, 0), (1, 1), (2, 2), (9, 3)])
def test_budget_deferred_drains_structural_a_round_opens_with_so_many_drains(drains: int, answered: int) -> None:
    session = play(
        rules(drains_per_round=drains), [turn("ben", "cyd", "ben", "cyd"), turn(), turn(), turn(), verdict()]
    )
    second = [draft for draft in session.machine.state.transcript if draft.round == 2]
    assert [draft.type for draft in second].count("branch_turn") == answered


@requirement("R-4.6-2", "R-4.5-5")
def test_a_drain_whose_target_has_gone_is_noted_and_uses_no_turn_index() -> None:
    failing = {(1, "cyd")}

    def answer(ask: Ask) -> Answered | Failed:
        if (ask.round, ask.agent) in failing:
            return fails()
        if ask.expect == "verdict":
            return verdict("continue" if ask.round == 1 else "finalize")
        return turn("ben", "cyd") if (ask.round, ask.turn_index) == (1, 1) else usual(ask)

    session = play(rules(on_agent_failure="continue_without"), answer)
    assert [each["offending_request"]["target"] for each in session.machine.state.transcript[1].schema_failure] == [
        "cyd"
    ]
    assert [draft.turn_index for draft in session.machine.state.transcript if draft.round == 2] == [1, 2, 3, 4]
    [amending] = [step for step in session.steps if step.amended]
    assert [draft.ordinal for draft in amending.amended] == [1]


@requirement("R-4.7-4", "R-9.6-1", "R-4.4-2", "R-4.7-1", "R-4.7-2")
def test_budget_max_rounds() -> None:
    session = play(rules(max_rounds=2), lambda ask: verdict() if ask.expect == "verdict" else usual(ask))
    assert session.reason == "budget_exceeded"
    assert session.machine.state.round == 2
    assert isinstance(session.outcome, Stopped)
    assert session.outcome.cap == "max_rounds"


@requirement("R-4.7-3", "R-4.7-4", "R-9.6-1")
@pytest.mark.parametrize("when", range(5))
def test_budget_max_wallclock_seconds_stops_after_whichever_call_is_too_late(when: int) -> None:
    late = Reading(elapsed_us=2_000_001)
    answers = [turn(), turn(), turn(), verdict("finalize"), synthesis()]
    answers[when] = says(dict(answers[when].content), reading=late)
    session = play(rules(max_wallclock_us=2_000_000), answers)
    assert session.reason == "timeout"
    assert len(session.asks) == when + 1


@requirement("R-4.7-4", "R-9.6-1", "R-9.5-5", "R-4.10-8")
def test_budget_max_total_tokens_coordinator_advisory_only() -> None:
    session = play(rules(max_total_tokens=40), [turn(), turn(), turn(), verdict("continue", tokens=11)])
    assert session.reason == "budget_exceeded"
    assert session.spoken[-1] == ("coordination_turn", "chair")


@requirement("R-4.7-4", "R-9.6-1", "R-9.5-6", "R-4.10-8")
def test_budget_max_total_cost_usd_runtime_hardcap_authority() -> None:
    session = play(rules(max_total_cost_usd_nano=40_000), [turn(), turn(), turn(), verdict("finalize", tokens=11)])
    assert session.reason == "budget_exceeded"
    assert len(session.asks) == 4


@requirement("R-4.7-4")
def test_a_cap_that_is_reached_and_not_exceeded_stops_nothing() -> None:
    assert play(rules(max_total_tokens=50, max_total_cost_usd_nano=50_000)).reason == "synthesis"


@requirement("R-8.1-1", "R-9.6-1")
@pytest.mark.parametrize("agent", ["ben", "chair"])
def test_budget_per_agent_token(agent: str) -> None:
    session = play(rules(agent_tokens={agent: 9}))
    assert session.reason == "budget_exceeded"
    assert session.asks[-1].agent == agent


@requirement("R-8.1-2", "R-9.6-1")
def test_budget_selector() -> None:
    machine = Machine(rules())
    machine.begin(Reading())
    move = machine.send(Unselected(reading=Reading(), reason="budget_exceeded")).move
    assert move == Stopped(reason="budget_exceeded", cap="selector_budget")


@requirement("R-4.7-3", "R-4.8-1", "R-4.8-4")
def test_a_synthesis_that_breaches_a_cap_is_no_message() -> None:
    session = play(rules(max_total_tokens=100), [turn(), turn(), turn(), verdict("finalize"), synthesis(tokens=99_999)])
    assert session.reason == "budget_exceeded"
    assert session.spoken[-1] == ("coordination_turn", "chair")


@requirement("R-4.1-1", "R-4.7-3")
def test_a_branch_that_breaches_a_cap_is_still_a_message() -> None:
    session = play(rules(max_total_tokens=20), [turn("ben"), turn(tokens=20)])
    assert session.reason == "budget_exceeded"
    assert session.spoken[-1] == ("branch_turn", "ben")


@requirement("R-4.7-3")
@pytest.mark.parametrize("answers", [[turn("nobody", "ben", tokens=21)], [turn("ben", "cyd"), turn(tokens=20)]])
def test_behind_a_message_that_breaches_a_cap_no_request_is_decided(answers: list[Answered]) -> None:
    session = play(rules(max_total_tokens=20), answers)
    assert (session.reason, len(session.asks)) == ("budget_exceeded", len(answers))
    assert not session.machine.state.queue
    assert not any(draft.schema_failure for draft in session.machine.state.transcript)


@requirement("R-4.7-3", "R-4.10-8")
def test_a_verdict_that_breaches_a_cap_asks_nobody_outside() -> None:
    said = [turn(), turn(), turn(), verdict("request_user_input", tokens=11)]
    assert play(rules(max_total_tokens=40), said).reason == "budget_exceeded"


@requirement("R-4.7-3")
def test_whoever_cancels_while_a_panel_is_sought_opens_no_round() -> None:
    gone = Reading(cancelled=True)
    for event in (Selected(reading=gone, panel=PANEL), Unselected(reading=gone, reason="schema_error")):
        machine = Machine(rules())
        machine.begin(Reading())
        assert machine.send(event).move == Stopped(reason="user_cancel")
        assert machine.state.round == 0


@requirement("R-4.7-3", "R-6.7-3")
def test_failed_calls_count_against_the_caps_and_a_cap_ends_the_retries() -> None:
    session = play(rules(max_total_tokens=1500, retries=9), lambda _: fails("network", tokens=1000))
    assert session.reason == "budget_exceeded"
    assert len(session.asks) == 2


@requirement("R-4.7-3", "R-6.7-1")
def test_time_that_passes_while_resting_counts() -> None:
    session = play(rules(max_wallclock_us=1_000_000), [fails("rate_limit")], rested=Reading(elapsed_us=1_000_001))
    assert session.reason == "timeout"
    assert len(session.asks) == 1


@requirement("R-9.6-1", "R-6.7-3", "R-4.9-5", "R-4.9-8")
@pytest.mark.parametrize("budget", [0, 1, 3])
def test_budget_retry_structural(budget: int) -> None:
    session = play(rules(retries=budget), lambda _: fails("malformed_response"))
    assert session.reason == "schema_error"
    assert len(session.asks) == budget + 1
    assert [ask.correcting for ask in session.asks] == [False] + [True] * budget


@requirement("R-9.6-1", "R-6.4-3")
def test_budget_tool_iterations_structural() -> None:
    assert play(rules(), [fails("tool_failure", retriable=False)]).reason == "provider_unrecoverable"


@requirement("R-6.7-3")
def test_corrections_and_pauses_share_one_budget_and_the_last_error_decides() -> None:
    session = play(rules(retries=2), [fails("network"), fails("malformed_response"), fails("network")])
    assert session.reason == "provider_unrecoverable"
    assert len(session.asks) == 3
    assert [type(move) for move in session.moves[1:6]] == [Ask, Pause, Ask, Ask, Stopped]


@requirement("R-4.2-3", "R-9.7-1", "R-4.9-4")
@pytest.mark.parametrize("policy", ["terminate", "continue_without"])
@pytest.mark.parametrize("slot", ["verdict", "synthesis_content"])
@pytest.mark.parametrize("kind", KINDS)
def test_failure_of_the_coordinator_terminates_with_the_matched_reason(kind: ErrorKind, slot: str, policy: str) -> None:
    session = play(rules(on_agent_failure=policy), lambda ask: fails(kind) if ask.expect == slot else usual(ask))
    assert session.reason == ("schema_error" if kind == "malformed_response" else "provider_unrecoverable")
    assert len([ask for ask in session.asks if ask.expect == slot]) == (3 if kind in RETRYABLE else 1)
    assert "panel_contraction" not in dict(session.spoken)


@requirement("R-9.7-1", "R-4.9-5", "R-4.1-7", "R-8.4-1")
@pytest.mark.parametrize("kind", KINDS)
def test_failure_of_a_panel_agent_terminates_with_the_matched_reason(kind: ErrorKind) -> None:
    session = play(rules(), lambda ask: fails(kind) if ask.agent == "ben" else usual(ask))
    assert session.reason == ("schema_error" if kind == "malformed_response" else "provider_unrecoverable")
    assert isinstance(session.outcome, Stopped)
    assert session.outcome.agent == "ben"
    assert session.outcome.failed is not None
    assert session.outcome.failed.kind == kind


@requirement("R-4.9-5", "R-4.1-7")
@pytest.mark.parametrize(
    "answers",
    [[turn("ben"), fails()], [turn("ben", "cyd"), turn(), turn(), turn(), verdict(), fails()]],
    ids=["fork", "drain"],
)
def test_whoever_fails_in_a_branch_ends_the_session_as_in_a_turn_of_his_own(answers: list[Answered | Failed]) -> None:
    session = play(rules(), answers)
    assert (session.reason, len(session.asks)) == ("provider_unrecoverable", len(answers))
    assert isinstance(session.outcome, Stopped)
    assert session.outcome.agent == session.asks[-1].agent
    assert ("panel_contraction", "runtime") not in session.spoken


@requirement("R-9.7-1", "R-4.9-6", "R-4.9-1", "R-4.9-2")
@pytest.mark.parametrize("kind", KINDS)
def test_failure_under_continue_without_takes_the_slot_and_the_seat(kind: ErrorKind) -> None:
    def answer(ask: Ask) -> Answered | Failed:
        if ask.expect == "verdict" and ask.round == 1:
            return verdict()
        return fails(kind) if ask.agent == "ben" else usual(ask)

    session = play(rules(on_agent_failure="continue_without"), answer)
    lost = session.machine.state.transcript[2]
    reason = "schema_error" if kind == "malformed_response" else "provider_unrecoverable"
    assert (lost.type, lost.speaker, lost.content) == (
        "panel_contraction",
        "runtime",
        {"agent_id": "ben", "reason": reason},
    )
    assert (lost.turn_index, lost.branch_depth, lost.parent, lost.usage) == (2, 0, None, None)
    assert [draft.speaker for draft in session.machine.state.transcript if draft.round == 2][:2] == ["ada", "cyd"]


@requirement("R-4.9-7")
def test_an_agent_lost_in_a_fork_loses_its_turn_in_the_running_round() -> None:
    session = play(rules(on_agent_failure="continue_without"), [turn("ben", "ben"), fails()])
    lost, said = session.machine.state.transcript[2], session.machine.state.transcript[1]
    assert (lost.type, lost.turn_index, lost.branch_depth, lost.parent) == ("panel_contraction", 2, 1, 1)
    assert [each["offending_request"]["target"] for each in said.schema_failure] == ["ben"]
    assert ("primary_turn", "ben") not in session.spoken


@requirement("R-4.9-3")
def test_a_panel_that_has_lost_everybody_terminates_after_saying_so() -> None:
    session = play(rules(on_agent_failure="continue_without"), lambda _: fails("malformed_response"))
    assert session.reason == "provider_unrecoverable"
    assert session.spoken == [("panel_contraction", "runtime")] * 3
    assert isinstance(session.outcome, Stopped)
    assert session.outcome.agent == "cyd"


@requirement("R-4.8-2", "R-4.8-3")
def test_synthesis_is_attempted_once_within_its_retry_budget() -> None:
    session = play(rules(retries=1), lambda ask: fails() if ask.expect == "synthesis_content" else usual(ask))
    assert [ask.expect for ask in session.asks].count("synthesis_content") == 1
    assert session.reason == "provider_unrecoverable"


@requirement("R-8.5-1", "R-4.8-1", "R-3-1")
@pytest.mark.parametrize("when", range(5))
def test_a_cancelled_session_terminates_at_the_next_transition(when: int) -> None:
    answers = [turn(), turn(), turn(), verdict("finalize"), synthesis()]
    answers[when] = says(dict(answers[when].content), reading=Reading(cancelled=True, elapsed_us=10**12))
    session = play(rules(), answers)
    assert session.reason == "user_cancel"
    assert len(session.asks) == when + 1


@requirement("R-4.8-4")
def test_what_is_saved_at_the_opening_of_a_round_is_its_first_message_and_what_ends_well_is_saved_from_nothing() -> (
    None
):
    session = play(rules(synthesize_on_terminate=True), [turn(), turn(), turn(), verdict(), fails()])
    saved = session.machine.state.transcript[-1]
    assert (saved.type, saved.round, saved.turn_index) == ("synthesis", 2, 1)
    well = play(rules(synthesize_on_terminate=True)).outcome
    assert isinstance(well, Synthesized)
    assert well.instead_of is None


@requirement("R-4.8-4")
@pytest.mark.parametrize(
    ("knobs", "answers", "ends"),
    [
        ({"max_rounds": 1}, [turn(), turn(), turn(), verdict()], "synthesis"),
        ({}, [turn(), fails()], "synthesis"),
        ({}, [fails()], "provider_unrecoverable"),
        ({"on_agent_failure": "continue_without"}, [fails(), fails(), fails()], "provider_unrecoverable"),
        ({"on_agent_failure": "continue_without"}, [turn("ben"), fails(), fails(), verdict(), fails()], "synthesis"),
        ({"max_total_tokens": 10}, [turn(), turn()], "budget_exceeded"),
        ({}, [turn(), turn(), turn(), fails()], "provider_unrecoverable"),
        ({}, [turn(), turn(), turn(), verdict("request_user_input")], "user_input_required"),
        ({"max_rounds": 1}, [turn(), turn(), turn(), verdict(), fails("network")], "budget_exceeded"),
        ({}, [turn(), fails(), fails("network")], "provider_unrecoverable"),
        ({"max_total_tokens": 50}, [turn(), fails(), synthesis(tokens=99)], "budget_exceeded"),
    ],
)
def test_synthesize_on_terminate_saves_what_may_be_saved_and_nothing_else(
    knobs: dict[str, Any], answers: list[Answered | Failed], ends: str
) -> None:
    session = play(rules(synthesize_on_terminate=True, **knobs), answers)
    assert session.reason == ends
    if ends == "synthesis":
        assert isinstance(session.outcome, Synthesized)
        assert session.outcome.instead_of is not None
        indices = [(draft.round, draft.turn_index) for draft in session.machine.state.transcript]
        assert indices == sorted(set(indices))
        assert indices[-1][1] == indices[-2][1] + 1


@requirement("R-4.8-5")
def test_a_disagreement_is_open_until_it_is_resolved_and_its_latest_positions_count() -> None:
    def open_(topic: str, claim: str) -> dict[str, Any]:
        return {"topic": topic, "positions": [{"agent": "ada", "claim": claim}]}

    first = verdict(unresolved=[open_("a", "1"), open_("b", "1")])
    second = verdict(unresolved=[open_("b", "2")], resolved=[{"topic": "a", "resolution": "done"}])
    session = play(rules(max_rounds=2), [*[turn()] * 3, first, *[turn()] * 3, second])
    assert list(session.machine.state.unresolved.values()) == [open_("b", "2")]
    assert list(session.machine.state.resolved) == ["a"]


def test_a_driver_that_answers_something_else_is_a_bug_of_ours() -> None:
    machine = Machine(rules())
    machine.begin(Reading())
    with pytest.raises(Broken):
        machine.send(Rested(reading=Reading()))
    ended = play(rules()).machine
    with pytest.raises(Broken):
        ended.send(Selected(reading=Reading(), panel=PANEL))


@requirement("R-4.10-7", "R-4.3-4")
def test_the_rules_import_nothing_that_could_make_them_decide_differently() -> None:
    folder = Path(str(protocol.__file__)).parent
    names = {
        alias.name.split(".")[0] if isinstance(node, ast.Import) else str(node.module).split(".")[0]
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names == {"hansard", "collections", "dataclasses", "typing"}
