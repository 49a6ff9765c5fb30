import asyncio
import fcntl
import gc
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hansard.app.ledgers.carrying import adopt_into
from hansard.app.service import Hansard
from hansard.app.serving.daemon import Daemon, Draining
from hansard.app.serving.publishing import status
from hansard.app.serving.worker import Worker, unfinished
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.following import over_at, until_over
from hansard.domain.custody import Repaired
from hansard.domain.work import RetryAsked
from hansard.errors import Fenced, StoreError, Unavailable, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.gates import read_rules
from hansard.orchestration.plan import Plan
from hansard.seal import private
from hansard.store.base import Query
from ledgers import full_disk
from running import Answers, obliging

WISHES = Wishes(provider="told", judge="checks", answer="join")
IN_MEMORY = Settings(ledger="memory:", state=Path("unused"))


@asynccontextmanager
async def daemon(
    says: Any = obliging, settings: Settings = IN_MEMORY, **how: Any
) -> AsyncIterator[tuple[Daemon, list[str]]]:
    """A daemon at work on a ledger, and what it tells."""
    told: list[str] = []
    async with Hansard.open(settings=settings, providers={"told": Answers(says)}) as hansard:
        made = Daemon(hansard, lambda event, **_: told.append(event), **how)
        work = asyncio.create_task(made.work())
        try:
            yield made, told
        finally:
            await made.drain(0)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)


def request(made: Daemon, text: str = "please") -> Any:
    return made.hansard.runs.submit(text, made.config(WISHES), lane="backend")


def cancel(made: Daemon, run: str, accepted: asyncio.Event) -> Any:
    return made.hansard.runs.cancel(run, accepted=accepted)


async def stuck(_: object) -> str:
    await asyncio.sleep(600)
    return "never"


async def test_what_is_submitted_is_driven_in_the_background() -> None:
    async with daemon() as (made, _):
        run = await made.submit(request(made))
        await made.wait(run, 30)
        assert made.hansard.runs.show(run)["state"] == "answered"
        assert made.driving == 0


async def test_more_runs_than_places_wait_for_their_turn() -> None:
    async with daemon(most=2) as (made, _):
        runs = [await made.submit(request(made, str(number))) for number in range(8)]
        for run in runs:
            await made.wait(run, 30)
        assert {made.hansard.runs.show(run)["state"] for run in runs} == {"answered"}


async def test_a_run_that_is_cancelled_before_its_turn_leaves_no_plan_in_memory() -> None:
    def plans() -> int:
        gc.collect()
        return sum(type(each) is Plan for each in gc.get_objects())

    async with daemon(most=1) as (made, _):
        before, free = plans(), asyncio.Event()
        busy = asyncio.create_task(made.in_turn(free.wait()))
        run = await made.submit(request(made))
        assert plans() > before
        await made.ask(run, partial(cancel, made, run))
        free.set()
        await busy
        await made.wait(run, 30)
        assert made.hansard.runs.show(run)["state"] == "cancelled"
        assert plans() == before


async def test_draining_interrupts_what_does_not_end_and_takes_nothing_new() -> None:
    async with daemon(stuck) as (made, _):
        run = await made.submit(request(made))
        await until(lambda: made.hansard.runs.show(run)["state"] not in ("requested", "planned"))
        await made.drain(0)
        assert made.hansard.runs.show(run)["state"] == "interrupted"
        with pytest.raises(Draining):
            await made.submit(request(made))
        with pytest.raises(Draining):
            await made.ask(run, partial(cancel, made, run))
        with pytest.raises(Draining):
            await made.resume(run, surface="http", actor="human:ann")
        with pytest.raises(Draining):
            await made.retry(run, "task", surface="http", actor="human:ann")
        with pytest.raises(Draining):
            await made.route("fix the login page", surface="http", actor="human:ann")
        assert not list(made.hansard.ledger.show(kind="route.given"))


