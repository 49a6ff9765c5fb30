"""Gates: durable, bound to what was shown, k of n, with deadlines; and no way round them."""

import asyncio
import json
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hansard.app.driving.gates import MAX_TOLD, Decision, Gates, approvals
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.domain.gate import GateDecided
from hansard.domain.work import CancelAsked
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration import engine, watching, working
from hansard.orchestration.config import RunConfig
from hansard.orchestration.ending import Ended
from hansard.orchestration.gatekeeping import Gatekeeper, wall_clock_us
from hansard.orchestration.gates import read_rules
from hansard.orchestration.progress import progress_of
from hansard.orchestration.watching import give_back
from hansard.store.base import Claim, Query, Store
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft
from running import Answers, Desk, Ledger, Said, audit, desk, fails, obliging, one, plan, roster, task, who

CHAIN = plan(task("a"), task("b", "a"), task("c", "b"))


def gates_of(at: Desk) -> Gates:
    return Gates(at.recorder, at.store)


async def at_once(at: Desk, *deciding: Coroutine[Any, Any, Any]) -> list[Any]:
    """What each of these is told. Nobody's word is recorded before all have looked at the gate."""
    looked, record = asyncio.Barrier(len(deciding)), at.recorder.record

    async def together(*given: Any, **named: Any) -> Any:
        await looked.wait()
        return await record(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at.recorder, "record", together)
        return await asyncio.gather(*deciding, return_exceptions=True)


def configured(at: Desk, *rows: dict[str, Any], wishes: Wishes | None = None) -> RunConfig:
    return replace(at.config(wishes), gates=read_rules(rows, "test"))


async def started(at: Desk, *rows: dict[str, Any], work: dict[str, Any] = CHAIN) -> tuple[str, str]:
    """A run that stands at its first gate: its id and the gate's."""
    run = await at.runs.submit("please", configured(at, *rows), plan=work)
    ended = await at.runs.drive(run)
    assert ended.state == "waiting"
    return run, ended.gates[0]


def kinds(at: Desk, run: str) -> list[str]:
    return [entry.kind for entry in at.entries(run)]


async def test_a_plan_waits_at_its_gate_and_goes_on_when_it_is_approved() -> None:
    told = Answers()
    at = desk(told)
    run, gate = await started(at, {"before": "plan"})
    assert told.calls == []
    assert at.runs.show(run)["state"] == "waiting"
    assert gates_of(at).listed()[0]["gate"] == gate
    view = await gates_of(at).decide(gate, "approve", actor="human:ann")
    assert view["decisions"][0]["by"] == "human:ann"
    ended = await at.runs.drive(run)
    assert ended.state == "answered"
    closed = one(at.entries(run, "gate.closed"))
    assert closed.data["outcome"] == "approved"
    assert one(at.entries(run, "gate.decided")).seq in closed.causes
    audit(at.store, run)


async def test_what_is_said_of_a_gate_that_nobody_opened_changes_nothing() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan"})
    await gates_of(at).decide(gate, "approve", actor="human:ann")
    await at.runs.drive(run)
    entries = at.entries(run)
    assert set(progress_of(run, entries).gates) == {gate}
    assert progress_of(run, [entry for entry in entries if entry.kind != "gate.opened"]).gates == {}


async def test_a_rejected_plan_ends_the_run_and_nothing_was_asked() -> None:
    told = Answers()
    at = desk(told)
    run, gate = await started(at, {"before": "plan"})
    await gates_of(at).decide(gate, "reject")
    ended = await at.runs.drive(run)
    assert (ended.state, ended.reason) == ("failed", "gate_rejected")
    assert told.calls == []
    audit(at.store, run)


async def test_a_plan_that_was_rejected_has_no_task_to_do_again() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan"})
    await gates_of(at).decide(gate, "reject")
    await at.runs.drive(run)
    entries = at.entries(run)
    with pytest.raises(UsageError, match="has carried out no plan"):
        await at.runs.retry(run, "a")
    assert at.entries(run) == entries


async def test_an_edited_plan_is_the_plan_that_runs() -> None:
    told = Answers()
    at = desk(told)
    run, gate = await started(at, {"before": "plan"})
    await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("other"))))
    ended = await at.runs.drive(run)
    assert ended.state == "answered"
    made = at.entries(run, "plan.made")
    assert [entry.data["by"] for entry in made] == ["user", "edit"]
    assert one(at.entries(run, "gate.decided")).seq in made[1].causes
    assert [entry.data["task"] for entry in at.entries(run, "task.attempted")] == ["other"]
    audit(at.store, run)


async def test_an_edited_plan_that_is_no_plan_is_refused_before_it_is_recorded() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan"})
    with pytest.raises(UsageError, match="ghost"):
        await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("a", "ghost"))))
    with pytest.raises(UsageError, match="no JSON"):
        await gates_of(at).decide(gate, "edit", edit="just do it")
    assert at.entries(run, "gate.decided") == []


@pytest.mark.parametrize("edit", [" \n", "x" * 1_000_001])
async def test_an_edit_without_words_or_with_too_many_is_refused_before_it_is_recorded(edit: str) -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    with pytest.raises(UsageError, match="must have 1 to 1,000,000 characters"):
        await gates_of(at).decide(gate, "edit", edit=edit)
    assert at.entries(run, "gate.decided") == []


async def test_a_new_text_comes_with_an_edit_and_with_nothing_else() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    wrong: list[tuple[Decision, str | None]] = [("edit", None), ("approve", "do it"), ("reject", "do it")]
    for decision, edit in wrong:
        with pytest.raises(UsageError, match="an edit needs the new text, and nothing else takes one"):
            await gates_of(at).decide(gate, decision, edit=edit)
    assert at.entries(run, "gate.decided") == []


