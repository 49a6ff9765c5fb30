"""The nine invariants of §4.10, each on plays that nobody chose."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given

from deliberating import Play, play, some_plays
from hansard.deliberation.protocol.moves import Ask, Pause, Select, Stopped, Synthesized

requirement = pytest.mark.requirement


@requirement("R-4.10-1", "R-3-2", "R-6.1-4", "R-9.5-1")
@given(some_plays())
def test_single_threaded(session: Play) -> None:
    """A step holds one move: there is no way to ask for two calls at once."""
    assert all(isinstance(step.move, Select | Ask | Pause | Stopped | Synthesized) for step in session.steps)
    assert len(session.asks) == len(session.heard)


@requirement("R-4.10-2", "R-9.5-1", "R-5.10-1")
@given(some_plays())
def test_declared_order(session: Play) -> None:
    state = session.machine.state
    for number in range(1, state.round + 1):
        speakers = [
            draft.speaker for draft in state.transcript if draft.round == number and draft.type == "primary_turn"
        ]
        assert speakers == [agent for agent in state.panel if agent in speakers]
    places = [(draft.round, draft.turn_index) for draft in state.transcript]
    assert places == sorted(set(places))


@requirement("R-4.10-3", "R-4.2-1", "R-9.5-1")
@given(some_plays())
def test_coordinator_last(session: Play) -> None:
    state = session.machine.state
    for number in range(1, state.round + 1):
        types = [draft.type for draft in state.transcript if draft.round == number]
        closing = [at for at, type in enumerate(types) if type == "coordination_turn"]
        assert len(closing) == (1 if number < state.round else len(closing)) <= 1
        assert not closing or types[closing[0] + 1 :] in ([], ["synthesis"])


@requirement("R-4.10-4", "R-9.5-1")
@given(some_plays())
def test_branch_closure_before_round_advance(session: Play) -> None:
    """A branch directly follows its parent, or is a drain at the opening of its round."""
    transcript = session.machine.state.transcript
    for at, draft in enumerate(transcript):
        if draft.branch_depth:
            assert draft.parent is not None
            in_line = draft.parent == at - 1 and transcript[at - 1].round == draft.round
            opening = all(each.branch_depth for each in transcript[:at] if each.round == draft.round)
            assert in_line or (opening and transcript[draft.parent].round < draft.round)


@requirement("R-4.10-5", "R-4.5-4", "R-9.5-1")
@given(some_plays())
def test_no_b_to_c(session: Play) -> None:
    transcript = session.machine.state.transcript
    for draft in transcript:
        if draft.parent is not None:
            assert transcript[draft.parent].type == "primary_turn"
        if draft.type == "branch_turn":
            assert list(draft.suggested_followups) == list(draft.content.get("direct_requests", []))  # type: ignore[union-attr]
            assert not draft.dropped_deferred
            assert not draft.schema_failure


@requirement("R-4.10-6", "R-9.5-1")
@given(some_plays())
def test_no_transcript_reinjection(session: Play) -> None:
    """What was appended stays as it is, but for annotations that grow."""
    seen: list[Any] = []
    for step in session.steps:
        for draft in step.amended:
            before = seen[draft.ordinal]
            assert (draft.content, draft.usage, draft.parent) == (before.content, before.usage, before.parent)
            for name in ("suggested_followups", "dropped_deferred", "schema_failure"):
                assert getattr(draft, name)[: len(getattr(before, name))] == getattr(before, name)
            seen[draft.ordinal] = draft
        assert [draft.ordinal for draft in step.appended] == list(range(len(seen), len(seen) + len(step.appended)))
        seen += step.appended
    assert seen == session.machine.state.transcript


@requirement("R-4.10-7", "R-9.5-1")
@given(some_plays())
def test_scheduler_deterministic(session: Play) -> None:
    again = play(session.machine.state.rules, session.heard, panel=session.machine.state.panel)
    assert again.moves == session.moves
    assert again.machine.state.transcript == session.machine.state.transcript


@requirement("R-4.10-8", "R-4.2-6", "R-9.5-1")
@given(some_plays())
def test_hard_cap_supremacy(session: Play) -> None:
    """No call is made once what was spent exceeds a cap."""
    state, spent, per_agent = session.machine.state, [0, 0], Counter[str]()
    for ask, heard in zip(session.asks, session.heard, strict=True):
        assert spent[0] <= state.rules.max_total_tokens
        assert spent[1] <= state.rules.max_total_cost_usd_nano
        assert all(per_agent[agent] <= limit for agent, limit in state.rules.agent_tokens.items())
        assert ask.round <= state.rules.max_rounds
        spent[0] += heard.spent.tokens
        spent[1] += heard.spent.cost_usd_nano
        per_agent[ask.agent] += heard.spent.tokens
    over = spent[0] > state.rules.max_total_tokens or spent[1] > state.rules.max_total_cost_usd_nano
    assert not over or session.reason == "budget_exceeded"


@requirement("R-4.8-4", "R-4.10-9", "R-9.5-1")
@given(some_plays())
def test_canonical_transcript_sole_truth(session: Play) -> None:
    """The transcript tells the outcome, the queue and the panel that is left."""
    state = session.machine.state
    assert (state.transcript[-1].type == "synthesis") == isinstance(session.outcome, Synthesized)
    lost = {draft.content["agent_id"] for draft in state.transcript if draft.type == "panel_contraction"}  # type: ignore[index]
    assert state.active == tuple(agent for agent in state.panel if agent not in lost)
    assert len(state.queue) <= state.rules.max_queue
