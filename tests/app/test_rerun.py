"""Re-runs: the same decisions from the record alone, the first that came out otherwise, and no trust in a changed record."""

import asyncio
import json
import socket
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.reruns.decisions import decisions
from hansard.app.reruns.phases import phases_of
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Cost, Exchange
from hansard.domain.fact import Body
from hansard.domain.gate import GateDecided
from hansard.domain.work import RunConfigured, RunRequested, TaskJudged
from hansard.errors import StoreError, UsageError
from hansard.orchestration import engine, judge, roles
from hansard.orchestration import gates as gates_module
from hansard.orchestration.gates import read_rules
from hansard.orchestration.journal import Journal
from hansard.orchestration.progress import progress_of
from hansard.orchestration.seams import Verification
from hansard.orchestration.templates import Template
from hansard.providers.base import failure
from hansard.record.recorder import Step
from hansard.store.base import StoredBody
from hansard.store.memory import MemoryStore
from panels import PANELS, Voice, Voices, agreeing, verdict
from running import (
    FINE,
    POOR,
    Answers,
    Desk,
    Ledger,
    Said,
    Says,
    completion,
    desk,
    fails,
    obliging,
    plan,
    roster,
    task,
    who,
)

DIAMOND = plan(task("a"), task("b", "a", lane="beta"), task("c", "a"), task("d", "b", "c"))


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a connection in a re-run is found out."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a re-run went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


async def again(at: Desk, run: str, **swap: str) -> dict[str, Any]:
    return await at.runs.rerun(run, swap)


def picky(exchange: Exchange) -> Said:
    """Rejects what the first rung makes of b, and answers badly formed once."""
    role, about, attempt = who(exchange)
    if role == "validator" and about == "b" and exchange.metadata["turn"] == 1:
        return "I would rather not say"
    if role == "validator" and about == "b" and attempt == 1:
        return POOR
    return obliging(exchange)


async def test_every_decision_of_a_run_with_corrections_and_escalation_comes_out_the_same() -> None:
    told = Answers(picky)
    at = desk(told)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    made = len(told.calls)
    report = await again(at, ended.run)
    assert report["identical"] is True, report
    assert report["miss"] is None
    assert report["decisions"] >= 12
    assert len(told.calls) == made


async def test_a_result_may_begin_like_the_reason_of_a_failure() -> None:
    at = desk(Answers(lambda each: "[None] found" if who(each)[0] == "worker" else obliging(each)))
    ended = await at.run(plan=plan(task("a"), task("b", "a")))
    report = await again(at, ended.run)
    assert report["identical"] is True, report


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
        report = await again(at, run)
        assert report["identical"] is True, report


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
    report = await again(at, ended.run)
    assert report["identical"] is True, report


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
    report = await again(at, ended.run)
    assert report["identical"] is True, report


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
    report = await again(at, run)
    assert report["identical"] is True, report


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
    report = await again(at, run)
    assert report["identical"] is True, report


def asks_its_user(exchange: Exchange) -> Any:
    if exchange.schema_name == "verdict":
        return verdict("request_user_input", user_input_request={"question": "which year?"})
    return agreeing(exchange)


def gone(kind: Any) -> Voice:
    return lambda _: failure(kind, "gone", retryable=False)


def before_a_panel(voice: Voice, panel: Any = None, **settings: Any) -> Desk:
    """A desk whose lane alpha is a panel's."""
    bench = {**PANELS["bench"], **(panel or {})}
    return desk(Answers(), Voices(voice), settings={"panels": {"bench": bench}, **settings})


IN_PANEL = Wishes(roster=roster(alpha={"provider": "panel:bench"}))


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
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.sampled(4)
@pytest.mark.parametrize("limit", range(3, 13))
async def test_what_a_panel_took_counts_against_the_budget_of_a_re_run_too(limit: int) -> None:
    at = before_a_panel(agreeing, budget={"max_calls": limit})
    ended = await at.run(plan=plan(task("a"), task("b", "a")), wishes=IN_PANEL)
    report = await again(at, ended.run)
    assert report["identical"] is True, report


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
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


