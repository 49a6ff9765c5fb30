import asyncio
import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hansard.domain.fact import Body
from hansard.domain.work import PlanMade, RunClaimed
from hansard.errors import Broken, Fenced, OutcomeUnknown, StoreError, UsageError
from hansard.record import recorder as recorder_module
from hansard.record.recorder import A_TURN, STREAK, WORTHWHILE_DRAFTS, Recorder, Step, Within, record_now
from hansard.store.base import Group, Outcome, Seal, Store
from hansard.store.memory import MemoryStore
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft, memory, request
from sealing import Log, say, sealed_to
from store.forking import holds_in_a_child, is_refused

PATIENCE_S = 60.0


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = (
        memory(time.time) if request.param == "memory" else SqliteStore.create(tmp_path / "x.db", genesis_draft())
    )
    yield made
    made.close()


class SlowStore(MemoryStore):
    """A real store that takes its time and counts commits, as a slow disk would."""

    def __init__(self, seconds: float) -> None:
        self.commits = 0
        self.seconds = 0.0
        self.goes_on = threading.Event()
        """Cleared, no commit ends."""
        self.goes_on.set()
        super().__init__(genesis_draft())
        self.inline = None
        self.seconds, self.commits = seconds, 0

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        self.commits += 1
        time.sleep(self.seconds)
        self.goes_on.wait(PATIENCE_S)
        return super().append(groups, seal)


class FailingStore(MemoryStore):
    """A store whose disk gives up after some commits."""

    def __init__(self, error: Exception, after: int) -> None:
        self.left: float = float("inf")
        super().__init__(genesis_draft())
        self.inline = None
        self.error, self.left = error, after

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return super().append(groups, seal)


async def test_a_recorded_fact_has_its_place_and_its_cause(store: Store) -> None:
    recorder = Recorder(store)
    first = await recorder.record(request("one"), actor="human:a", run="r1")
    second = await recorder.record(request("two"), actor="human:a", run="r1", causes=[first, 0])
    await recorder.close()
    assert (first.seq, second.seq) == (1, 2)
    assert store.entry(2).causes == (0, 1)
    assert store.effects(1) == [2]
    stored = store.body(1, "request")
    assert stored is not None
    assert stored.body == b"one"


async def test_facts_of_a_group_may_cause_each_other(store: Store) -> None:
    recorder = Recorder(store)
    steps = [
        Step(request("a"), "x"),
        Step(request("b"), "x", [Within(0)]),
        Step(request("c"), "x", [Within(1), Within(0)]),
    ]
    placed = await recorder.record_all(steps, run="r1")
    await recorder.close()
    assert [each.seq for each in placed] == [1, 2, 3]
    assert store.entry(3).causes == (1, 2)


async def test_a_group_with_a_bad_cause_leaves_nothing_behind(store: Store) -> None:
    recorder = Recorder(store)
    with pytest.raises(UsageError, match="cause"):
        await recorder.record_all([Step(request("a"), "x"), Step(request("b"), "x", [99])])
    await recorder.close()
    assert store.head().size == 1


async def test_a_driven_fact_needs_the_newest_claim(store: Store) -> None:
    recorder = Recorder(store)
    old = store.claim("r1", 0.0)
    new = store.claim("r1", 60.0)
    fact = RunClaimed(epoch=new.epoch, because="expired")
    with pytest.raises(Fenced):
        await recorder.record(fact, actor="engine", run="r1", claim=old)
    assert (await recorder.record(fact, actor="engine", run="r1", claim=new)).seq == 1
    await recorder.close()


