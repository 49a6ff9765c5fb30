"""Budgets of a run and of a lane: what is stopped, what was spent, and what the record says of it."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import MOST_SPENT, Budget, usd
from hansard.domain.exchange import Exchange
from hansard.errors import Unavailable, UsageError
from hansard.providers.checks import MOST_USD_NANO
from hansard.store.base import Group, Outcome, Seal
from running import FINE, Answers, Desk, Ledger, Said, audit, completion, desk, obliging, one, plan, roster, task, who

PRICES = {"prices": {"told": {"input": 1, "output": 5}}}
FAN = [task(f"t{each}") for each in range(20)]
CHECKS = {"judge": "checks", "answer": "join"}


def wishes(**more: Any) -> Wishes:
    return Wishes(**{**CHECKS, **more})


def counted(tokens: tuple[int, int], cost_usd_nano: int = 0) -> Any:
    async def says(exchange: Exchange) -> Said:
        await asyncio.sleep(0.01)
        return completion(f"done {who(exchange)[1]}", tokens=tokens, cost_usd_nano=cost_usd_nano)

    return says


def breach_of(made: Desk, run: str) -> dict[str, Any]:
    return dict(one(made.entries(run, "budget.breached")).data)


async def test_a_limit_of_calls_holds_with_twenty_tasks_at_once_and_the_rest_is_skipped_for_it() -> None:
    provider = Answers(counted((10, 10)))
    made = desk(provider)
    ended = await made.run(plan=plan(*FAN), wishes=wishes(max_calls=7, max_parallel=20))
    assert (ended.state, ended.reason) == ("stopped", "budget")
    assert len(provider.calls) == 7
    assert breach_of(made, ended.run) == {"unit": "calls", "limit": 7, "spent": 7}
    breach = one(made.entries(ended.run, "budget.breached"))
    skipped = made.entries(ended.run, "task.skipped")
    assert len(skipped) == 13
    assert {(each.data["because"], each.causes) for each in skipped} == {("budget", (breach.seq,))}
    assert one(made.entries(ended.run, "run.ended")).data["calls"] == 7
    audit(made.store, ended.run)


async def test_a_limit_of_tokens_bounds_answers_and_stops_the_run_when_it_is_used_up() -> None:
    provider = Answers(counted((300, 100)))
    made = desk(provider)
    ended = await made.run(plan=plan(*FAN), wishes=wishes(max_tokens=3_000, max_parallel=20))
    assert ended.state == "stopped"
    breach = breach_of(made, ended.run)
    assert (breach["unit"], breach["limit"]) == ("tokens", 3_000)
    assert breach["spent"] == 400 * len(provider.calls) <= 3_000
    assert 3_000 - breach["spent"] < 800
    assert any(each.limits.max_output_tokens is not None for each in provider.calls)


async def test_tasks_that_cost_less_than_was_set_aside_for_them_do_not_end_a_run_whose_budget_suffices() -> None:
    """Twenty reservations at once are more than the budget, twenty answers are not: the later ones wait."""
    provider = Answers(counted((50, 50)))
    made = desk(provider)
    ended = await made.run(plan=plan(*FAN), wishes=wishes(max_tokens=4_000, max_parallel=20))
    assert ended.state == "answered"
    assert len(provider.calls) == 20
    assert one(made.entries(ended.run, "run.ended")).data["tokens"] == 2_000


async def test_a_limit_of_money_holds_for_a_model_with_a_price() -> None:
    provider = Answers(counted((300, 200), 2_000_000), unmetered=False)
    made = desk(provider, settings={**PRICES, "run": {"max_output_tokens": 400}})
    ended = await made.run(plan=plan(*FAN), wishes=wishes(max_usd="0.01", max_parallel=20))
    assert ended.state == "stopped"
    breach = breach_of(made, ended.run)
    assert (breach["unit"], breach["limit"]) == ("cost_usd_nano", 10_000_000)
    assert breach["spent"] == 2_000_000 * len(provider.calls) <= 10_000_000
    assert ended.detail == f"money: ${usd(breach['spent'])} of $0.01 spent"


async def test_whoever_waited_for_the_budget_asks_nobody_once_it_has_ended_the_run() -> None:
    """`dear` climbs to a model for which the rest of the money is too little; it would be enough for `later`, who waits behind."""
    before = {"first": ("task.escalated", "dear"), "slow": ("task.judged", "first")}

    async def says(exchange: Exchange) -> Said:
        about = who(exchange)[1]
        if about in before:
            kind, other = before[about]
            while other not in [each.data["task"] for each in made.entries(run, kind)]:  # noqa: ASYNC110 - the record tells
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        return completion("" if about == "dear" else "done", cost_usd_nano=100_000 if about == "slow" else 2_000_000)

    provider = Answers(says, unmetered=False)
    prices = {"told": {"input": 1, "output": 5}, "better": {"input": 100, "output": 5}}
    made = desk(provider, settings={"prices": prices, "run": {"max_output_tokens": 400}})
    limits = wishes(max_usd="0.007", max_parallel=20, ladder=("told", "told:better"))
    run = await made.submit(plan=plan(task("dear"), task("slow"), task("first"), task("later", "first")), wishes=limits)
    assert (await made.runs.drive(run)).state == "stopped"
    breach = one(made.entries(run, "budget.breached"))
    assert breach.data["limit"] - breach.data["spent"] > 2_500_000
    assert {who(each)[1] for each in provider.calls} == {"dear", "slow", "first"}
    assert [each for each in made.entries(run, "task.attempted") if each.seq > breach.seq] == []


async def test_under_a_limit_of_money_a_model_without_a_price_is_refused_before_anything_is_recorded() -> None:
    provider = Answers(unmetered=False)
    made = desk(provider)
    with pytest.raises(UsageError, match=r"price of 'told'.* or unmetered = true into"):
        await made.run(plan=plan(task("a")), wishes=wishes(max_usd="1"))
    with_lane = roster(beta={"budget": Budget(max_cost_usd_nano=1_000)})
    with pytest.raises(UsageError, match="price of 'told'"):
        await made.run(plan=plan(task("a")), wishes=wishes(roster=with_lane))
    assert provider.calls == []
    assert made.store.head().size == 1


async def test_a_limit_of_money_holds_where_nobody_knows_the_price_any_more() -> None:
    at = desk(Answers(counted((1_000, 1_000)), unmetered=False), settings=PRICES)
    run = await at.submit(plan=plan(*FAN), wishes=wishes(max_usd="0.03", max_parallel=1))
    elsewhere = desk(Answers(counted((1_000, 1_000)), unmetered=False), store=at.store)
    ended = await elsewhere.runs.drive(run)
    assert (ended.state, breach_of(at, run)["unit"]) == ("stopped", "cost_usd_nano")
    returned = at.entries(run, "task.returned")
    assert len(returned) == 5
    assert {(entry.data["cost_usd_nano"], entry.data["cost_basis"]) for entry in returned} == {
        (6_000_000, "price_table")
    }


async def test_who_is_unmetered_passes_under_a_limit_of_money_and_is_never_called_a_bill() -> None:
    made = desk(Answers(counted((10, 10), 5_000)))
    ended = await made.run(plan=plan(task("a")), wishes=wishes(max_usd="0"))
    assert ended.state == "answered"
    assert one(made.entries(ended.run, "task.returned")).data["cost_basis"] == "estimate"


@pytest.mark.parametrize(
    ("budget", "unit"),
    [
        (Budget(max_calls=2), "calls"),
        (Budget(max_tokens=900), "tokens"),
        (Budget(max_cost_usd_nano=2_200_000), "cost_usd_nano"),
    ],
)
async def test_a_lane_that_has_spent_its_budget_loses_its_tasks_and_the_others_go_on(budget: Budget, unit: str) -> None:
    provider = Answers(counted((300, 100), 1_000_000), unmetered=False)
    made = desk(provider, settings={**PRICES, "run": {"max_output_tokens": 100}})
    tasks = [task(f"a{each}") for each in range(4)] + [task(f"b{each}", lane="beta") for each in range(3)]
    tasks.append(task("after", "a3"))
    limits = wishes(roster=roster(alpha={"budget": budget}), max_parallel=1)
    ended = await made.run(plan=plan(*tasks), wishes=limits)
    assert ended.state == "partial"
    lanes = [each.metadata["lane"] for each in provider.calls]
    assert (lanes.count("alpha"), lanes.count("beta")) == (2, 3)
    breaches = [dict(each.data) for each in made.entries(ended.run, "budget.breached")]
    assert {(each["unit"], each["lane"]) for each in breaches} == {(unit, "alpha")}
    skipped = {str(each.data["task"]): each.data["because"] for each in made.entries(ended.run, "task.skipped")}
    assert skipped == {"a2": "budget", "a3": "budget", "after": "upstream"}
    audit(made.store, ended.run)


async def test_the_seconds_of_a_lane_are_those_that_its_calls_took_and_bound_the_last_one() -> None:
    async def slow(exchange: Exchange) -> Said:
        await asyncio.sleep(30 if who(exchange)[1] == "a1" else 0.05)
        return "done"

    provider = Answers(slow)
    made = desk(provider)
    limited = wishes(roster=roster(alpha={"budget": Budget(max_seconds=0.4)}), max_parallel=1)
    ended = await made.run(plan=plan(task("a0"), task("a1"), task("a2"), task("b", lane="beta")), wishes=limited)
    assert ended.state == "partial"
    assert {(each.data["unit"], each.data["lane"]) for each in made.entries(ended.run, "budget.breached")} == {
        ("seconds", "alpha")
    }
    returned = {str(each.data["task"]): each.data.get("error") for each in made.entries(ended.run, "task.returned")}
    assert returned == {"a0": None, "a1": "timeout", "b": None}


async def test_the_judge_of_a_lane_spends_from_its_budget() -> None:
    provider = Answers()
    made = desk(provider)
    limited = roster(alpha={"budget": Budget(max_calls=3)})
    ended = await made.run(plan=plan(task("a"), task("b", "a")), wishes=Wishes(roster=limited, answer="join"))
    assert ended.state == "partial"
    assert [who(each)[:2] for each in provider.calls] == [("worker", "a"), ("validator", "a"), ("worker", "b")]


async def test_a_budget_that_ends_before_the_answer_stops_the_run_with_the_work_on_the_record() -> None:
    provider = Answers()
    made = desk(provider)
    ended = await made.run(plan=plan(task("a"), task("b")), wishes=Wishes(max_calls=4))
    assert ended.state == "stopped"
    assert provider.asked("synthesizer") == []
    assert len(made.entries(ended.run, "task.judged")) == 2
    assert made.answer(ended.run) is None


async def test_a_deadline_cancels_what_is_in_flight() -> None:
    async def slow(exchange: Exchange) -> Said:
        await asyncio.sleep(60 if who(exchange)[1] == "slow" else 0)
        return "done"

    provider = Answers(slow)
    made = desk(provider)
    rows = plan(task("quick"), task("slow"), task("after", "slow"))
    ended = await made.run(plan=rows, wishes=wishes(max_seconds=0.3))
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    assert provider.in_flight["all"] == 0
    breach = breach_of(made, ended.run)
    assert (breach["unit"], breach["limit"]) == ("seconds", 1)
    assert breach["spent"] >= 1
    cut = one([each for each in made.entries(ended.run, "task.returned") if each.data["task"] == "slow"])
    assert (cut.data["ok"], cut.data["error"]) == (False, "deadline")
    assert {each.data["task"] for each in made.entries(ended.run, "task.skipped")} == {"slow", "after"}
    ending = one(made.entries(ended.run, "run.ended"))
    assert ending.data["calls"] == len(provider.calls) == 2
    assert ending.data["elapsed_us"] >= 300_000
    audit(made.store, ended.run)


@pytest.mark.parametrize("seconds", [None, 60.0])
async def test_what_runs_out_of_its_own_time_is_not_the_runs_deadline(
    seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk over a network says so, for one."""

    async def made(_: object) -> None:
        raise TimeoutError("the disk does not answer")

    at = desk(Answers())
    run = await at.submit(wishes=wishes(max_seconds=seconds))
    with monkeypatch.context() as broken:
        broken.setattr("hansard.orchestration.engine.Planner.made", made)
        with pytest.raises(TimeoutError, match="the disk"):
            await at.runs.drive(run)
    assert one(at.entries(run, "run.interrupted")).data["by"] == "error"
    assert (await at.runs.drive(run)).state == "answered"


