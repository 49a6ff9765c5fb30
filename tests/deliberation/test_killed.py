"""A session that is killed at any moment is resumed to the transcript of one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.requirement("R-7.3-3", "R-7.4-1", "R-7.4-3")
@pytest.mark.parametrize(
    ("first", "last"), [(0, 10), pytest.param(10, 100, marks=pytest.mark.long)], ids=["ten", "ninety"]
)
def test_a_session_that_was_killed_is_resumed_to_the_same_end(first: int, last: int, quick_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_sessions.py"), str(quick_folder), str(first), str(last)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parent.parent / "src")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lives) == last - first
    assert [life for life in lives if not life["same"] or life["broken"]] == []
    # Most of them died in the middle, or nothing was shown.
    assert sum(life["entries"] > 0 for life in lives) > len(lives) // 2