@pytest.mark.parametrize(
    ("kind", "part", "what"), [("run.configured", "config", "configuration"), ("plan.made", "plan", "plan")]
)
async def test_what_cannot_be_held_against_the_record_any_more_is_no_edit(kind: str, part: str, what: str) -> None:
    at = desk(Answers())
    run = await at.submit(plan=CHAIN, wishes=Wishes(gates=("plan", "task:b")))
    [gate] = (await at.runs.drive(run)).gates
    at.store.erase((one(at.entries(run, kind)).seq, part))
    with pytest.raises(UsageError, match=f"the {what} of run {run} is not in the ledger any more"):
        await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("a"))))
    assert at.entries(run, "gate.decided") == []
    # It is shown with whoever has decided all the same.
    await gates_of(at).decide(gate, "approve", actor="human:ann")
    [shown] = gates_of(at).listed(closed=True)
    assert [each["by"] for each in shown["decisions"]] == ["human:ann"]


async def test_a_gate_before_a_task_stops_that_task_only() -> None:
    told = Answers()
    at = desk(told)
    work = plan(task("a"), task("b", "a"), task("free"))
    run, gate = await started(at, {"tasks": ["b"]}, work=work)
    assert sorted(entry.data["task"] for entry in at.entries(run, "task.attempted")) == ["a", "free"]
    opened = one(at.entries(run, "gate.opened"))
    verdict = one([entry for entry in at.entries(run, "task.judged") if entry.data["task"] == "a"])
    assert opened.causes == (verdict.seq,)
    result = one([entry for entry in at.entries(run, "task.returned") if entry.data["task"] == "a"])
    assert result.body["output"] in opened.data["shown"]
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    attempt = one([entry for entry in at.entries(run, "task.attempted") if entry.data["task"] == "b"])
    assert one(at.entries(run, "gate.closed")).seq in attempt.causes
    audit(at.store, run)


async def test_a_gate_before_a_lane_holds_every_task_of_it() -> None:
    at = desk(Answers())
    work = plan(task("a"), task("x", lane="beta"), task("y", lane="beta"))
    run, _ = await started(at, {"lanes": ["beta"]}, work=work)
    assert sorted(entry.data["task"] for entry in at.entries(run, "gate.opened")) == ["x", "y"]
    assert len(gates_of(at).listed(run=run)) == 2


async def test_a_rejected_task_is_skipped_with_what_needs_it_and_the_rest_is_answered() -> None:
    at = desk(Answers())
    work = plan(task("a"), task("b", "a"), task("c", "b"))
    run, gate = await started(at, {"tasks": ["b"]}, work=work)
    await gates_of(at).decide(gate, "reject")
    ended = await at.runs.drive(run)
    assert ended.state == "partial"
    because = {entry.data["task"]: entry.data["because"] for entry in at.entries(run, "task.skipped")}
    assert because == {"b": "gate", "c": "upstream"}
    audit(at.store, run)


async def test_a_task_that_runs_all_the_same_comes_to_its_own_gate_behind_one_that_was_rejected() -> None:
    at = desk(Answers())
    work = plan(task("a"), task("b", "a", on_upstream_failure="run"), task("c", "b"))
    run, gate = await started(at, {"tasks": ["a", "b"]}, work=work)
    await gates_of(at).decide(gate, "reject", actor="human:ann")
    ended = await at.runs.drive(run)
    assert ended.state == "waiting"
    [gate] = ended.gates
    await gates_of(at).decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "partial"
    assert [entry.data["task"] for entry in at.entries(run, "task.attempted")] == ["b", "c"]
    audit(at.store, run)


async def test_an_edited_instruction_is_what_the_worker_is_asked_and_the_judge_judges_by() -> None:
    told = Answers()
    at = desk(told)
    run, gate = await started(at, {"tasks": ["b"]})
    await gates_of(at).decide(gate, "edit", edit="do b, but gently")
    assert (await at.runs.drive(run)).state == "answered"
    assert "do b, but gently" in told.asked("worker", "b")[0].messages[1].content
    assert "do b, but gently" in told.asked("validator", "b")[0].messages[1].content


async def test_two_of_three_are_needed_and_one_may_change_his_mind() -> None:
    at = desk(Answers())
    people = ["human:ann", "human:bob", "human:cyd"]
    run, gate = await started(at, {"tasks": ["b"], "needed": 2, "approvers": people})
    gates = gates_of(at)
    await gates.decide(gate, "approve", actor="human:ann")
    await gates.decide(gate, "approve", actor="human:ann")
    await gates.decide(gate, "approve", actor="human:eve")
    assert (await at.runs.drive(run)).state == "waiting"
    await gates.decide(gate, "reject", actor="human:ann")
    await gates.decide(gate, "approve", actor="human:bob")
    assert (await at.runs.drive(run)).state == "waiting"
    await gates.decide(gate, "approve", actor="human:cyd")
    assert (await at.runs.drive(run)).state == "answered"


async def test_rejections_close_a_gate_as_soon_as_approvals_can_no_longer_suffice() -> None:
    at = desk(Answers())
    people = ["human:ann", "human:bob", "human:cyd"]
    run, gate = await started(at, {"tasks": ["b"], "needed": 2, "approvers": people})
    await gates_of(at).decide(gate, "reject", actor="human:ann")
    assert (await at.runs.drive(run)).state == "waiting"
    await gates_of(at).decide(gate, "reject", actor="human:bob")
    assert (await at.runs.drive(run)).state == "partial"