async def test_what_is_found_on_the_record_once_a_daemon_has_drained_is_left_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking, goes_on = threading.Event(), threading.Event()
    async with Hansard.open(settings=IN_MEMORY, providers={"told": Answers(stuck)}) as hansard:
        made, select = Daemon(hansard, lambda *_, **__: None), hansard.store.select

        def slowly(query: Query) -> Iterator[Entry]:
            if query.kind == "run.ended" and query.after < 0:
                looking.set()
                goes_on.wait(60)
            return select(query)

        run = await request(made)
        monkeypatch.setattr(hansard.store, "select", slowly)
        work = asyncio.create_task(made.work())
        await until(looking.is_set)
        await made.drain(0)
        looked = asyncio.all_tasks()
        goes_on.set()
        await until(lambda: not looked <= asyncio.all_tasks())
        assert made.driving == 0
        assert hansard.runs.show(run)["state"] == "requested"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_what_is_submitted_while_a_daemon_drains_is_left_to_the_next() -> None:
    on_its_way = asyncio.Event()

    async def late(made: Daemon) -> str:
        await on_its_way.wait()
        return str(await request(made))

    async with daemon() as (made, _):
        submitting = asyncio.create_task(made.submit(late(made)))
        await asyncio.sleep(0)
        await made.drain(0)
        on_its_way.set()
        run = await submitting
        assert made.driving == 0
        assert unfinished(made.hansard.store) == [run]


async def test_a_request_that_is_only_routed_stands_on_the_record_without_secrets() -> None:
    async with daemon() as (made, _):
        made.hansard.pool.secrets.add("TOKEN", "a-long-secret-word")
        given = await made.route("fix the login page, a-long-secret-word", surface="http", actor="human:ann")
        assert made.hansard.ledger.part(given["entry"], "request") == b"fix the login page, [secret TOKEN]"
        assert b"a-long-secret-word" not in made.hansard.ledger.part(given["entry"], "evidence")


@pytest.mark.parametrize("again", [False, True], ids=["a run that goes on", "a task that is done again"])
async def test_whatever_is_asked_for_waits_for_its_turn_too(again: bool) -> None:
    async with daemon(most=1) as (made, _):
        run = await request(made)
        if again:
            made.start(run)
            await made.wait(run, 30)
        free = asyncio.Event()
        busy = asyncio.create_task(made.in_turn(free.wait()))
        by: dict[str, Any] = {"surface": "http", "actor": "human:ann"}
        await (made.retry(run, "task", **by) if again else made.resume(run, **by))
        await asyncio.sleep(0.3)
        asked = "run.retry_asked" if again else "run.resume_asked"
        assert [view["kind"] for view in made.hansard.runs.views(run)][-1] == asked
        free.set()
        await busy
        await made.wait(run, 30)
        assert made.hansard.runs.show(run)["state"] == "answered"


async def test_what_was_asked_for_is_on_the_record_before_it_is_accepted() -> None:
    async with daemon(stuck) as (made, _):
        run = await made.submit(request(made))
        await asyncio.sleep(0.1)
        await made.ask(run, partial(cancel, made, run))
        kinds = [view["kind"] for view in made.hansard.runs.views(run)]
        assert "run.cancel_asked" in kinds
        await made.wait(run, 30)
        with pytest.raises(UsageError):
            await made.ask(run, partial(cancel, made, run))


