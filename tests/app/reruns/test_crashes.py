"""Runs whose drivers died: what a crash cut short is asked, counted and given up as it was then."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Exchange
from rerunning import DIAMOND, comes_out_the_same, picky, wordy
from running import (
    Answers,
    Desk,
    Ledger,
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


@pytest.mark.parametrize("tries", [1, 2])
async def test_a_budget_that_ended_just_before_another_kill_ends_again_behind_a_retry(tries: int) -> None:
    async def unable(exchange: Exchange) -> Said:
        if who(exchange)[:2] == ("worker", "a"):
            return fails("auth_failure")
        await asyncio.sleep(0.02)
        return "it is done"

    ledger = Ledger()
    at = desk(Answers(unable), store=ledger)
    config = at.config(Wishes(max_calls=2))
    config = replace(config, tuning=replace(config.tuning, restarts=0, tries=tries))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    await at.runs.drive(run)
    for killed in range(3, len(ledger.commits)):
        copy = ledger.until(killed)
        await desk(Answers(unable), store=copy).runs.drive(run)
        for commits in range(killed + 1, len(copy.commits)):
            retried = desk(Answers(unable), store=copy.until(commits))
            await retried.runs.retry(run, "a")
            await comes_out_the_same(retried, run, killed, commits)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wishes", [Wishes(judge="checks", answer="join"), Wishes(), Wishes(max_calls=6)])
async def test_a_run_that_was_killed_anywhere_and_then_retried_comes_out_the_same(wishes: Wishes) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b")), wishes=wishes)
    for commits in range(3, len(ledger.commits) + 1):
        retried = desk(Answers(), store=ledger.until(commits))
        await retried.runs.retry(ended.run, "a")
        await comes_out_the_same(retried, ended.run, commits)


@pytest.mark.parametrize("limit", [4, 5])
async def test_a_question_that_two_kills_cut_short_counts_twice_behind_a_retry(limit: int) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ended = await at.run(plan=plan(task("a")), wishes=Wishes(max_calls=limit))
    for killed in range(4, len(ledger.commits)):
        copy = ledger.until(killed)
        await desk(Answers(), store=copy).runs.drive(ended.run)
        for commits in range(killed + 1, len(copy.commits)):
            retried = desk(Answers(), store=copy.until(commits))
            await retried.runs.retry(ended.run, "a")
            await comes_out_the_same(retried, ended.run, killed, commits)


async def test_a_role_that_is_asked_again_after_a_retry_answers_what_it_answered_then() -> None:
    ledger = Ledger()
    at = desk(
        Answers(lambda each: fails("rate_limit") if who(each)[0] == "validator" else obliging(each)), store=ledger
    )
    ended = await at.run(plan=plan(task("a"), task("b")), wishes=Wishes(ladder=("told",)))
    for commits in range(3, len(ledger.commits)):
        retried = desk(Answers(), store=ledger.until(commits))
        await retried.runs.retry(ended.run, "b")
        await comes_out_the_same(retried, ended.run, commits)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [4, 5, 6])
@pytest.mark.parametrize("role", ["validator", "synthesizer"])
async def test_a_role_whose_last_answer_was_unusable_when_its_driver_was_killed(role: str, limit: int) -> None:
    def unusable(exchange: Exchange) -> Said:
        return completion("", finish="length") if who(exchange)[0] == role else obliging(exchange)

    ledger, wishes = Ledger(), Wishes(max_calls=limit, ladder=("told",))
    at = desk(Answers(unusable), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b", "a")), wishes=wishes)
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(unusable), store=ledger.until(commits))
        await resumed.runs.drive(ended.run)
        await comes_out_the_same(resumed, ended.run, commits)


async def test_a_run_that_crashed_anywhere_and_was_resumed_is_re_run_as_if_nothing_had_happened() -> None:
    ledger = Ledger()
    at = desk(Answers(picky), store=ledger)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "answered"
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(picky), store=ledger.until(commits))
        assert (await resumed.runs.drive(ended.run)).state == "answered"
        await comes_out_the_same(resumed, ended.run, commits)


@pytest.mark.parametrize("limit", [None, 1, 2, 4])
async def test_an_attempt_that_was_given_up_after_crashes_is_given_up_again(limit: int | None) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    config = at.config(Wishes(ladder=("told", "told:better"), max_calls=limit))
    config = replace(config, tuning=replace(config.tuning, restarts=0))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    await at.runs.drive(run)
    given_up = 0
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(), store=ledger.until(commits))
        await resumed.runs.drive(run)
        given_up += any("restarts" in resumed.text(each, "reasons") for each in rejected(resumed, run))
        await comes_out_the_same(resumed, run, commits)
    assert given_up


@pytest.mark.parametrize("limit", [None, 2, 6])
async def test_an_attempt_that_is_given_up_once_another_task_was_retried_is_given_up_again(limit: int | None) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    config = at.config(Wishes(max_calls=limit))
    config = replace(config, tuning=replace(config.tuning, restarts=0))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    await at.runs.drive(run)
    given_up = 0
    for commits in range(3, len(ledger.commits)):
        resumed = desk(Answers(), store=ledger.until(commits))
        await resumed.runs.retry(run, "c")
        given_up += any("restarts" in resumed.text(each, "reasons") for each in rejected(resumed, run))
        await comes_out_the_same(resumed, run, commits)
    assert given_up


@pytest.mark.parametrize("wishes", [Wishes(), Wishes(max_calls=4), Wishes(max_calls=9), Wishes(max_usd="1")])
@pytest.mark.parametrize("mode", ["request", "single", "plan"])
async def test_a_role_that_was_given_up_after_crashes_is_given_up_again(wishes: Wishes, mode: str) -> None:
    ledger = Ledger()
    at = desk(Answers(wordy), store=ledger)
    config = at.config(replace(wishes, judge_intent=True, revise=True))
    config = replace(config, tuning=replace(config.tuning, restarts=0))
    how: dict[str, Any] = {"plan": plan(task("a"), task("b"))} if mode == "plan" else {"mode": mode}
    run = await at.runs.submit("an odd request, zyx", config, **how)
    await at.runs.drive(run)
    given_up = 0
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(wordy), store=(copy := ledger.until(commits)))
        await resumed.runs.drive(run)
        if not [each for each in resumed.entries(run, "role.answered") if each.data.get("error") == "restarts"]:
            continue
        given_up += 1
        for cut in range(commits + 1, len(copy.commits) + 1):
            await comes_out_the_same(desk(store=copy.until(cut)), run, commits, cut)
    assert given_up


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [5, 6, 7])
async def test_what_earlier_drivers_asked_a_role_that_was_given_up_counts_as_it_did(limit: int) -> None:
    ledger = Ledger()
    at = desk(Answers(wordy), store=ledger)
    config = at.config(Wishes(max_calls=limit))
    config = replace(config, tuning=replace(config.tuning, restarts=1))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b")))
    await at.runs.drive(run)
    given_up = 0
    for killed in range(3, len(ledger.commits)):
        copy = ledger.until(killed)
        await desk(Answers(wordy), store=copy).runs.drive(run)
        for commits in range(killed + 1, len(copy.commits)):
            retried = desk(Answers(wordy), store=copy.until(commits))
            await retried.runs.drive(run)
            await retried.runs.retry(run, "a")
            given_up += any(each.data.get("error") == "restarts" for each in retried.entries(run, "role.answered"))
            await comes_out_the_same(retried, run, killed, commits)
    assert given_up


def rejected(at: Desk, run: str) -> list[Any]:
    return [entry for entry in at.entries(run, "task.judged") if not entry.data["ok"]]


async def test_a_rung_has_no_more_tries_after_a_crash_than_it_would_have_had() -> None:
    def overrun(exchange: Exchange) -> Said:
        return fails("rate_limit") if exchange.model is None and who(exchange)[0] == "worker" else obliging(exchange)

    ledger, ladder = Ledger(), Wishes(ladder=("told", "told:better"))
    at = desk(Answers(overrun), store=ledger)
    ended = await at.run(plan=plan(task("a")), wishes=ladder)
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(overrun), store=ledger.until(commits))
        assert (await resumed.runs.drive(ended.run)).state == "answered"
        answered = resumed.entries(ended.run, "task.returned")
        assert [entry.data["error"] for entry in answered if not entry.data["ok"]] == ["rate_limit"] * 3
        await comes_out_the_same(resumed, ended.run, commits)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("limit", [None, 6, 9])
@pytest.mark.parametrize("role", ["coordinator", "validator", "synthesizer"])
async def test_a_role_that_was_asked_from_its_first_turn_again_after_a_crash_answers_as_it_did_then(
    role: str, limit: int | None
) -> None:
    def failing(left: list[int]) -> Answers:
        def says(exchange: Exchange) -> Said:
            if who(exchange)[0] == role and left[0]:
                left[0] -= 1
                return fails("rate_limit") if left[0] else "I would rather not say"
            return obliging(exchange)

        return Answers(says)

    ledger = Ledger()
    settings = {"budget": {"max_calls": limit}} if limit else {}
    at = desk(failing([2]), store=ledger, settings=settings)
    ended = await at.run(plan=None if role == "coordinator" else plan(task("a")))
    for commits in range(2, len(ledger.commits)):
        resumed = desk(failing([0]), store=ledger.until(commits), settings=settings)
        if resumed.entries(ended.run, "run.ended"):
            continue
        await resumed.runs.resume(ended.run)
        await comes_out_the_same(resumed, ended.run, commits)


@pytest.mark.parametrize("role", ["validator", "synthesizer"])
async def test_what_a_crash_cut_short_is_counted_behind_whomever_a_budget_refused_before(role: str) -> None:
    def failing(left: list[int]) -> Answers:
        def says(exchange: Exchange) -> Said:
            if who(exchange)[:2] == ("worker", "a"):
                return fails("auth_failure")
            if who(exchange)[0] == role and left[0]:
                left[0] -= 1
                return fails("rate_limit") if left[0] else "I would rather not say"
            return obliging(exchange)

        return Answers(says)

    # What was lost and what the rest took make up the budget of the run. That of the lane ends before.
    wishes = Wishes(max_calls=4, ladder=("told", "told:better"), roster=roster(alpha={"budget": Budget(max_calls=1)}))
    ledger = Ledger()
    at = desk(failing([2]), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b", lane="beta")), wishes=wishes)
    refused = set[str]()
    for killed in range(3, len(ledger.commits)):
        resumed = desk(failing([0]), store=ledger.until(killed))
        await resumed.runs.drive(ended.run)
        refused |= {each.data.get("lane", "run") for each in resumed.entries(ended.run, "budget.breached")}
        await comes_out_the_same(resumed, ended.run, killed)
    assert refused == {"alpha", "run"}


async def test_an_attempt_that_is_given_up_behind_a_driver_that_did_nothing_is_given_up_again() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    config = at.config()
    config = replace(config, tuning=replace(config.tuning, restarts=0))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    await at.runs.drive(run)
    ledger = ledger.until(next(n for n in range(len(ledger.commits)) if ledger.until(n).head().size > 6))
    # The driver behind the first retry dies as soon as it has the run; the next one once it has given a up.
    for further in (1, 3):
        asked, at = len(ledger.commits) + 1, desk(Answers(), store=ledger)
        await at.runs.ask_to_retry(run, "b")
        await at.runs.drive(run)
        ledger = ledger.until(asked + further)
    at = desk(Answers(), store=ledger)
    assert len(at.entries(run, "task.judged")) == 1
    assert not at.entries(run, "task.restarted")
    await at.runs.ask_to_retry(run, "c")
    await at.runs.drive(run)
    await comes_out_the_same(at, run)