async def test_an_edit_voids_earlier_approvals_and_the_others_decide_on_the_new_text() -> None:
    told = Answers()
    at = desk(told)
    people = ["human:ann", "human:bob", "human:cyd"]
    run, gate = await started(at, {"tasks": ["b"], "needed": 2, "approvers": people})
    gates = gates_of(at)
    await gates.decide(gate, "approve", actor="human:ann")
    await gates.decide(gate, "edit", actor="human:bob", edit="do something else")
    ended = await at.runs.drive(run)
    assert ended.state == "waiting"
    [second] = ended.gates
    assert second != gate
    assert "do something else" in gates.show(second)["question"]
    # The editor has had his say, and Ann approved another text.
    await gates.decide(second, "approve", actor="human:bob")
    assert (await at.runs.drive(run)).state == "waiting"
    await gates.decide(second, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"
    assert "do something else" in told.asked("worker", "b")[0].messages[1].content
    audit(at.store, run)


async def test_whoever_decides_on_a_task_sees_the_results_that_it_would_be_given() -> None:
    def long_winded(exchange: Exchange) -> Said:
        return "x" * (MAX_TOLD + 7) if who(exchange)[:2] == ("worker", "b") else obliging(exchange)

    at = desk(Answers(long_winded))
    run, gate = await started(at, {"tasks": ["c"], "needed": 2}, work=plan(task("a"), task("b"), task("c", "b", "a")))
    gates, [a, b] = gates_of(at), sorted(at.entries(run, "task.returned"), key=lambda each: str(each.data["task"]))
    told = [
        {"task": "b", "seq": b.seq, "text": "x" * MAX_TOLD, "left_out": 7},
        {"task": "a", "seq": a.seq, "text": "", "left_out": len("result of a, attempt 1")},
    ]
    shown = gates.show(gate)
    assert (shown["built_on"], shown["shown"][1:]) == (told, [b.body["output"], a.body["output"]])
    assert gates.listed(questions=True) == [shown]
    await gates.decide(gate, "edit", edit="do something else")
    [second] = (await at.runs.drive(run)).gates
    assert gates.show(second)["built_on"] == told
    # Where one is made anew, people are asked about that, and not about the one before it.
    [third] = (await at.runs.retry(run, "a")).gates
    again = at.entries(run, "task.returned")[-1]
    assert [each["seq"] for each in gates.show(third)["built_on"]] == [b.seq, again.seq]
    assert (again.data["task"], again.data["attempt"]) == ("a", 2)


async def test_where_anybody_may_decide_an_editor_does_not_approve_his_own_text() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"], "needed": 2})
    gates = gates_of(at)
    await gates.decide(gate, "edit", actor="human:bob", edit="do something else")
    [second] = (await at.runs.drive(run)).gates
    assert (await gates.decide(second, "approve", actor="human:bob"))["state"] == "open"
    assert (await at.runs.drive(run)).state == "waiting"
    # Another text: Bob's word was about his own.
    await gates.decide(second, "edit", actor="human:ann", edit="do it gently")
    [third] = (await at.runs.drive(run)).gates
    assert (await gates.decide(third, "approve", actor="human:ann"))["state"] == "open"
    assert (await gates.decide(third, "approve", actor="human:bob"))["state"] == "approved"
    assert (await at.runs.drive(run)).state == "answered"
    assert (await at.runs.rerun(run))["identical"] is True
    audit(at.store, run)


async def test_an_edit_at_one_gate_is_shown_to_those_who_approved_at_another() -> None:
    told = Answers()
    at = desk(told)
    law = {"name": "law", "tasks": ["b"], "needed": 2}
    run, gate = await started(at, {"name": "safety", "tasks": ["b"], "approvers": ["human:ann", "human:bob"]}, law)
    gates = gates_of(at)
    await gates.decide(gate, "approve", actor="human:ann")
    [gate] = (await at.runs.drive(run)).gates
    await gates.decide(gate, "edit", actor="human:bob", edit="do something else")
    [gate] = (await at.runs.drive(run)).gates
    assert (gates.show(gate)["rule"], "do something else" in gates.show(gate)["question"]) == ("safety", True)
    # He has had his say at the other one only.
    assert (await gates.decide(gate, "approve", actor="human:bob"))["state"] == "approved"
    [gate] = (await at.runs.drive(run)).gates
    assert (gates.show(gate)["rule"], gates.show(gate)["needed"]) == ("law", 1)
    assert (await gates.decide(gate, "approve", actor="human:bob"))["state"] == "open"
    await gates.decide(gate, "approve", actor="human:cyd")
    assert (await at.runs.drive(run)).state == "answered"
    assert "do something else" in told.asked("worker", "b")[0].messages[1].content
    assert (await at.runs.rerun(run))["identical"] is True
    audit(at.store, run)


async def test_an_edit_does_not_count_for_a_text_that_came_afterwards() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"], "needed": 2})
    gates = gates_of(at)
    await gates.decide(gate, "edit", actor="human:bob", edit="do something else")
    assert (await at.runs.drive(run)).state == "waiting"
    # What the task is built on is made anew, and its own words are shown with that.
    [gate] = (await at.runs.retry(run, "a")).gates
    assert (gates.show(gate)["needed"], "do something else" in gates.show(gate)["question"]) == (2, False)
    assert (await gates.decide(gate, "approve", actor="human:bob"))["state"] == "open"
    await gates.decide(gate, "approve", actor="human:ann")
    assert (await at.runs.drive(run)).state == "answered"


async def test_a_decision_on_something_else_than_is_shown_does_not_count() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    with pytest.raises(UsageError, match="something else"):
        await gates_of(at).decide(gate, "approve", shown=("00" * 32,))
    opened = one(at.entries(run, "gate.opened"))
    forged = GateDecided(gate=gate, decision="approve", shown=("00" * 32,), authenticated=True)
    await at.recorder.record(forged, actor="human:eve", run=run, causes=[opened.seq])
    assert (await at.runs.drive(run)).state == "waiting"


def calls(monkeypatch: pytest.MonkeyPatch, at: Desk, verb: str) -> list[tuple[Any, ...]]:
    """What the store is asked from now on."""
    made: list[tuple[Any, ...]] = []
    real = getattr(at.store, verb)

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(at.store, verb, noted)
    return made


@pytest.mark.parametrize("closed", [False, True])
async def test_what_a_list_of_gates_asks_about_a_run_it_asks_once(
    monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    at = desk(Answers())
    await started(at, {"lanes": ["alpha"], "needed": 2}, work=plan(*(task(f"t{number}") for number in range(40))))
    for gate in gates_of(at).listed():
        await gates_of(at).decide(gate["gate"], "approve", actor="human:ann")
    asked, bodies = calls(monkeypatch, at, "select"), calls(monkeypatch, at, "body")
    listed = gates_of(at).listed(closed=closed)
    assert [len(listed), len(bodies)] == [40, 1]
    assert all(gate["state"] == "open" and approvals(gate) == 1 for gate in listed)
    assert len(asked) <= 5


async def test_what_stands_at_gates_is_not_read_again_whenever_another_task_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "LOOK_S", 0.01)

    def looks() -> list[Query]:
        return [query for (query,) in asked if query.kind == "gate.decided"]

    async def done_after_a_look() -> str:
        before = len(looks())
        while len(looks()) == before:  # noqa: ASYNC110 - the look is seen only by asking
            await asyncio.sleep(0.001)
        return "done"

    at = desk(Answers(lambda exchange: done_after_a_look() if who(exchange)[0] == "worker" else obliging(exchange)))
    held = [task(f"held{number}") for number in range(20)]
    chain = [task(f"t{number}", *([f"t{number - 1}"] if number else []), lane="beta") for number in range(20)]
    read, asked = calls(monkeypatch, at, "entry"), calls(monkeypatch, at, "select")
    run, _ = await started(at, {"lanes": ["alpha"]}, work=plan(*held, *chain))
    assert len(at.entries(run, "task.judged")) == 20
    assert read.count((one(at.entries(run, "plan.made")).seq,)) < 30
    assert len(looks()) > 20
    # Each look begins where the one before it ended.
    assert all(earlier.before is not None and later.after >= earlier.before - 1 for earlier, later in pairwise(looks()))


@pytest.mark.parametrize(("move", "state"), [("approve", "answered"), ("cancel", "cancelled"), ("retry", "waiting")])
async def test_a_run_that_has_come_to_a_gate_this_very_moment_can_be_moved_at_once(move: str, state: str) -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(judge="checks", answer="join", gates=("task:b",), roster=roster())
        run = (await hansard.submit("please", plan=CHAIN, provider=Answers(), wishes=wishes)).id
        driving = hansard.runs.begin(run)
        while not driving.done():  # noqa: ASYNC110 - whoever awaits it is called later
            await asyncio.sleep(0)
        if move == "retry":
            ended: Ended | None = await hansard.runs.retry(run, "a")
        elif move == "cancel":
            ended = await hansard.runs.cancel(run)
        else:
            [gate] = driving.result().gates
            await hansard.gates.decide(gate, "approve")
            ended = await hansard.runs.drive(run)
        assert ended is not None
        assert ended.state == state


@pytest.mark.parametrize(("move", "state"), [("approve", "answered"), ("cancel", "cancelled")])
async def test_what_is_decided_while_a_driver_leaves_is_not_lost_on_whoever_joins_him(
    monkeypatch: pytest.MonkeyPatch, move: str, state: str
) -> None:
    leaves, left = asyncio.Event(), asyncio.Event()

    async def slowly(store: Store, claim: Claim) -> None:
        leaves.set()
        await left.wait()
        await give_back(store, claim)

    monkeypatch.setattr(engine, "give_back", slowly)
    at = desk(Answers())
    run = await at.runs.submit("please", configured(at, {"tasks": ["b"]}), plan=CHAIN)
    first = at.runs.begin(run)
    await leaves.wait()
    [gate] = [entry.data["gate"] for entry in at.entries(run, "gate.opened")]
    if move == "approve":
        await gates_of(at).decide(gate, "approve")
    second = asyncio.ensure_future((at.runs.drive if move == "approve" else at.runs.cancel)(run))
    await asyncio.sleep(0.01)
    left.set()
    assert (await first).state == "waiting"
    ended = await second
    assert ended is not None
    assert ended.state == state


async def test_whoever_decides_at_a_new_gate_does_not_look_through_the_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = desk(Answers())
    for _ in range(20):
        _, gate = await started(at, {"before": "plan"})
    read: list[Entry] = []
    select = at.store.select

    def noted(query: Query) -> Iterator[Entry]:
        for entry in select(query):
            read.append(entry)
            yield entry

    monkeypatch.setattr(at.store, "select", noted)
    await gates_of(at).decide(gate, "approve")
    assert sum(entry.kind == "gate.opened" for entry in read) == 1


async def test_who_lists_what_waits_reads_nothing_of_gates_that_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    gates, body, read = gates_of(at), at.store.body, list[int]()
    for _ in range(3):
        run, gate = await started(at, {"before": "plan", "deadline_s": 600})
        await gates.decide(gate, "approve", actor="human:ann")
        assert (await at.runs.drive(run)).state == "answered"
    run, gate = await started(at, {"before": "plan", "deadline_s": 600})

    def noted(seq: int, part: str) -> Any:
        read.append(seq)
        return body(seq, part)

    monkeypatch.setattr(at.store, "body", noted)
    assert [view["gate"] for view in gates.listed()] == [gate]
    assert {at.store.entry(seq).run for seq in read} == {run}
    assert [view["state"] for view in gates.listed(closed=True)] == ["approved"] * 3 + ["open"]


async def test_a_gate_that_has_the_words_it_needs_is_decided_before_anybody_takes_them_up() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan"})
    gates = gates_of(at)
    assert (await gates.decide(gate, "approve", actor="human:ann"))["state"] == "approved"
    assert gates.listed() == []
    assert [view["state"] for view in gates.listed(closed=True)] == ["approved"]
    with pytest.raises(UsageError, match="approved already, by human:ann; nothing was changed"):
        await gates.decide(gate, "reject", actor="human:bob")
    assert len(at.entries(run, "gate.decided")) == 1


@pytest.mark.parametrize(
    "words", [("approve", "reject"), ("reject", "approve"), ("approve", "edit"), ("edit", "reject")]
)
async def test_of_two_who_decide_at_the_same_moment_the_first_on_the_record_has_decided(
    words: tuple[Decision, Decision],
) -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    text = {"edit": "do something else"}
    deciding = [gates_of(at).decide(gate, word, actor=f"human:{word}", edit=text.get(word)) for word in words]
    found = await at_once(at, *deciding)
    first, _ = at.entries(run, "gate.decided")
    state = {"approve": "approved", "reject": "rejected", "edit": "edited"}[str(first.data["decision"])]
    assert [each["state"] for each in found if not isinstance(each, BaseException)] == [state]
    # The other one does not believe that it was his word.
    [told] = map(str, filter(lambda each: isinstance(each, UsageError), found))
    assert f"was {state} a moment before, by {first.actor}; your word is on the record, and changes nothing" in told
    assert [each["counts"] for each in gates_of(at).show(gate)["decisions"]] == [True, False]
    await at.runs.drive(run)
    assert one(at.entries(run, "gate.closed")).data["outcome"] == state


async def test_of_two_who_approve_at_the_same_moment_both_have_what_they_wanted() -> None:
    at = desk(Answers())
    _, gate = await started(at, {"tasks": ["b"]})
    both = (gates_of(at).decide(gate, "approve", actor=f"human:{name}") for name in ("ann", "bob"))
    assert [each["state"] for each in await at_once(at, *both)] == ["approved", "approved"]
    assert [each["counts"] for each in gates_of(at).show(gate)["decisions"]] == [True, False]


async def test_of_two_who_edit_at_the_same_moment_one_is_told_that_his_text_is_not_taken() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    deciding = [gates_of(at).decide(gate, "edit", actor=f"human:{name}", edit=name) for name in ("ann", "bob")]
    found = await at_once(at, *deciding)
    first, _ = at.entries(run, "gate.decided")
    [told] = map(str, filter(lambda each: isinstance(each, UsageError), found))
    assert f"was edited a moment before, by {first.actor}; your word is on the record, and changes nothing" in told


async def test_of_two_texts_that_of_somebody_who_may_not_decide_is_not_the_one_that_runs() -> None:
    told = Answers()
    at = desk(told)
    run, gate = await started(at, {"tasks": ["b"], "approvers": ["human:ann"]})
    await gates_of(at).decide(gate, "edit", actor="human:eve", edit="do what eve wants")
    assert (await at.runs.drive(run)).state == "waiting"
    await gates_of(at).decide(gate, "edit", actor="human:ann", edit="do b gently")
    assert (await at.runs.drive(run)).state == "answered"
    asked = told.asked("worker", "b")[0].messages[1].content
    assert "do b gently" in asked
    assert "eve" not in asked


async def test_the_word_of_an_editor_on_his_own_text_does_not_count_when_its_deadline_has_come_either() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"], "needed": 2, "deadline_s": 600})
    await gates_of(at).decide(gate, "edit", actor="human:bob", edit="do something else")
    [second] = (await at.runs.drive(run)).gates
    await gates_of(at).decide(second, "approve", actor="human:bob")
    at.runs._engine.clock_us = lambda _: wall_clock_us() + 601_000_000
    assert (await at.runs.drive(run)).state == "partial"
    closed = at.entries(run, "gate.closed")[-1].data
    assert (closed["gate"], closed["outcome"], closed["expired"]) == (second, "rejected", True)


async def test_words_that_do_not_count_leave_a_gate_open() -> None:
    at = desk(Answers())
    people = ["human:ann", "human:bob", "human:cyd"]
    run, gate = await started(at, {"tasks": ["b"], "needed": 2, "approvers": people})
    gates = gates_of(at)
    for name in ("ann", "ann", "eve"):
        assert (await gates.decide(gate, "approve", actor=f"human:{name}"))["state"] == "open"
    assert (await gates.decide(gate, "edit", edit="do b gently", actor="human:bob"))["state"] == "edited"
    [second] = (await at.runs.drive(run)).gates
    # The editor has had his say.
    assert (await gates.decide(second, "approve", actor="human:bob"))["state"] == "open"
    assert (await gates.decide(second, "approve", actor="human:cyd"))["state"] == "approved"
    assert (await at.runs.drive(run)).state == "answered"


async def test_nobody_decides_without_a_name() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan"})
    with pytest.raises(UsageError, match="actor"):
        await gates_of(at).decide(gate, "approve", actor="")
    assert at.entries(run, "gate.decided") == []


async def test_a_gate_that_was_asked_for_before_a_task_that_does_not_come_stands_before_the_plan() -> None:
    told = Answers()
    at = desk(told)
    run = await at.submit(wishes=Wishes(gates=("task:ghost", "task:only")))
    ended = await at.runs.drive(run)
    assert (ended.state, told.asked("worker")) == ("waiting", [])
    [gate] = ended.gates
    assert gates_of(at).show(gate)["question"].startswith("May this plan, which has no task 'ghost' to wait at, run?")
    await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("only"), task("ghost"))))
    ended = await at.runs.drive(run)
    assert sorted(entry.data["task"] for entry in at.entries(run, "gate.opened") if "task" in entry.data) == [
        "ghost",
        "only",
    ]
    for each in ended.gates:
        await gates_of(at).decide(each, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    assert (await at.runs.rerun(run))["identical"] is True
    audit(at.store, run)


async def test_a_gate_before_a_task_that_is_not_in_the_plan_is_refused() -> None:
    at = desk(Answers())
    for how in ({"plan": CHAIN}, {"lane": "alpha"}):
        with pytest.raises(UsageError, match="no task 'ghost'"):
            await at.submit(wishes=Wishes(gates=("task:ghost",)), **how)
    # A standing rule is about tasks that may never come.
    standing = configured(at, {"tasks": ["ghost"]})
    assert (await at.runs.drive(await at.runs.submit("please", standing, plan=CHAIN))).state == "answered"


async def test_an_edit_of_the_plan_does_not_do_away_with_a_task_that_a_gate_was_asked_for() -> None:
    at = desk(Answers())
    # The plan of another run says nothing about this one.
    await at.run(plan=plan(task("a")))
    run = await at.submit(plan=CHAIN, wishes=Wishes(gates=("plan", "task:b")))
    [gate] = (await at.runs.drive(run)).gates
    with pytest.raises(UsageError, match="no task 'b'"):
        await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("a"), task("renamed", "a"))))
    assert at.entries(run, "gate.decided") == []
    await gates_of(at).decide(gate, "edit", edit=json.dumps(plan(task("b"))))
    ended = await at.runs.drive(run)
    assert (ended.state, at.entries(run, "task.attempted")) == ("waiting", [])