async def test_what_another_process_records_meanwhile_does_not_make_it_accepted(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with Hansard.open(settings=settings, providers={"told": Answers(quickly)}) as other:
        tasks: list[dict[str, Any]] = [{"id": "t0", "lane": "backend", "instruction": "do it"}]
        tasks += [{**tasks[0], "id": f"t{at}", "needs": [f"t{at - 1}"]} for at in range(1, 60)]
        config = run_config(other.settings, other.pool, WISHES)
        run = await other.runs.submit("please", config, plan={"tasks": tasks})
        driving = asyncio.create_task(other.runs.drive(run))
        async with daemon(settings=settings) as (made, _):
            while not driving.done():
                # The other one drives it, so this is refused, whatever comes of that run at the same time.
                with suppress(Fenced, UsageError):
                    await made.retry(run, "t0", surface="http", actor="human:ann")
                    assert "run.retry_asked" in [view["kind"] for view in other.runs.views(run)]
                    break
                await asyncio.sleep(0)
            await driving


async def quickly(_: object) -> str:
    await asyncio.sleep(0.002)
    return "fine"


async def test_who_asked_for_a_cancellation_and_does_not_wait_for_it_interrupts_nobody() -> None:
    async with daemon(stuck) as (made, _):
        run = await made.submit(request(made))
        await asyncio.sleep(0.1)
        accepted = asyncio.Event()
        asking = asyncio.create_task(cancel(made, run, accepted))
        await accepted.wait()
        await asyncio.sleep(0)
        asking.cancel()
        await made.wait(run, 30)
        assert made.hansard.runs.show(run)["state"] == "cancelled"


async def test_a_daemon_that_has_lost_its_ledger_waits_for_it_also_while_nothing_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.daemon.LEASE_S", 0.3)
    monkeypatch.setattr("hansard.app.serving.daemon.AGAIN_S", 0.1)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(settings=settings) as (made, told):
        await until(lambda: made._claim)
        with full_disk(settings.ledger, what="INSERT ON claims") as other:
            # Another worker took it while this process was held up, and has gone; and the disk is full.
            other.execute("UPDATE claims SET epoch = epoch + 1, holder = '', until_us = 0 WHERE name = 'worker'")
            await until(lambda: "another worker has taken this ledger" in told)
            await asyncio.sleep(0.3)
            assert made._claim is None
        await until(lambda: made._claim)


async def test_what_was_left_goes_on_as_soon_as_it_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.serving.daemon.AGAIN_S", 0.1)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    told: list[str] = []
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        made = Daemon(hansard, lambda event, **_: told.append(event))
        run = await request(made)
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            other.execute("ALTER TABLE entries RENAME COLUMN kind TO hidden")
            work = asyncio.create_task(made.work())
            await until(lambda: made._claim and "the ledger cannot be read" in told)
            other.execute("ALTER TABLE entries RENAME COLUMN hidden TO kind")
        await until(lambda: hansard.runs.show(run)["state"] == "answered")
        await made.drain(0)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_reading_goes_on_while_another_process_writes_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("app.serving.daemon", "orchestration.watching"):
        monkeypatch.setattr(f"hansard.{module}.LEASE_S", 0.3)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(stuck, settings=settings) as (made, _):
        driven = await made.submit(request(made))
        await until(lambda: made._claim and made.hansard.runs.show(driven)["state"] == "running")
        new = await request(made)
        with private.lock_file(Path(f"{settings.ledger}.lock")) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            made.start(new)
            # Both leases are to be renewed by now, and the new run is to be taken.
            await asyncio.sleep(1)
            async with asyncio.timeout(5):
                assert await asyncio.to_thread(over_at, made.hansard.store, driven) is None


async def test_a_run_that_could_not_be_recorded_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the lease can be renewed meanwhile: a full disk may have room for the one, and not for the other."""
    monkeypatch.setattr("hansard.app.serving.daemon.LEASE_S", 0.3)
    monkeypatch.setattr("hansard.app.serving.daemon.GRACE_S", 0.0)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(settings=settings) as (made, told):
        await until(lambda: made._claim)
        run = await request(made)
        with full_disk(settings.ledger):
            made.start(run)
            # Once as it was started here, once as it was found on the record.
            await until(lambda: told.count("run left alone") > 1)
        await until(lambda: made.hansard.runs.show(run)["state"] == "answered")


async def test_who_waits_for_a_run_that_could_not_be_recorded_waits_until_it_has_gone_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.daemon.LEASE_S", 0.3)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(settings=settings) as (made, told):
        await until(lambda: made._claim)
        run = await request(made)
        with full_disk(settings.ledger):
            made.start(run)
            waiting = asyncio.create_task(made.wait(run, 60))
            await until(lambda: "run left alone" in told)
        await waiting
        assert made.hansard.runs.show(run)["state"] == "answered"


@pytest.mark.parametrize("who", ["daemon", "worker"])
async def test_a_log_that_is_not_sealed_as_it_should_be_is_told(
    who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.UPKEEP_S", 0.05)
    monkeypatch.setattr("hansard.record.sealer.CHECKPOINT_S", 0.0)
    monkeypatch.setattr("hansard.record.sealer.ANCHOR_S", 0.0)
    monkeypatch.setattr("hansard.app.serving.seals.LOOK_S", 0.02)
    settings, told = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), list[str]()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        if who == "daemon":
            work = Daemon(hansard, lambda event, detail="", **_: told.append(f"{event}: {detail}")).work()
        else:
            work = Worker(hansard, tell=told.append).work()
        working = asyncio.create_task(work)
        await until(lambda: status(hansard)["signed"])
        away = (tmp_path / "logs").rename(tmp_path / "away")
        await (await hansard.submit("please", lane="backend", wishes=WISHES)).ended()
        await until(lambda: any(each.startswith("the log is not sealed as it should be: cannot use") for each in told))
        away.rename(tmp_path / "logs")
        await until(lambda: any(each.startswith("the log is sealed again") for each in told))
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def test_a_daemon_without_the_keys_stops_writing_when_nobody_seals_and_goes_on_when_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.deputy.AGAIN_S", 0.0)
    monkeypatch.setattr("hansard.record.deputy.GONE_S", 0.0)
    monkeypatch.setattr("hansard.app.serving.daemon.LEASE_S", 0.3)
    monkeypatch.setattr("hansard.app.serving.seals.LOOK_S", 0.02)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    keyless = replace(settings, state=tmp_path / "elsewhere")
    async with AsyncExitStack() as sealing:
        await sealing.enter_async_context(Hansard.open(settings=settings))
        async with daemon(settings=keyless) as (made, told):
            await until(lambda: made._claim)
            run = await made.submit(request(made))
            await until(lambda: made.hansard.runs.show(run)["state"] == "answered")
            await sealing.aclose()
            with pytest.raises(Unavailable, match="its keys are not on this machine"):
                await request(made)
            await until(lambda: "the log is not sealed as it should be" in told)
            async with Hansard.open(settings=settings):
                await until(lambda: "the log is sealed again" in told)
                run = await made.submit(request(made))
                await until(lambda: made.hansard.runs.show(run)["state"] == "answered")


async def test_a_daemon_at_a_log_that_is_adopted_takes_nothing_more_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.UPKEEP_S", 0.05)
    monkeypatch.setattr("hansard.record.sealer.RENEW_S", 0.05)
    monkeypatch.setattr("hansard.app.serving.seals.LOOK_S", 0.02)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(settings=settings) as (made, told):
        run = await made.submit(request(made))
        await until(lambda: made.hansard.runs.show(run)["state"] == "answered")
        await asyncio.to_thread(adopt_into, settings.ledger, replace(settings, ledger=str(tmp_path / "next.db")))
        await until(lambda: "the log is not sealed as it should be" in told)
        size = made.hansard.store.head().size
        with pytest.raises(StoreError, match=r"log\.db was adopted: .*next\.db goes on from it"):
            await request(made)
        assert made.hansard.store.head().size == size


@pytest.mark.parametrize("who", [Worker, lambda hansard: Daemon(hansard, lambda *_, **__: None)])
async def test_what_another_process_leaves_unsigned_is_signed_also_where_nothing_is_recorded(
    who: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.record.recorder.UPKEEP_S", 0.05)
    # It does not wait until it comes due: who recorded it may want a receipt, and cannot ask for a signature.
    monkeypatch.setattr("hansard.record.sealer.CHECKPOINT_S", 3600.0)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with Hansard.open(settings=settings) as hansard:
        work = asyncio.create_task(who(hansard).work())
        for _ in range(3):
            async with Hansard.open(settings=settings) as other:
                assert other._opened.custody.startswith("another process seals")
                # No run's: it is not signed with the end of anything that is looked at here.
                await other.recorder.record(Repaired(what="derived", count=1), actor="repair")
            await until(lambda: status(hansard)["signed"] == hansard.store.head().size)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_what_is_decided_at_a_gate_is_signed_in_a_moment_and_not_when_it_comes_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.seal.cadence.CHECKPOINT_S", 3600.0)
    monkeypatch.setattr("hansard.record.sealer.CHECKPOINT_S", 3600.0)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:

        def is_signed() -> bool:
            return int(status(hansard)["signed"]) == hansard.store.head().size

        run = await at_a_gate(hansard)
        await until(is_signed)
        # Nobody drives the run when it is decided: nothing ends that would be signed with it.
        await hansard.gates.decide(hansard.gates.listed(run=run)[0]["gate"], "approve", actor="human:ann")
        await until(is_signed)


async def test_one_run_that_cannot_be_driven_does_not_end_the_others() -> None:
    async with daemon() as (made, told):
        made.start("no-such-run")
        run = await made.submit(request(made))
        await made.wait(run, 30)
        assert made.hansard.runs.show(run)["state"] == "answered"
        await until(lambda: "run left alone" in told)


async def test_what_is_asked_for_again_while_its_end_is_being_left_is_done_again() -> None:
    async def lingers(made: Daemon, run: str) -> Any:
        ended = await made.hansard.runs.drive(run)
        over.set()
        await asyncio.sleep(1)
        return ended

    over = asyncio.Event()
    async with daemon() as (made, _):
        run = await made.take(request(made))
        made.start(run, lingers(made, run))
        await over.wait()
        await made.retry(run, "task", surface="http", actor="human:k7")
        await until_over(made.hansard.store, run, 30)
        kinds = [entry.kind for entry in made.hansard.runs.entries(run)]
        assert kinds.count("run.ended") == 2


async def test_unfinished_runs_are_those_without_an_end() -> None:
    async with daemon() as (made, _):
        over = await made.submit(request(made))
        await made.wait(over, 30)
        left = await request(made)
        assert unfinished(made.hansard.store) == [left]
        await made.hansard.runs.drive(left)
        assert unfinished(made.hansard.store) == []


async def test_configurations_are_made_once() -> None:
    async with daemon() as (made, _):
        assert made.config(WISHES) is made.config(Wishes(provider="told", judge="checks", answer="join"))
        assert made.config(WISHES).roster_digest


async def until(look: Callable[[], Any]) -> Any:
    """What `look` finds, as soon as it finds something."""
    for _ in range(1_500):
        if found := look():
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come about")


async def asked_for_again(made: Daemon) -> tuple[str, str]:
    """A run that was waited for at a gate when somebody wanted its task done again, and the gate that waits now."""
    config = made.config(replace(WISHES, gates=("task:task",)))
    run = await made.submit(made.hansard.runs.submit("please", config, lane="backend"))
    first = (await until(lambda: made.hansard.gates.listed(run=run)))[0]["gate"]
    # The gate is on the record a moment before its driver goes home.
    await until(lambda: run not in made.hansard.runs._driving)
    await made.retry(run, "task", surface="http", actor="human:ann")
    views = await until(lambda: [each for each in made.hansard.gates.listed(run=run) if each["gate"] != first])
    return run, views[0]["gate"]


async def test_who_waited_for_a_gate_goes_home_when_another_has_ended_the_run() -> None:
    async with daemon() as (made, _):
        run, gate = await asked_for_again(made)
        await made.hansard.gates.decide(gate, "approve", actor="human:ann")
        await until(lambda: not made.driving)
        assert made.hansard.runs.show(run)["state"] == "answered"


async def test_who_waits_at_a_gate_searches_no_log_that_has_not_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.driving.waiting.LOOK_S", 0.01)
    async with Hansard.open(settings=IN_MEMORY, providers={"told": Answers(obliging)}) as hansard:
        run = await at_a_gate(hansard)
        calls: list[str] = []

        def noted(name: str, call: Callable[..., Any], *args: Any) -> Any:
            calls.append(name)
            return call(*args)

        for name in ("head", "select"):
            monkeypatch.setattr(hansard.store, name, partial(noted, name, getattr(hansard.store, name)))
        waiting = asyncio.create_task(hansard.runs.waiting.decided(run))
        await until(lambda: calls[-8:] == ["head"] * 8)
        assert not waiting.done()
        await hansard.gates.decide(hansard.gates.listed()[0]["gate"], "approve", actor="human:ann")
        async with asyncio.timeout(30):
            await waiting


async def test_one_look_at_a_log_that_grows_is_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.driving.waiting.LOOK_S", 0.01)
    async with Hansard.open(settings=IN_MEMORY, providers={"told": Answers(obliging)}) as hansard:
        runs = [await at_a_gate(hansard) for _ in range(3)]
        newest = hansard.store.head().size - 1
        waiting = {run: asyncio.create_task(hansard.runs.waiting.decided(run)) for run in runs}
        looks: list[Query] = []
        select = hansard.store.select

        def noted(query: Query) -> Iterator[Entry]:
            looks.append(query)
            return select(query)

        await until(lambda: hansard.runs.waiting._ears == len(runs))
        monkeypatch.setattr(hansard.store, "select", noted)
        other = await at_a_gate(hansard)
        await until(lambda: any(look.kind == "gate.opened" and look.run is None for look in looks))
        assert not [look for look in looks if look.run in runs]
        assert not [look for look in looks if look.run is None and look.after < newest], "what was before is known"
        assert not [run for run, task in waiting.items() if task.done()]
        gate = next(each["gate"] for each in hansard.gates.listed() if each["run"] == runs[1])
        await hansard.gates.decide(gate, "approve", actor="human:ann")
        await until(waiting[runs[1]].done)
        assert [run for run, task in waiting.items() if task.done()] == [runs[1]]
        for run in (runs[0], runs[2], other):
            await hansard.runs.cancel(run)
        async with asyncio.timeout(30):
            await asyncio.gather(*waiting.values())


async def test_one_look_at_the_clock_is_for_all_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.driving.waiting.LOOK_S", 0.01)
    looks, waits, wait = list[int](), list[object](), asyncio.wait

    def head(of: Callable[[], Any]) -> Any:
        looks.append(1)
        return of()

    def noted(*args: Any, **how: Any) -> Any:
        waits.append(how)
        return wait(*args, **how)

    rules = read_rules([{"before": "plan", "deadline_s": 600, "on_expiry": "approve"}], "test")
    async with Hansard.open(settings=IN_MEMORY, providers={"told": Answers(obliging)}) as hansard:
        config = replace(run_config(IN_MEMORY, hansard.pool, WISHES), gates=rules)
        runs = [await hansard.runs.submit("please", config, lane="backend") for _ in range(3)]
        assert [(await hansard.runs.drive(run)).state for run in runs] == ["waiting"] * 3
        monkeypatch.setattr("hansard.app.driving.waiting.asyncio.wait", noted)
        waiting = [asyncio.create_task(hansard.runs.waiting.decided(run)) for run in runs]
        await until(lambda: hansard.runs.waiting._ears == 3)
        monkeypatch.setattr(hansard.store, "head", partial(head, hansard.store.head))
        await until(lambda: len(looks) > 8)
        assert len(waits) == 3, "each waits once, however often is looked"
        assert not [each for each in waiting if each.done()]
        later = time.time_ns() + 700 * 10**9
        monkeypatch.setattr("hansard.app.driving.waiting.time.time_ns", lambda: later)
        async with asyncio.timeout(30):
            await asyncio.gather(*waiting)


async def test_who_waits_hears_of_whatever_keeps_him_from_hearing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Hansard.open(settings=IN_MEMORY, providers={"told": Answers(obliging)}) as hansard:
        run = await at_a_gate(hansard)
        waiting = asyncio.create_task(hansard.runs.waiting.decided(run))
        await until(lambda: bool(hansard.runs.waiting._ears))

        def head() -> None:
            raise ZeroDivisionError

        async with asyncio.timeout(30):
            with monkeypatch.context() as broken:
                broken.setattr(hansard.store, "head", head)
                with pytest.raises(ZeroDivisionError):
                    await waiting
            # Whoever comes after that is heard again.
            again = asyncio.create_task(hansard.runs.waiting.decided(run))
            await until(lambda: bool(hansard.runs.waiting._ears))
            await hansard.gates.decide(hansard.gates.listed()[0]["gate"], "approve", actor="human:ann")
            await again


async def at_a_gate(hansard: Hansard) -> str:
    config = run_config(IN_MEMORY, hansard.pool, replace(WISHES, gates=("plan",)))
    run = await hansard.runs.submit("please", config, lane="backend")
    assert (await hansard.runs.drive(run)).state == "waiting"
    return run


async def test_the_deadline_of_a_gate_that_another_process_opened_is_kept_too(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    tasks = [{"id": id, "lane": "backend", "instruction": "do it"} for id in "ab"]
    rules = read_rules([{"tasks": ["a"]}, {"tasks": ["b"], "deadline_s": 0.5, "on_expiry": "approve"}], "test")
    async with daemon(settings=settings) as (made, _):

        def closed() -> int:
            return [view["kind"] for view in made.hansard.runs.views(run)].count("gate.closed")

        config = replace(made.config(WISHES), gates=rules)
        run = await made.submit(made.hansard.runs.submit("please", config, plan={"tasks": tasks}))
        await until(lambda: closed() == 1 and run in made._resting)
        async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as other:
            assert (await other.runs.retry(run, "b")).state == "waiting"
        await until(lambda: closed() == 2)


async def test_a_run_that_who_holds_the_ledger_cannot_go_on_with_is_taken_by_a_daemon_that_can(tmp_path: Path) -> None:
    """Such as that of the second daemon, which has been started anew: it waited for the first one to end."""
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with daemon(stuck, settings) as (made, _):
        run = await made.submit(request(made))
        await until(lambda: any(each.kind == "task.attempted" for each in made.hansard.runs.entries(run)))
    told: list[str] = []
    async with Hansard.open(settings=settings) as lacking:
        first = asyncio.create_task(Daemon(lacking, lambda event, **_: told.append(event)).work())
        await until(lambda: "run left alone" in told)
        async with daemon(obliging, settings) as (second, heard):
            await until_over(second.hansard.store, run, 30)
            assert "another worker has this ledger" in heard
            assert second.hansard.runs.show(run)["state"] == "answered"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_a_task_that_another_process_was_to_do_again_is_done_while_a_gate_is_open(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    tasks = [{"id": id, "lane": "backend", "instruction": "do it"} for id in "ab"]
    async with daemon(settings=settings) as (made, _):

        def judged() -> int:
            return [view["kind"] for view in made.hansard.runs.views(run)].count("task.judged")

        config = replace(made.config(WISHES), gates=read_rules([{"tasks": ["a"]}], "test"))
        run = await made.submit(made.hansard.runs.submit("please", config, plan={"tasks": tasks}))
        await until(lambda: judged() == 1 and run in made._resting)
        # Whoever asked for it was killed then.
        await made.hansard.recorder.record(RetryAsked(task="b", surface="cli"), actor="human:ann", run=run, causes=[1])
        await until(lambda: judged() == 2)


async def test_draining_ends_everybody_who_waits_for_the_same_run() -> None:
    before = asyncio.all_tasks()
    async with daemon() as (made, _):
        await asked_for_again(made)
        await made.drain(0)
        left = [str(task.get_coro()) for task in asyncio.all_tasks() - before]
        assert not [each for each in left if "Daemon._drive" in each]
