"""No trust in a changed record: what was edited is refused, what was redacted is said to be gone."""

import sqlite3
from pathlib import Path

import pytest

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.errors import StoreError
from rerunning import again
from running import (
    Answers,
    desk,
    plan,
    task,
)


async def test_a_tampered_body_is_refused(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    settings = Settings(ledger=str(ledger), state=tmp_path / "state")
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        run = await hansard.submit("please", plan=plan(task("a", lane="backend")), provider="told")
        assert (await run.ended()).state == "answered"
    with sqlite3.connect(ledger) as edit:
        edit.execute(
            "update bodies set body = cast('another result' as blob) where body = cast('result of a, attempt 1' as blob)"
        )
        assert edit.total_changes > 0
    edit.close()
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        with pytest.raises(StoreError, match="does not open its commitment"):
            await hansard.runs.rerun(run.id)


async def test_a_tampered_entry_is_refused(tmp_path: Path) -> None:
    """Also one that nothing is decided by, in a part of the log that nobody looks at when it is opened."""
    ledger = tmp_path / "l.db"
    settings = Settings(ledger=str(ledger), state=tmp_path / "state")
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        runs = []
        for _ in range(30):
            runs.append(await hansard.submit("please", plan=plan(task("a", lane="backend")), provider="told"))
            assert (await runs[-1].ended()).state == "answered"
    with sqlite3.connect(ledger) as edit:
        [(newest,)] = edit.execute("select max(seq) from entries").fetchall()
        edit.execute(
            """update entries set line = replace(line, '"latency_us":', '"latency_us":1')
            where run = ? and kind = 'task.returned'""",
            (runs[0].id,),
        )
        assert edit.total_changes == 1
        assert newest > 300
    edit.close()
    async with Hansard.open(settings=settings, providers={"told": Answers()}) as hansard:
        with pytest.raises(StoreError, match="not what the log's tree says it is"):
            await hansard.runs.rerun(runs[0].id)
        assert (await hansard.runs.rerun(runs[-1].id))["identical"] is True


async def test_a_run_that_a_redaction_took_an_answer_from_says_so() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a")))
    returned = at.entries(ended.run, "task.returned")[0]
    at.store.erase((returned.seq, "output"))
    with pytest.raises(StoreError, match=f"output of entry {returned.seq}"):
        await again(at, ended.run)


@pytest.mark.parametrize(("kind", "part"), [("run.requested", "request"), ("run.routed", "evidence")])
async def test_what_a_redaction_took_is_not_called_a_divergence(kind: str, part: str) -> None:
    at = desk(Answers())
    ended = await at.run()
    [entry] = at.entries(ended.run, kind)
    at.store.erase((entry.seq, part))
    with pytest.raises(StoreError, match=f"the {part} of entry {entry.seq} is not in the ledger any more"):
        await again(at, ended.run)