async def test_a_gate_before_a_lane_that_is_not_in_the_roster_is_refused() -> None:
    at = desk(Answers(), settings={"gates": ({"lanes": ["ghost"]},)})
    with pytest.raises(UsageError, match=r"gate 'gate-1': there is no lane 'ghost'; roster 'test' has alpha, beta"):
        at.config()
    with pytest.raises(UsageError, match=r"gates 'lane:ghost': there is no lane 'ghost'"):
        desk(Answers()).config(Wishes(gates=("lane:ghost",)))


async def test_a_closed_gate_takes_no_further_decision() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    await gates_of(at).decide(gate, "approve")
    await at.runs.drive(run)
    with pytest.raises(UsageError, match="approved already"):
        await gates_of(at).decide(gate, "reject")
    with pytest.raises(UsageError, match="no gate"):
        await gates_of(at).decide("g-none", "approve")


@pytest.mark.parametrize(("default", "state"), [("reject", "partial"), ("approve", "answered")])
async def test_a_gate_expires_by_itself_while_somebody_waits(default: str, state: str) -> None:
    at = desk(Answers())
    run = await at.runs.submit(
        "please", configured(at, {"tasks": ["b"], "deadline_s": 0.05, "on_expiry": default}), plan=CHAIN
    )
    ended = await asyncio.wait_for(at.runs.drive(run, wait=True), 20)
    assert ended.state == state
    assert one(at.entries(run, "gate.closed")).data["expired"] is True