@pytest.mark.parametrize(("queued", "commits"), [(WORTHWHILE_DRAFTS, 2), (WORTHWHILE_DRAFTS - 1, 1)])
async def test_the_writer_goes_on_with_what_is_worth_it_while_the_loop_is_busy(queued: int, commits: int) -> None:
    store = SlowStore(0.05)
    recorder = Recorder(store)
    await recorder.record(request("starts the writer"), actor="x")
    store.commits = 0
    store.goes_on.clear()
    first = asyncio.ensure_future(recorder.record(request("first"), actor="x"))
    while not store.commits:  # noqa: ASYNC110 - the store commits in a thread, and tells nobody
        await asyncio.sleep(0.001)
    steps = [Step(request(f"{number}"), "x") for number in range(queued - 1)]
    last = asyncio.gather(recorder.record_all(steps), recorder.record(request("alone"), actor="x"))
    await asyncio.sleep(0)
    store.goes_on.set()
    until = time.monotonic() + (PATIENCE_S if commits == 2 else 0.4)
    while store.commits < 2 and time.monotonic() < until:
        time.sleep(0.01)  # noqa: ASYNC251 - the loop shall turn for nobody
    assert store.commits == commits
    many, alone = await last
    assert (await first).seq == 2
    assert [each.seq for each in many] + [alone.seq] == list(range(3, 3 + queued))
    await recorder.close()
    assert store.commits == 2


async def test_whom_a_commit_wakes_wakes_in_several_turns() -> None:
    recorder, turn, woken = Recorder(SlowStore(0.02)), 0, list[int]()

    async def write(number: int) -> None:
        await recorder.record(request(f"{number}"), actor="x")
        woken.append(turn)

    async def count() -> None:
        nonlocal turn
        while len(woken) < 5 * A_TURN:
            turn += 1
            await asyncio.sleep(0)

    await recorder.record(request("starts the writer"), actor="x")
    await asyncio.gather(count(), *(write(number) for number in range(5 * A_TURN)))
    await recorder.close()
    assert max(map(woken.count, set(woken))) <= A_TURN


async def test_many_writers_share_commits() -> None:
    store = SlowStore(0.002)
    recorder = Recorder(store)

    async def write() -> None:
        for _ in range(10):
            await recorder.record(request(), actor="x", run="r1")

    await asyncio.gather(*(write() for _ in range(64)))
    await recorder.close()
    assert store.head().size == 641
    assert store.commits <= 640 / 32


