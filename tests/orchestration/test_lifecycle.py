"""What people do with runs: cancel, interrupt, resume, retry. What they did stands in the record."""

import asyncio
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hansard.app.ids import new_run_id
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.custody import BodyRedacted
from hansard.domain.exchange import Exchange
from hansard.domain.roster import Policy
from hansard.domain.work import CancelAsked, TaskJudged, TaskSkipped
from hansard.errors import Fenced, HansardError, StoreError, Unavailable, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import Rule, read_rules
from hansard.orchestration.journal import Journal
from hansard.record.reading import read_entries
from hansard.record.recorder import Step, record_now
from hansard.store.base import Claim, Query
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft
from running import (
    POOR,
    Answers,
    Desk,
    Ledger,
    Said,
    Says,
    audit,
    desk,
    obliging,
    one,
    plan,
    roster,
    task,
    user_text,
    who,
)

DIAMOND = plan(task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c"), task("e"))


class Gate:
    """Answers like everybody, but stops at one task until it is opened."""

    def __init__(self, stop: str) -> None:
        self.stop, self.open, self.reached = stop, asyncio.Event(), asyncio.Event()

    async def __call__(self, exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        if role == "worker" and id == self.stop:
            self.reached.set()
            await self.open.wait()
        return await _maybe(obliging(exchange))


async def _maybe(said: object) -> Said:
    assert isinstance(said, str | dict)
    return said


async def started(made: Desk, gate: Gate, rows: object = DIAMOND) -> tuple[str, "asyncio.Future[object]"]:
    run = await made.submit(plan=rows)
    driving: asyncio.Future[object] = asyncio.ensure_future(made.runs.drive(run))
    await gate.reached.wait()
    return run, driving


async def test_a_run_that_is_cancelled_here_ends_cancelled_and_says_what_was_not_done() -> None:
    gate = Gate("c")
    provider = Answers(gate)
    made = desk(provider)
    run, driving = await started(made, gate)
    ended = await made.runs.cancel(run)
    assert ended is not None
    assert ended.state == "cancelled"
    assert await driving == ended
    assert provider.in_flight["all"] == 0
    skipped = {str(each.data["task"]): each for each in made.entries(run, "task.skipped")}
    assert {"c", "d"} <= set(skipped)
    asked = one(made.entries(run, "run.cancel_asked"))
    assert {(each.data["because"], each.causes) for each in skipped.values()} == {("cancelled", (asked.seq,))}
    ending = one(made.entries(run, "run.ended"))
    assert ending.causes == (asked.seq,)
    assert ending.data["calls"] == len(provider.calls)
    assert made.answer(run) is None
    audit(made.store, run)


async def test_a_cancellation_reaches_a_driver_in_another_process_through_the_record(tmp_path: Path) -> None:
    gate = Gate("c")
    path = tmp_path / "ledger.db"
    made = desk(Answers(gate), store=SqliteStore.create(path, genesis_draft()))
    other = desk(Answers(), store=SqliteStore.open(path))
    run, driving = await started(made, gate)
    assert await other.runs.cancel(run) is None
    # The other process was given a while to notice.
    assert other.runs.show(run)["state"] == "cancelled"
    ended = await asyncio.wait_for(driving, 20)
    assert getattr(ended, "state", "") == "cancelled"
    for each in (made, other):
        await each.recorder.close()
        each.store.close()


async def test_a_run_that_nobody_drives_is_cancelled_on_the_spot() -> None:
    provider = Answers()
    made = desk(provider)
    run = await made.submit(plan=DIAMOND)
    ended = await made.runs.cancel(run)
    assert ended is not None
    assert ended.state == "cancelled"
    assert provider.calls == []
    with pytest.raises(UsageError, match="has ended"):
        await made.runs.cancel(run)
    with pytest.raises(UsageError, match="has ended"):
        await made.runs.resume(run)


async def test_who_joins_a_driver_and_does_not_wait_for_the_end_interrupts_nobody() -> None:
    gate = Gate("c")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await made.runs.drive(run)
    gate.open.set()
    await driving
    assert not made.entries(run, "run.interrupted")
    assert one(made.entries(run, "run.ended")).data["state"] == "answered"


async def test_who_cancels_a_run_and_does_not_wait_for_its_end_interrupts_nobody() -> None:
    """It is to end, and not to stay as it is."""
    gate, accepted = Gate("c"), asyncio.Event()
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    cancelling = asyncio.ensure_future(made.runs.cancel(run, accepted=accepted))
    await accepted.wait()
    cancelling.cancel()
    await asyncio.gather(driving, cancelling, return_exceptions=True)
    assert not made.entries(run, "run.interrupted")
    assert one(made.entries(run, "run.ended")).data["state"] == "cancelled"


async def test_an_interrupted_run_says_so_and_resumes_without_doing_anything_twice() -> None:
    gate = Gate("d")
    provider = Answers(gate)
    made = desk(provider)
    run, driving = await started(made, gate)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert driving.cancelled()
    assert provider.in_flight["all"] == 0
    assert one(made.entries(run, "run.interrupted")).data["by"] == "signal"
    assert made.runs.show(run)["state"] == "interrupted"
    gate.open.set()
    ended = await made.runs.resume(run)
    assert ended.state == "answered"
    done = Counter(who(each)[1] for each in provider.asked("worker"))
    assert done == {"a": 1, "b": 1, "c": 1, "e": 1, "d": 2}
    assert one(made.entries(run, "task.restarted")).data["task"] == "d"
    claims = made.entries(run, "run.claimed")
    assert [each.data["epoch"] for each in claims] == [1, 2]
    assert one(made.entries(run, "run.resume_asked")).seq in claims[1].causes
    audit(made.store, run)


async def test_what_was_done_before_is_read_beside_the_loop_by_whoever_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of thousands of results that takes a while, and everybody else in the process would wait for it."""
    at = desk(Answers())
    config = replace(at.config(Wishes()), gates=read_rules([{"tasks": ["d"]}], "test"))
    run = await at.runs.submit("please", config, plan=DIAMOND)
    assert (await at.runs.drive(run)).state == "waiting"
    loop, on_it = threading.get_ident(), []
    entry, body = at.store.entry, at.store.body

    def watched_entry(seq: int) -> Entry:
        found = entry(seq)
        if threading.get_ident() == loop:
            on_it.append(found.kind)
        return found

    def watched_body(seq: int, part: str) -> Any:
        if threading.get_ident() == loop:
            on_it.append(f"{entry(seq).kind} {part}")
        return body(seq, part)

    monkeypatch.setattr(at.store, "entry", watched_entry)
    monkeypatch.setattr(at.store, "body", watched_body)
    assert (await at.runs.drive(run)).state == "waiting"
    assert not {each for each in on_it if each.startswith(("task.", "plan.made plan"))}


async def test_a_run_that_is_taken_from_somebody_whose_lease_is_over_says_so() -> None:
    ledger, told = Ledger(), Gate("d")
    at = desk(Answers(told), store=ledger)
    run, driving = await started(at, told)
    driving.cancel()
    await asyncio.wait([driving])
    ledger.claim(run, 0)
    told.open.set()
    assert (await at.runs.drive(run)).state == "answered"
    assert [each.data["because"] for each in at.entries(run, "run.claimed")] == ["new", "expired"]


async def test_a_run_whose_claim_the_store_has_forgotten_is_called_resumed_all_the_same() -> None:
    ledger, told = Ledger(), Gate("d")
    at = desk(Answers(told), store=ledger)
    run, driving = await started(at, told)
    driving.cancel()
    await asyncio.wait([driving])
    del ledger._claims[run]
    told.open.set()
    assert (await at.runs.drive(run)).state == "answered"
    assert [each.data["because"] for each in at.entries(run, "run.claimed")] == ["new", "resumed"]


async def test_a_second_driver_is_fenced_off_and_the_first_goes_on(tmp_path: Path) -> None:
    gate = Gate("a")
    path = tmp_path / "ledger.db"
    made = desk(Answers(gate), store=SqliteStore.create(path, genesis_draft()))
    other = desk(Answers(), store=SqliteStore.open(path))
    run, driving = await started(made, gate)
    with pytest.raises(Fenced):
        await other.runs.drive(run)
    gate.open.set()
    await driving
    assert made.runs.show(run)["state"] == "answered"
    assert len(made.entries(run, "run.claimed")) == 1
    for each in (made, other):
        await each.recorder.close()
        each.store.close()


async def test_whoever_is_interrupted_while_he_takes_a_run_leaves_it_to_the_next() -> None:
    class Slow(Ledger):
        def claim(self, name: str, lease_s: float) -> Claim:
            claimed = super().claim(name, lease_s)
            time.sleep(0.1)
            return claimed

    made = desk(Answers(), store=Slow())
    run = await made.submit(plan=DIAMOND)
    driving = asyncio.ensure_future(made.runs.drive(run))
    await asyncio.sleep(0.05)
    driving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert (await made.runs.drive(run)).state == "answered"


async def test_a_run_that_is_interrupted_while_its_claim_is_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    made = desk(Answers(), store=SqliteStore.create(tmp_path / "ledger.db", genesis_draft()))
    run = await made.submit(plan=DIAMOND)
    loop, append = asyncio.get_running_loop(), made.store.append
    driving = asyncio.ensure_future(made.runs.drive(run))

    def interrupt(groups: Any, seal: Any = None) -> Any:
        outcomes: Any = append(groups, seal)
        if b"run.claimed" in b"".join(place.line for outcome in outcomes for place in outcome):
            loop.call_soon_threadsafe(driving.cancel)
        return outcomes

    monkeypatch.setattr(made.store, "append", interrupt)
    with pytest.raises(asyncio.CancelledError):
        await driving
    monkeypatch.setattr(made.store, "append", append)
    assert made.runs.show(run)["state"] == "interrupted"
    assert (await made.runs.resume(run)).state == "answered"
    audit(made.store, run)
    await made.recorder.close()
    made.store.close()


async def test_a_run_that_is_interrupted_twice_while_its_claim_is_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    made = desk(Answers(), store=SqliteStore.create(tmp_path / "ledger.db", genesis_draft()))
    run = await made.submit(plan=DIAMOND)
    loop, append = asyncio.get_running_loop(), made.store.append
    driving = asyncio.ensure_future(made.runs.drive(run))

    def once_more(store: Any, query: Query) -> Any:
        loop.call_soon_threadsafe(driving.cancel)
        time.sleep(0.1)
        return read_entries(store, query)

    def interrupt(groups: Any, seal: Any = None) -> Any:
        outcomes: Any = append(groups, seal)
        if b"run.claimed" in b"".join(place.line for outcome in outcomes for place in outcome):
            monkeypatch.setattr("hansard.orchestration.engine.read_entries", once_more)
            loop.call_soon_threadsafe(driving.cancel)
        return outcomes

    monkeypatch.setattr(made.store, "append", interrupt)
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert made.runs.show(run)["state"] == "interrupted"
    await made.recorder.close()
    made.store.close()


async def test_whoever_is_interrupted_while_his_claim_is_refused_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a disk that is full for a moment: nobody has taken the run, so nobody has left it."""
    monkeypatch.setattr("hansard.record.recorder.INLINE_BELOW_S", 0.0)
    made = desk(Answers(), store=SqliteStore.create(tmp_path / "ledger.db", genesis_draft()))
    run = await made.submit(plan=DIAMOND)
    loop, append = asyncio.get_running_loop(), made.store.append
    driving = asyncio.ensure_future(made.runs.drive(run))

    def refuse(*_: Any) -> Any:
        monkeypatch.setattr(made.store, "append", append)
        loop.call_soon_threadsafe(driving.cancel)
        time.sleep(0.1)
        raise Unavailable("the disk is full")

    monkeypatch.setattr(made.store, "append", refuse)
    with pytest.raises(asyncio.CancelledError):
        await driving
    assert made.entries(run)[-1].kind == "run.configured"
    await made.recorder.close()
    made.store.close()


async def test_a_run_with_which_nobody_can_go_on_is_not_told_as_running() -> None:
    made = desk(Answers())
    run = (await made.run(plan=plan(task("a"), task("b", "a")))).run
    made.store.erase((made.entries(run, "task.returned")[0].seq, "output"))
    with pytest.raises(StoreError, match="not in the ledger any more"):
        await made.runs.retry(run, "b")
    assert made.runs.listed()[0]["state"] == "interrupted"
    assert (await made.runs.retry(run, "a")).state == "answered"
    audit(made.store, run)


async def test_a_driver_whose_claim_was_taken_writes_nothing_more() -> None:
    gate, store = Gate("a"), Ledger()
    made = desk(Answers(gate), store=store)
    run, driving = await started(made, gate)
    epoch, holder, _ = store._claims[run]
    store._claims[run] = (epoch, holder, 0.0)
    other = desk(Answers(), store=store)
    ended = await other.runs.drive(run)
    size = store.head().size
    gate.open.set()
    with pytest.raises(Fenced):
        await driving
    assert ended.state == "answered"
    assert store.head().size == size


@pytest.mark.parametrize(
    ("again", "redone"), [("a", {"a", "b", "c", "d"}), ("b", {"b", "d"}), ("d", {"d"}), ("e", {"e"})]
)
async def test_a_retry_does_the_task_again_and_what_was_built_on_it_and_nothing_else(
    again: str, redone: set[str]
) -> None:
    provider = Answers()
    made = desk(provider)
    run = (await made.run(plan=DIAMOND)).run
    provider.calls.clear()
    ended = await made.runs.retry(run, again)
    assert ended.state == "answered"
    assert Counter(who(each)[1] for each in provider.asked("worker")) == dict.fromkeys(redone, 1)
    assert len(provider.asked("synthesizer")) == 1
    attempts = {(str(each.data["task"]), each.data["attempt"]) for each in made.entries(run, "task.attempted")}
    assert {(id, 2) for id in redone} <= attempts
    asked = one(made.entries(run, "run.retry_asked"))
    first = next(each for each in made.entries(run, "task.attempted") if each.seq > asked.seq)
    assert asked.seq in first.causes
    assert len(made.entries(run, "run.answered")) == 2
    audit(made.store, run)


def failing(broken: set[str]) -> Says:
    """Whoever works on one of these has nothing to say."""

    def says(exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        if role == "worker":
            return "" if id in broken else f"result of {id}"
        return _plain(obliging(exchange))

    return says


async def test_a_retry_after_a_failure_repairs_what_was_skipped_for_it() -> None:
    broken = {"b"}
    provider = Answers(failing(broken))
    made = desk(provider)
    ended = await made.run(plan=DIAMOND)
    assert ended.state == "partial"
    broken.clear()
    provider.calls.clear()
    ended = await made.runs.retry(ended.run, "b")
    assert ended.state == "answered"
    assert {who(each)[1] for each in provider.asked("worker")} == {"b", "d"}
    assert made.runs.show(ended.run)["missing"] == []


@pytest.mark.parametrize("poor", ["b", ""])
@pytest.mark.parametrize("again", ["", "a"])
async def test_what_was_done_without_a_task_is_done_with_it_once_a_retry_has_mended_it_and_else_stands(
    again: str, poor: str
) -> None:
    broken = {"a", poor}
    provider = Answers(failing(broken))
    made = desk(provider)
    work = plan(task("a"), task("b", "a", on_upstream_failure="run"), task("c", "b"), task("d"))
    assert (await made.run(plan=work)).state == "partial"
    run = made.runs.listed()[0]["run"]
    provider.calls.clear()
    broken.clear()
    broken.add(again)
    ended = await made.runs.retry(run, "a")
    asked = {who(each)[1]: user_text(each) for each in provider.asked("worker")}
    if again:
        assert (ended.state, set(asked)) == ("partial", {"a"})
    else:
        assert (ended.state, set(asked)) == ("answered", {"a", "b", "c"})
        assert "result of a" in asked["b"]
    audit(made.store, run)


async def test_the_answer_of_before_a_retry_is_not_shown_for_the_run_that_failed_since() -> None:
    said: list[str] = ["fine work"]
    made = desk(Answers(lambda exchange: said[0] if who(exchange)[0] == "worker" else _plain(obliging(exchange))))
    run = (await made.run(plan=plan(task("a"), task("b", "a")))).run
    view = made.runs.show(run)
    assert (view["answer"], [each["check"] for each in view["checks"]]) == ("the answer", ["intent", "delivery"])
    said[0] = ""
    assert (await made.runs.retry(run, "a")).state == "failed"
    view, capsule = made.runs.show(run), made.runs.capsule(run)
    assert (view["state"], view["answer"], view["answer_seq"], view["checks"]) == ("failed", None, None, [])
    assert (capsule["state"], capsule["answer"], made.answer(run)) == ("failed", None, None)
    assert made.runs.figures(run)["answer_sha256"] is None


def _plain(said: object) -> Said:
    assert isinstance(said, str | dict)
    return said


async def test_no_task_is_done_again_of_a_run_that_has_no_plan_yet() -> None:
    made = desk(Answers())
    run = await made.submit()
    for again in (made.runs.retry, made.runs.ask_to_retry):
        with pytest.raises(
            UsageError, match=f"no plan yet; `hansard runs resume {run} --ledger memory:` goes on with it"
        ):
            await again(run, "only")
    assert not made.entries(run, "run.retry_asked")
    assert (await made.runs.drive(run)).state == "answered"


async def test_a_retry_names_the_tasks_that_there_are() -> None:
    made = desk(Answers())
    run = (await made.run(plan=DIAMOND)).run
    with pytest.raises(UsageError, match="no task 'z'; its tasks are a, b, c, d, e"):
        await made.runs.retry(run, "z")
    with pytest.raises(UsageError, match="no run 'nope'"):
        await made.runs.retry("nope", "a")


async def test_whoever_wants_to_go_on_with_a_run_that_carried_out_no_plan_hears_what_can_be_done() -> None:
    made = desk(Answers())
    planned = (await made.run(mode="plan_only")).run
    silent = desk(Answers(lambda exchange: "no plan"))
    planless = (await silent.run()).run
    for at, run in ((made, planned), (silent, planless)):
        entries = at.entries(run)
        with pytest.raises(UsageError, match="no task to do again; `hansard submit REQUEST` hands it in again"):
            await at.runs.retry(run, "only")
        with pytest.raises(UsageError, match=r"has ended .*; `hansard submit REQUEST` hands it in again"):
            await at.runs.resume(run)
        assert at.entries(run) == entries


async def test_a_retry_of_a_run_that_another_process_drives_leaves_nothing_on_the_record() -> None:
    ledger = Ledger()
    made = desk(Answers(), store=ledger)
    run = (await made.run(plan=DIAMOND)).run
    claim = ledger.claim(run, 60)
    with pytest.raises(Fenced):
        await made.runs.retry(run, "b")
    assert (made.entries(run, "run.retry_asked"), made.runs.show(run)["state"]) == ([], "answered")
    ledger.release(claim)
    assert (await made.runs.retry(run, "b")).state == "answered"


async def test_who_may_not_resume_what_another_process_drives_leaves_nothing_on_the_record() -> None:
    gate, ledger = Gate("c"), Ledger()
    made = desk(Answers(gate), store=ledger)
    run, driving = await started(made, gate)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    claim = ledger.claim(run, 60)
    entries = made.entries(run)
    with pytest.raises(Fenced):
        await made.runs.resume(run)
    assert made.entries(run) == entries
    ledger.release(claim)
    other = desk(Answers(), store=ledger)
    assert (await other.runs.resume(run)).state == "answered"
    asked = one(other.entries(run, "run.resume_asked"))
    assert asked.seq in other.entries(run, "run.claimed")[-1].causes
    audit(ledger, run)


async def test_what_is_driven_here_is_done_again_when_it_has_ended_and_whoever_resumes_it_joins_its_driver() -> None:
    gate = Gate("d")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    for again in (made.runs.retry, made.runs.ask_to_retry):
        with pytest.raises(UsageError, match="is being driven; retry a task when it has ended"):
            await again(run, "a")
    resuming = asyncio.ensure_future(made.runs.resume(run))
    gate.open.set()
    assert await resuming == await driving
    assert made.entries(run, "run.retry_asked", "run.resume_asked") == []
    audit(made.store, run)


@pytest.mark.parametrize(("kind", "part"), [("run.requested", "request"), ("run.configured", "config")])
async def test_a_retry_that_cannot_be_carried_out_leaves_nothing_on_the_record(kind: str, part: str) -> None:
    made = desk(Answers())
    run = (await made.run(plan=DIAMOND)).run
    redact(made, one(made.entries(run, kind)).seq, part)
    with pytest.raises(StoreError, match="not in the ledger any more"):
        await made.runs.retry(run, "b")
    assert (made.entries(run, "run.retry_asked"), made.runs.show(run)["state"]) == ([], "answered")


async def test_a_retry_with_nobody_to_ask_leaves_nothing_on_the_record() -> None:
    ledger = Ledger()
    run = (await desk(Answers(), store=ledger).run(plan=DIAMOND)).run
    other = desk(store=ledger)
    with pytest.raises(UsageError, match="handed in by a Python program"):
        await other.runs.retry(run, "b")
    assert other.runs.show(run)["state"] == "answered"


async def test_a_task_that_was_skipped_and_then_done_does_not_say_why_it_was_skipped() -> None:
    gate = Gate("b")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    await made.runs.cancel(run)
    await driving
    gate.open.set()
    assert (await made.runs.retry(run, "b")).state == "answered"
    assert {(task["state"], task["because"]) for task in made.runs.show(run)["tasks"]} == {("passed", None)}


@pytest.mark.parametrize("what", ["config", "request", "provider", "plan"])
async def test_a_run_with_which_nobody_can_go_on_can_be_cancelled(what: str) -> None:
    gate, ledger = Gate("c"), Ledger()
    made = desk(Answers(gate), store=ledger)
    run, driving = await started(made, gate)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    kind = {"config": "run.configured", "request": "run.requested", "plan": "plan.made"}.get(what)
    if kind:
        redact(made, one(made.entries(run, kind)).seq, what)
    other = desk(*([Answers()] if kind else []), store=ledger)
    with pytest.raises(HansardError):
        await other.runs.resume(run)
    ended = await other.runs.cancel(run)
    assert ended is not None
    assert (ended.state, other.runs.show(run)["state"]) == ("cancelled", "cancelled")
    assert one([each for each in other.entries(run, "task.returned") if each.data["task"] == "c"]).data["ok"] is False
    assert other.runs.has_gates(run) is False


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"policy": Policy(max_parallel=0)}, "the configuration of the run: max_parallel must be a whole number of 1"),
        ({"budget": Budget(max_calls=-1)}, "the configuration of the run: max_calls must be a whole number from 0"),
        ({"budget": Budget(max_seconds=float("nan"))}, "the configuration of the run: max_seconds must be a number"),
        ({"judge": "banana"}, "the configuration of the run: judge must be one of model, checks, not 'banana'"),
        ({"gates": (Rule(name="nowhere"),)}, "the configuration of the run"),
        ({"providers": {"told": {"kind": "python", "since": date(2026, 1, 1)}}}, "cannot be recorded"),
        ({"folder": "\udcff"}, "cannot be recorded"),
    ],
)
async def test_a_configuration_that_could_not_be_read_back_is_not_recorded(odd: dict[str, Any], said: str) -> None:
    made = desk(Answers())
    with pytest.raises(UsageError, match=said):
        await made.runs.submit("please", replace(made.config(), **odd))
    assert made.runs.listed() == []


