"""A listener that fails ends neither a session nor a run, and takes nothing from the others who listen."""

import logging
from asyncio import CancelledError
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deliberating import config, script, synthesis, turn, verdict
from hansard import Hansard
from hansard.app.driving.listening import listening
from hansard.app.setup.convening import Call, convening
from hansard.deliberation.archive import read_manifest

ANSWERS = script([turn(), turn(), turn(), verdict("finalize"), synthesis()]).as_data()


class Ears:
    """One listener who fails at the first word, and one who hears everything."""

    def __init__(self) -> None:
        self.failed, self.heard = 0, list[str]()

    def fail(self, _: str, recorded: Any) -> None:
        self.failed += 1
        raise BrokenPipeError(32, "Broken pipe")

    def hear(self, _: str, recorded: Any) -> None:
        self.heard.append(recorded.fact.KIND)


async def test_a_listener_that_fails_does_not_end_a_session(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ears = Ears()
    async with Hansard.open("memory:") as hansard:
        stop = [hansard.deliberations.listen(each) for each in (ears.fail, ears.hear)]
        made = convening(hansard.settings, hansard.pool, Call(config=config(), runs=tmp_path, script=ANSWERS))
        sat = await hansard.deliberations.hold(await hansard.deliberations.convene(made))
        for each in stop:
            each()
    assert (sat.sitting.reason, sat.sitting.fault) == ("synthesis", None)
    assert read_manifest(tmp_path / "s-1").status == "complete"
    assert (ears.failed, ears.heard[0], ears.heard[-1]) == (1, "run.requested", "run.ended")
    [said] = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert "told nothing more: BrokenPipeError" in said.getMessage()


async def test_a_listener_that_fails_does_not_end_a_run() -> None:
    ears = Ears()
    async with Hansard.open("memory:") as hansard:
        for each in (ears.fail, ears.hear):
            hansard.runs.listen(each)
        run = await hansard.submit("compare three queues", provider="rehearsal")
        assert (await run.ended()).state == "answered"
    assert (ears.failed, ears.heard[-1]) == (1, "run.ended")


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError(), GeneratorExit()])
async def test_nor_does_one_that_wants_to_end_the_process(error: BaseException) -> None:
    heard = []

    def leave(_: str, recorded: Any) -> None:
        heard.append(recorded.fact.KIND)
        if recorded.fact.KIND == "plan.made":
            raise error

    async with Hansard.open("memory:") as hansard:
        hansard.runs.listen(leave)
        run = await hansard.submit("compare three queues", provider="rehearsal")
        assert (await run.ended()).state == "answered"
    assert heard[-1] == "plan.made"


async def test_a_listener_that_stops_itself_takes_nothing_from_the_next_and_may_stop_twice() -> None:
    ears, heard = Ears(), list[str]()

    def once(_: str, recorded: Any) -> None:
        heard.append(recorded.fact.KIND)
        stop()

    async with Hansard.open("memory:") as hansard:
        stop = hansard.runs.listen(once)
        hansard.runs.listen(ears.hear)
        await (await hansard.submit("compare three queues", provider="rehearsal")).ended()
        stop()
    assert (ears.heard[0], ears.heard[-1]) == ("run.requested", "run.ended")
    assert heard == ["run.requested"]


def test_whoever_types_control_c_while_a_listener_hears_is_not_taken_for_its_failure() -> None:
    listeners, typed = list[Callable[[], None]](), [True]

    def hear() -> None:
        if typed:
            typed.clear()
            raise KeyboardInterrupt
        heard.append(True)

    heard: list[bool] = []
    listening(listeners, hear)
    [each] = listeners
    with pytest.raises(KeyboardInterrupt):
        each()
    each()
    assert heard
