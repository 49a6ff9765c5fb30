"""Providers that fail in each of the twelve kinds: what is tried again, what climbs, and that every call is on the record."""

import asyncio
from dataclasses import replace
from typing import Any, get_args

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import RETRYABLE, Completion, ErrorKind, Exchange
from hansard.errors import UsageError
from providers.pretend import Doing
from running import FINE, Answers, Said, audit, completion, desk, fails, one, plan, reasons, task, who

ALL: tuple[ErrorKind, ...] = get_args(ErrorKind)
PASSING = RETRYABLE
CHECKS = Wishes(judge="checks", answer="join")
TIERS = {"tiers": {"cheap": "cheap", "capable": "capable"}}


@pytest.mark.parametrize("kind", ALL)
async def test_a_failing_worker_is_tried_again_only_where_that_may_help_and_each_try_is_an_attempt(
    kind: ErrorKind,
) -> None:
    provider = Answers(lambda _: fails(kind, "it did not work"))
    made = desk(provider)
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "failed"
    tries = 3 if kind in PASSING else 1
    attempts, results = made.entries(ended.run, "task.attempted"), made.entries(ended.run, "task.returned")
    assert len(provider.calls) == len(attempts) == len(results) == tries
    assert [each.data["attempt"] for each in attempts] == list(range(1, tries + 1))
    assert {each.data["error"] for each in results} == {kind}
    for before, after in zip(results, attempts[1:], strict=False):
        assert before.seq in after.causes
    verdict = one(made.entries(ended.run, "task.judged"))
    assert (verdict.data["ok"], verdict.data["by"], verdict.data["attempt"]) == (False, "engine", tries)
    assert reasons(made, verdict)[0]["detail"] == f"{kind}: it did not work"
    assert one(made.entries(ended.run, "run.ended")).data["calls"] == tries
    audit(made.store, ended.run)


@pytest.mark.parametrize("kind", ALL)
async def test_a_failing_worker_climbs_the_ladder_on_the_recorded_verdict(kind: ErrorKind) -> None:
    cheap, capable = Answers(lambda _: fails(kind), id="cheap", model="small"), Answers(id="capable", model="large")
    made = desk(cheap, capable, settings=TIERS)
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "answered"
    climbed = one(made.entries(ended.run, "task.escalated"))
    assert (climbed.data["from_rung"], climbed.data["to_rung"]) == ("cheap", "capable")
    rejected, passed = made.entries(ended.run, "task.judged")
    assert climbed.causes == (rejected.seq,)
    assert passed.data["ok"] is True
    last = made.entries(ended.run, "task.attempted")[-1]
    assert (last.data["rung"], last.data["provider"], last.data["model"]) == ("capable", "capable", "large")
    assert climbed.seq in last.causes


async def test_a_failure_that_passes_by_itself_costs_a_try_and_not_a_rung() -> None:
    said: list[Said] = [fails("rate_limit"), fails("network"), "done"]
    made = desk(Answers(lambda _: said.pop(0)))
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "answered"
    returned = made.entries(ended.run, "task.returned")
    assert [each.data["ok"] for each in returned] == [False, False, True]
    # Whoever looks on is told how long nothing happens.
    assert [each.data.get("pause_us", 0) > 0 for each in returned] == [True, True, False]
    assert len(made.entries(ended.run, "task.judged")) == 1


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("role", ["validator", "synthesizer", "coordinator", "classifier"])
async def test_a_failing_role_is_asked_again_only_where_that_may_help(kind: ErrorKind, role: str) -> None:
    def says(exchange: Exchange) -> Said:
        asked = who(exchange)[0]
        if asked == role:
            return fails(kind, "it did not work")
        return FINE if asked == "validator" else "work"

    provider = Answers(says)
    made = desk(provider)
    how: dict[str, Any] = {"coordinator": {}, "classifier": {"mode": "single"}}.get(
        role, {"plan": plan(task("a"), task("b"))}
    )
    ended = await made.run("zyx wvu tsr", **how)
    assert ended.state == "failed"
    assert made.answer(ended.run) is None
    questions, answers = made.entries(ended.run, "role.asked"), made.entries(ended.run, "role.answered")
    mine = [each for each in questions if each.data["role"] == role]
    assert len(questions) == len(answers)
    assert len(mine) == len(provider.asked(role))
    # Corrections are for answers in the wrong shape; what fails in passing is asked again after a pause.
    tries = 3 if kind in PASSING else 1
    assert len(mine) == tries * (2 if role == "validator" else 1)
    audit(made.store, ended.run)


async def test_before_another_try_as_much_time_goes_by_as_the_record_says() -> None:
    slept: list[float] = []

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)

    failed: set[str] = set()

    def says(exchange: Exchange) -> Said:
        role = who(exchange)[0]
        if role in failed:
            return FINE if role == "validator" else "work"
        failed.add(role)
        return fails("rate_limit")

    made = desk(Answers(says))
    made.pool.plugged = {"sleep": sleep}
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "answered"
    told = [each.data["pause_us"] for each in made.entries(ended.run) if each.data.get("pause_us")]
    assert len(told) == 2
    assert [round(pause_s * 1_000_000) for pause_s in slept] == pytest.approx(told, abs=1)


