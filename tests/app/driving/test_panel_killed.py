"""kill -9 while a panel sits inside of a run: the run goes on from the record, the session with it, and everything verifies."""

from collections import Counter
from pathlib import Path

import pytest

from app.driving.killed_panels import laid
from hansard.app.settings import Settings
from hansard.app.wiring import open_ledger
from hansard.deliberation.afterwards.validate import artifact_breaches
from hansard.deliberation.story import read_artifact
from hansard.record.history import fold


@pytest.mark.sampled(2)
@pytest.mark.parametrize("moment", ["critic", "engineer", "chair", "closing"])
def test_a_run_that_is_killed_inside_of_a_session_settles_its_task_all_the_same(tmp_path: Path, moment: str) -> None:
    ground = laid(tmp_path)
    ground.let_wait(moment)
    ground.strike_when(moment)
    ground.let_wait("nobody")
    assert ground.drive() == "answered"
    assert ground.forsaken() == []
    report = ground.verified()
    assert report.ok, report
    entries = ground.entries()
    kinds = Counter(entry.kind for entry in entries)
    assert kinds["session.convened"] == kinds["session.ended"] == kinds["run.ended"] == 1
    taken = Counter(
        str(each.data["speaker"]) for each in entries if each.kind == "turn.taken" and "result" in each.body
    )
    assert taken == {"critic": 1, "engineer": 1, "coordinator": 2}
    # Every program that was started is a call, also the one that was killed with its driver.
    [last] = [entry for entry in entries if entry.kind == "run.ended"]
    assert last.data["calls"] == fold(entries).runs[last.run].calls == len(ground.asked())
    [ended] = [entry for entry in entries if entry.kind == "session.ended"]
    with open_ledger(Settings(ledger=ground.ledger, state=tmp_path / "state")) as opened:
        assert artifact_breaches(read_artifact(opened.store, ended)) == []