class ThreadedStore(MemoryStore):
    """A real store that notes which thread commits."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        super().__init__(genesis_draft())
        self.inline = None

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        self.threads.append(threading.current_thread())
        return super().append(groups, seal)


async def test_a_task_that_records_alone_writes_its_groups_itself_where_commits_are_quick() -> None:
    store = ThreadedStore()
    recorder = Recorder(store)
    for _ in range(60):
        await recorder.record_all([Step(request(), "x"), Step(request(), "x", [Within(0)])], run="r1")
    await recorder.close()
    assert store.head().size == 121
    assert store.threads[-1] is threading.main_thread()


async def test_what_is_recorded_at_one_moment_stands_in_the_order_in_which_it_came() -> None:
    """Also behind somebody who was alone so far, and looks whether he still is."""
    recorder = Recorder(ThreadedStore())
    for _ in range(60):
        await recorder.record(request(), actor="x", run="r1")

    async def recorded() -> int:
        return (await recorder.record(request(), actor="x", run="r1")).seq

    for first in range(61, 101, 4):
        assert await asyncio.gather(*(recorded() for _ in range(4))) == list(range(first, first + 4))
    await recorder.close()


@pytest.mark.parametrize("how", [fcntl.LOCK_EX, fcntl.LOCK_SH], ids=["writes", "copies the file to verify it"])
async def test_whoever_records_while_another_process_has_the_lock_holds_up_nobody(
    how: int, quick_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "INLINE_BELOW_S", PATIENCE_S)
    store = SqliteStore.create(quick_folder / "x.db", genesis_draft())
    recorder = Recorder(store)
    for number in range(30):
        await recorder.record(request(f"{number}"), actor="human:k7", run="r1")
    other = os.open(quick_folder / "x.db.lock", os.O_RDWR)
    fcntl.flock(other, how)
    recording = asyncio.ensure_future(recorder.record(request("last"), actor="human:k7", run="r1"))
    # Had the loop waited for its turn, nobody would give it that.
    await asyncio.sleep(0.2)
    assert not recording.done()
    os.close(other)
    assert (await recording).seq == store.head().size - 1
    await recorder.close()
    store.close()


async def test_the_groups_of_many_tasks_share_commits() -> None:
    store = SlowStore(0.0)
    recorder = Recorder(store)

    async def write() -> None:
        for _ in range(10):
            await recorder.record_all([Step(request(), "x"), Step(request(), "x")], run="r1")

    await asyncio.gather(*(write() for _ in range(32)))
    await recorder.close()
    assert store.head().size == 641
    assert store.commits <= 320 / 4


async def test_riding_facts_go_with_the_next_commit() -> None:
    store = SlowStore(0.0)
    recorder = Recorder(store)
    await recorder.record(request(), actor="x")
    before = store.commits
    riding = asyncio.ensure_future(recorder.record_all([Step(request("rides"), "x")], urgent=False))
    await asyncio.sleep(0)
    await recorder.record(request("urgent"), actor="x")
    await riding
    assert store.commits == before + 1
    alone = await recorder.record_all([Step(request("alone"), "x")], urgent=False)
    assert alone[0].seq == 4
    await recorder.close()


async def test_a_saturated_event_loop_does_not_starve_the_writer() -> None:
    store = SlowStore(0.001)
    recorder = Recorder(store)
    stop = False

    async def hog() -> None:
        while not stop:
            until = time.perf_counter() + 0.001
            while time.perf_counter() < until:
                pass
            await asyncio.sleep(0)

    busy = asyncio.create_task(hog())
    async with asyncio.timeout(PATIENCE_S):
        for _ in range(120):
            await recorder.record(request(), actor="x")
    stop = True
    await busy
    await recorder.close()
    assert store.head().size == 121


@pytest.mark.parametrize("error", [StoreError("disk full"), OutcomeUnknown("who knows")])
async def test_a_failed_commit_reaches_every_waiter(error: StoreError) -> None:
    recorder = Recorder(FailingStore(error, after=0))
    got = await asyncio.gather(*(recorder.record(request(), actor="x") for _ in range(5)), return_exceptions=True)
    assert got == [error] * 5
    await recorder.close()


async def test_a_writer_that_dies_leaves_nobody_waiting() -> None:
    recorder = Recorder(FailingStore(RuntimeError("a bug"), after=1))
    await recorder.record(request(), actor="x")
    async with asyncio.timeout(PATIENCE_S):
        got = await asyncio.gather(*(recorder.record(request(), actor="x") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(each, Broken) for each in got)
    with pytest.raises(Broken):
        await recorder.record(request(), actor="x")
    await recorder.close()


async def test_a_cancelled_waiter_does_not_undo_the_entry() -> None:
    store = SlowStore(0.05)
    recorder = Recorder(store)
    waiting = asyncio.create_task(recorder.record(request(), actor="x"))
    await asyncio.sleep(0.02)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await recorder.record(request("next"), actor="x")).seq == 2
    await recorder.close()


@pytest.mark.parametrize("at_once", [1, 3])
async def test_whoever_is_cancelled_while_he_looks_whether_he_is_alone_has_recorded_all_the_same(at_once: int) -> None:
    store = SlowStore(0)
    recorder = Recorder(store)
    before = [await recorder.record(request(), actor="x") for _ in range(STREAK)]
    waiting = [
        asyncio.create_task(recorder.record_all([Step(request(), "x"), Step(request(), "x", [Within(0)])]))
        for _ in range(at_once)
    ]
    await asyncio.sleep(0)
    for each in waiting:
        each.cancel()
    said = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in said] == [asyncio.CancelledError] * at_once
    assert store.head().size == before[-1].seq + 1 + 2 * at_once
    await recorder.close()


async def test_closing_writes_what_is_queued() -> None:
    store = SlowStore(0.01)
    recorder = Recorder(store)
    tasks = [asyncio.create_task(recorder.record(request(), actor="x")) for _ in range(3)]
    await asyncio.sleep(0)
    await recorder.close()
    assert [each.seq for each in await asyncio.gather(*tasks)] == [1, 2, 3]


def test_what_a_loop_leaves_to_its_end_is_recorded() -> None:
    store, left = SlowStore(0.001), list[asyncio.Task[None]]()

    async def work(recorder: Recorder, begun: asyncio.Event) -> None:
        await recorder.record(request(), actor="x")
        try:
            begun.set()
            await asyncio.sleep(60)
        finally:
            # The loop that ends has cancelled everybody, the writer too.
            last = asyncio.ensure_future(recorder.record(request("last"), actor="x"))
            await asyncio.wait([last], timeout=PATIENCE_S)
            await recorder.close()

    async def leave() -> None:
        begun = asyncio.Event()
        left.append(asyncio.create_task(work(Recorder(store), begun)))
        await begun.wait()

    asyncio.run(leave())
    assert store.head().size == 3


def test_a_recorder_that_nobody_closed_goes_on_in_the_next_loop() -> None:
    store = SlowStore(0.001)
    recorder = Recorder(store)

    async def record(*, close: bool = False) -> None:
        await asyncio.wait([asyncio.ensure_future(recorder.record(request(), actor="x"))], timeout=PATIENCE_S)
        if close:
            await recorder.close()

    asyncio.run(record())
    asyncio.run(record(close=True))
    assert store.head().size == 3


def test_what_is_recorded_while_a_loop_ends_leaves_no_writer_behind_in_it(tmp_path: Path) -> None:
    log = Log.found(tmp_path)
    store = log.open()
    recorder, working = Recorder(store, sealing=log.take(store)), list[asyncio.Task[None]]()

    async def work() -> None:
        try:
            await asyncio.sleep(PATIENCE_S)
        finally:
            # As a driver does that is interrupted: the writer was cancelled with it.
            await recorder.record(request("interrupted"), actor="x")
            recorder.seal_soon()

    async def leave() -> None:
        await recorder.record(request("begun"), actor="x")
        working.append(asyncio.create_task(work()))
        await asyncio.sleep(0)

    async def go_on() -> None:
        await recorder.record(request("resumed"), actor="x")
        await recorder.close()

    asyncio.run(leave())
    asyncio.run(go_on())
    assert store.head().size == 4
    store.close()


def test_what_is_being_written_when_a_loop_ends_is_written_once_and_the_recorder_goes_on() -> None:
    store, many = SlowStore(0), 2 * A_TURN + 1
    recorder, waiting = Recorder(store), list[asyncio.Task[object]]()

    async def leave() -> None:
        store.goes_on.clear()
        waiting.extend(asyncio.create_task(recorder.record(request(), actor="x")) for _ in range(many))
        while not store.commits:  # noqa: ASYNC110 - the writer is a thread
            await asyncio.sleep(0.001)
        threading.Timer(0.05, store.goes_on.set).start()

    async def go_on() -> None:
        await recorder.record(request("next"), actor="x")
        await recorder.close()

    asyncio.run(leave())
    asyncio.run(go_on())
    assert store.head().size == 1 + many + 1


async def test_another_loop_is_refused_as_long_as_the_first_one_is_there() -> None:
    recorder = Recorder(SlowStore(0.0))
    await recorder.record(request("one"), actor="x")
    with pytest.raises(UsageError, match="open it again here, as in every thread"):
        await asyncio.to_thread(lambda: asyncio.run(recorder.record(request("two"), actor="x")))
    await recorder.record(request("three"), actor="x")
    await recorder.close()
    assert recorder.store.head().size == 3


def test_a_forked_child_is_refused_also_where_its_parent_has_recorded(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "x.db", genesis_draft())
    recorder = Recorder(store)

    async def record(*, close: bool = False) -> None:
        await recorder.record(request(), actor="x")
        if close:
            await recorder.close()

    def refused() -> bool:
        signal.alarm(int(PATIENCE_S))
        return is_refused(lambda: asyncio.run(record()))

    asyncio.run(record())
    assert holds_in_a_child(refused)
    asyncio.run(record(close=True))
    assert store.head().size == 3
    store.close()


def test_a_single_word_can_be_recorded_without_a_loop() -> None:
    store = memory()
    [written] = record_now(store, [Step(request("now"), "human:a", [0])], run="r1")
    assert store.entry(written.seq).causes == (0,)
    with pytest.raises(UsageError, match="claim"):
        record_now(store, [Step(PlanMade(by="user", tasks=0, edges=0, waves=0, plan=Body.text("")), "x")])


async def test_a_task_that_records_without_end_lets_the_others_in() -> None:
    store = SlowStore(0.0)
    recorder = Recorder(store)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(other())
    for _ in range(200):
        await recorder.record(request(), actor="x")
    beside.cancel()
    await recorder.close()
    assert turns >= 200 / STREAK
    assert store.head().size == 201


async def test_two_tasks_that_take_turns_lose_nothing() -> None:
    store = SlowStore(0.0)
    recorder = Recorder(store)

    async def write(run: str) -> list[int]:
        return [(await recorder.record(request(), actor="x", run=run)).seq for _ in range(50)]

    first, second = await asyncio.gather(write("r1"), write("r2"))
    await recorder.close()
    assert sorted(first + second) == list(range(1, 101))


class SlowSealing:
    """A sealing whose upkeep takes its time, and which notices when somebody comes in between."""

    trouble = None

    def __init__(self) -> None:
        self.inside = self.upkeeps = 0
        self.met = False

    def seal(self) -> Seal | None:
        self.met = self.met or self.inside > 0
        return None

    def committed(self) -> None:
        self.met = self.met or self.inside > 0

    def upkeep(self) -> None:
        self.inside += 1
        time.sleep(0.02)
        self.upkeeps += 1
        self.inside -= 1


async def test_nobody_records_while_the_sealer_is_kept_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "UPKEEP_S", 0.05)
    sealing = SlowSealing()
    recorder = Recorder(SlowStore(0.0), sealing=sealing)
    for _ in range(60):
        await recorder.record(request(), actor="x")
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        await recorder.record(request(), actor="x")
        await asyncio.sleep(0.001)
    await recorder.close()
    assert sealing.upkeeps > 2
    assert not sealing.met


async def test_whoever_has_recorded_nothing_signs_what_others_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "UPKEEP_S", 0.05)
    log = Log.found(tmp_path / "log")
    store, other = log.open(), log.open()
    recorder = Recorder(store, sealing=log.take(store))
    # Asked for once; after that it is looked for by itself. The log's clock stands still: nothing comes due.
    recorder.seal_soon()
    for _ in range(4):
        say(other)
        async with asyncio.timeout(PATIENCE_S):
            while sealed_to(store) != (other.head().size, []):  # noqa: ASYNC110 - it is signed in a thread, which tells nobody
                await asyncio.sleep(0.02)
    await recorder.close()
    store.close()
    other.close()


async def test_whoever_asks_is_sealed_in_a_moment_and_not_when_it_comes_due(tmp_path: Path) -> None:
    log = Log.found(tmp_path / "log")
    store = log.open()
    recorder = Recorder(store, sealing=log.take(store))
    for size in (2, 3, 4):
        await recorder.record(request(), actor="x")
        # The log's clock stands still: nothing comes due.
        recorder.seal_soon()
        async with asyncio.timeout(PATIENCE_S):
            while sealed_to(store) != (size, []):  # noqa: ASYNC110 - it is signed in a thread, which tells nobody
                await asyncio.sleep(0.02)
    await recorder.close()
    store.close()


async def test_wishes_to_be_sealed_that_come_one_behind_the_other_are_one(tmp_path: Path) -> None:
    log = Log.found(tmp_path / "log")
    store = log.open()
    recorder = Recorder(store, sealing=log.take(store))
    for _ in range(40):
        await recorder.record(request(), actor="x")
        recorder.seal_soon()
    await recorder.close()
    assert len(list(store.checkpoints())) < 20
    store.close()


async def test_a_recorder_that_is_closed_takes_nothing_whatever_it_writes_to(store: Store) -> None:
    recorder = Recorder(store)
    await recorder.record(request(), actor="human:ann")
    await recorder.close()
    size = store.head().size
    with pytest.raises(UsageError, match="is closed"):
        await recorder.record(request(), actor="human:ann")
    with pytest.raises(UsageError, match="is closed"):
        await recorder.record_all([Step(request(), "human:ann")])
    assert store.head().size == size