async def test_a_judge_that_says_nothing_sends_nobody_up_the_ladder() -> None:
    def says(exchange: Exchange) -> Said:
        return fails("auth_failure") if who(exchange)[0] == "validator" else "work"

    capable = Answers(says, id="capable")
    made = desk(Answers(says, id="cheap"), capable, settings=TIERS)
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "failed"
    assert capable.asked("worker") == []
    assert one(made.entries(ended.run, "task.judged")).data["by"] == "engine"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_answer_that_is_not_whole_is_rejected_and_climbs(finish: Any) -> None:
    cheap = Answers(lambda _: completion("half of it", finish=finish), id="cheap")
    made = desk(cheap, Answers(id="capable"), settings=TIERS)
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "answered"
    rejected, _ = made.entries(ended.run, "task.judged")
    assert finish in reasons(made, rejected)[0]["detail"]


async def test_a_provider_that_raises_fails_its_attempt_and_not_the_run() -> None:
    class Odd(Exception):
        pass

    def says(exchange: Exchange) -> Said:
        if who(exchange)[1] == "a":
            raise Odd("out of cheese")
        return "fine"

    made = desk(Answers(says))
    ended = await made.run(plan=plan(task("a"), task("b")), wishes=CHECKS)
    assert ended.state == "partial"
    result = one([each for each in made.entries(ended.run, "task.returned") if each.data["task"] == "a"])
    assert result.data["error"] == "internal"
    assert "out of cheese" in made.text(result, "output")


def _raising(error: BaseException) -> Doing:
    async def do(_: Exchange) -> Completion:
        raise error

    return Doing(do)


def _giving(what: object) -> Doing:
    async def do(_: Exchange) -> object:
        return what

    return Doing(do)


@pytest.mark.parametrize(
    ("stranger", "said"),
    [
        (_raising(RuntimeError("boom")), "RuntimeError: boom"),
        (_raising(asyncio.CancelledError()), "cancelled from inside"),
        (_giving("just a text"), "a Python str instead of a Completion"),
        (_giving(None), "a Python NoneType instead of a Completion"),
    ],
)
async def test_a_provider_that_is_handed_in_and_keeps_no_contract_fails_its_attempt_and_not_the_run(
    stranger: Doing, said: str
) -> None:
    made = desk(stranger)
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert (ended.state, ended.reason) == ("failed", "nothing_passed")
    result = one(made.entries(ended.run, "task.returned"))
    assert result.data["error"] == "internal"
    assert said in reasons(made, one(made.entries(ended.run, "task.judged")))[0]["detail"]
    audit(made.store, ended.run)


async def test_the_whole_ladder_is_climbed_and_then_the_task_is_lost() -> None:
    poor = {"ok": False, "score": 0, "reasons": "no good"}

    def says(exchange: Exchange) -> Said:
        return poor if who(exchange)[0] == "validator" else "work"

    provider = Answers(says, id="cheap")
    made = desk(
        provider,
        Answers(says, id="capable"),
        Answers(says, id="frontier"),
        settings={"tiers": {"cheap": "cheap", "capable": "capable", "frontier": "frontier"}},
    )
    ended = await made.run(plan=plan(task("a"), task("b", "a")))
    assert ended.state == "failed"
    assert [each.data["rung"] for each in made.entries(ended.run, "task.attempted")] == ["cheap", "capable", "frontier"]
    assert one(made.entries(ended.run, "task.skipped")).data["upstream"] == "a"
    audit(made.store, ended.run)


async def test_a_task_that_is_lost_leaves_its_place_to_those_that_wait() -> None:
    provider = Answers(lambda exchange: "" if who(exchange)[1] == "a" else "fine")
    made = desk(provider)
    rows = plan(task("a"), task("b"), task("c", "a", on_upstream_failure="run"))
    ended = await made.run(plan=rows, wishes=replace(CHECKS, max_parallel=1))
    assert (ended.state, ended.detail) == ("partial", "without a")
    assert sorted(str(each.data["task"]) for each in made.entries(ended.run, "task.attempted")) == ["a", "b", "c"]
    assert provider.peak["worker"] == 1


async def test_tries_on_one_rung_come_before_the_next_rung() -> None:
    poor = {"ok": False, "score": 0, "reasons": "no good"}

    def says(exchange: Exchange) -> Said:
        return poor if who(exchange)[0] == "validator" else "work"

    made = desk(Answers(says, id="cheap"), Answers(says, id="capable"), settings={**TIERS, "run": {"tries": 2}})
    ended = await made.run(plan=plan(task("a")))
    rungs = [each.data["rung"] for each in made.entries(ended.run, "task.attempted")]
    assert rungs == ["cheap", "cheap", "capable", "capable"]
    audit(made.store, ended.run)


async def test_a_check_whose_program_is_not_there_is_refused_before_anybody_is_paid_to_be_rejected_by_it() -> None:
    provider = Answers()
    at = desk(provider)
    with pytest.raises(UsageError, match="there is no program 'no-such-program' on the PATH"):
        await at.submit(plan=plan(task("a", checks=[{"command": ["no-such-program"]}])))
    assert list(at.store.lines()) == list(at.store.lines(0, 1))
    # What lies at a path may be what another task makes.
    ended = await at.run(plan=plan(task("a", checks=[{"command": ["./made-by-nobody"]}])))
    assert ended.state == "failed"