async def test_a_decision_in_time_counts_also_where_the_driver_has_just_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    at, late_us = desk(Answers()), 0
    listen = Gatekeeper.listen

    async def and_then_somebody_decides(keeper: Gatekeeper) -> None:
        nonlocal late_us
        await listen(keeper)
        if not late_us:
            late_us = 600_000_000
            await gates_of(at).decide(gate, "approve")

    run, gate = await started(at, {"tasks": ["b"], "deadline_s": 300})
    monkeypatch.setattr(Gatekeeper, "listen", and_then_somebody_decides)
    at.runs._engine.clock_us = lambda _: wall_clock_us() + late_us
    assert (await at.runs.drive(run)).state == "answered"
    closed = one(at.entries(run, "gate.closed")).data
    assert (closed["outcome"], closed["expired"]) == ("approved", False)


async def test_a_decision_after_the_deadline_does_not_count() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"], "deadline_s": 1.0})
    await asyncio.sleep(1.1)
    with pytest.raises(UsageError, match="rejected already, by its deadline"):
        await gates_of(at).decide(gate, "approve")
    opened = one(at.entries(run, "gate.opened"))
    late = GateDecided(gate=gate, decision="approve", shown=tuple(opened.data["shown"]), authenticated=True)
    await at.recorder.record(late, actor="human:eve", run=run, causes=[opened.seq])
    assert (await at.runs.drive(run)).state == "partial"