async def test_a_deadline_ends_the_process_that_is_in_flight(tmp_path: Path) -> None:
    says = "import os,pathlib,time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    table = {"kind": "command", "argv": [sys.executable, "-c", says.replace("'pid'", repr(str(tmp_path / "pid")))]}
    made = desk(settings={"providers": {"slow": table}, "environment": dict(os.environ)})
    ended = await made.run(plan=plan(task("a")), wishes=wishes(max_seconds=2))
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    child = int((tmp_path / "pid").read_text())
    assert await gone(child)


async def gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        await asyncio.sleep(0.02)
    return False


async def test_a_deadline_after_the_answer_cuts_off_the_look_at_it_and_not_the_answer() -> None:
    class Slow:
        async def verify(self, request: str, answer: str) -> None:
            await asyncio.sleep(60)

    made = desk(Answers())
    made.pool.plugged = {"verifier": Slow()}
    ended = await made.run(plan=plan(task("a"), task("b")), wishes=Wishes(max_seconds=1))
    assert ended.state == "answered"
    assert made.answer(ended.run) == "the answer"
    assert breach_of(made, ended.run)["unit"] == "seconds"
    [said] = [each for each in made.runs.show(ended.run)["checks"] if each["check"] == "verifier"]
    assert (said["outcome"], "time of the run was over" in said["detail"]) == ("crashed", True)
    audit(made.store, ended.run)