async def test_a_resume_whose_input_was_redacted_stops_and_names_it() -> None:
    gate = Gate("d")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    result = next(each for each in made.entries(run, "task.returned") if each.data["task"] == "b")
    redact(made, result.seq, "output")
    with pytest.raises(StoreError) as stopped:
        await made.runs.resume(run)
    assert f"task 'b' (entry {result.seq})" in str(stopped.value)
    assert "retry" in str(stopped.value)
    gate.open.set()
    assert (await made.runs.retry(run, "b")).state == "answered"


async def test_a_resume_whose_rejection_was_redacted_says_that_it_is_not_there_any_more() -> None:
    gate = Gate("a")
    capable = Answers(gate, id="capable")
    poor = Answers(lambda exchange: POOR if who(exchange)[0] == "validator" else "work", id="cheap")
    tiers, roles = {"cheap": "cheap", "capable": "capable"}, {"validator": "cheap"}
    made = desk(poor, capable, settings={"tiers": tiers, "roles": roles})
    run, driving = await started(made, gate, plan(task("a")))
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    redact(made, one(made.entries(run, "task.judged")).seq, "reasons")
    gate.open.set()
    await made.runs.resume(run)
    assert "(not in the ledger any more)" in user_text(capable.asked("worker")[-1])


async def test_a_resume_whose_configuration_was_redacted_stops_and_names_it() -> None:
    made = desk(Answers())
    run = await made.submit(plan=DIAMOND)
    configured = one(made.entries(run, "run.configured"))
    redact(made, configured.seq, "config")
    with pytest.raises(StoreError, match=f"config of run {run} .entry {configured.seq}."):
        await made.runs.drive(run)