async def test_a_decision_in_time_counts_in_a_log_that_a_clock_ahead_has_written() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    ledger._clock = lambda: time.time() + 3_600
    assert (await at.runs.drive(await at.runs.submit("please", at.config(), plan=CHAIN))).state == "answered"
    ledger._clock = time.time
    run, gate = await started(at, {"before": "plan", "deadline_s": 600})
    view = await gates_of(at).decide(gate, "approve")
    assert (view["state"], view["decisions"][0]["counts"]) == ("approved", True)
    assert (await at.runs.drive(run)).state == "answered"
    audit(at.store, run)


@pytest.mark.parametrize("deadline_s", [10**10, 1e12, 1e305])
async def test_a_gate_whose_deadline_no_record_can_name_waits_as_long_as_one_can(deadline_s: float) -> None:
    at = desk(Answers())
    run, gate = await started(at, {"before": "plan", "deadline_s": deadline_s})
    assert gates_of(at).listed()[0]["deadline"].startswith("2255-")
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"


async def test_days_at_a_gate_do_not_count_against_the_runs_own_time() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    config = configured(at, {"tasks": ["b"]}, wishes=Wishes(max_seconds=600))
    run = await at.runs.submit("please", config, plan=CHAIN)
    gate = (await at.runs.drive(run)).gates[0]
    ledger._clock = lambda: time.time() + 3 * 86_400
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    assert one(at.entries(run, "run.ended")).data["elapsed_us"] < 600_000_000


async def test_whoever_waits_goes_on_when_another_decides() -> None:
    at = desk(Answers())
    run = await at.runs.submit("please", configured(at, {"tasks": ["b"]}), plan=CHAIN)
    waiting = asyncio.ensure_future(at.runs.drive(run, wait=True))
    while not (found := gates_of(at).listed()):  # noqa: ASYNC110 - the gate stands in the record, which rings no bell
        await asyncio.sleep(0.01)
    await gates_of(at).decide(found[0]["gate"], "approve")
    assert (await asyncio.wait_for(waiting, 20)).state == "answered"


async def test_a_run_that_was_killed_at_any_moment_still_stands_at_its_gate() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    run, gate = await started(at, {"tasks": ["b"]})
    undecided = len(ledger.commits)
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    for commits in range(1, len(ledger.commits)):
        told = Answers()
        again = desk(told, store=ledger.until(commits))
        ended = await again.runs.drive(run)
        asked = [each.metadata["task"] for each in told.asked("worker")]
        if commits <= undecided:
            assert ended.state == "waiting"
            assert "b" not in asked
        else:
            assert ended.state == "answered"
        audit(again.store, run)


