"""The failures of runs, crashes and resumption that the seed engine was made to show (rows R1 to R9, L2, L6, L7): not here."""

import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.ledger.verify import verify
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft
from running import Answers, Ledger, Said, audit, desk, one, plan, roster, task, who

CHECKS = Wishes(judge="checks", answer="join")
CHAIN = plan(*(task(f"t{each}", *([f"t{each - 1}"] if each else [])) for each in range(6)))


async def test_two_runs_at_once_on_one_ledger_stay_dense_verified_and_apart(tmp_path: Path) -> None:
    """L2, R9."""
    path = tmp_path / "ledger.db"
    desks = [
        desk(Answers(), store=SqliteStore.create(path, genesis_draft())),
        desk(Answers(), store=SqliteStore.open(path)),
    ]
    rows = [plan(task("a"), task("b", "a")), plan(task("a"), task("c", "a"))]
    ended = await asyncio.gather(*(each.run(plan=row) for each, row in zip(desks, rows, strict=True)))
    assert [each.state for each in ended] == ["answered", "answered"]
    first = desks[0].store
    size = first.head().size
    assert [first.entry(seq).seq for seq in range(size)] == list(range(size))
    for each in ended:
        audit(first, each.run)
    tasks = [{str(each.data["task"]) for each in desks[0].entries(run.run, "task.attempted")} for run in ended]
    assert tasks == [{"a", "b"}, {"a", "c"}]
    for made in desks:
        await made.recorder.close()
        made.store.close()
    assert verify(path).ok


@pytest.mark.parametrize("odd", ["a\u2028b\u2029c\u0085d", "\ud800 half", "nul \0 nul", "\U0010ffff"])
async def test_no_output_can_harm_the_ledger_or_end_the_run(odd: str, tmp_path: Path) -> None:
    """L6, L7."""
    path = tmp_path / "ledger.db"
    made = desk(Answers(lambda _: odd), store=SqliteStore.create(path, genesis_draft()))
    ended = await made.run(plan=plan(task("a"), task("b", "a")), wishes=CHECKS)
    assert ended.state == "answered"
    await made.recorder.close()
    made.store.close()
    assert verify(path).ok


async def test_a_run_that_was_killed_in_its_third_step_is_resumed_from_the_record_alone() -> None:
    """R1."""
    store = Ledger()
    ended = await desk(Answers(), store=store).run(plan=CHAIN, wishes=CHECKS)
    cut = next(at for at in range(len(store.commits)) if b'"t3"' in store.commits[at][-1].sketch.middle)
    provider = Answers()
    copy = store.until(cut)
    resumed = await desk(provider, store=copy).runs.resume(ended.run)
    assert resumed.state == "answered"
    done = {who(each)[1] for each in provider.asked("worker")}
    assert done <= {"t2", "t3", "t4", "t5"}
    assert {"t3", "t4", "t5"} <= done


async def test_the_plan_holds_every_instruction_and_is_never_made_twice() -> None:
    """R2."""
    store = Ledger()
    made = desk(Answers(), store=store)
    ended = await made.run()
    entry = one(made.entries(ended.run, "plan.made"))
    assert '"instruction":"do only"' in made.text(entry, "plan")
    after_the_plan = next(
        at for at, commit in enumerate(store.commits, 1) if any(b"plan.made" in each.sketch.middle for each in commit)
    )
    provider = Answers()
    resumed = await desk(provider, store=store.until(after_the_plan)).runs.resume(ended.run)
    assert resumed.state == "answered"
    assert provider.asked("coordinator") == []
    assert len(provider.asked("worker")) == 1


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the child is found by /proc")
async def test_an_interruption_ends_the_children_and_stands_in_the_record(tmp_path: Path) -> None:
    """R3, R4."""
    note = tmp_path / "pid"
    says = f"import os,pathlib,time; pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    table = {"kind": "command", "argv": [sys.executable, "-c", says]}
    made = desk(settings={"providers": {"slow": table}, "environment": dict(os.environ)})
    run = await made.submit(plan=plan(task("a")), wishes=CHECKS)
    driving = asyncio.ensure_future(made.runs.drive(run))
    until = time.monotonic() + 30
    while not note.exists() or not note.read_text():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert one(made.entries(run, "run.interrupted")).data["by"] == "signal"
    child = Path("/proc") / note.read_text()
    while child.exists():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


