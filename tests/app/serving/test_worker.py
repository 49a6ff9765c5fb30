"""The worker's claim: who is told to stop gives it back, wherever he was."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from deliberating import config, scripted, synthesis, turn, verdict
from hansard.app.service import Hansard
from hansard.app.serving.daemon import Daemon
from hansard.app.serving.worker import CLAIM, GRACE_S, Worker, _Due, is_alive, unfinished
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.wiring import found_ledger, open_ledger
from hansard.orchestration.ending import Ended
from hansard.orchestration.watching import LEASE_S, take
from hansard.store.jsonl.files import spare
from ledgers import full_disk
from running import Answers, desk, obliging


class Heard:
    """What a worker tells, and a way to wait for a line with some words in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._more = asyncio.Event()

    def __call__(self, text: str) -> None:
        self.lines.append(text)
        self._more.set()

    async def of(self, words: str, *, times: int = 1) -> None:
        async with asyncio.timeout(60):
            while sum(words in line for line in self.lines) < times:
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def working(hansard: Hansard, tell: Heard, **how: int) -> AsyncIterator[asyncio.Task[None]]:
    """A worker on this ledger, until the end."""
    work = asyncio.create_task(Worker(hansard, tell=tell, **how).work())
    try:
        yield work
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def submitted(hansard: Hansard, **wishes: Any) -> str:
    wished = Wishes(provider="told", judge="checks", answer="join", **wishes)
    return await hansard.runs.submit("please", run_config(hansard.settings, hansard.pool, wished), lane="backend")


@pytest.mark.parametrize("who", [Worker, lambda hansard: Daemon(hansard, lambda *_, **__: None)])
async def test_who_is_told_to_stop_while_he_takes_the_ledger_leaves_it_to_others(who: object, tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with Hansard.open(settings=settings) as hansard:
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            work = asyncio.create_task(who(hansard).work())  # type: ignore[operator]
            await asyncio.sleep(0.3)
            work.cancel()
            other.execute("ROLLBACK")
        await asyncio.gather(work, return_exceptions=True)
        await asyncio.sleep(0.3)
        assert not is_alive(hansard.store)


async def test_who_is_told_to_stop_twice_while_he_takes_a_run_holds_nothing(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    async with Hansard.open(settings=settings) as hansard:
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            taking = asyncio.create_task(take(hansard.store, "r1"))
            await asyncio.sleep(0.2)
            for _ in range(2):
                taking.cancel()
                await asyncio.sleep(0.05)
            other.execute("ROLLBACK")
        await asyncio.gather(taking, return_exceptions=True)
        await asyncio.sleep(0.2)
        hansard.store.claim("r1", LEASE_S)


async def test_a_worker_stops_in_good_order_where_nothing_can_be_written(tmp_path: Path) -> None:
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings) as hansard, working(hansard, heard) as work:
        await heard.of("working on")
        with full_disk(settings.ledger, what="UPDATE ON claims"):
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work


async def test_a_run_that_could_not_be_recorded_goes_on_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.AGAIN_S", 0.1)
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    heard = Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        run = await submitted(hansard)
        with ExitStack() as disk:
            disk.enter_context(full_disk(settings.ledger))
            async with working(hansard, heard):
                await heard.of("disk is full")
                disk.close()
                await heard.of("answered")
        assert hansard.runs.show(run)["state"] == "answered"


async def test_a_run_that_could_not_be_taken_is_taken_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.AGAIN_S", 0.1)
    settings = Settings(ledger=str(tmp_path / "log.jsonl"), state=tmp_path)
    heard = Heard()
    opened = Hansard.open(settings=settings, providers={"told": Answers(obliging)})
    async with opened as hansard, working(hansard, heard):
        await heard.of("working on")
        # The next claim is written there first, and that takes nothing.
        (tmp_path / "log.claims.json").unlink()
        spare(tmp_path / "log.claims.json").symlink_to("/dev/full")
        run = await submitted(hansard)
        await heard.of("answered")
        assert hansard.runs.show(run)["state"] == "answered"


async def test_what_breaks_in_one_run_does_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        broken, sound = await submitted(hansard), await submitted(hansard)
        drive = hansard.runs.drive

        async def breaks(run: str) -> Ended:
            return await drive({sound: run}[run])

        monkeypatch.setattr(hansard.runs, "drive", breaks)
        async with working(hansard, heard):
            await heard.of(f"{broken} left alone: KeyError: '{broken}'")
            await heard.of(f"{sound} answered")


async def test_a_worker_that_was_held_up_works_on_where_nobody_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.LEASE_S", 0.3)
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings) as hansard, working(hansard, heard) as work:
        await heard.of("working on")
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            # Its lease was over, and whoever asked for a worker (`submit --detach`) found none.
            other.execute("UPDATE claims SET epoch = epoch + 1, holder = '', until_us = 0 WHERE name = 'worker'")
            while not is_alive(hansard.store):
                assert not work.done(), work.exception()
                await asyncio.sleep(0.05)


