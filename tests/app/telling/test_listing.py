"""Lists of runs: they say what the runs themselves say, and read no more than they need."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.listing import runs_page
from hansard.app.telling.recorded import STATES
from hansard.domain.work import RetryAsked
from hansard.errors import StoreError

PLAN = {"tasks": [{"id": f"t{number}", "lane": "backend", "instruction": "do it"} for number in range(3)]}


def opened(folder: Path) -> Any:
    return Hansard.open(settings=Settings(ledger=str(folder / "l.db"), state=folder / "state"))


async def submitted(hansard: Hansard, **wishes: Any) -> str:
    config = run_config(hansard.settings, hansard.pool, Wishes(provider="rehearsal", **wishes))
    return await hansard.runs.submit("please", config, plan=PLAN)


async def test_a_list_says_of_a_run_what_showing_it_says(tmp_path: Path) -> None:
    async with opened(tmp_path) as hansard:

        def agree() -> list[str]:
            listed, _ = runs_page(hansard.store, limit=20)
            assert listed == hansard.runs.listed()
            for view in listed:
                shown = hansard.runs.show(view["run"])
                assert view == {name: shown[name] for name in view}
            for state in STATES:
                wanted = [view for view in listed if view["state"] == state]
                assert hansard.runs.listed(state=state) == wanted
                assert runs_page(hansard.store, limit=20, state=state) == (wanted, None)
            return [view["state"] for view in listed]

        answered, stopped = await submitted(hansard), await submitted(hansard, max_calls=2)
        waiting = await submitted(hansard, gates=("plan",))
        assert agree() == ["requested"] * 3
        for run in (answered, stopped, waiting):
            await hansard.runs.drive(run)
        assert agree() == ["waiting", "stopped", "answered"]
        await hansard.runs.cancel(waiting)
        await hansard.runs.retry(answered, "t1")
        assert agree() == ["cancelled", "stopped", "answered"]
        hansard.ledger.redact([(hansard.runs.entries(stopped)[0].seq, "request")], reason="other", actor="human:k7")
        requested = hansard.runs.entries(answered)[0].seq
        asked = RetryAsked(task="t0", surface="python")
        await hansard.recorder.record(asked, actor="human:k7", run=answered, causes=[requested])
        assert agree() == ["cancelled", "stopped", "requested"]


async def test_what_lies_between_the_beginning_and_the_end_of_a_run_is_not_read_for_a_list(tmp_path: Path) -> None:
    async with opened(tmp_path) as hansard:
        run = await submitted(hansard)
        await hansard.runs.drive(run)
        [before] = hansard.runs.listed()
        with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as raw:
            raw.execute(
                "UPDATE entries SET line = replace(line, '\"ok\":', '\"ok\" :') WHERE line LIKE '%task.judged%'"
            )
        with pytest.raises(StoreError):
            hansard.runs.show(run)
        assert hansard.runs.listed() == [before]


async def test_of_a_run_that_ended_in_another_state_only_its_end_is_read_for_a_list(tmp_path: Path) -> None:
    async with opened(tmp_path) as hansard:
        run = await submitted(hansard)
        await hansard.runs.drive(run)
        with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as raw:
            raw.execute("UPDATE entries SET line = line || ' ' WHERE kind = 'run.configured'")
        with pytest.raises(StoreError):
            hansard.runs.listed()
        assert hansard.runs.listed(state="waiting") == []
        assert runs_page(hansard.store, before=None, limit=20, state="waiting") == ([], None)