@pytest.mark.parametrize("slow", ["verifier", "intent_judge"])
async def test_a_verifier_that_the_deadline_went_before_is_no_decision_of_the_run(slow: str) -> None:
    async def late(said: Said) -> Said:
        await asyncio.sleep(60)
        return said

    class Verifier:
        async def verify(self, request: str, answer: str) -> None:
            if slow == "verifier":
                await asyncio.sleep(60)

    made = desk(Answers(lambda e: late("") if who(e)[0] == slow else obliging(e)))
    made.pool.seams["own"] = Verifier()
    wanted = replace(made.config(Wishes(max_seconds=1, judge_intent=True)), verifier={"python": "own"})
    run = await made.runs.submit("compare bananas and deployments", wanted, plan=plan(task("a"), task("b")))
    assert (await made.runs.drive(run)).state == "answered"
    assert [each["outcome"] for each in made.runs.show(run)["checks"] if each["check"] == "verifier"] == ["crashed"]
    again = await made.runs.rerun(run, {})
    assert again["identical"] is True, again


async def test_what_was_spent_before_an_interruption_and_what_was_under_way_then_count_after_it() -> None:
    provider = Answers(counted((10, 10)))
    made = desk(provider)
    run = await made.submit(plan=plan(*FAN), wishes=wishes(max_calls=5, max_parallel=1))
    driving = asyncio.ensure_future(made.runs.drive(run))
    await asyncio.wait_for(provider.asked_times(3), 60)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    ended = await made.runs.resume(run)
    assert ended.state == "stopped"
    assert len(made.entries(run, "task.returned")) == 4
    assert made.entries(run, "run.ended")[0].data["calls"] == 5
    assert made.runs.show(run)["spent"]["calls"] == 5
    again = await made.runs.rerun(run, {})
    assert again["identical"] is True, again
    assert breach_of(made, run)["spent"] == 5