def redact(made: Desk, seq: int, part: str) -> None:
    entry = made.store.entry(seq)
    fact = BodyRedacted(seq=seq, part=part, commitment=entry.body[part], reason="personal_data")
    record_now(made.store, [Step(fact, "human:test", (seq,))], run=entry.run)
    made.store.erase((seq, part))


def test_run_ids_are_uuids_of_version_seven_that_sort_by_time() -> None:
    ids = [new_run_id(now_ms) for now_ms in (0, 1, 1_000, 1_700_000_000_000, 1_900_000_000_000)]
    assert ids == sorted(ids)
    assert all(uuid.UUID(each).version == 7 and uuid.UUID(each).variant == uuid.RFC_4122 for each in ids)
    assert len({new_run_id(5) for _ in range(1_000)}) == 1_000


async def test_an_interruption_while_roles_are_asked_is_resumed_too() -> None:
    reached, go = asyncio.Event(), asyncio.Event()

    async def says(exchange: Exchange) -> Said:
        if who(exchange)[0] == "synthesizer" and not go.is_set():
            reached.set()
            await asyncio.sleep(60)
        return _plain(obliging(exchange))

    provider = Answers(says)
    made = desk(provider)
    run = await made.submit(plan=DIAMOND)
    driving = asyncio.ensure_future(made.runs.drive(run))
    await reached.wait()
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    go.set()
    assert (await made.runs.resume(run)).state == "answered"
    assert len(provider.asked("synthesizer")) == 2
    assert len(provider.asked("worker")) == 5


