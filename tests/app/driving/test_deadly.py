"""Runs at which whoever drives them dies before he records anything: after some tries nobody goes on with one by himself."""

from typing import Any

import pytest

from hansard.app.driving.deliberations import Deliberations
from hansard.app.setup.convening import Call, convening, default_config
from hansard.app.setup.given_up import RESTARTS
from hansard.errors import UsageError
from panels import Voices
from running import Answers, Desk, Ledger, audit, desk

MODES = ("request", "deliberation")


class Death(BaseException):
    """This process has died."""


class Lethal(dict[str, Any]):
    """Providers that kill whoever opens them. `left` is the ledger as he leaves it behind."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.left = ledger, ledger

    def get(self, name: str, default: Any = None) -> Any:
        self.left = self.ledger.until(len(self.ledger.commits))
        raise Death


def at_home(ledger: Ledger) -> Desk:
    """A process that can ask everybody."""
    made = desk(Answers(), Voices(), store=ledger)
    made.runs.deliberate = Deliberations(made.recorder, made.store, made.pool).drive
    return made


async def submitted(ledger: Ledger, mode: str) -> str:
    at = at_home(ledger)
    if mode == "request":
        return await at.submit()
    call = Call(config=default_config("Keep it?", "voices", "voice"), panel=["critic", "engineer"])
    return await Deliberations(at.recorder, at.store, at.pool).convene(convening(at.settings, at.pool, call))


async def started(ledger: Ledger, run: str, *, by_hand: bool = False) -> Ledger:
    """The ledger behind a process that was killed at it."""
    at = at_home(ledger)
    at.pool.given = lethal = Lethal(ledger)
    if by_hand:
        await at.runs.ask_to_resume(run)
    with pytest.raises(Death):
        await at.runs.drive(run)
    return lethal.left


async def refused(ledger: Ledger, run: str) -> Desk:
    """A process that leaves the run alone, and lives."""
    at = at_home(ledger)
    at.pool.given = Lethal(ledger)
    with pytest.raises(UsageError, match=f"hansard runs resume {run} --ledger memory: ?` tries once more"):
        await at.runs.drive(run)
    return at


async def deadly(mode: str) -> tuple[Ledger, str]:
    """A ledger with such a run, at which as many have died as are let."""
    ledger = Ledger()
    run = await submitted(ledger, mode)
    for _ in range(RESTARTS + 3):
        ledger = await started(ledger, run)
    return ledger, run


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_goes_on_by_himself_and_the_record_says_why(mode: str) -> None:
    ledger, run = await deadly(mode)
    at = await refused(ledger, run)
    view = at.runs.show(run)
    assert view["state"] == "interrupted"
    assert f"ended whoever drove it {RESTARTS + 2} times" in view["interrupted"]["why"]
    size = ledger.head().size
    for _ in range(2):
        await refused(ledger, run)
    assert ledger.head().size == size
    audit(ledger, run)


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_may_try_once_more_and_once_more(mode: str) -> None:
    ledger, run = await deadly(mode)
    await refused(ledger, run)
    for _ in range(2):
        ledger = await started(ledger, run, by_hand=True)
        await refused(ledger, run)
    at = at_home(ledger)
    assert (await at.runs.resume(run)).state == "answered"
    audit(ledger, run)


@pytest.mark.parametrize("mode", MODES)
async def test_it_can_be_cancelled_and_nobody_is_opened_for_that(mode: str) -> None:
    ledger, run = await deadly(mode)
    at = at_home(ledger)
    at.pool.given = Lethal(ledger)
    ended = await at.runs.cancel(run)
    assert ended is not None
    assert ended.state == "cancelled"
    audit(ledger, run)


@pytest.mark.parametrize("mode", MODES)
async def test_whoever_lives_goes_on_where_fewer_have_died(mode: str) -> None:
    ledger = Ledger()
    run = await submitted(ledger, mode)
    for _ in range(RESTARTS + 2):
        ledger = await started(ledger, run)
    at = at_home(ledger)
    assert (await at.runs.drive(run)).state == "answered"
    assert at.runs.show(run)["interrupted"] is None
    audit(ledger, run)


async def test_as_many_may_die_at_a_run_of_which_a_task_is_done_again_as_at_a_new_one() -> None:
    ledger = Ledger()
    run = await submitted(ledger, "request")
    at = at_home(ledger)
    assert (await at.runs.drive(run)).state == "answered"
    task = at.runs.show(run)["tasks"][0]["task"]
    for _ in range(2):
        await at_home(ledger).runs.ask_to_retry(run, task)
        for _ in range(RESTARTS + 3):
            ledger = await started(ledger, run)
        await refused(ledger, run)
    audit(ledger, run)