async def test_a_worker_goes_on_with_deliberations_too(tmp_path: Path) -> None:
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    voice = scripted([turn(), turn(), turn(), verdict("finalize"), synthesis()])
    async with Hansard.open(settings=settings, providers={"fake": voice}) as hansard:
        # Whoever put it on the record was killed then.
        run = await hansard.deliberations.convene(convening(settings, hansard.pool, Call(config=config())))
        async with working(hansard, heard):
            await heard.of(run)
        assert hansard.runs.show(run)["state"] == "answered"


def test_whoever_asks_for_a_worker_is_not_taken_for_one(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path)
    found_ledger(settings).close()

    def asked(_: int) -> bool:
        with open_ledger(settings) as opened:
            return any(is_alive(opened.store) for _ in range(50))

    with ThreadPoolExecutor(3) as threads:
        assert not any(threads.map(asked, range(3)))
    with open_ledger(settings) as opened:
        opened.store.claim(CLAIM, LEASE_S)
        assert is_alive(opened.store)


async def test_runs_that_wait_for_people_keep_no_place_from_others(tmp_path: Path) -> None:
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        waits, run = await submitted(hansard, gates=("plan",)), await submitted(hansard)
        async with working(hansard, heard, most=1):
            await heard.of(f"{run} answered (answered)")
            assert hansard.runs.show(waits)["state"] == "waiting"
            await hansard.gates.decide(hansard.gates.listed()[0]["gate"], "approve")
            await heard.of(f"{waits} answered (answered)")


async def test_a_worker_that_begins_finds_what_has_not_ended_and_what_was_asked_for_again_since() -> None:
    """The oldest first. What has ended is left alone, also where it was done again."""
    at = desk(Answers())
    new, ended, again, twice, last = [await at.submit() for _ in range(5)]
    for run in (ended, again, twice):
        await at.runs.drive(run)
    for run in (again, twice):
        await at.runs.ask_to_retry(run, "only")
    await at.runs.drive(twice)
    assert unfinished(at.store) == [new, again, last]


async def test_what_is_asked_for_while_a_worker_works_is_his_once_whoever_asked_has_had_his_time() -> None:
    """Whoever submits, resumes or retries in the foreground drives it himself, and would be fenced off."""
    at, due = desk(Answers()), _Due()
    before, retried = await at.submit(), await at.submit()
    await at.runs.drive(retried)
    due.look(at.store, 0.0)
    assert due.take(0.0) == [before]
    new = await at.submit()
    await at.runs.ask_to_resume(before)
    await at.runs.ask_to_retry(retried, "only")
    due.look(at.store, 10.0)
    # Nor does asking once more put it off.
    await at.runs.ask_to_resume(new)
    due.look(at.store, 10.0 + GRACE_S / 2)
    assert due.take(10.0 + GRACE_S * 0.9) == []
    assert sorted(due.take(10.0 + GRACE_S)) == sorted([new, before, retried])
    due.look(at.store, 20.0)
    assert due.take(30.0) == []


async def test_a_run_that_was_left_alone_is_taken_up_when_somebody_asks_for_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.GRACE_S", 0.0)
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        run = await submitted(hansard)
    async with Hansard.open(settings=settings) as hansard, working(hansard, heard):
        await heard.of(f"{run} left alone: ")
        hansard.pool.given = {"told": Answers(obliging)}
        await hansard.runs.ask_to_resume(run)
        await heard.of(f"{run} answered")
        [task] = hansard.runs.show(run)["tasks"]
        await hansard.runs.ask_to_retry(run, task["task"])
        await heard.of(f"{run} answered", times=2)
        assert [each.kind for each in hansard.runs.entries(run)].count("run.ended") == 2


async def test_a_run_that_another_process_holds_is_taken_up_when_it_does_not_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.AGAIN_S", 0.05)
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        held, free = await submitted(hansard), await submitted(hansard)
        claim = hansard.store.claim(held, LEASE_S)
        async with working(hansard, heard):
            await heard.of(f"{free} answered")
            hansard.store.release(claim)
            await heard.of(f"{held} answered")
    # That somebody else drives it is nothing to be told.
    assert [line for line in heard.lines if held in line] == [f"{held} answered (answered)"]


async def test_a_lease_that_cannot_be_renewed_for_a_moment_ends_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.LEASE_S", 0.3)
    monkeypatch.setattr("hansard.app.serving.worker.GRACE_S", 0.0)
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        run = await submitted(hansard)
        async with working(hansard, heard):
            await heard.of(f"{run} answered")
            with full_disk(settings.ledger, what="UPDATE ON claims"):
                await heard.of("the lease was not renewed: ")
            run = await submitted(hansard)
            await heard.of(f"{run} answered")


async def test_a_ledger_that_cannot_be_read_for_a_while_is_waited_for_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.AGAIN_S", 0.02)
    monkeypatch.setattr("hansard.app.serving.worker.GRACE_S", 0.0)
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        run = await submitted(hansard)
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            other.execute("ALTER TABLE entries RENAME TO away")
            async with working(hansard, heard) as work:
                await heard.of("waiting for the ledger: ")
                await asyncio.sleep(0.1)
                other.execute("ALTER TABLE away RENAME TO entries")
                await heard.of(f"{run} answered")
                assert not work.done()
    assert len([line for line in heard.lines if line.startswith("waiting for the ledger")]) == 1
