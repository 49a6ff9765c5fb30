"""Runs that came to the end of a budget: whoever got the last of it gets it again."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Cost, Exchange
from rerunning import DIAMOND, Slow, comes_out_the_same, comes_out_the_same_wherever_it_ends, cut, gated
from running import (
    Answers,
    Ledger,
    Said,
    completion,
    desk,
    obliging,
    plan,
    roster,
    task,
    who,
)


@pytest.mark.parametrize("limit", [1, 3, 6])
async def test_a_run_that_ran_out_of_calls_stops_at_the_same_place(limit: int) -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a"), task("b", "a"), task("c", "b")), wishes=Wishes(max_calls=limit))
    assert ended.state == "stopped"
    await comes_out_the_same(at, ended.run)


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
        await comes_out_the_same(elsewhere, ended.run)


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
    await comes_out_the_same(at, ended.run)


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
    await comes_out_the_same_wherever_it_ends(ledger, run)


async def test_who_got_the_last_of_a_lanes_budget_gets_it_again() -> None:
    at = desk(Answers(Reversed()))
    lanes = roster(alpha={"budget": Budget(max_calls=4)})
    ended = await at.run(plan=SIDE_BY_SIDE, wishes=Wishes(roster=lanes))
    assert {entry.data["lane"] for entry in at.entries(ended.run, "budget.breached")} == {"alpha"}
    await comes_out_the_same(at, ended.run)


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
    await comes_out_the_same(at, run)


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
    await comes_out_the_same_wherever_it_ends(ledger, ended.run)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wishes", scarce(2, 1))
async def test_what_a_budget_refused_behind_a_crash_is_refused_again_wherever_the_record_ends(wishes: Wishes) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ended = await at.run(plan=plan(task("a"), task("b", lane="beta")), wishes=wishes)
    for killed in range(3, len(ledger.commits)):
        copy = ledger.until(killed)
        await desk(Answers(), store=copy).runs.drive(ended.run)
        await comes_out_the_same_wherever_it_ends(copy, ended.run, first=killed + 1)


async def test_a_task_that_was_turned_away_before_the_budget_ended_may_be_skipped_for_the_budget() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    run = await gated(
        at,
        {"tasks": ["a", "c"]},
        wishes=Wishes(max_calls=1, judge="checks"),
        work=plan(task("a"), task("b"), task("c"), task("d")),
    )
    await at.runs.drive(run)
    opened = at.entries(run, "gate.opened")[0]
    copy = ledger.until(next(n for n in range(len(ledger.commits)) if ledger.until(n).head().size > opened.seq))
    resumed = desk(Answers(), store=copy)
    await Gates(resumed.recorder, copy).decide(str(opened.data["gate"]), "reject", actor="human:ann")
    assert (await resumed.runs.drive(run)).state == "stopped"
    assert resumed.entries(run, "task.skipped")[0].data["because"] == "gate"
    await comes_out_the_same(resumed, run)


async def test_whoever_sends_no_bill_sends_none_for_an_answer_that_was_cut_short_either() -> None:
    slow = Slow(("validator", "a"))
    at = desk(Answers(slow), settings={"prices": {"told": {"input": 10, "output": 10}}})
    await comes_out_the_same(at, await cut(at, slow, "cancelled", max_usd="0.002"))


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
    await comes_out_the_same(at, ended.run)