@pytest.mark.parametrize("limit", [8, 10])
async def test_a_panel_that_was_killed_beside_others_leaves_them_as_much_of_the_budget_again(limit: int) -> None:
    ledger = Ledger()
    settings = {"panels": PANELS, "budget": {"max_calls": limit}}
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a"), task("b"), task("c", lane="beta")), wishes=IN_PANEL)
    for commits in range(4, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await retried.runs.retry(ended.run, "a")
        report = await again(retried, ended.run)
        assert report["identical"] is True, (commits, report)


@pytest.mark.parametrize("limit", [3, 4])
async def test_whom_a_lane_refused_beside_a_panel_that_was_killed_it_refuses_again(limit: int) -> None:
    ledger, lane = Ledger(), {"provider": "panel:bench", "budget": Budget(max_calls=limit)}
    at = desk(Answers(), Voices(), store=ledger, settings={"panels": PANELS})
    tasks = plan(task("a"), task("b"), task("c", lane="beta"))
    ended = await at.run(plan=tasks, wishes=Wishes(roster=roster(alpha=lane)))
    for commits in range(4, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings={"panels": PANELS})
        await retried.runs.retry(ended.run, "c")
        report = await again(retried, ended.run)
        assert report["identical"] is True, (commits, report)


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
    report = await again(at, run)
    assert report["identical"] is True, report


@pytest.mark.parametrize("limit", [5, 8, 10])
async def test_what_a_session_took_counts_behind_a_gate_too(limit: int) -> None:
    at = before_a_panel(agreeing, budget={"max_calls": limit})
    config = replace(at.config(IN_PANEL), gates=read_rules([{"tasks": ["b"]}], "test"))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b", "a")))
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "stopped"
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_panel_that_money_refused_whenever_it_was_asked_is_refused_again() -> None:
    given = {"panels": PANELS, "prices": {"voice": {"input": 1, "output": 5}}, "budget": {"max_usd": "0"}}
    at = desk(Answers(), Voices(unmetered=False), settings=given)
    ended = await at.run(plan=plan(task("a")), wishes=IN_PANEL)
    assert (ended.state, ended.reason) == ("stopped", "budget")
    report = await again(at, ended.run)
    assert report["identical"] is True, report


async def test_a_panel_cannot_be_swapped_in_and_can_be_swapped_out() -> None:
    at = before_a_panel(agreeing)
    ended = await at.run(plan=plan(task("a")), wishes=IN_PANEL)
    with pytest.raises(UsageError, match="panel:bench is a panel, and a re-run holds no sessions"):
        await again(at, ended.run, validator="panel:bench")
    at.pool.given["other"] = Answers(lambda _: "Ten a minute.", id="other")
    report = await again(replace(at, settings=_with_provider(at, "other")), ended.run, worker="other")
    assert "validator, task a" in report["miss"]


@pytest.mark.parametrize("limit", [1, 3, 6])
async def test_a_run_that_ran_out_of_calls_stops_at_the_same_place(limit: int) -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a"), task("b", "a"), task("c", "b")), wishes=Wishes(max_calls=limit))
    assert ended.state == "stopped"
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.parametrize("basis", ["price_table", "estimate"])
@pytest.mark.parametrize("limit", ["0.004", "0.006", "0.0085"])
async def test_a_run_that_ran_out_of_money_stops_at_the_same_place_whatever_models_cost_by_now(
    limit: str, basis: Any
) -> None:
    def dear(exchange: Exchange) -> Said:
        said = obliging(exchange)
        text = said if isinstance(said, str) else json.dumps(said)
        return replace(completion(text, tokens=(100, 100)), cost=Cost(usd_nano=1_000_000, basis=basis))

    told = Answers(dear, unmetered=False, model="house-model")
    at = desk(told, settings={"prices": {"house-model": {"input": 10, "output": 10}}})
    ended = await at.run(plan=DIAMOND, wishes=Wishes(max_usd=limit))
    assert (ended.state, ended.reason) == ("stopped", "budget")
    for prices in ({}, {"house-model": {"input": 1000, "output": 1000}}):
        elsewhere = desk(store=at.store, settings={"prices": prices})
        report = await again(elsewhere, ended.run)
        assert report["identical"] is True, report


class Reversed:
    """Everybody does what is asked, but workers come back in the reverse of their order: c, then b, then a."""

    def __init__(self, *stuck: tuple[str, str]) -> None:
        self.back = {id: asyncio.Event() for id in "abcd"}
        self.back["d"].set()
        self.stuck, self.reached = stuck, asyncio.Event()

    async def __call__(self, exchange: Exchange) -> Said:
        role, about, _ = who(exchange)
        if role == "worker" and about in "abc":
            await self.back[chr(ord(about) + 1)].wait()
            self.back[about].set()
        if (role, about) in self.stuck:
            self.reached.set()
            await asyncio.sleep(60)
        said = obliging(exchange)
        assert isinstance(said, str | dict)
        return said


SIDE_BY_SIDE = plan(task("a"), task("b"), task("c"), task("d", "a"))


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 7, 8])
async def test_who_got_the_last_of_a_budget_gets_it_again(limit: int) -> None:
    at = desk(Answers(Reversed()))
    ended = await at.run(plan=SIDE_BY_SIDE, wishes=Wishes(max_calls=limit))
    assert ended.state == "stopped"
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.parametrize(
    "wishes", [Wishes(max_tokens=900), Wishes(roster=roster(alpha={"budget": Budget(max_tokens=900)}))]
)
async def test_who_is_asked_beside_somebody_who_takes_more_than_was_set_aside_is_asked_again(wishes: Wishes) -> None:
    async def greedy(exchange: Exchange) -> Said:
        if who(exchange)[1] == "b":
            await asyncio.sleep(0.02)
        return completion("much", tokens=(2_000, 2_000))

    ledger = Ledger()
    at = desk(Answers(greedy), store=ledger)
    config = at.config(replace(wishes, judge="checks", answer="join"))
    config = replace(config, tuning=replace(config.tuning, max_output_tokens=20))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "b")))
    await at.runs.drive(run)
    assert {entry.data["task"] for entry in at.entries(run, "task.attempted")} == {"a", "b"}
    assert at.entries(run, "budget.breached")
    for commits in range(3, len(ledger.commits) + 1):
        report = await again(desk(store=ledger.until(commits)), run)
        assert report["identical"] is True, (commits, report)


async def test_who_got_the_last_of_a_lanes_budget_gets_it_again() -> None:
    at = desk(Answers(Reversed()))
    lanes = roster(alpha={"budget": Budget(max_calls=4)})
    ended = await at.run(plan=SIDE_BY_SIDE, wishes=Wishes(roster=lanes))
    assert {entry.data["lane"] for entry in at.entries(ended.run, "budget.breached")} == {"alpha"}
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["cancelled", "interrupted"])
@pytest.mark.parametrize("limit", [4, 5, 6])
async def test_who_got_the_last_of_a_budget_before_a_run_was_cut_gets_it_again(limit: int, how: str) -> None:
    told = Reversed(("validator", "c"))
    at = desk(Answers(told))
    run = await at.submit(plan=SIDE_BY_SIDE, wishes=Wishes(max_calls=limit))
    driving = asyncio.ensure_future(at.runs.drive(run))
    await told.reached.wait()
    if how == "cancelled":
        await at.runs.cancel(run)
    else:
        driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    report = await again(at, run)
    assert report["identical"] is True, report


def scarce(calls: int, few: int) -> list[Wishes]:
    """Budgets of a run, and of a lane, that so many calls exhaust."""
    lanes = [roster(alpha={"budget": Budget(max_calls=each)}) for each in (few, calls)]
    return [Wishes(max_calls=few), Wishes(max_calls=calls), *(Wishes(roster=each) for each in lanes)]


@pytest.mark.parametrize("wishes", scarce(4, 3))
async def test_a_record_that_ends_anywhere_at_the_end_of_a_budget_is_identical_until_then(wishes: Wishes) -> None:
    ledger = Ledger()
    at = desk(Answers(Reversed()), store=ledger)
    beside = plan(task("a"), task("b"), task("c"), task("d", "a", "b", lane="beta", on_upstream_failure="run"))
    ended = await at.run(plan=beside, wishes=wishes)
    for commits in range(3, len(ledger.commits)):
        report = await again(desk(store=ledger.until(commits)), ended.run)
        assert report["identical"] is True, (commits, report)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wishes", scarce(2, 1))
async def test_what_a_budget_refused_behind_a_crash_is_refused_again_wherever_the_record_ends(wishes: Wishes) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b", lane="beta")), wishes=wishes)
    for killed in range(3, len(ledger.commits)):
        copy = ledger.until(killed)
        await desk(Answers(), store=copy).runs.drive(ended.run)
        for commits in range(killed + 1, len(copy.commits) + 1):
            report = await again(desk(store=copy.until(commits)), ended.run)
            assert report["identical"] is True, (killed, commits, report)


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
            report = await again(retried, run)
            assert report["identical"] is True, (killed, commits, report)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wishes", [Wishes(judge="checks", answer="join"), Wishes(), Wishes(max_calls=6)])