async def test_whoever_finds_a_run_still_waiting_leaves_no_trace_on_its_record() -> None:
    """A daemon that is started again looks at each, and a run may wait for months."""
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    before = at.entries(run)
    for _ in range(3):
        assert (await at.runs.drive(run)).state == "waiting"
    assert at.entries(run) == before
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    assert len(at.entries(run, "run.claimed")) == 2
    audit(at.store, run)


@pytest.mark.parametrize("state", ["skipped", "waiting"])
async def test_a_gate_is_over_by_its_deadline_also_where_its_task_does_not_stand_any_more(state: str) -> None:
    """Whoever waits for the deadline would come again and again."""
    broken: list[bool] = []

    def says(exchange: Exchange) -> Said:
        return fails("auth_failure") if broken and who(exchange)[:2] == ("worker", "a") else obliging(exchange)

    at = desk(Answers(says))
    work = plan(task("a"), task("b", "a"), task("c"), task("d", "c"))
    rows: list[dict[str, Any]] = [{"tasks": ["b"], "deadline_s": 1.0}, {"tasks": ["d"]}, {"tasks": ["a"]}]
    run, gate = await started(at, *(rows[:2] if state == "skipped" else rows), work=work)
    gate = next((each["gate"] for each in gates_of(at).listed() if each["task"] == "b"), gate)
    if state == "waiting":
        await gates_of(at).decide(gate, "approve")
        gate = next(each for each in (await at.runs.drive(run)).gates if gates_of(at).show(each)["task"] == "b")
    broken.append(True)
    assert (await at.runs.retry(run, "a")).state == "waiting"
    await asyncio.wait_for(at.runs.waiting.decided(run), 5)
    assert (await at.runs.drive(run)).state == "waiting"
    closed = next(each for each in at.entries(run, "gate.closed") if each.data["gate"] == gate)
    assert (closed.data["outcome"], closed.data["expired"]) == ("rejected", True)
    waiting = asyncio.ensure_future(at.runs.waiting.decided(run))
    await asyncio.wait([waiting], timeout=0.2)
    assert not waiting.done()
    for each in gates_of(at).listed():
        await gates_of(at).decide(each["gate"], "approve")
    await waiting
    assert (await at.runs.drive(run)).state == "partial"
    audit(at.store, run)
    assert (await at.runs.rerun(run))["identical"]


async def test_a_word_that_is_not_enough_is_looked_at_once_on_the_record() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"], "needed": 2})
    await gates_of(at).decide(gate, "approve", actor="human:ann")
    for _ in range(3):
        assert (await at.runs.drive(run)).state == "waiting"
    assert len(at.entries(run, "run.claimed")) == 2


async def test_who_is_interrupted_while_he_only_looks_leaves_no_trace_either(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    run, _ = await started(at, {"tasks": ["b"]})
    before, looking = at.entries(run), asyncio.Event()

    async def for_ever(_: Gatekeeper) -> None:
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Gatekeeper, "listen", for_ever)
    driving = at.runs.begin(run)
    await looking.wait()
    driving.cancel()
    await asyncio.wait([driving])
    assert at.entries(run) == before


@pytest.mark.parametrize("times", [1, 2])
async def test_who_is_interrupted_in_his_first_word_at_a_gate_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    at = desk(Answers(), store=SqliteStore.create(tmp_path / "ledger.db", genesis_draft()))
    run, gate = await started(at, {"tasks": ["b"]})
    loop, append, listen = asyncio.get_running_loop(), at.store.append, Gatekeeper.listen

    async def decided_since(keeper: Gatekeeper) -> None:
        await gates_of(at).decide(gate, "approve")
        monkeypatch.setattr(at.store, "append", interrupt)
        await listen(keeper)

    def interrupt(groups: Any, seal: Any = None) -> Any:
        monkeypatch.setattr(at.store, "append", append)
        for _ in range(times):
            loop.call_soon_threadsafe(driving.cancel)
            time.sleep(0.05)
        return append(groups, seal)

    monkeypatch.setattr(Gatekeeper, "listen", decided_since)
    driving = at.runs.begin(run)
    await asyncio.wait([driving])
    claimed, left = at.entries(run)[-2:]
    assert (claimed.kind, left.kind, left.causes) == ("run.claimed", "run.interrupted", (claimed.seq,))
    assert at.runs.show(run)["state"] == "interrupted"
    await at.recorder.close()
    at.store.close()


async def test_who_hears_of_a_cancellation_while_he_only_looks_says_who_he_is_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.01)
    at = desk(Answers())
    run, _ = await started(at, {"tasks": ["b"]})
    looking = asyncio.Event()

    async def for_ever(_: Gatekeeper) -> None:
        looking.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Gatekeeper, "listen", for_ever)
    driving = at.runs.begin(run)
    await looking.wait()
    requested = one(at.entries(run, "run.requested")).seq
    await at.recorder.record(CancelAsked(surface="cli"), actor="human:ann", run=run, causes=[requested])
    assert (await driving).state == "cancelled"
    asked = one(at.entries(run, "run.cancel_asked")).seq
    assert next(each.kind for each in at.entries(run) if each.seq > asked) == "run.claimed"
    audit(at.store, run)


async def test_resuming_with_other_settings_does_not_open_a_gate() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    run, _ = await started(at, {"tasks": ["b"]})
    told = Answers()
    # Another process, whose own settings know no gate and allow everything.
    other = desk(told, store=ledger.until(len(ledger.commits)), settings={"gates": (), "run": {"judge": "checks"}})
    assert (await other.runs.drive(run)).state == "waiting"
    assert told.calls == []


async def test_a_retried_task_needs_its_gate_again() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    await gates_of(at).decide(gate, "approve")
    await at.runs.drive(run)
    ended = await at.runs.retry(run, "b")
    assert ended.state == "waiting"
    await gates_of(at).decide(ended.gates[0], "approve")
    assert (await at.runs.drive(run)).state == "answered"
    audit(at.store, run)


