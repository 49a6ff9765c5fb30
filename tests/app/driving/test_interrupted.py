"""Why a run was interrupted: on the record, and in whatever shows it."""

import asyncio
from pathlib import Path

import pytest

from hansard.app.driving.deliberations import Deliberations
from hansard.app.service import Hansard
from hansard.app.serving.worker import Worker
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.convening import Call, convening, default_config
from hansard.app.setup.wishes import Wishes
from hansard.errors import UsageError
from panels import Voices
from running import Answers, Desk, Ledger, desk


async def silent(_: object) -> str:
    await asyncio.sleep(600)
    return "never"


async def missing_here(ledger: Ledger, run: str) -> Desk:
    """A desk that lacks whom a run asks, once it has tried to go on with it."""
    elsewhere = desk(Answers(id="another"), store=ledger)
    elsewhere.pool.secrets.add("WORD", "resume this run from there")
    with pytest.raises(UsageError, match="was handed in by a Python program"):
        await elsewhere.runs.drive(run)
    return elsewhere


async def test_a_run_that_lacks_a_provider_here_says_which() -> None:
    ledger = Ledger()
    at = desk(Answers(), store=ledger)
    run = await at.submit()
    await at.runs.drive(run)
    elsewhere = await missing_here(ledger.until(len(ledger.commits) - 2), run)
    view = elsewhere.runs.show(run)
    assert (view["state"], view["interrupted"]["by"]) == ("interrupted", "error")
    assert "'told' was handed in by a Python program" in view["interrupted"]["why"]
    assert "[secret WORD]" in view["interrupted"]["why"]
    assert "was handed in by a Python program" in elsewhere.runs.page(run)
    again = desk(Answers(), store=elsewhere.store)
    await again.runs.drive(run)
    assert again.runs.show(run)["interrupted"] is None


async def test_a_session_that_lacks_a_provider_here_says_which() -> None:
    ledger = Ledger()
    at = desk(Voices(), store=ledger)
    call = Call(config=default_config("Keep it?", "voices", "voice"), panel=["critic", "engineer"])
    run = await Deliberations(at.recorder, at.store, at.pool).convene(convening(at.settings, at.pool, call))
    await Deliberations(at.recorder, at.store, at.pool).drive(run)
    elsewhere = desk(Voices(id="another"), store=ledger.until(len(ledger.commits) - 2))
    elsewhere.pool.secrets.add("WORD", "resume this run from there")
    there = Deliberations(elsewhere.recorder, elsewhere.store, elsewhere.pool)
    with pytest.raises(UsageError, match="'voices' was handed in by a Python program"):
        await there.drive(run)
    why = there.show(run)["interrupted"]["why"]
    assert "'voices' was handed in by a Python program; [secret WORD]" in why


async def test_a_run_whose_driver_is_cancelled_was_told_to_stop() -> None:
    provider = Answers(silent)
    at = desk(provider)
    run = await at.submit()
    driving = at.runs.begin(run)
    await provider.asked_times(1)
    driving.cancel()
    await asyncio.gather(driving, return_exceptions=True)
    assert at.runs.show(run)["interrupted"]["by"] == "signal"


async def test_a_run_whose_worker_is_told_to_stop_was_shut_down() -> None:
    provider = Answers(silent)
    settings = Settings(ledger="memory:", state=Path("unused"))
    async with Hansard.open(settings=settings, providers={"told": provider}) as hansard:
        config = run_config(settings, hansard.pool, Wishes(provider="told", judge="checks", answer="join"))
        run = await hansard.runs.submit("please", config, lane="backend")
        work = asyncio.create_task(Worker(hansard).work())
        await provider.asked_times(1)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        assert hansard.runs.show(run)["interrupted"]["by"] == "shutdown"
