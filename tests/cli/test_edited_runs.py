"""A run whose entries somebody edited in the file: nobody goes on with it, however far back they stand."""

import asyncio
import json
from pathlib import Path

import pytest

from forging import database
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.convening import Call, convening
from hansard.app.setup.wishes import Wishes
from hansard.store.conformance.sample import draft, put
from hansard.store.sqlite import SqliteStore
from shell import hansard

THERE = ("--ledger", "l.db")


def bury(folder: Path) -> None:
    """Let so much follow that the end of the log and its last checkpoint, which every opening looks at, are elsewhere."""
    store = SqliteStore.open(folder / "l.db")
    put(store, *(draft() for _ in range(300)))
    store.close()
    assert hansard(folder, "ledger", "checkpoint", *THERE).returncode == 0


def edit(folder: Path, kind: str, old: str, new: str) -> None:
    with database(folder / "l.db") as into:
        into.execute("UPDATE entries SET line = replace(line, ?, ?) WHERE kind = ?", (old, new, kind))


@pytest.fixture
def decided(tmp_path: Path) -> str:
    """A run that waits at its gate, and whose plan was rejected."""
    waits = hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--gate", "plan", *THERE)
    assert "waiting at a gate" in waits.stderr
    [opened] = hansard(tmp_path, "ledger", "show", "--kind", "gate.opened", "--json", *THERE).stdout.splitlines()
    entry = json.loads(opened)
    assert hansard(tmp_path, "gates", "reject", entry["data"]["gate"], *THERE).returncode == 0
    bury(tmp_path)
    return str(entry["run"])


def test_a_decision_that_was_turned_round_is_not_obeyed(tmp_path: Path, decided: str) -> None:
    edit(tmp_path, "gate.decided", '"decision":"reject"', '"decision":"approve"')
    refused = hansard(tmp_path, "runs", "resume", decided, *THERE)
    assert refused.returncode == 11
    assert "is not what the log's tree says it is" in refused.stderr
    shown = hansard(tmp_path, "ledger", "show", "--run", decided, "--limit", "1", *THERE).stdout
    assert "gate.decided" in shown


def test_what_was_asked_for_and_edited_before_anybody_began_is_not_begun(tmp_path: Path) -> None:
    settings = Settings(ledger=str(tmp_path / "l.db"), state=tmp_path / "state")

    async def convened() -> str:
        async with Hansard.open(settings=settings) as it:
            call = Call(problem="x", runs=tmp_path / "runs", wishes=Wishes(provider="rehearsal"))
            return await it.deliberations.convene(convening(settings, it.pool, call))

    run = asyncio.run(convened())
    bury(tmp_path)
    edit(tmp_path, "run.requested", '"surface":"python"', '"surface":"mcp"')
    refused = hansard(tmp_path, "runs", "resume", run, *THERE)
    assert (refused.returncode, "is not what the log's tree says it is" in refused.stderr) == (11, True), refused.stderr


def test_such_a_run_can_still_be_cancelled(tmp_path: Path, decided: str) -> None:
    edit(tmp_path, "gate.decided", '"decision":"reject"', '"decision":"approve"')
    assert hansard(tmp_path, "runs", "cancel", decided, *THERE).returncode == 0
    assert "cancelled" in hansard(tmp_path, "runs", "show", decided, *THERE).stdout


def test_an_untouched_one_goes_on_as_it_was_decided(tmp_path: Path, decided: str) -> None:
    assert "gate rejected" in hansard(tmp_path, "runs", "resume", decided, *THERE).stderr
