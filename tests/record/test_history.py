import asyncio
from pathlib import Path
from typing import Any

from hansard.domain.custody import BodyRedacted
from hansard.domain.fact import Body
from hansard.domain.gate import GateClosed, GateOpened
from hansard.domain.work import PlanMade, RunEnded, TaskAttempted, TaskJudged, TaskReturned
from hansard.ledger.entry import parse
from hansard.record.history import LedgerState, fold, follow
from hansard.record.recorder import Recorder, Step, Within
from hansard.store.base import Query, Store
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft, memory, request


async def a_run(store: Store, run: str = "r1") -> None:
    recorder = Recorder(store)
    asked = await recorder.record(request(), actor="human:a", run=run)
    claim = store.claim(run, 60)
    steps = [
        Step(PlanMade(by="user", tasks=1, edges=0, waves=1, plan=Body.text("p")), "coordinator", [asked]),
        Step(
            GateOpened(
                gate="g1", rule="r", before="plan", needed=1, on_expiry="reject", shown=(), question=Body.text("?")
            ),
            "engine",
            [Within(0)],
        ),
        Step(GateClosed(gate="g1", outcome="approved", expired=False), "engine", [Within(1)]),
        Step(
            TaskAttempted(
                task="t1", lane="backend", attempt=1, rung="cheap", provider="p", model="m", template="t", prompt=Body.text("do")
            ),
            "lane:backend",
            [Within(0), Within(2)],
        ),
        Step(
            TaskReturned(
                task="t1", attempt=1, ok=True, finish="stop", model="m-1", input_tokens=30, output_tokens=12, cached_tokens=0,
                tokens_estimated=False, cost_usd_nano=500, cost_basis="reported", latency_us=9, output=Body.text("done"),
            ),
            "lane:backend",
            [Within(3)],
        ),
        Step(TaskJudged(task="t1", attempt=1, ok=False, by="checks", same_model=False, reasons=Body.text("no")), "validator", [Within(4)]),
        Step(RunEnded(state="partial", reason="rejected", calls=1, tokens=42, cost_usd_nano=500, elapsed_us=10), "engine", [Within(5)]),
    ]  # fmt: skip
    await recorder.record_all(steps, run=run, claim=claim)
    await recorder.close()


def state_at(store: Store, seq: int) -> LedgerState:
    return fold(parse(line) for line in store.lines(0, seq + 1))


async def test_the_fold_tells_the_state_at_every_moment() -> None:
    store = memory()
    await a_run(store)
    states = [state_at(store, seq).runs["r1"].state for seq in range(1, store.head().size)]
    assert states == ["requested", "planned", "waiting", "running", "running", "running", "running", "partial"]
    waiting = state_at(store, 3).runs["r1"]
    assert waiting.open_gates == {"g1"}


async def test_spend_tasks_and_verdicts_are_counted() -> None:
    store = memory()
    await a_run(store)
    end = state_at(store, store.head().size - 1)
    run = end.runs["r1"]
    assert (run.calls, run.tokens, run.cost_usd_nano) == (1, 42, 500)
    assert run.tasks == {"t1": "rejected"}
    assert end.verdicts == {"rejected": 1}
    assert end.models == {"m-1": 1}
    assert end.kinds["task.attempted"] == 1
    assert not run.open_gates


async def test_interleaved_runs_do_not_mix() -> None:
    store = memory()
    await asyncio.gather(*(a_run(store, f"r{number}") for number in range(5)))
    end = state_at(store, store.head().size - 1)
    assert {run.entries for run in end.runs.values()} == {8}
    assert {run.tokens for run in end.runs.values()} == {42}


def test_a_kind_that_is_not_known_changes_nothing_but_the_count() -> None:
    store = memory()
    line = next(iter(store.lines()))
    state = fold([parse(line), parse(line.replace(b"log.genesis", b"log.novelty"))])
    assert state.kinds == {"log.genesis": 1, "log.novelty": 1}


async def test_following_gives_entries_as_another_store_writes_them(tmp_path: Path) -> None:
    writer = SqliteStore.create(tmp_path / "x.db", genesis_draft())
    reader = SqliteStore.open(tmp_path / "x.db")
    seen: list[str] = []

    async def read() -> None:
        async for entry in follow(reader, -1):
            seen.append(entry.kind)
            if entry.kind == "run.ended":
                return

    async with asyncio.timeout(20):
        reading = asyncio.create_task(read())
        await a_run(writer)
        await reading
    assert seen[0] == "log.genesis"
    assert len(seen) == 9
    reader.close()
    writer.close()


def test_redactions_are_counted() -> None:
    store = memory()
    recorder = Recorder(store)
    asyncio.run(_redact(recorder))
    assert state_at(store, 2).redacted == 1


async def _redact(recorder: Recorder) -> None:
    asked = await recorder.record(request(), actor="human:a", run="r1")
    tombstone = BodyRedacted(seq=asked.seq, part="request", commitment="0" * 64, reason="legal")
    await recorder.record(tombstone, actor="human:a", run="r1", causes=[asked])


async def test_beside_an_open_gate_the_tasks_are_not_gone_through_for_each_entry() -> None:
    class Tasks(dict[str, str]):
        def values(self) -> Any:
            raise AssertionError("all tasks were looked at")

    store = memory()
    await a_run(store)
    state = LedgerState()
    for entry in store.select(Query(run="r1")):
        state.take(entry)
        state.runs["r1"].tasks = Tasks(state.runs["r1"].tasks)
        state.runs["r1"].undecided.add("another")
    assert list(state.runs["r1"].tasks) == ["t1"]
