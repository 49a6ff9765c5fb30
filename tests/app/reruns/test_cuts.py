"""Runs that were cut (cancelled, out of time, interrupted) are identical up to where they were cut."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.domain.work import TaskJudged
from hansard.orchestration import engine
from hansard.orchestration.journal import Journal
from hansard.orchestration.seams import Verification
from hansard.record.recorder import Step
from hansard.store.base import StoredBody
from panels import PANELS, Voices
from rerunning import DIAMOND, Library, Slow, again, comes_out_the_same, cut, picky, with_provider
from running import (
    POOR,
    Answers,
    Ledger,
    Said,
    desk,
    fails,
    obliging,
    plan,
    task,
    who,
)


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
    report = await comes_out_the_same(at, run)
    assert "cut short" in report["note"]


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
    await comes_out_the_same(killed, run)


CUTS = [("worker", "b"), ("worker", "d"), ("validator", "a"), ("validator", "c"), ("synthesizer", "")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("how", ["cancelled", "interrupted", "deadline"])
@pytest.mark.parametrize("where", CUTS)
async def test_a_run_that_was_cut_in_an_attempt_is_identical_until_then(where: tuple[str, str], how: str) -> None:
    slow = Slow(where)
    at = desk(Answers(slow))
    report = await comes_out_the_same(at, await cut(at, slow, how))
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
    report = await comes_out_the_same(at, run)
    assert report["note"] == ""


async def test_a_record_that_ends_anywhere_is_identical_until_then() -> None:
    ledger = Ledger()
    at = desk(Answers(picky), store=ledger)
    ended = await at.run(plan=DIAMOND, wishes=Wishes(ladder=("told", "told:better")))
    await at.runs.retry(ended.run, "c")
    for commits in range(1, len(ledger.commits) + 1):
        await comes_out_the_same(desk(Answers(picky), store=ledger.until(commits)), ended.run, commits)


async def test_what_came_out_otherwise_before_a_run_was_cut_is_a_divergence() -> None:
    slow = Slow(("worker", "d"))
    at = desk(Answers(slow))
    run = await cut(at, slow, "cancelled")
    at.pool.given["strict"] = Answers(lambda _: POOR, id="strict")
    report = await again(replace(at, settings=with_provider(at, "strict")), run, validator="strict")
    assert report["identical"] is False
    assert report["first_divergence"]["decision"] == "verdict a 1"


async def test_a_task_that_was_skipped_before_the_time_of_the_run_was_over_is_skipped_again() -> None:
    async def says(exchange: Exchange) -> Said:
        role, about, _ = who(exchange)
        if about == "slow":
            await asyncio.sleep(600)
        return POOR if role == "validator" else "done"

    at = desk(Answers(says))
    ended = await at.run(plan=plan(task("a"), task("b", "a"), task("slow")), wishes=Wishes(max_seconds=1))
    assert (ended.state, ended.reason) == ("stopped", "deadline")
    await comes_out_the_same(at, ended.run)


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
    await comes_out_the_same(at, run)


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
    await comes_out_the_same(at, run)
    at.pool.seams["sleepy"] = Library()
    await at.runs.retry(run, "a")
    await comes_out_the_same(at, run)


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
    await comes_out_the_same(at, run)
    assert ledger.late_s > 20


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
    await comes_out_the_same(at, run)
    assert judged.is_set()


async def test_what_a_run_did_not_come_to_before_a_cut_holds_nobody_up_who_began_there() -> None:
    d_done, ledger = asyncio.Event(), Ledger()

    async def says(exchange: Exchange) -> Said:
        role, about, attempt = who(exchange)
        if (role, about, attempt) == ("worker", "late", 1):
            await d_done.wait()
            return fails("invalid_request", "it did not work")
        if (role, about) == ("worker", "e"):
            d_done.set()
        said = obliging(exchange)
        assert isinstance(said, str | dict)
        return said

    # Answered from the record, `late` is lost before `early` sets both others free at once.
    rows = [task("late"), task("early"), task("c", "late", "early", on_upstream_failure="run")]
    rows += [task("d", "early"), task("e", "d")]
    at = desk(Answers(says), store=ledger)
    run = (await at.run(plan=plan(*rows), wishes=Wishes(judge="checks", answer="join"))).run
    lost = next(each.seq for each in at.entries(run, "task.judged") if each.data["task"] == "late")
    behind = next(n for n in range(len(ledger.commits)) if ledger.until(n).head().size > lost)
    at = desk(Answers(says), store=ledger.until(behind))
    assert [each.data["task"] for each in at.entries(run, "task.attempted")] == ["late", "early", "d", "e"]
    await at.runs.cancel(run)
    assert (await at.runs.drive(run)).state == "cancelled"
    await at.runs.ask_to_retry(run, "early")
    assert (await at.runs.drive(run)).state == "partial"
    await comes_out_the_same(at, run)
