"""Runs that went through undisturbed: every decision comes out the same from the record alone, and nothing else is asked."""

import asyncio
import json
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from hansard.app.reruns.decisions import decisions
from hansard.app.reruns.phases import phases_of
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.domain.fact import Body
from hansard.domain.work import RunConfigured, RunRequested
from hansard.orchestration import roles
from hansard.orchestration.progress import progress_of
from hansard.orchestration.templates import Template
from hansard.providers.base import failure
from rerunning import DIAMOND, again, comes_out_the_same, picky
from running import (
    FINE,
    POOR,
    Answers,
    Said,
    completion,
    desk,
    fails,
    obliging,
    plan,
    roster,
    task,
    who,
)


async def test_every_decision_of_a_run_with_corrections_and_escalation_comes_out_the_same() -> None:
    told = Answers(picky)
    at = desk(told)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    made = len(told.calls)
    report = await comes_out_the_same(at, ended.run)
    assert report["miss"] is None
    assert report["decisions"] >= 12
    assert len(told.calls) == made


async def test_a_result_may_begin_like_the_reason_of_a_failure() -> None:
    at = desk(Answers(lambda each: "[None] found" if who(each)[0] == "worker" else obliging(each)))
    ended = await at.run(plan=plan(task("a"), task("b", "a")))
    await comes_out_the_same(at, ended.run)


async def test_a_run_that_was_asked_with_other_words_than_todays_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    with monkeypatch.context() as earlier:
        earlier.setattr(roles, "VALIDATOR", Template("validator/1", "You judge, as an earlier version said it."))
        ended = await at.run(plan=plan(task("a")))
    report = await again(at, ended.run)
    assert report["identical"] is False
    assert report["note"] == "our prompts have other words since (validator/1); nobody has answered these"


async def test_a_planned_run_and_a_classified_one_are_re_run_too() -> None:
    at = desk(Answers())
    planned = await at.run("make a plan of this")
    single = await at.run("qqq zzz", mode="single")
    assert (planned.state, single.state) == ("answered", "answered")
    for run in (planned.run, single.run):
        await comes_out_the_same(at, run)


async def test_failures_that_pass_and_failures_that_do_not_come_out_the_same() -> None:
    def flaky(exchange: Exchange) -> Said:
        role, about, attempt = who(exchange)
        if role == "worker" and about == "a" and attempt == 1:
            return fails("rate_limit", "slow down")
        if role == "worker" and about == "c":
            return fails("auth_failure", "no key")
        return obliging(exchange)

    at = desk(Answers(flaky))
    ended = await at.run(plan=DIAMOND)
    assert ended.state == "partial"
    await comes_out_the_same(at, ended.run)


@pytest.mark.parametrize(
    "said",
    [
        fails("auth_failure", "no key"),
        failure("rate_limit", "not today", retryable=False),
        failure("tool_failure", "try me again", retryable=True),
        completion("half of it", finish="error", failure=fails("internal", "the line broke")),
        failure("malformed_response", "more than anybody reads", retryable=False),
        completion("too long", finish="error", failure=failure("malformed_response", "9 bytes", retryable=False)),
    ],
)
async def test_what_a_failed_attempt_climbs_with_is_what_it_failed_with(said: Said) -> None:
    at = desk(Answers(), Answers(lambda _: said, id="bad"))
    ended = await at.run(plan=plan(task("a")), wishes=Wishes(roster=roster(alpha={"provider": "bad"})))
    assert ended.state == "answered"
    await comes_out_the_same(at, ended.run)


async def test_a_configuration_that_names_no_budget_has_none() -> None:
    at = desk(Answers(obliging))
    data = {name: value for name, value in at.config().as_data().items() if name != "budget"}
    written = Body.json(json.dumps({"tasks": [{"id": "a", "lane": "alpha", "instruction": "do it"}]}).encode())
    run = "by-hand"
    asked = await at.recorder.record(
        RunRequested(mode="plan", surface="cli", request=Body.text("please"), plan=written), actor="human:x", run=run
    )
    configured = RunConfigured(nonce="0" * 32, software="another", config=Body.json(json.dumps(data).encode()))
    await at.recorder.record(configured, actor="engine", run=run, causes=[asked])
    assert (await at.runs.drive(run)).state == "answered"
    await comes_out_the_same(at, run)


@pytest.mark.parametrize("role", ["validator", "intent_judge", "synthesizer"])
@pytest.mark.parametrize("kind", ["rate_limit", "auth_failure", "malformed_response"])
async def test_a_role_that_says_not_to_try_again_is_not_tried_again(role: str, kind: Any) -> None:
    def silent(exchange: Exchange) -> Said:
        return failure(kind, "not today", retryable=False) if who(exchange)[0] == role else obliging(exchange)

    at = desk(Answers(silent))
    config = replace(at.config(), judge_intent=True)
    run = await at.runs.submit("compare apples, pears and 17 plums", config, plan=plan(task("a"), task("b")))
    await at.runs.drive(run)
    assert {entry.data["turn"] for entry in at.entries(run, "role.asked") if entry.data["role"] == role} == {1}
    await comes_out_the_same(at, run)


async def test_which_of_two_lost_inputs_was_lost_first_is_no_decision() -> None:
    lost = asyncio.Event()

    async def late(said: Said) -> Said:
        await lost.wait()
        return said

    def says(exchange: Exchange) -> Any:
        role, about, _ = who(exchange)
        if role == "worker" and about == "b":
            lost.set()
        return late(fails("auth_failure")) if about == "a" else fails("auth_failure")

    at = desk(Answers(says))
    ended = await at.run(plan=plan(task("a"), task("b"), task("c", "a", "b")), wishes=Wishes(ladder=("told",)))
    [skipped] = at.entries(ended.run, "task.skipped")
    assert skipped.data["upstream"] == "b"
    await comes_out_the_same(at, ended.run)


async def test_a_rerun_goes_through_a_whole_run_beside_the_loop_on_which_others_are_driven() -> None:
    at = desk(Answers(), Answers(id="live"))
    run = await at.runs.submit("please", at.config(), plan=DIAMOND)
    await at.runs.drive(run)
    assert (await at.runs.retry(run, "b")).state == "answered"
    whole = {each.__code__: each.__name__ for each in (progress_of, phases_of, decisions)}
    on_the_loop: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in whole:
            on_the_loop.add(whole[frame.f_code])

    sys.setprofile(note)
    try:
        assert (await again(at, run, synthesizer="live"))["identical"] is True
    finally:
        sys.setprofile(None)
    assert on_the_loop == set()


async def test_a_task_that_was_retried_is_retried_again() -> None:
    at = desk(Answers())
    ended = await at.run(plan=DIAMOND)
    await at.runs.retry(ended.run, "b")
    report = await comes_out_the_same(at, ended.run)
    assert report["decisions"] > 12


def test_the_verdicts_that_these_tests_speak_of_differ() -> None:
    assert FINE["ok"] is not POOR["ok"]
