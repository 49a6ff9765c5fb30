"""The worker's claim: who is told to stop gives it back, wherever he was."""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deliberating import config, scripted, synthesis, turn, verdict
from hansard.app.service import Hansard
from hansard.app.serving.daemon import Daemon
from hansard.app.serving.worker import CLAIM, Worker, is_alive
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.wiring import found_ledger, open_ledger
from hansard.orchestration.ending import Ended
from hansard.orchestration.watching import LEASE_S, take
from hansard.store.jsonl.files import spare
from ledgers import full_disk
from running import Answers, obliging


class Heard:
    """What a worker tells, and a way to wait for a line with some words in it."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._more = asyncio.Event()

    def __call__(self, text: str) -> None:
        self._lines.append(text)
        self._more.set()

    async def of(self, words: str) -> None:
        async with asyncio.timeout(60):
            while not any(words in line for line in self._lines):
                self._more.clear()
                await self._more.wait()


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
    settings, begun = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), asyncio.Event()
    async with Hansard.open(settings=settings) as hansard:
        work = asyncio.create_task(Worker(hansard, tell=lambda _: begun.set()).work())
        await begun.wait()
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
        wished = run_config(hansard.settings, hansard.pool, Wishes(provider="told", judge="checks", answer="join"))
        run = await hansard.runs.submit("please", wished, lane="backend")
        with full_disk(settings.ledger):
            work = asyncio.create_task(Worker(hansard, tell=heard).work())
            await heard.of("disk is full")
        await heard.of("answered")
        assert hansard.runs.show(run)["state"] == "answered"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_run_that_could_not_be_taken_is_taken_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.AGAIN_S", 0.1)
    settings = Settings(ledger=str(tmp_path / "log.jsonl"), state=tmp_path)
    heard = Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        wished = run_config(hansard.settings, hansard.pool, Wishes(provider="told", judge="checks", answer="join"))
        work = asyncio.create_task(Worker(hansard, tell=heard).work())
        await heard.of("working on")
        # The next claim is written there first, and that takes nothing.
        (tmp_path / "log.claims.json").unlink()
        spare(tmp_path / "log.claims.json").symlink_to("/dev/full")
        run = await hansard.runs.submit("please", wished, lane="backend")
        await heard.of("answered")
        assert hansard.runs.show(run)["state"] == "answered"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_what_breaks_in_one_run_does_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, heard = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), Heard()
    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        wished = run_config(hansard.settings, hansard.pool, Wishes(provider="told", judge="checks", answer="join"))
        broken = await hansard.runs.submit("please", wished, lane="backend")
        sound = await hansard.runs.submit("please", wished, lane="backend")
        drive = hansard.runs.drive

        async def breaks(run: str) -> Ended:
            return await drive({sound: run}[run])

        monkeypatch.setattr(hansard.runs, "drive", breaks)
        work = asyncio.create_task(Worker(hansard, tell=heard).work())
        await heard.of(f"{broken} left alone: KeyError: '{broken}'")
        await heard.of(f"{sound} answered")
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_worker_that_was_held_up_works_on_where_nobody_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hansard.app.serving.worker.LEASE_S", 0.3)
    settings, begun = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), asyncio.Event()
    async with Hansard.open(settings=settings) as hansard:
        work = asyncio.create_task(Worker(hansard, tell=lambda _: begun.set()).work())
        await begun.wait()
        with closing(sqlite3.connect(settings.ledger, isolation_level=None)) as other:
            # Its lease was over, and whoever asked for a worker (`submit --detach`) found none.
            other.execute("UPDATE claims SET epoch = epoch + 1, holder = '', until_us = 0 WHERE name = 'worker'")
            while not is_alive(hansard.store):
                assert not work.done(), work.exception()
                await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_worker_goes_on_with_deliberations_too(tmp_path: Path) -> None:
    settings, over = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), asyncio.Event()
    voice = scripted([turn(), turn(), turn(), verdict("finalize"), synthesis()])
    async with Hansard.open(settings=settings, providers={"fake": voice}) as hansard:
        # Whoever put it on the record was killed then.
        run = await hansard.deliberations.convene(convening(settings, hansard.pool, Call(config=config())))
        work = asyncio.create_task(Worker(hansard, tell=lambda said: over.set() if run in said else None).work())
        async with asyncio.timeout(30):
            await over.wait()
        assert hansard.runs.show(run)["state"] == "answered"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


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
    settings, told, over = Settings(ledger=str(tmp_path / "log.db"), state=tmp_path), list[str](), asyncio.Event()

    def tell(line: str) -> None:
        told.append(line)
        if "answered" in line:
            over.set()

    async with Hansard.open(settings=settings, providers={"told": Answers(obliging)}) as hansard:
        wishes = Wishes(provider="told", judge="checks", answer="join")
        guarded = run_config(settings, hansard.pool, replace(wishes, gates=("plan",)))
        waits = await hansard.runs.submit("please wait", guarded, lane="backend")
        run = await hansard.runs.submit("please", run_config(settings, hansard.pool, wishes), lane="backend")
        work = asyncio.create_task(Worker(hansard, most=1, tell=tell).work())
        async with asyncio.timeout(60):
            await over.wait()
            assert told[-1] == f"{run} answered (answered)"
            over.clear()
            await hansard.gates.decide(hansard.gates.listed()[0]["gate"], "approve")
            await over.wait()
        assert told[-1] == f"{waits} answered (answered)"
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