async def test_what_was_approved_on_other_results_is_asked_again_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(working, "MAX_SHOWN", 2)
    at = desk(Answers())
    ids = ("a", "b", "c", "d")
    run, gate = await started(at, {"tasks": ["all"]}, work=plan(*map(task, ids), task("all", *ids)))
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    for id in ids:
        ended = await at.runs.retry(run, id)
        assert ended.state == "waiting", id
        assert len(gates_of(at).show(ended.gates[0])["shown"]) == 4
        await gates_of(at).decide(ended.gates[0], "approve")
        assert (await at.runs.drive(run)).state == "answered"
    audit(at.store, run)


async def test_what_waits_since_a_retry_is_not_shown_as_skipped_before_it() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    await gates_of(at).decide(gate, "reject")
    assert (await at.runs.drive(run)).state == "partial"
    states = {each["task"]: each["state"] for each in at.runs.show(run)["tasks"]}
    assert states == {"a": "passed", "b": "skipped", "c": "skipped"}
    assert (await at.runs.retry(run, "b")).state == "waiting"
    shown = {each["task"]: (each["state"], each["because"]) for each in at.runs.show(run)["tasks"]}
    assert shown == {"a": ("passed", None), "b": ("waiting", None), "c": ("waiting", None)}
    assert at.runs.capsule(run)["tasks"] == {"a": "passed"}


async def test_a_task_that_is_retried_while_it_waits_stands_at_one_gate_and_not_at_two() -> None:
    at = desk(Answers())
    run, before = await started(at, {"tasks": ["b"]})
    [gate] = (await at.runs.retry(run, "b")).gates
    assert [each["gate"] for each in gates_of(at).listed()] == [gate]
    with pytest.raises(UsageError, match=f"gate {before} is rejected already"):
        await gates_of(at).decide(before, "approve")
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"
    audit(at.store, run)


async def test_a_cancelled_run_does_not_wait_any_longer() -> None:
    at = desk(Answers())
    run, gate = await started(at, {"tasks": ["b"]})
    ended = await at.runs.cancel(run)
    assert ended is not None
    assert ended.state == "cancelled"
    assert (gates_of(at).listed(), gates_of(at).show(gate)["state"]) == ([], "void")
    assert at.runs.show(run)["open_gates"] == []
    with pytest.raises(UsageError, match="has ended, and nothing waits at gate"):
        await gates_of(at).decide(gate, "approve")
    assert (await at.runs.retry(run, "c")).gates == (gate,)
    assert at.runs.show(run)["open_gates"] == [gate]
    await gates_of(at).decide(gate, "approve")
    assert (await at.runs.drive(run)).state == "answered"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({}, "where it stands"),
        ({"tasks": ["a"], "needed": 0}, "needed"),
        ({"tasks": ["a"], "needed": 2, "approvers": ["human:ann"]}, "only 1"),
        ({"tasks": "a"}, "list"),
        ({"tasks": [""]}, "tasks must be a list of texts"),
        ({"before": "dawn"}, "before"),
        ({"tasks": ["a"], "colour": "red"}, "unknown key colour; known are approvers, before"),
        ({"tasks": ["a"], "asked": True}, "unknown key asked"),
    ],
)
def test_a_gate_that_makes_no_sense_is_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_rules([row], "test")


def test_of_gates_with_one_name_none_stands_and_all_who_may_decide_may_be_needed() -> None:
    everybody = {"name": "both", "lanes": ["beta"], "needed": 2, "approvers": ["human:ann", "human:ben"]}
    [rule] = read_rules([everybody], "test")
    assert (rule.needed, rule.approvers, rule.on_expiry) == (2, ("human:ann", "human:ben"), "reject")
    with pytest.raises(UsageError, match="gate 'both' stands there twice"):
        read_rules([everybody, {"before": "plan", "name": "both"}], "test")


async def test_secrets_in_a_question_stay_out_of_data() -> None:
    at = desk(Answers())
    run, _ = await started(at, {"before": "plan", "question": "Ann, is this right?"})
    opened = one(at.entries(run, "gate.opened"))
    assert "Ann" not in json.dumps(dict(opened.data))
    assert at.text(opened, "question").startswith("Ann, is this right?")


@pytest.mark.parametrize("decision", ["approve", "edit"])
async def test_what_people_say_at_a_gate_stands_on_the_record_without_secrets(decision: Decision) -> None:
    word, table = "a-long-secret-word", {"kind": "openai", "model": "m", "api_key_env": "TOKEN"}
    # Nobody has asked the provider whose key it is.
    settings = Settings(ledger="memory:", state=Path("unused"), providers={"cloud": table}, environment={"TOKEN": word})
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        run = await hansard.submit("please", lane="backend", wishes=Wishes(provider="told", gates=("task:task",)))
        [gate] = (await run.ended()).gates
        edit = f"use {word}" if decision == "edit" else None
        await hansard.gates.decide(gate, decision, note=f"{word} is fine", edit=edit)
        assert (await hansard.runs.drive(run.id)).state == "answered"
        for entry in hansard.store.select(Query(run=run.id)):
            for part in entry.body:
                stored = hansard.store.body(entry.seq, part)
                assert stored is not None
                assert word.encode() not in stored.body, (entry.kind, part)


@pytest.mark.parametrize("limit", [2, 3])
async def test_a_budget_that_ends_behind_a_gate_ends_the_run(limit: int) -> None:
    at = desk(Answers(), settings={"budget": {"max_calls": limit}})
    run, gate = await started(at, {"tasks": ["b"]})
    await gates_of(at).decide(gate, "approve", actor="human:ann")
    async with asyncio.timeout(20):
        ended = await at.runs.drive(run)
    assert (ended.state, ended.reason) == ("stopped", "budget")
    audit(at.store, run)