async def test_a_result_of_another_plan_with_the_same_task_id_is_never_taken() -> None:
    """R5."""
    provider = Answers(lambda exchange: f"answer to: {exchange.messages[1].content}")
    made = desk(provider)
    first = await made.run(plan=plan({**task("t"), "instruction": "delete the staging database"}), wishes=CHECKS)
    second = await made.run(plan=plan({**task("t"), "instruction": "count the stars"}), wishes=CHECKS)
    assert len(provider.calls) == 2
    assert "staging" in str(made.answer(first.run))
    assert "staging" not in str(made.answer(second.run))


async def test_a_gate_stands_in_the_record_and_is_not_lost_by_resuming_without_it() -> None:
    """R6."""
    store, provider = Ledger(), Answers()
    gated = desk(provider, store=store, settings={"gates": [{"name": "look", "tasks": ["b"]}]})
    run = await gated.submit(plan=plan(task("a"), task("b", "a")), wishes=CHECKS)
    assert (await gated.runs.drive(run)).state == "waiting"
    ungated = desk(provider, store=store)
    again = await ungated.runs.resume(run)
    assert again.state == "waiting"
    assert provider.asked("worker", "b") == []
    await Gates(ungated.recorder, store).decide(again.gates[0], "reject", actor="human:ann")
    ended = await ungated.runs.drive(run)
    assert ended.state == "partial"
    assert provider.asked("worker", "b") == []


async def test_somebody_who_may_not_decide_changes_nothing_by_saying_so() -> None:
    """R7."""
    rule = {"name": "look", "tasks": ["a"], "approvers": ["human:ann"]}
    provider = Answers()
    made = desk(provider, settings={"gates": [rule]})
    run = await made.submit(plan=plan(task("a")), wishes=CHECKS)
    gate = (await made.runs.drive(run)).gates[0]
    await Gates(made.recorder, made.store).decide(gate, "approve", actor="human:ceo")
    assert (await made.runs.drive(run)).state == "waiting"
    assert provider.calls == []


async def test_what_failed_is_repaired_by_a_retry_once_the_worker_works() -> None:
    """R8."""
    works = False

    def says(exchange: Exchange) -> Said:
        return "done" if works or who(exchange)[1] != "a" else ""

    made = desk(Answers(says))
    ended = await made.run(plan=plan(task("a"), task("b", "a")), wishes=CHECKS)
    assert ended.state == "failed"
    works = True
    assert (await made.runs.retry(ended.run, "a")).state == "answered"
    assert made.runs.show(ended.run)["state"] == "answered"


async def test_concurrent_runs_of_one_process_share_nothing_but_the_ledger() -> None:
    """R9."""

    async def says(exchange: Exchange) -> Said:
        await asyncio.sleep(0)
        return f"about {exchange.messages[1].content}"

    provider = Answers(says)
    made = desk(provider)
    topics = [f"topic-{each}" for each in range(12)]
    runs = await asyncio.gather(
        *(
            made.run(
                topic,
                plan=plan({**task("t"), "instruction": topic}, {**task("u", "t"), "instruction": topic}),
                wishes=CHECKS,
            )
            for topic in topics
        )
    )
    assert len({each.run for each in runs}) == 12
    for topic, ended in zip(topics, runs, strict=True):
        answer = str(made.answer(ended.run))
        assert topic in answer
        assert not any(f"{other}\n" in answer for other in topics if other != topic)
        audit(made.store, ended.run)
        kinds = Counter(each.kind for each in made.entries(ended.run))
        assert (kinds["task.attempted"], kinds["run.ended"]) == (2, 1)


async def test_the_route_of_a_run_is_its_own() -> None:
    """R9: a route of one request never shows up under another."""
    made = desk(Answers())
    first = await made.run("zyx", mode="single", wishes=Wishes(judge="checks", roster=roster()))
    second = await made.run("wvu", mode="single", wishes=Wishes(judge="checks", roster=roster()))
    for ended in (first, second):
        for each in made.entries(ended.run, "run.routed"):
            assert all(made.store.entry(seq).run == ended.run for seq in each.causes)