async def test_a_run_of_another_ledger_is_unknown_here() -> None:
    runs = desk(Answers()).runs
    for verb in (runs.drive, runs.cancel, runs.resume, runs.ask_to_resume):
        with pytest.raises(UsageError, match="there is no run"):
            await verb(new_run_id())


async def test_following_a_run_gives_every_entry_once_until_its_end() -> None:
    gate = Gate("d")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)

    async def heard() -> list[int]:
        return [int(view["seq"]) async for view in made.runs.follow(run)]

    following = asyncio.ensure_future(heard())
    await asyncio.sleep(0)
    gate.open.set()
    await driving
    assert await following == [each.seq for each in made.entries(run)]


async def test_whoever_follows_slowly_hears_of_the_end_too() -> None:
    gate = Gate("d")
    made = desk(Answers(gate))
    run, driving = await started(made, gate)
    heard = []
    async for view in made.runs.follow(run):
        heard.append(int(view["seq"]))
        if not driving.done():
            gate.open.set()
            await driving
    assert heard == [each.seq for each in made.entries(run)]


async def test_a_provider_that_a_program_handed_in_is_asked_for_by_name_when_it_is_missing() -> None:
    store = Ledger()
    made = desk(Answers(), store=store)
    run = await made.submit(plan=DIAMOND, wishes=Wishes())
    with pytest.raises(UsageError, match="'told'"):
        await desk(Answers(id="another"), store=store).runs.drive(run)