def setting_the_clock(ledger: Ledger, by_s: float) -> Any:
    """Says what is asked for, and sets the clock while the second task is under way."""

    def says(exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        if (role, id) == ("worker", "b"):
            ledger._clock = lambda: time.time() + by_s
        return FINE if role == "validator" else "done"

    return says


THREE = plan(task("a"), task("b", "a"), task("c", "b"))


class Failing(Ledger):
    """A ledger that takes so many commits, and then none for a while."""

    most = 1 << 60

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        if len(self.commits) >= self.most:
            raise Unavailable("the disk is full")
        return super().append(groups, seal)


@pytest.mark.parametrize("by_s", [3 * 86_400, -3 * 86_400])
async def test_a_clock_that_is_set_takes_no_time_from_a_run_that_goes_on_where_its_driver_was_lost(by_s: float) -> None:
    """Nor does a machine that sleeps: the clock on the wall goes on meanwhile, and a run's own does not."""
    lost = 0
    for commits in range(3, 20):
        ledger = Failing()
        at = desk(Answers(setting_the_clock(ledger, by_s)), store=ledger)
        run = await at.submit(plan=THREE, wishes=wishes(max_seconds=600))
        ledger.most = commits
        try:
            assert (await at.runs.drive(run)).state == "answered"
        except Unavailable:
            lost += 1
        ledger.most = Failing.most
        assert (await at.runs.drive(run)).state == "answered"
        assert 0 < one(at.entries(run, "run.ended")).data["elapsed_us"] < 60_000_000
    assert lost > 3


async def test_a_clock_that_was_set_takes_no_time_from_a_retry_nor_from_a_run_that_was_interrupted() -> None:
    ledger = Ledger()
    at = desk(Answers(setting_the_clock(ledger, 3 * 86_400)), store=ledger)
    run = await at.submit(plan=THREE, wishes=wishes(max_seconds=600))
    assert (await at.runs.drive(run)).state == "answered"
    assert (await at.runs.retry(run, "c")).state == "answered"

    reached, slow = asyncio.Event(), Ledger()

    async def never(exchange: Exchange) -> Said:
        slow._clock = lambda: time.time() + 3 * 86_400
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    run = await (first := desk(Answers(never), store=slow)).submit(plan=THREE, wishes=wishes(max_seconds=600))
    driving = asyncio.ensure_future(first.runs.drive(run))
    await reached.wait()
    driving.cancel()
    await asyncio.wait([driving])
    assert (await desk(Answers(lambda _: "done"), store=slow).runs.drive(run)).state == "answered"


async def test_a_run_whose_seconds_nobody_counts_does_not_record_them() -> None:
    at = desk(Answers())
    ended = await at.run(plan=THREE, wishes=wishes())
    assert not [each for each in at.entries(ended.run, "task.returned") if "elapsed_us" in each.data]


async def test_live_entries_tell_what_is_spent_while_the_run_goes_on() -> None:
    made = desk(Answers(counted((10, 10))))
    run = await made.submit(plan=plan(task("a"), task("b", "a")), wishes=wishes(max_calls=9))
    spent: list[int] = []
    made.runs.listen(lambda _, recorded: spent.append(made.runs.show(run)["spent"]["calls"]))
    await made.runs.drive(run)
    assert spent[-1] == 2
    assert sorted(spent) == spent
    assert made.runs.show(run)["budget"]["max_calls"] == 9


async def test_a_role_that_is_corrected_pays_for_every_turn() -> None:
    turns: Iterator[Said] = iter(["prose", FINE])

    def says(exchange: Exchange) -> Said:
        return next(turns) if who(exchange)[0] == "validator" else "work"

    made = desk(Answers(says))
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "answered"
    assert one(made.entries(ended.run, "run.ended")).data["calls"] == 3


async def test_counts_that_cannot_be_end_no_run() -> None:
    d = desk(Answers(counted((10**20, 5), cost_usd_nano=10**30), unmetered=False))
    ended = await d.run("x", plan=plan(task("a")), wishes=wishes())
    assert ended.state == "answered"
    returned = one(d.entries(ended.run, "task.returned")).data
    assert (returned["tokens_estimated"], returned["cost_usd_nano"], returned["cost_basis"]) == (True, 0, "unknown")
    audit(d.store, ended.run)


async def test_no_sum_says_more_than_the_record_can_hold() -> None:
    d = desk(Answers(counted((5, 5), cost_usd_nano=MOST_USD_NANO), unmetered=False))
    ended = await d.run("x", plan=plan(*FAN), wishes=wishes())
    assert ended.state == "answered"
    assert len(FAN) * MOST_USD_NANO > MOST_SPENT
    assert one(d.entries(ended.run, "run.ended")).data["cost_usd_nano"] == MOST_SPENT
    [listed] = d.runs.listed()
    assert d.runs.show(ended.run)["spent"] == listed["spent"]
    assert d.runs.figures(ended.run)["cost_usd_nano"] == MOST_SPENT


@pytest.mark.parametrize("how", [{}, {"mode": "single"}, {"plan": plan(task("a"))}], ids=["plan", "single", "brought"])
async def test_a_run_without_any_time_asks_nobody_however_quick_the_ledger_is(how: dict[str, Any]) -> None:
    provider = Answers()
    made = desk(provider, store=Ledger(queued=False))
    ended = await made.run("qqq zzz", wishes=wishes(max_seconds=0), **how)
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    assert provider.calls == []
    assert one(made.entries(ended.run, "run.ended")).data["calls"] == 0
    assert one(made.entries(ended.run, "budget.breached")).data["unit"] == "seconds"
    report = await made.runs.rerun(ended.run)
    assert report["identical"] is True, report
