"""Copies that are set aside go with the process that made them, also where it was killed."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hansard.ledger.sources.aside import PREFIX, new_aside

MAKE_AND_WAIT = """
import sys
from hansard.ledger.sources.aside import new_aside
made = new_aside()
(made.folder / "ledger.db").write_bytes(b"a copy")
print(made.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_process_left_is_removed_and_what_is_in_use_is_not(place: Path) -> None:
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(place)}
    with subprocess.Popen(
        [sys.executable, "-c", MAKE_AND_WAIT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
    ) as other:  # fmt: skip
        assert other.stdout is not None
        left = Path(other.stdout.readline().strip())
        first = new_aside()
        assert {left, first.folder} == set(place.iterdir())
        other.kill()
    second = new_aside()
    assert {first.folder, second.folder} == set(place.iterdir())
    first.remove()
    second.remove()
    assert list(place.iterdir()) == []


def test_a_link_of_such_a_name_is_left_alone(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "kept").touch()
    (place / f"{PREFIX}x").symlink_to(elsewhere)
    new_aside().remove()
    assert (elsewhere / "kept").exists()