class Sneaky(Ledger):
    """Somebody asks to cancel just after a driver has read the record, and before it says that it drives."""

    sneak = ""

    def select(self, query: Query) -> Iterator[Entry]:
        found = list(super().select(query))
        if self.sneak and query == Query(run=self.sneak):
            run, self.sneak = self.sneak, ""
            record_now(self, [Step(CancelAsked(surface="cli"), "human:test", (found[0].seq,))], run=run)
        return iter(found)


async def test_a_cancellation_between_a_drivers_first_look_and_its_claim_is_heard() -> None:
    gate, store = Gate("c"), Sneaky()
    made = desk(Answers(gate), store=store)
    run = await made.submit(plan=DIAMOND)
    store.sneak = run
    ended = await asyncio.wait_for(made.runs.drive(run), 30)
    assert ended.state == "cancelled"


@pytest.mark.parametrize("lost", ["budget", "gate"])
async def test_what_goes_on_without_a_task_waits_until_the_record_says_that_it_is_lost(
    monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    held, go_on, settled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    record_all = Journal.record_all

    async def slowly(journal: Journal, steps: Sequence[Step]) -> Any:
        if any(isinstance(step.fact, TaskSkipped) and step.fact.because == lost for step in steps):
            held.set()
            await go_on.wait()
        recorded = await record_all(journal, steps)
        if any(isinstance(step.fact, TaskJudged) and step.fact.task == "b" for step in steps):
            settled.set()
        return recorded

    async def after_the_other(exchange: Exchange) -> Said:
        if who(exchange)[:2] == ("worker", "b"):
            await held.wait()
        return await _maybe(obliging(exchange))

    monkeypatch.setattr(Journal, "record_all", slowly)
    at = desk(Answers(after_the_other))
    scarce = Wishes(roster=roster(alpha={"budget": Budget(max_calls=1)})) if lost == "budget" else Wishes()
    rules = read_rules([{"tasks": ["a"], "deadline_s": 0.01}] if lost == "gate" else [], "test")
    config = replace(at.config(scarce), gates=rules)
    # Behind another task, so that the other one is under way when it is lost, however soon that is.
    rows = plan(
        task("first", lane="beta"),
        task("a", "first"),
        task("b", lane="beta"),
        task("c", "a", "b", lane="beta", on_upstream_failure="run"),
    )
    run = await at.runs.submit("please", config, plan=rows)
    driving = asyncio.ensure_future(at.runs.drive(run))
    await settled.wait()
    # It is free to start, as far as the schedule is concerned.
    await asyncio.sleep(0.05)
    assert [entry.data["task"] for entry in at.entries(run, "task.attempted") if entry.data["task"] == "c"] == []
    go_on.set()
    assert (await driving).state == "partial"
    [skipped] = at.entries(run, "task.skipped")
    begun = next(entry for entry in at.entries(run, "task.attempted") if entry.data["task"] == "c")
    assert skipped.seq < begun.seq


async def test_nothing_is_driven_any_more_when_the_service_is_closed_however_soon_that_is(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "ledger.db"), state=tmp_path / "state")
    here = asyncio.all_tasks()
    async with Hansard.open(settings=settings) as closed:
        for _ in range(3):
            await closed.submit("please", plan=DIAMOND, provider=Answers(), wishes=Wishes(roster=roster()))
    assert asyncio.all_tasks() == here


async def test_runs_that_are_driven_when_the_service_closes_are_interrupted_and_can_be_resumed(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "ledger.db"), state=tmp_path / "state")
    gate = Gate("b")
    async with Hansard.open(settings=settings) as first:
        wishes = Wishes(roster=roster())
        run = await first.submit("please", plan=DIAMOND, provider=Answers(gate), wishes=wishes)
        await gate.reached.wait()
    provider = Answers()
    async with Hansard.open(settings=settings, providers={"told": provider}) as second:
        assert second.runs.show(run.id)["state"] == "interrupted"
        assert (await second.runs.resume(run.id)).state == "answered"
        assert {who(each)[1] for each in provider.asked("worker")} <= {"b", "c", "d", "e"}
        assert provider.asked("worker", "a") == []