async def test_a_run_that_was_killed_anywhere_and_then_retried_comes_out_the_same(wishes: Wishes) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b")), wishes=wishes)
    for commits in range(3, len(ledger.commits) + 1):
        retried = desk(Answers(), store=ledger.until(commits))
        await retried.runs.retry(ended.run, "a")
        report = await again(retried, ended.run)
        assert report["identical"] is True, (commits, report)


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
            report = await again(retried, ended.run)
            assert report["identical"] is True, (killed, commits, report)


async def test_a_role_that_is_asked_again_after_a_retry_answers_what_it_answered_then() -> None:
    ledger = Ledger()
    at = desk(
        Answers(lambda each: fails("rate_limit") if who(each)[0] == "validator" else obliging(each)), store=ledger
    )
    ended = await at.run(plan=plan(task("a"), task("b")), wishes=Wishes(ladder=("told",)))
    for commits in range(3, len(ledger.commits)):
        retried = desk(Answers(), store=ledger.until(commits))
        await retried.runs.retry(ended.run, "b")
        report = await again(retried, ended.run)
        assert report["identical"] is True, (commits, report)


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
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


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
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


async def test_a_session_with_which_the_next_attempt_went_on_counts_once() -> None:
    ledger = Ledger()
    settings = {"panels": PANELS, "budget": {"max_calls": 14}}
    at = desk(Answers(), Voices(), store=ledger, settings=settings)
    ended = await at.run(plan=plan(task("a"), task("b", lane="beta")), wishes=IN_PANEL)
    assert ended.state == "answered"
    for commits in range(3, len(ledger.commits)):
        retried = desk(Answers(), Voices(), store=ledger.until(commits), settings=settings)
        await retried.runs.retry(ended.run, "b")
        report = await again(retried, ended.run)
        assert report["identical"] is True, (commits, report)


async def test_a_changed_validator_is_the_first_divergence() -> None:
    at = desk(Answers())
    ended = await at.run(plan=DIAMOND)
    strict = Answers(lambda _: POOR, id="strict")
    at.pool.given["strict"] = strict
    report = await again(replace(at, settings=_with_provider(at, "strict")), ended.run, validator="strict")
    assert report["identical"] is False
    assert report["first_divergence"]["decision"] == "verdict a 1"
    assert report["first_divergence"]["recorded"].startswith("passed")
    assert report["first_divergence"]["now"].startswith("rejected")
    assert {who(each)[0] for each in strict.calls} == {"validator"}


@pytest.mark.parametrize("says", [lambda _: POOR, lambda _: "well, yes"], ids=["strict", "without form"])
async def test_a_changed_validator_is_heard_to_its_end_also_where_the_run_waits(says: Says) -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"]}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=plan(task("a"), task("b", "a")))
    assert (await at.runs.drive(run)).state == "waiting"
    at.pool.given["other"] = Answers(says, id="other")
    report = await again(replace(at, settings=_with_provider(at, "other")), run, validator="other")
    assert report["first_divergence"]["decision"] == "verdict a 1"
    assert report["first_divergence"]["now"].startswith("rejected")


async def test_a_changed_worker_ends_at_the_first_prompt_that_the_record_cannot_answer() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a"), task("b", "a")))
    at.pool.given["other"] = Answers(lambda _: "something new", id="other")
    report = await again(replace(at, settings=_with_provider(at, "other")), ended.run, worker="other")
    assert report["identical"] is False
    assert "validator, task a" in report["miss"]


async def test_a_changed_reviser_whose_text_is_taken_is_a_divergence() -> None:
    wordy = "The result of a is that it is done, and that it is really very well done indeed, as anybody can see. " * 30

    def says(revised: str) -> Says:
        roles: dict[str, Said] = {"worker": wordy, "reviser": revised}
        return lambda exchange: roles.get(who(exchange)[0]) or obliging(exchange)

    at = desk(Answers(says("The result of a is that it is done.")))
    ended = await at.run("please", plan=plan(task("a")), wishes=Wishes(revise=True))
    assert [entry.data["accepted"] for entry in at.entries(ended.run, "answer.revised")] == [True]
    assert (await again(at, ended.run))["identical"] is True
    at.pool.given["other"] = Answers(says("The result of a is that it failed."), id="other")
    report = await again(replace(at, settings=_with_provider(at, "other")), ended.run, reviser="other")
    assert report["identical"] is False, report
    assert report["first_divergence"]["decision"] == "revision 1"


async def test_a_swap_that_names_nobody_is_refused() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a")))
    with pytest.raises(UsageError, match="no role"):
        await again(at, ended.run, barista="told")
    with pytest.raises(UsageError, match="no provider"):
        await again(at, ended.run, validator="ghost")
    with pytest.raises(UsageError, match="no run"):
        await again(at, "0000")


def _with_provider(at: Desk, name: str) -> Settings:
    settings = replace(at.settings, providers={name: {"kind": "python"}})
    at.pool.settings = settings
    return settings


async def test_a_run_that_crashed_anywhere_and_was_resumed_is_re_run_as_if_nothing_had_happened() -> None:
    ledger = Ledger()
    at = desk(Answers(picky), store=ledger)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "answered"
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(picky), store=ledger.until(commits))
        assert (await resumed.runs.drive(ended.run)).state == "answered"
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


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
        report = await again(resumed, run)
        assert report["identical"] is True, (commits, report)
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
        report = await again(resumed, run)
        assert report["identical"] is True, (commits, report)
    assert given_up


def wordy(exchange: Exchange) -> Said:
    """Asks for everybody: the first plan and the first verdict have to be corrected, the answer is flagged."""
    role, _, _ = who(exchange)
    if role in ("coordinator", "validator") and exchange.metadata["turn"] == 1:
        return "I would rather not say"
    long = "It is worth noting that, all things considered, the login is slow because the index is missing. " * 6
    return long if role == "synthesizer" else obliging(exchange)


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
            report = await again(desk(store=copy.until(cut)), run)
            assert report["identical"] is True, (commits, cut, report)
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
            report = await again(retried, run)
            assert report["identical"] is True, (killed, commits, report)
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
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


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
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


