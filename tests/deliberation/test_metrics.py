"""The fourteen figures, each from an artifact that was made to show it."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from deliberating import (
    Heard,
    Play,
    Room,
    config,
    configured,
    fails,
    play,
    rules,
    script,
    some_plays,
    synthesis,
    turn,
    usage,
    verdict,
)
from hansard.deliberation.documents.scripting import neutral_script
from hansard.deliberation.metrics import figures_of, metrics_of
from hansard.deliberation.protocol.machine import Machine
from hansard.deliberation.protocol.moves import Pause, Reading, Rested, Select, Selected
from hansard.deliberation.queued import longest_queue
from hansard.domain.exchange import Completion, Exchange
from hansard.errors import UsageError
from hansard.providers.scripted import Scripted

requirement = pytest.mark.requirement
ANSWERS: list[Heard] = [
    turn("ben", "cyd", "ada", tokens=100),
    turn("cyd", tokens=20),
    fails("network", tokens=900),
    turn(tokens=30),
    fails("auth_failure"),
    verdict(tokens=5),
    turn(tokens=10),
    turn(tokens=10),
    verdict("finalize", tokens=5),
    synthesis(tokens=7),
]


async def figures() -> dict[str, Any]:
    sitting = await Room().hold(config(on_agent_failure="continue_without"), ANSWERS)
    found = metrics_of(sitting.artifact)
    assert figures_of(sitting.artifact) == found
    return found


@requirement("R-7.9-1", "R-7.9-2", "R-7.9-3")
async def test_tokens_per_agent_in_all_and_per_model() -> None:
    found = await figures()
    assert {agent: each["total_tokens"] for agent, each in found["tokens_per_agent"].items()} == {
        "ada": 110,
        "ben": 60,
        "chair": 17,
    }
    assert found["tokens_cumulative"]["total_tokens"] == 187
    assert found["tokens_per_provider_model"]["fake/m"]["total_tokens"] == 187


@requirement("R-7.9-4", "R-7.9-5", "R-7.9-6")
async def test_cost_per_agent_in_all_and_per_model() -> None:
    found = await figures()
    assert found["cost_per_agent"]["ada"] == {"cost_usd": 0.00011}
    assert found["cost_cumulative"] == {"cost_usd": 0.000187}
    assert found["cost_per_provider_model"] == {"fake/m": {"cost_usd": 0.000187}}


@requirement("R-7.9-7", "R-7.9-8")
async def test_latency_and_participation() -> None:
    found = await figures()
    assert {each["latency_seconds"] for each in found["latency_per_invocation"]} == {5.0}
    said = [(each["message_id"], each["speaker"]) for each in found["latency_per_invocation"]]
    assert (len(said), said[0], said[-1]) == (9, ("msg-001", "ada"), ("msg-009", "chair"))
    # Neither a verdict nor what the runtime says is a turn.
    turns = [(each["round"], each["speaker"], each["count"]) for each in found["participation_per_round"]]
    assert turns == [(1, "ada", 1), (1, "ben", 2), (2, "ada", 1), (2, "ben", 1)]


@requirement("R-7.9-9", "R-7.9-10", "R-7.9-11", "R-7.9-12")
async def test_depth_queue_unroutable_requests_and_losses() -> None:
    found = await figures()
    assert found["branch_depth_max"] == 1
    assert found["schema_failure_count_per_agent"] == {"ada": 2}
    assert found["panel_contraction_count"] == [{"agent_id": "cyd", "reason": "provider_unrecoverable", "count": 1}]


@requirement("R-7.9-10")
@pytest.mark.parametrize(("requests", "longest"), [(1, 0), (2, 1), (4, 3), (12, 8)])
async def test_the_longest_queue(requests: int, longest: int) -> None:
    answers = [turn(*["ben", "cyd"] * 6, tokens=1)]
    answers[0].content["direct_requests"][requests:] = []
    sitting = await Room().hold(config(), [*answers, turn(), turn(), turn(), verdict("finalize"), synthesis()])
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == longest


@pytest.mark.parametrize(
    ("answers", "tokens"),
    [
        ([turn("ben", "cyd", "nobody", tokens=100)], 50),
        ([turn("ben", "cyd", "nobody"), turn(tokens=100)], 50),
        ([turn("ben", "cyd", "nobody"), fails("auth_failure")], 1_000),
    ],
)
async def test_what_was_asked_in_a_turn_that_ended_the_session_never_stood_in_the_queue(
    answers: list[Heard], tokens: int
) -> None:
    sitting = await Room().hold(config(budget={"max_total_tokens": tokens}, max_deferred_queue_length=1), answers)
    assert sitting.artifact["outcome"]["kind"] == "termination"
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 0


async def test_what_was_asked_before_somebody_failed_stood_in_the_queue() -> None:
    sitting = await Room().hold(config(), [turn("ben", "cyd"), turn(), fails("auth_failure")])
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 1


async def test_what_was_asked_in_a_turn_that_a_later_failure_ended_stood_in_the_queue_where_a_note_shows_it() -> None:
    answers: list[Heard] = [turn("ben", "nobody", "cyd"), turn(), fails("network", tokens=100)]
    sitting = await Room().hold(config(budget={"max_total_tokens": 50}), answers)
    assert sitting.reason == "budget_exceeded"
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 1


async def test_what_was_asked_before_the_host_ended_a_call_stood_in_the_queue() -> None:
    cancel = asyncio.Event()

    class Host(Scripted):
        async def complete(self, exchange: Exchange) -> Completion:
            if exchange.metadata["turn_index"] == 3:
                cancel.set()
                await asyncio.sleep(60)
            return await super().complete(exchange)

    spoken = Host(neutral_script(script([turn("ben", "cyd"), turn(), turn()])), id="fake")
    sitting = await Room().hold(config(), spoken, cancel=cancel)
    assert (sitting.reason, len(sitting.artifact["canonical_transcript"])) == ("user_cancel", 3)
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 1


async def test_a_request_whose_target_left_before_it_was_due_stood_in_the_queue() -> None:
    answers: list[Heard] = [turn("ben", "cyd"), turn(), turn(), fails("auth_failure"), verdict()]
    sitting = await Room().hold(config(on_agent_failure="continue_without"), answers)
    assert sitting.artifact["canonical_transcript"][1]["schema_failure"]
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 1


@pytest.mark.parametrize(
    ("answers", "retries"),
    [
        # Without retries no call can have failed before an answer, and what is told of does not breach the cap.
        ([turn("ben", "cyd"), turn(), fails("network", tokens=100)], 0),
        # Nor does an answer that took nothing, whatever failed before it.
        ([turn("ben", "cyd"), fails("network", tokens=30), turn(tokens=0), fails("network", tokens=100)], 1),
    ],
)
async def test_what_was_asked_before_an_answer_that_cannot_have_breached_the_cap_stood_in_the_queue(
    answers: list[Heard], retries: int
) -> None:
    given = config(budget={"max_total_tokens": 50}, per_agent_retry_budget=retries)
    sitting = await Room().hold(given, answers)
    assert sitting.reason == "budget_exceeded"
    assert metrics_of(sitting.artifact)["deferred_queue_length_max"] == 1


async def test_two_sessions_of_one_transcript_are_told_by_no_artifact_and_have_the_shorter_queue() -> None:
    lost, cap = fails("network", tokens=30), {"max_total_tokens": 50}
    cut: list[Heard] = [turn("ben", "cyd", tokens=10), lost, turn(tokens=15)]
    decided: list[Heard] = [turn("ben", "cyd", tokens=10), turn(tokens=15), lost]
    sittings = [await Room().hold(config(budget=cap), answers) for answers in (cut, decided)]
    assert [waited(play(rules(max_total_tokens=50), answers)) for answers in (cut, decided)] == [0, 1]
    assert sittings[0].artifact == sittings[1].artifact
    assert metrics_of(sittings[0].artifact)["deferred_queue_length_max"] == 0


def waited(session: Play) -> int:
    """How many requests waited at most, by the queue of the machine itself."""
    again, lengths = Machine(session.machine.state.rules), [0]
    step, heard = again.begin(Reading()), iter(session.heard)
    while again.outcome is None:
        match step.move:
            case Select():
                step = again.send(Selected(reading=Reading(), panel=session.machine.state.panel))
            case Pause():
                step = again.send(Rested(reading=Reading()))
            case _:
                step = again.send(next(heard))
        lengths.append(len(again.state.queue))
    return max(lengths)


@requirement("R-7.9-10")
@given(some_plays(), st.booleans())
def test_the_transcript_tells_how_many_waited_at_most(session: Play, as_the_reference: bool) -> None:
    given, messages = session.machine.state.rules, session.messages()
    may_have_failed = given.retries or any(each["type"] == "panel_contraction" for each in messages)
    # What a failed call took, or an answer, may have ended it: which, no transcript says.
    assume(session.reason != "budget_exceeded" or messages[-1]["type"] != "branch_turn" or not may_have_failed)
    for message in messages if as_the_reference else []:
        if message["type"] == "panel_contraction":
            message["branch_depth"] = 0
            del message["parent_id"]
    reason = None if session.reason == "synthesis" else session.reason
    assert longest_queue(messages, configured(given).as_data(), reason) == waited(session)


async def test_an_answer_to_a_message_that_is_not_there_has_no_figures() -> None:
    sitting = await Room().hold(config(), ANSWERS[:2])
    sitting.artifact["canonical_transcript"][2]["parent_id"] = "msg-999"
    with pytest.raises(UsageError, match="has no message 'msg-999'"):
        metrics_of(sitting.artifact)


@requirement("R-7.9-13", "R-7.9-14")
async def test_the_outcome_and_whether_usage_was_estimated() -> None:
    found = await figures()
    assert (found["outcome_kind"], found["termination_reason"], found["usage_estimated"]) == ("synthesis", None, False)
    stopped = await Room().hold(config(), [fails("auth_failure")])
    assert metrics_of(stopped.artifact)["termination_reason"] == "provider_unrecoverable"
    guessed = replace(turn(), usage={**usage(), "estimated": True})
    told = await Room().hold(config(), [guessed, fails("auth_failure")])
    assert metrics_of(told.artifact)["usage_estimated"] is True


@requirement("R-9.9-1")
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("prompt_tokens", 1),
        ("completion_tokens", 1),
        ("total_tokens", 1),
        ("cost_usd", 0.000002),
        ("cost_usd", -0.000002),
    ],
)
async def test_an_artifact_whose_sums_are_wrong_has_no_figures(name: str, more: float) -> None:
    artifact = (await Room().hold(config(), ANSWERS)).artifact
    artifact["cumulative_usage"][name] += more
    with pytest.raises(UsageError, match=f"{name} is not the sum over its messages"):
        metrics_of(artifact)
