"""Runs with gates: what people decided is decided again, and each clock stands where it stood."""

import asyncio
import sys
from types import FrameType
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.domain.gate import GateDecided
from hansard.orchestration import gates as gates_module
from hansard.store.memory import MemoryStore
from rerunning import again, comes_out_the_same, comes_out_the_same_wherever_it_ends, gated
from running import (
    Answers,
    Ledger,
    Said,
    desk,
    obliging,
    plan,
    task,
    who,
)


@pytest.mark.parametrize("retried", ["a", "b"])
@pytest.mark.parametrize("is_decided", [False, True])
async def test_a_task_that_is_retried_while_another_or_itself_waits_at_a_gate(retried: str, is_decided: bool) -> None:
    at = desk(Answers())
    run = await gated(at, {"tasks": ["b"]})
    gates = Gates(at.recorder, at.store)
    [first] = (await at.runs.drive(run)).gates
    if is_decided:
        await gates.decide(first, "approve", actor="human:ann")
    [second] = (await at.runs.retry(run, retried)).gates
    assert second != first
    await gates.decide(second, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    await comes_out_the_same(at, run)


async def test_what_people_decided_at_gates_is_decided_again() -> None:
    at = desk(Answers())
    run = await gated(at, {"tasks": ["b"], "needed": 2, "approvers": ["human:ann", "human:bob", "human:cyd"]})
    gates = Gates(at.recorder, at.store)
    first = (await at.runs.drive(run)).gates[0]
    await gates.decide(first, "edit", edit="do b gently", actor="human:ann")
    second = (await at.runs.drive(run)).gates[0]
    await gates.decide(second, "approve", actor="human:bob")
    assert (await at.runs.drive(run)).state == "answered"
    await comes_out_the_same(at, run)


async def test_a_rerun_that_waits_for_what_people_decided_reads_each_entry_a_few_times_however_long_it_takes() -> None:
    at = desk(Answers(), Answers(id="slow", pause_s=1))
    run = await gated(at, {"tasks": ["b"]})
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


@pytest.mark.parametrize("fault", ["on something else", "late"])
async def test_a_gate_that_was_closed_by_a_word_that_does_not_count_is_a_divergence(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = desk(Answers())
    rule: dict[str, Any] = {"tasks": ["a"]} | ({"deadline_s": 3} if fault == "late" else {})
    run = await gated(at, rule, work=plan(task("a")))
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
    run = await gated(at, {"tasks": ["b"], "deadline_s": 0.01})
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    await comes_out_the_same(at, run)


async def test_a_gate_that_expired_before_its_task_was_done_again_expires_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Nobody hands anything over while others work: what is not known at the first look comes too late.
    monkeypatch.setattr("hansard.app.reruns.gates.LOOK_S", 0.5)
    at = desk(Answers())
    run = await gated(at, {"tasks": ["b", "c"], "deadline_s": 1.0}, work=plan(task("a"), task("b", "a"), task("c")))
    assert len((await at.runs.drive(run)).gates) == 2
    await asyncio.sleep(1.0)
    await at.runs.retry(run, "a")
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    assert [entry.data["expired"] for entry in at.entries(run, "gate.closed")] == [True, True, True]
    await comes_out_the_same(at, run)


async def test_a_gate_that_was_decided_in_time_and_is_over_when_its_task_is_retried_ends_as_it_ended_then() -> None:
    at = desk(Answers())
    run = await gated(at, {"tasks": ["b"], "deadline_s": 1.0}, work=plan(task("a"), task("b", "a")))
    [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    await asyncio.sleep(1.0)
    assert (await at.runs.retry(run, "b")).state == "waiting"
    assert (await at.runs.drive(run, wait=True)).state == "partial"
    assert [entry.data["outcome"] for entry in at.entries(run, "gate.closed")] == ["approved", "rejected"]
    await comes_out_the_same(at, run)


async def test_a_gate_that_stands_behind_one_that_expired_ends_as_it_ended_then() -> None:
    at = desk(Answers())
    soon = {"deadline_s": 0.01, "on_expiry": "approve"}
    run = await gated(at, {"before": "plan", **soon}, {"tasks": ["b"], **soon}, {"tasks": ["d"], "deadline_s": 600})
    while len(at.entries(run, "gate.closed")) < 2:
        [gate] = (await at.runs.drive(run)).gates
    await Gates(at.recorder, at.store).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    assert [entry.data["expired"] for entry in at.entries(run, "gate.closed")] == [True, True, False]
    await comes_out_the_same(at, run)


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
    run = await gated(
        at,
        {"tasks": ["a"]},
        wishes=Wishes(max_calls=limit),
        work=plan(task("a"), task("b"), task("c", "a"), task("d", "b")),
    )
    driving = asyncio.ensure_future(at.runs.drive(run))
    await told.asked_times(1)
    [opened] = at.entries(run, "gate.opened")
    await Gates(at.recorder, at.store).decide(str(opened.data["gate"]), "approve", actor="human:ann")
    await asyncio.sleep(0.3)
    free.set()
    assert (await driving).state in ("stopped", "answered")
    await comes_out_the_same(at, run)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", ["edit", "approve", "reject"])
async def test_a_record_that_ends_anywhere_behind_a_gate_that_was_rejected_is_identical_until_then(first: Any) -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    run = await gated(
        at,
        {"tasks": ["e"]},
        {"tasks": ["c"]},
        wishes=Wishes(judge="checks", answer="join"),
        work=plan(task("a"), task("c", "a"), task("d", "c"), task("e")),
    )
    gates = Gates(at.recorder, ledger)
    early, late = (await at.runs.drive(run)).gates
    await gates.decide(late, first, actor="human:ann", edit="do it gently" if first == "edit" else None)
    await at.runs.drive(run)
    await gates.decide(early, "reject", actor="human:ann")
    await at.runs.drive(run)
    await at.runs.retry(run, "e")
    await comes_out_the_same_wherever_it_ends(ledger, run)


async def test_gates_that_were_closed_one_right_behind_the_other_are_so_again_wherever_the_record_ends() -> None:
    at = desk(Answers(), store=Ledger())
    run = await gated(
        at, {"tasks": ["a", "b", "c"]}, wishes=Wishes(judge="checks"), work=plan(task("a"), task("b"), task("c", "a"))
    )
    gates = Gates(at.recorder, at.store)
    while (ended := await at.runs.drive(run)).state == "waiting":
        for gate in ended.gates:
            await gates.decide(gate, "approve", actor="human:ann")
    assert ended.state == "answered"
    await comes_out_the_same_wherever_it_ends(at.store, run)


async def test_gates_that_expired_one_right_behind_the_other_do_so_again_wherever_the_record_ends() -> None:
    at = desk(Answers(), store=Ledger())
    run = await gated(at, {"tasks": ["a", "b"], "deadline_s": 0.05}, work=plan(task("a"), task("b")))
    assert (await at.runs.drive(run, wait=True)).state == "failed"
    await comes_out_the_same_wherever_it_ends(at.store, run)


async def test_whoever_comes_to_a_gate_behind_the_end_of_the_record_holds_nobody_up_at_his_own() -> None:
    async def decide_on_b(said: Said) -> Said:
        [waiting] = [gate["gate"] for gate in gates.listed() if gate["task"] == "b"]
        await gates.decide(waiting, "approve", actor="human:ann")
        return said

    def says(exchange: Exchange) -> Any:
        said = obliging(exchange)
        return decide_on_b(said) if who(exchange)[:2] == ("worker", "a") else said

    at = desk(Answers(says), store=Ledger())
    run = await gated(
        at, {"tasks": ["a", "b", "c"]}, wishes=Wishes(judge="checks"), work=plan(task("a"), task("b"), task("c", "a"))
    )
    gates = Gates(at.recorder, at.store)
    first, _ = (await at.runs.drive(run)).gates
    await gates.decide(first, "approve", actor="human:ann")
    await at.runs.drive(run)
    await comes_out_the_same_wherever_it_ends(at.store, run)


async def test_a_run_that_was_cancelled_at_a_gate_and_then_retried_stands_there_again() -> None:
    at = desk(Answers())
    run = await gated(at, {"tasks": ["b"]})
    assert (await at.runs.drive(run)).state == "waiting"
    await at.runs.cancel(run)
    waiting = await at.runs.retry(run, "a")
    await Gates(at.recorder, at.store).decide(waiting.gates[-1], "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    await comes_out_the_same(at, run)