@pytest.mark.parametrize("retried", ["a", "b"])
@pytest.mark.parametrize("is_decided", [False, True])
async def test_a_task_that_is_retried_while_another_or_itself_waits_at_a_gate(retried: str, is_decided: bool) -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"]}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=DIAMOND)
    gates = Gates(at.recorder, at.store)
    [first] = (await at.runs.drive(run)).gates
    if is_decided:
        await gates.decide(first, "approve", actor="human:ann")
    [second] = (await at.runs.retry(run, retried)).gates
    assert second != first
    await gates.decide(second, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is True, report


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
    report = await again(at, ended.run)
    assert report["identical"] is True, report


async def test_what_people_decided_at_gates_is_decided_again() -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"], "needed": 2, "approvers": ["human:ann", "human:bob", "human:cyd"]}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=DIAMOND)
    gates = Gates(at.recorder, at.store)
    first = (await at.runs.drive(run)).gates[0]
    await gates.decide(first, "edit", edit="do b gently", actor="human:ann")
    second = (await at.runs.drive(run)).gates[0]
    await gates.decide(second, "approve", actor="human:bob")
    assert (await at.runs.drive(run)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_rerun_that_waits_for_what_people_decided_reads_each_entry_a_few_times_however_long_it_takes() -> None:
    at = desk(Answers(), Answers(id="slow", pause_s=1))
    run = await at.runs.submit(
        "please", replace(at.config(), gates=read_rules([{"tasks": ["b"]}], "test")), plan=DIAMOND
    )
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    read = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal read
        read += event == "call" and frame.f_code is MemoryStore.entry.__code__

    sys.setprofile(count)
    try:
        assert (await again(at, run, synthesizer="slow"))["identical"] is True
    finally:
        sys.setprofile(None)
    assert read < 15 * len(at.entries(run))


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


@pytest.mark.parametrize("fault", ["on something else", "late"])
async def test_a_gate_that_was_closed_by_a_word_that_does_not_count_is_a_divergence(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = desk(Answers())
    rule: dict[str, Any] = {"tasks": ["a"]} | ({"deadline_s": 3} if fault == "late" else {})
    config = replace(at.config(), gates=read_rules([rule], "test"))
    run = await at.runs.submit("please", config, plan=plan(task("a")))
    [gate] = (await at.runs.drive(run)).gates
    [opened] = at.entries(run, "gate.opened")
    shown = opened.data["shown"] if fault == "late" else ("sha256:else",)
    if fault == "late":
        await asyncio.sleep(3.1)
    fact = GateDecided(gate=gate, decision="approve", shown=tuple(shown), authenticated=False)
    await at.recorder.record(fact, actor="human:ann", run=run, causes=[opened.seq])
    with monkeypatch.context() as patched:
        patched.setattr(gates_module, "counting", lambda gate, _: {each.actor: each for each in gate.decisions})
        assert (await at.runs.drive(run)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is False, report
    assert report["first_divergence"]["decision"] == f"gate {gate}"


async def test_a_gate_that_expired_expires_again() -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"], "deadline_s": 0.01}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=DIAMOND)
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_gate_that_expired_before_its_task_was_done_again_expires_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody hands anything over while others work: what is not known at the first look comes too late.
    monkeypatch.setattr("hansard.app.reruns.gates.LOOK_S", 0.5)
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b", "c"], "deadline_s": 1.0}], "test")
    config, work = replace(at.config(), gates=rules), plan(task("a"), task("b", "a"), task("c"))
    run = await at.runs.submit("please", config, plan=work)
    assert len((await at.runs.drive(run)).gates) == 2
    await asyncio.sleep(1.0)
    await at.runs.retry(run, "a")
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    assert [entry.data["expired"] for entry in at.entries(run, "gate.closed")] == [True, True, True]
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_gate_that_was_decided_in_time_and_is_over_when_its_task_is_retried_ends_as_it_ended_then() -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"], "deadline_s": 1.0}], "test")
    config = replace(at.config(), gates=rules)
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b", "a")))
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    await asyncio.sleep(1.0)
    assert (await at.runs.retry(run, "b")).state == "waiting"
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    assert [entry.data["outcome"] for entry in at.entries(run, "gate.closed")] == ["approved", "rejected"]
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_gate_that_stands_behind_one_that_expired_ends_as_it_ended_then() -> None:
    at = desk(Answers())
    soon = {"deadline_s": 0.01, "on_expiry": "approve"}
    rules = read_rules(
        [{"before": "plan", **soon}, {"tasks": ["b"], **soon}, {"tasks": ["d"], "deadline_s": 600}], "test"
    )
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=DIAMOND)
    while len(at.entries(run, "gate.closed")) < 2:
        [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    assert [entry.data["expired"] for entry in at.entries(run, "gate.closed")] == [True, True, False]
    report = await again(at, run)
    assert report["identical"] is True, report


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", [2, 3, 4, 6, 20])
async def test_a_gate_that_was_decided_while_others_worked_under_a_budget(limit: int) -> None:
    free = asyncio.Event()

    async def slow(exchange: Exchange) -> Said:
        if who(exchange)[:2] == ("worker", "b"):
            await free.wait()
        said = obliging(exchange)
        assert isinstance(said, str | dict)
        return said

    told = Answers(slow)
    at = desk(told)
    config = replace(at.config(Wishes(max_calls=limit)), gates=read_rules([{"tasks": ["a"]}], "test"))
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a"), task("d", "b")))
    driving = asyncio.ensure_future(at.runs.drive(run))
    await told.asked_times(1)
    [opened] = at.entries(run, "gate.opened")
    await Gates(at.recorder, at.store).decide(str(opened.data["gate"]), "approve", actor="human:ann")
    await asyncio.sleep(0.3)
    free.set()
    assert (await driving).state in ("stopped", "answered")
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_task_that_was_turned_away_before_the_budget_ended_may_be_skipped_for_the_budget() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    rules = read_rules([{"tasks": ["a", "c"]}], "test")
    config = replace(at.config(Wishes(max_calls=1, judge="checks")), gates=rules)
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c"), task("d")))
    await at.runs.drive(run)
    opened = at.entries(run, "gate.opened")[0]
    copy = ledger.until(next(n for n in range(len(ledger.commits)) if ledger.until(n).head().size > opened.seq))
    resumed = desk(Answers(), store=copy)
    await Gates(resumed.recorder, copy).decide(str(opened.data["gate"]), "reject", actor="human:ann")
    assert (await resumed.runs.drive(run)).state == "stopped"
    assert resumed.entries(run, "task.skipped")[0].data["because"] == "gate"
    report = await again(resumed, run)
    assert report["identical"] is True, report


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", ["edit", "approve", "reject"])
async def test_a_record_that_ends_anywhere_behind_a_gate_that_was_rejected_is_identical_until_then(first: Any) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    rules = read_rules([{"tasks": ["e"]}, {"tasks": ["c"]}], "test")
    config = replace(at.config(Wishes(judge="checks", answer="join")), gates=rules)
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("c", "a"), task("d", "c"), task("e")))
    gates = Gates(at.recorder, ledger)
    early, late = (await at.runs.drive(run)).gates
    await gates.decide(late, first, actor="human:ann", edit="do it gently" if first == "edit" else None)
    await at.runs.drive(run)
    await gates.decide(early, "reject", actor="human:ann")
    await at.runs.drive(run)
    await at.runs.retry(run, "e")
    for commits in range(3, len(ledger.commits) + 1):
        report = await again(desk(store=ledger.until(commits)), run)
        assert report["identical"] is True, (commits, report)


async def test_a_task_that_was_retried_is_retried_again() -> None:
    at = desk(Answers())
    ended = await at.run(plan=DIAMOND)
    await at.runs.retry(ended.run, "b")
    report = await again(at, ended.run)
    assert report["identical"] is True, report
    assert report["decisions"] > 12


async def test_a_cancelled_run_is_compared_up_to_where_it_was_cut() -> None:
    gate = asyncio.Event()

    async def stuck(exchange: Exchange) -> Said:
        if who(exchange)[1] == "d":
            gate.set()
            await asyncio.sleep(60)
        said = obliging(exchange)
        assert isinstance(said, str | dict)
        return said

    at = desk(Answers(stuck))
    run = await at.submit(plan=DIAMOND)
    driving = asyncio.ensure_future(at.runs.drive(run))
    await gate.wait()
    await at.runs.cancel(run)
    assert (await driving).state == "cancelled"
    report = await again(at, run)
    assert report["identical"] is True, report
    assert "cut short" in report["note"]


class Slow:
    """Everybody does what is asked, but whoever is asked for `stuck` does not come back until `free`."""

    def __init__(self, *stuck: tuple[str, str]) -> None:
        self.stuck, self.reached, self.free = stuck, asyncio.Event(), False

    async def __call__(self, exchange: Exchange) -> Said:
        if who(exchange)[:2] in self.stuck and not self.free:
            self.reached.set()
            await asyncio.sleep(60)
        return picky(exchange)


async def cut(at: Desk, slow: Slow, how: str, **wishes: Any) -> str:
    """A run that was cut at what is slow; gives its id."""
    wanted = Wishes(ladder=("told", "told:better"), max_seconds=1.5 if how == "deadline" else None, **wishes)
    run = await at.submit(plan=DIAMOND, wishes=wanted)
    driving = asyncio.ensure_future(at.runs.drive(run))
    await slow.reached.wait()
    # Whoever works beside it comes to his end meanwhile.
    await asyncio.sleep(0.2)
    if how == "cancelled":
        await at.runs.cancel(run)
    elif how == "interrupted":
        driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert at.runs.show(run)["state"] == ("stopped" if how == "deadline" else how)
    return run


async def test_whoever_sends_no_bill_sends_none_for_an_answer_that_was_cut_short_either() -> None:
    slow = Slow(("validator", "a"))
    at = desk(Answers(slow), settings={"prices": {"told": {"input": 10, "output": 10}}})
    report = await again(at, await cut(at, slow, "cancelled", max_usd="0.002"))
    assert report["identical"] is True, report


async def test_a_question_that_a_kill_cut_short_counts_once_when_its_run_is_cancelled_and_killed_just_before_its_end() -> (
    None
):
    slow, ledger = Slow(("validator", "a")), Ledger()
    run = await cut(desk(Answers(slow), store=ledger), slow, "interrupted", max_calls=2)
    cancelled = ledger.until(len(ledger.commits) - 1)
    await desk(Answers(), store=cancelled).runs.cancel(run)
    killed = desk(Answers(), store=cancelled.until(len(cancelled.commits) - 1))
    assert killed.entries(run)[-1].kind == "task.skipped"
    assert (await killed.runs.drive(run)).state == "cancelled"
    report = await again(killed, run)
    assert report["identical"] is True, report


CUTS = [("worker", "b"), ("worker", "d"), ("validator", "a"), ("validator", "c"), ("synthesizer", "")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["cancelled", "interrupted", "deadline"])
@pytest.mark.parametrize("where", CUTS)
async def test_a_run_that_was_cut_in_an_attempt_is_identical_until_then(where: tuple[str, str], how: str) -> None:
    slow = Slow(where)
    at = desk(Answers(slow))
    report = await again(at, await cut(at, slow, how))
    assert report["identical"] is True, report
    assert "its decisions" in report["note"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("how", ["cancelled", "interrupted"])
@pytest.mark.parametrize("task", ["a", "b", "c"])
@pytest.mark.parametrize("where", CUTS)
async def test_a_run_that_was_cut_and_then_retried_is_cut_and_retried_again(
    where: tuple[str, str], task: str, how: str
) -> None:
    slow = Slow(where)
    at = desk(Answers(slow))
    run = await cut(at, slow, how)
    slow.free = True
    assert (await at.runs.retry(run, task)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is True, report
    assert report["note"] == ""


async def test_gates_that_were_closed_one_right_behind_the_other_are_so_again_wherever_the_record_ends() -> None:
    at = desk(Answers(), store=Ledger())
    rules = read_rules([{"tasks": ["a", "b", "c"]}], "test")
    config = replace(at.config(Wishes(judge="checks")), gates=rules)
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    gates = Gates(at.recorder, at.store)
    while (ended := await at.runs.drive(run)).state == "waiting":
        for gate in ended.gates:
            await gates.decide(gate, "approve", actor="human:ann")
    assert ended.state == "answered"
    assert isinstance(at.store, Ledger)
    for commits in range(3, len(at.store.commits)):
        report = await again(desk(store=at.store.until(commits)), run)
        assert report["identical"] is True, (commits, report)


async def test_gates_that_expired_one_right_behind_the_other_do_so_again_wherever_the_record_ends() -> None:
    at = desk(Answers(), store=Ledger())
    rules = read_rules([{"tasks": ["a", "b"], "deadline_s": 0.05}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=plan(task("a"), task("b")))
    assert (await at.runs.drive(run, wait=True)).state == "failed"
    assert isinstance(at.store, Ledger)
    for commits in range(3, len(at.store.commits)):
        report = await again(desk(store=at.store.until(commits)), run)
        assert report["identical"] is True, (commits, report)


async def test_whoever_comes_to_a_gate_behind_the_end_of_the_record_holds_nobody_up_at_his_own() -> None:
    async def decide_on_b(said: Said) -> Said:
        [waiting] = [gate["gate"] for gate in gates.listed() if gate["task"] == "b"]
        await gates.decide(waiting, "approve", actor="human:ann")
        return said

    def says(exchange: Exchange) -> Any:
        said = obliging(exchange)
        return decide_on_b(said) if who(exchange)[:2] == ("worker", "a") else said

    at = desk(Answers(says), store=Ledger())
    rules = read_rules([{"tasks": ["a", "b", "c"]}], "test")
    config = replace(at.config(Wishes(judge="checks")), gates=rules)
    run = await at.runs.submit("please", config, plan=plan(task("a"), task("b"), task("c", "a")))
    gates = Gates(at.recorder, at.store)
    first, _ = (await at.runs.drive(run)).gates
    await gates.decide(first, "approve", actor="human:ann")
    await at.runs.drive(run)
    assert isinstance(at.store, Ledger)
    for commits in range(3, len(at.store.commits)):
        report = await again(desk(store=at.store.until(commits)), run)
        assert report["identical"] is True, (commits, report)


async def test_a_run_that_was_cancelled_at_a_gate_and_then_retried_stands_there_again() -> None:
    at = desk(Answers())
    rules = read_rules([{"tasks": ["b"]}], "test")
    run = await at.runs.submit("please", replace(at.config(), gates=rules), plan=DIAMOND)
    assert (await at.runs.drive(run)).state == "waiting"
    await at.runs.cancel(run)
    waiting = await at.runs.retry(run, "a")
    await Gates(at.recorder, at.store).decide(waiting.gates[-1], "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_record_that_ends_anywhere_is_identical_until_then() -> None:
    ledger = Ledger()
    at = desk(Answers(picky), store=ledger)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    await at.runs.retry(ended.run, "c")
    for commits in range(1, len(ledger.commits) + 1):
        report = await again(desk(Answers(picky), store=ledger.until(commits)), ended.run)
        assert report["identical"] is True, (commits, report)


async def test_what_came_out_otherwise_before_a_run_was_cut_is_a_divergence() -> None:
    slow = Slow(("worker", "d"))
    at = desk(Answers(slow))
    run = await cut(at, slow, "cancelled")
    at.pool.given["strict"] = Answers(lambda _: POOR, id="strict")
    report = await again(replace(at, settings=_with_provider(at, "strict")), run, validator="strict")
    assert report["identical"] is False
    assert report["first_divergence"]["decision"] == "verdict a 1"


class Library:
    """A context source, a verifier and a reviser that a program hands in."""

    def __init__(self) -> None:
        self.asked = 0

    async def context(self, request: str, task: str | None) -> str:
        self.asked += 1
        return f"what is known about {task or 'the request'}"

    async def verify(self, request: str, answer: str) -> Verification | None:
        self.asked += 1
        return Verification(outcome="refused", detail="I looked it up")


async def test_what_seams_said_is_said_again_and_they_are_not_asked() -> None:
    library = Library()
    at = desk(Answers())
    at.pool.seams["library"] = library
    context = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "both"}
    config = replace(at.config(), context=(context,), verifier={"entry_point": "library"})
    run = await at.runs.submit("please", config)
    assert (await at.runs.drive(run)).state == "answered"
    asked = library.asked
    assert asked == 3
    report = await again(at, run)
    assert report["identical"] is True, report
    assert library.asked == asked
    elsewhere = desk(store=at.store)
    report = await again(elsewhere, run)
    assert report["identical"] is True, report


class Clumsy:
    """A reviser that breaks, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def revise(self, request: str, answer: str) -> str | None:
        self.asked += 1
        raise RuntimeError("it broke")


async def test_a_reviser_that_broke_breaks_again_and_whoever_goes_on_does_not_ask_it_once_more() -> None:
    long = "It is worth noting that, all things considered, the login is slow because the index is missing. " * 6

    def opened(store: Ledger) -> tuple[Desk, Clumsy]:
        clumsy, at = Clumsy(), desk(Answers(lambda each: long if who(each)[0] == "worker" else FINE), store=store)
        at.pool.seams["clumsy"] = clumsy
        return at, clumsy

    ledger = Ledger()
    at, _ = opened(ledger)
    config = replace(at.config(Wishes(revise=True)), reviser={"entry_point": "clumsy"})
    run = await at.runs.submit("why is the login slow?", config, plan=plan(task("a")))
    assert (await at.runs.drive(run)).state == "answered"
    report = await again(at, run)
    assert report["identical"] is True, report
    [crashed] = [each.seq for each in at.entries(run, "answer.checked") if each.data["outcome"] == "crashed"]
    cut = next(commits for commits in range(len(ledger.commits)) if ledger.until(commits).head().size > crashed)
    later, clumsy = opened(ledger.until(cut))
    assert (await later.runs.drive(run)).state == "answered"
    assert clumsy.asked == 0
    report = await again(later, run)
    assert report["identical"] is True, report


async def test_what_a_source_knows_of_a_task_that_the_budget_ended_before_decides_nothing() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    at.pool.seams["library"] = Library()
    wishes = Wishes(max_calls=1, max_parallel=1)
    source = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "task"}
    run = await at.runs.submit(
        "please", replace(at.config(wishes), context=(source,)), plan=plan(task("a"), task("b", lane="beta"))
    )
    assert (await at.runs.drive(run)).state == "stopped"
    assert [entry.data["task"] for entry in at.entries(run, "context.given")] == ["a"]
    for commits in range(3, len(ledger.commits) + 1):
        report = await again(desk(store=ledger.until(commits)), run)
        assert report["identical"] is True, (commits, report)
    await at.runs.retry(run, "b")
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_what_a_source_knows_of_a_task_whose_attempt_a_crash_cut_short_for_good_decides_nothing() -> None:
    lanes = roster(alpha={"budget": Budget(max_calls=1)})
    wishes = Wishes(judge="checks", answer="join", roster=lanes)
    source = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "task"}
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    at.pool.seams["library"] = Library()
    run = await at.runs.submit("please", replace(at.config(wishes), context=(source,)), plan=plan(task("a"), task("b")))
    await at.runs.drive(run)
    attempted = at.entries(run, "task.attempted")[0].seq
    cut = next(commits for commits in range(len(ledger.commits)) if ledger.until(commits).head().size > attempted)
    later = desk(Answers(), store=ledger.until(cut))
    later.pool.seams["library"] = Library()
    assert (await later.runs.drive(run)).state == "failed"
    report = await again(later, run)
    assert report["identical"] is True, report


async def test_a_task_that_was_skipped_before_the_time_of_the_run_was_over_is_skipped_again() -> None:
    async def says(exchange: Exchange) -> Said:
        role, about, _ = who(exchange)
        if about == "slow":
            await asyncio.sleep(600)
        return POOR if role == "validator" else "done"

    at = desk(Answers(says))
    ended = await at.run(plan=plan(task("a"), task("b", "a"), task("slow")), wishes=Wishes(max_seconds=1))
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.parametrize("ladder", ["told", "panel:bench"])
async def test_what_was_interrupted_and_had_no_seconds_left_afterwards_is_identical_until_then(
    ladder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, late_us, ours = asyncio.Event(), [0], engine._Drive._elapsed_us

    async def stuck(exchange: Exchange) -> Said:
        reached.set()
        await asyncio.sleep(600)
        return "too late"

    monkeypatch.setattr(engine._Drive, "_elapsed_us", lambda drive: ours(drive) + late_us[0])
    at = desk(Answers(stuck), Voices(stuck), settings={"panels": PANELS, "run": {"ladder": [ladder]}})
    run = await at.submit(plan=plan(task("a"), task("b", "a")), wishes=Wishes(max_seconds=300))
    driving = asyncio.ensure_future(at.runs.drive(run))
    await reached.wait()
    late_us[0] = 400_000_000
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    ended = await at.runs.drive(run)
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_calls_that_were_under_way_together_when_the_seconds_of_their_lane_ended_are_made_together_again() -> (
    None
):
    async def says(exchange: Exchange) -> Said:
        await asyncio.sleep(0.5)
        return "done"

    at = desk(Answers(says))
    lanes = roster(alpha={"budget": Budget(max_seconds=0.4)})
    rows = plan(task("a"), task("b"), task("c", {"task": "a", "kind": "order"}, on_upstream_failure="run"))
    ended = await at.run(plan=rows, wishes=Wishes(judge="checks", answer="join", roster=lanes))
    assert "alpha" in {entry.data.get("lane") for entry in at.entries(ended.run, "budget.breached")}
    report = await again(at, ended.run)
    assert report["identical"] is True, report


class Sleepy:
    """A verifier that takes more time than there is."""

    async def verify(self, request: str, answer: str) -> Verification | None:
        await asyncio.sleep(600)
        return None


async def test_what_the_time_of_a_run_ended_behind_its_answer_is_not_done_again() -> None:
    at = desk(Answers())
    at.pool.seams["sleepy"] = Sleepy()
    config = replace(at.config(Wishes(max_seconds=1.5)), verifier={"entry_point": "sleepy"})
    run = await at.runs.submit("please", config, plan=plan(task("a")))
    await at.runs.drive(run)
    [breach] = at.entries(run, "budget.breached")
    assert breach.data["unit"] == "seconds"
    report = await again(at, run)
    assert report["identical"] is True, report
    at.pool.seams["sleepy"] = Library()
    await at.runs.retry(run, "a")
    report = await again(at, run)
    assert report["identical"] is True, report


class Distant(Ledger):
    """A ledger that takes half a minute to read what a source gave, by the clock of the loop."""

    late_s = 0.0

    def body(self, seq: int, part: str) -> StoredBody | None:
        self.late_s += 30 if part == "context" else 0
        return super().body(seq, part)


async def test_how_long_a_re_run_takes_is_no_matter_of_the_seconds_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, loop = Distant(), asyncio.get_running_loop()
    at = desk(Answers(), store=ledger)
    at.pool.seams["library"] = Library()
    source = {"name": "library", "entry_point": "library", "max_tokens": 100, "when": "task"}
    config = replace(at.config(Wishes(max_seconds=20)), context=(source,))
    run = await at.runs.submit("please", config, plan=plan(task("a")))
    assert (await at.runs.drive(run)).state == "answered"
    ours, ledger.late_s = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: ours() + ledger.late_s)
    report = await again(at, run)
    assert report["identical"] is True, report
    assert ledger.late_s > 20


CHECKED = """
import sys
text = sys.stdin.read()
sys.exit(0 if "result" in text else 3)
"""


async def test_programs_of_checks_and_of_workers_are_not_run_again(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    script = f"open({str(trace)!r}, 'a').write('x'); print('result: ' + str(len(__import__('sys').stdin.read())))"
    check = tmp_path / "check.py"
    check.write_text(f"open({str(trace)!r}, 'a').write('c')\n{CHECKED}")
    table = {"worker": {"kind": "command", "argv": [sys.executable, "-I", "-S", "-c", script]}}
    settings = Settings(
        ledger=str(tmp_path / "l.db"), state=tmp_path / "state", providers=table, environment={"PATH": "/usr/bin:/bin"}
    )
    checks = [{"command": [sys.executable, "-I", "-S", str(check)]}, {"regex": "result: [0-9]+"}]
    work = plan(task("a", lane="backend", checks=checks), task("b", "a", lane="backend"))
    async with Hansard.open(settings=settings) as hansard:
        run = await hansard.submit("count", plan=work, wishes=Wishes(judge="checks", answer="join"))
        assert (await run.ended()).state == "answered"
        before = trace.read_text()
        assert sorted(before) == ["c", "x", "x"]
        report = await hansard.runs.rerun(run.id)
    assert report["identical"] is True, report
    assert trace.read_text() == before


async def test_a_pattern_is_the_same_one_under_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    checks = [{"regex": "result"}, {"regex": "nothing of the kind"}]
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    # As on another machine, or behind an upgrade.
    monkeypatch.setattr(sys, "executable", "/opt/elsewhere/bin/python3")
    report = await again(at, ended.run)
    assert report["identical"] is True, report


class Moody(Library):
    """A verifier that says something else each time."""

    async def verify(self, request: str, answer: str) -> Verification | None:
        self.asked += 1
        return Verification(outcome="refused" if self.asked == 1 else "passed", detail=f"look {self.asked}")


async def test_a_verifier_says_of_each_answer_what_it_said_then() -> None:
    at = desk(Answers())
    at.pool.seams["library"] = Moody()
    run = await at.runs.submit(
        "please", replace(at.config(), verifier={"entry_point": "library"}), plan=plan(task("a"), task("b"))
    )
    await at.runs.drive(run)
    await at.runs.retry(run, "b")
    outcomes = [e.data["outcome"] for e in at.entries(run, "answer.checked") if e.data["check"] == "verifier"]
    assert outcomes == ["refused", "passed"]
    report = await again(at, run)
    assert report["identical"] is True, report


async def test_a_check_that_nobody_could_pay_the_validator_for_is_no_miss() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a", checks=[{"regex": "result"}])), wishes=Wishes(max_calls=1))
    assert ended.state == "stopped"
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.parametrize("once", [fails("rate_limit", "slow down"), None], ids=["a failure that passed", "none"])
@pytest.mark.parametrize("short", [True, False], ids=["a result without a verdict", "none"])
async def test_a_check_of_another_result_is_a_miss_whatever_else_has_no_verdict(once: Said | None, short: bool) -> None:
    def flaky(exchange: Exchange) -> Said:
        role, _, attempt = who(exchange)
        return once if once and role == "worker" and attempt == 1 else obliging(exchange)

    at = desk(Answers(flaky))
    # The last call is a worker's: nobody can pay the validator for what came of it.
    wishes = Wishes(max_calls=3 + (once is not None) if short else None)
    ended = await at.run(plan=plan(task("a", checks=[{"regex": "result"}]), task("b", "a")), wishes=wishes)
    assert ended.state == ("stopped" if short else "answered")
    at.pool.given["other"] = Answers(lambda _: "something new", id="other")
    report = await again(replace(at, settings=_with_provider(at, "other")), ended.run, worker="other")
    assert report["miss"].startswith("program "), report


async def test_a_program_of_a_check_ends_each_time_as_it_ended_then(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    fickle = f"import os, sys; been = os.path.exists({str(trace)!r}); open({str(trace)!r}, 'w'); sys.exit(not been)"
    checks = [{"command": [sys.executable, "-I", "-S", "-c", fickle]}]
    at = desk(Answers(lambda each: "the same" if who(each)[0] == "worker" else obliging(each)))
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert [entry.data["ok"] for entry in at.entries(ended.run, "task.judged")] == [False, True]
    report = await again(at, ended.run)
    assert report["identical"] is True, report


@pytest.mark.parametrize("program", [False, True])
async def test_a_check_gets_a_result_with_its_line_ends_after_a_crash_too(tmp_path: Path, program: bool) -> None:
    (tmp_path / "check.py").write_text("import sys; sys.exit(0 if sys.stdin.read().endswith('.\\n') else 3)")
    checks = [{"command": [sys.executable, str(tmp_path / "check.py")]}]
    said = (
        completion("All is well.\n")
        if not program
        else completion("All is well.", output=b"All is well.\n", exit_code=0)
    )
    ledger = Ledger()
    at = desk(Answers(lambda _: said), store=ledger)
    wishes = Wishes(judge="checks", answer="join", ladder=("told",))
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=wishes)
    assert ended.state == ("failed" if program else "answered")
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(lambda _: said), store=ledger.until(commits))
        assert (await resumed.runs.drive(ended.run)).state == ended.state, commits
        report = await again(resumed, ended.run)
        assert report["identical"] is True, (commits, report)


async def test_a_program_that_said_more_than_is_kept_says_the_same_again() -> None:
    says = f"import sys; sys.exit('a' * 100 + ' ' + 'b' * {judge.DETAIL_CHARACTERS - 1})"
    at = desk(Answers())
    checks = [{"command": [sys.executable, "-I", "-S", "-c", says]}]
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    report = await again(at, ended.run)
    assert report["identical"] is True, report


async def test_a_program_that_could_not_be_run_fails_again_in_the_same_words(tmp_path: Path) -> None:
    checks = [{"command": [str(tmp_path / "no-such-program")]}]
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    report = await again(at, ended.run)
    assert report["identical"] is True, report


async def test_a_tampered_body_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    settings = Settings(ledger=str(ledger), state=tmp_path / "state")
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        run = await hansard.submit("please", plan=plan(task("a", lane="backend")), provider="told")
        assert (await run.ended()).state == "answered"
    with sqlite3.connect(ledger) as edit:
        edit.execute(
            "update bodies set body = cast('another result' as blob) where body = cast('result of a, attempt 1' as blob)"
        )
        assert edit.total_changes > 0
    edit.close()
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        with pytest.raises(StoreError, match="does not open its commitment"):
            await hansard.runs.rerun(run.id)


async def test_a_tampered_entry_is_refused(tmp_path: Path) -> None:
    """Also one that nothing is decided by, in a part of the log that nobody looks at when it is opened."""
    ledger = tmp_path / "l.db"
    settings = Settings(ledger=str(ledger), state=tmp_path / "state")
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        runs = []
        for _ in range(30):
            runs.append(await hansard.submit("please", plan=plan(task("a", lane="backend")), provider="told"))
            assert (await runs[-1].ended()).state == "answered"
    with sqlite3.connect(ledger) as edit:
        [(newest,)] = edit.execute("select max(seq) from entries").fetchall()
        edit.execute(
            """update entries set line = replace(line, '"latency_us":', '"latency_us":1')
            where run = ? and kind = 'task.returned'""",
            (runs[0].id,),
        )
        assert edit.total_changes == 1
        assert newest > 300
    edit.close()
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        with pytest.raises(StoreError, match="not what the log's tree says it is"):
            await hansard.runs.rerun(runs[0].id)
        assert (await hansard.runs.rerun(runs[-1].id))["identical"] is True


async def test_a_run_that_a_redaction_took_an_answer_from_says_so() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a")))
    returned = at.entries(ended.run, "task.returned")[0]
    at.store.erase((returned.seq, "output"))
    with pytest.raises(StoreError, match=f"output of entry {returned.seq}"):
        await again(at, ended.run)


@pytest.mark.parametrize(("kind", "part"), [("run.requested", "request"), ("run.routed", "evidence")])
async def test_what_a_redaction_took_is_not_called_a_divergence(kind: str, part: str) -> None:
    at = desk(Answers())
    ended = await at.run()
    [entry] = at.entries(ended.run, kind)
    at.store.erase((entry.seq, part))
    with pytest.raises(StoreError, match=f"the {part} of entry {entry.seq} is not in the ledger any more"):
        await again(at, ended.run)


def test_the_verdicts_that_these_tests_speak_of_differ() -> None:
    assert FINE["ok"] is not POOR["ok"]


async def test_what_was_skipped_when_a_run_was_cancelled_does_not_pass_for_what_was_skipped_behind_a_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, judged = asyncio.Event(), asyncio.Event()

    async def says(exchange: Exchange) -> Said:
        if who(exchange) == ("worker", "a", 2):
            return fails("invalid_request", "it did not work")
        begun.set()
        await asyncio.Event().wait()
        return ""

    at = desk(Answers(says))
    run = await at.submit(plan=plan(task("a"), task("b"), task("c", "a")))
    driving = asyncio.ensure_future(at.runs.drive(run))
    await begun.wait()
    await at.runs.cancel(run)
    assert (await driving).state == "cancelled"
    await at.runs.ask_to_retry(run, "c")
    driving = asyncio.ensure_future(at.runs.drive(run))
    while not [each for each in at.entries(run, "task.skipped") if each.data["because"] == "upstream"]:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.wait([driving])
    record_all = Journal.record_all

    async def slowly(journal: Journal, steps: Sequence[Step]) -> Any:
        recorded = await record_all(journal, steps)
        if any(isinstance(step.fact, TaskJudged) for step in steps):
            # Long enough for somebody to look whether that was all.
            judged.set()
            await asyncio.sleep(0.1)
        return recorded

    monkeypatch.setattr(Journal, "record_all", slowly)
    report = await again(at, run)
    assert report["identical"] is True, report
    assert judged.is_set()
