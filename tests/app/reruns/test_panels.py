"""Runs in which panels met: what their sessions took counts again, whatever became of them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Exchange
from hansard.orchestration.gates import read_rules
from hansard.providers.base import failure
from panels import PANELS, Voice, Voices, agreeing, verdict
from rerunning import IN_PANEL, again, before_a_panel, comes_out_the_same
from running import (
    Answers,
    Ledger,
    Said,
    desk,
    fails,
    obliging,
    plan,
    roster,
    task,
    who,
)


def asks_its_user(exchange: Exchange) -> Any:
    if exchange.schema_name == "verdict":
        return verdict("request_user_input", user_input_request={"question": "which year?"})
    return agreeing(exchange)


def gone(kind: Any) -> Voice:
    return lambda _: failure(kind, "gone", retryable=False)


@pytest.mark.parametrize(
    ("voice", "panel", "error"),
    [
        (asks_its_user, {}, "invalid_request"),
        (gone("rate_limit"), {}, "rate_limit"),
        (gone("timeout"), {}, "timeout"),
        (agreeing, {"max_calls": 2}, "quota_exhausted"),
    ],
)
async def test_a_panel_that_failed_fails_again_in_the_same_words(voice: Voice, panel: Any, error: str) -> None:
    at = before_a_panel(voice, panel)
    ended = await at.run(plan=plan(task("a")), wishes=IN_PANEL)
    assert at.entries(ended.run, "task.returned")[0].data["error"] == error
    await comes_out_the_same(at, ended.run)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("limit", range(3, 13))
async def test_what_a_panel_took_counts_against_the_budget_of_a_re_run_too(limit: int) -> None:
    at = before_a_panel(agreeing, budget={"max_calls": limit})
    ended = await at.run(plan=plan(task("a"), task("b", "a")), wishes=IN_PANEL)
    await comes_out_the_same(at, ended.run)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [4, 6, 7, 9, 10])
async def test_a_run_with_panels_that_crashed_anywhere_under_a_tight_budget_comes_out_the_same(limit: int) -> None:
    ledger = Ledger()
    settings = {"panels": PANELS, "budget": {"max_calls": limit}}
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a"), task("b", "a")), wishes=IN_PANEL)
    assert ended.state == "stopped"
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await resumed.runs.drive(ended.run)
        await comes_out_the_same(resumed, ended.run, commits)


@pytest.mark.parametrize("limit", [8, 10])
async def test_a_panel_that_was_killed_beside_others_leaves_them_as_much_of_the_budget_again(limit: int) -> None:
    ledger = Ledger()
    settings = {"panels": PANELS, "budget": {"max_calls": limit}}
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a"), task("b"), task("c", lane="beta")), wishes=IN_PANEL)
    for commits in range(4, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await retried.runs.retry(ended.run, "a")
        await comes_out_the_same(retried, ended.run, commits)


@pytest.mark.parametrize("limit", [3, 4])
async def test_whom_a_lane_refused_beside_a_panel_that_was_killed_it_refuses_again(limit: int) -> None:
    ledger, lane = Ledger(), {"provider": "panel:bench", "budget": Budget(max_calls=limit)}
    at = desk(Answers(), Voices(), store=ledger, settings={"panels": PANELS})
    tasks = plan(task("a"), task("b"), task("c", lane="beta"))
    ended = await at.run(plan=tasks, wishes=Wishes(roster=roster(alpha=lane)))
    for commits in range(4, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings={"panels": PANELS})
        await retried.runs.retry(ended.run, "c")
        await comes_out_the_same(retried, ended.run, commits)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["cancelled", "interrupted"])
@pytest.mark.parametrize("stuck_at", [1, 3, 6, 8])
async def test_what_a_session_took_before_its_run_was_cut_counts_when_a_task_is_retried(
    stuck_at: int, how: str
) -> None:
    calls, reached, free = [0], asyncio.Event(), [False]

    def slow(exchange: Exchange) -> Any:
        calls[0] += 1
        if calls[0] == stuck_at and not free[0]:
            reached.set()
            return asyncio.sleep(60, agreeing(exchange))
        return agreeing(exchange)

    at = before_a_panel(slow, budget={"max_calls": 12})
    run = await at.submit(plan=plan(task("a"), task("b", "a")), wishes=IN_PANEL)
    driving = asyncio.ensure_future(at.runs.drive(run))
    await reached.wait()
    if how == "cancelled":
        await at.runs.cancel(run)
    else:
        driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert (await again(at, run))["identical"] is True
    free[0] = True
    await at.runs.retry(run, "a")
    await comes_out_the_same(at, run)


@pytest.mark.parametrize("limit", [5, 8, 10])
async def test_what_a_session_took_counts_behind_a_gate_too(limit: int) -> None:
    at = before_a_panel(agreeing, budget={"max_calls": limit})
    config = replace(at.config(IN_PANEL), gates=read_rules([{"tasks": ["b"]}], "test"))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b", "a")))
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "stopped"
    await comes_out_the_same(at, run)


async def test_a_panel_that_money_refused_whenever_it_was_asked_is_refused_again() -> None:
    given = {"panels": PANELS, "prices": {"voice": {"input": 1, "output": 5}}, "budget": {"max_usd": "0"}}
    at = desk(Answers(), Voices(unmetered=False), settings=given)
    ended = await at.run(plan=plan(task("a")), wishes=IN_PANEL)
    assert (ended.state, ended.reason) == ("stopped", "budget")
    await comes_out_the_same(at, ended.run)


@pytest.mark.parametrize("limit", [5, 8])
async def test_a_panel_whose_last_answer_was_unusable_when_its_driver_was_killed(limit: int) -> None:
    settings = {"panels": PANELS, "budget": {"max_calls": limit}, "roles": {"validator": "panel:bench"}}
    ledger = Ledger()
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a")))
    answered = [entry.data["error"] for entry in at.entries(ended.run, "role.answered")]
    assert answered[0] in ("malformed_response", "quota_exhausted")
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await resumed.runs.drive(ended.run)
        await comes_out_the_same(resumed, ended.run, commits)


async def test_a_session_with_which_the_next_attempt_went_on_counts_once() -> None:
    ledger = Ledger()
    settings = {"panels": PANELS, "budget": {"max_calls": 14}}
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a"), task("b", lane="beta")), wishes=IN_PANEL)
    assert ended.state == "answered"
    for commits in range(3, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await retried.runs.retry(ended.run, "b")
        await comes_out_the_same(retried, ended.run, commits)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize(("role", "limit"), [("synthesizer", 4), *(("validator", limit) for limit in range(3, 8))])
async def test_what_a_session_took_is_counted_behind_whomever_a_budget_refused_before(
    role: str, limit: int, restarts: int
) -> None:
    def says(exchange: Exchange) -> Said:
        return fails("auth_failure") if who(exchange)[:2] == ("worker", "a") else obliging(exchange)

    settings = {"panels": PANELS, "budget": {"max_calls": limit}, "roles": {role: "panel:bench"}}
    ledger = Ledger()
    at = desk(Answers(says), Voices(), store=ledger, settings=settings)
    lanes = roster(alpha={"budget": Budget(max_calls=1)})
    config = at.config(Wishes(ladder=("told", "told:better"), roster=lanes))
    config = replace(config, tuning=replace(config.tuning, restarts=restarts))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b", lane="beta")))
    await at.runs.drive(run)
    for killed in range(3, len(ledger.commits)):
        resumed = desk(Answers(says), Voices(), store=ledger.until(killed), settings=settings)
        await resumed.runs.drive(run)
        # A session goes on behind a crash: what it takes then counts then.
        await comes_out_the_same(resumed, run, killed)
