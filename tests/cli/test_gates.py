import json
from pathlib import Path

import pytest

from command_line import hansard, workplace


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a run that waits before its plan."""
    folder = workplace(tmp_path)
    (folder / "hansard.toml").write_text('ledger = "l.db"')
    asked = ("submit", "x", "--plan", "plan.json", "--provider", "rehearsal", "--gate", "plan")
    assert hansard(folder, *asked).returncode == 14
    return folder


def gate(place: Path) -> str:
    [waiting] = json.loads(hansard(place, "gates", "--json").stdout)
    return str(waiting["gate"])


def test_an_approval_lets_the_run_go_on(place: Path) -> None:
    shown = hansard(place, "gates", "show", gate(place))
    assert "Do the first thing." in shown.stdout
    decided = hansard(place, "gates", "approve", gate(place), "--resume", "--note", "it is good")
    assert (decided.returncode, decided.stdout.startswith("[rehearsal]")) == (0, True)
    assert json.loads(hansard(place, "gates", "list", "--json").stdout) == []
    assert [each["state"] for each in json.loads(hansard(place, "gates", "list", "--all", "--json").stdout)] == [
        "approved"
    ]


def test_an_edit_changes_the_plan(place: Path) -> None:
    (place / "new.json").write_text('{"tasks": [{"id": "only", "lane": "backend", "instruction": "Do this alone."}]}')
    decided = hansard(place, "gates", "edit", gate(place), "@new.json", "--resume", "--json")
    assert [task["task"] for task in json.loads(decided.stdout)["tasks"]] == ["only"]


def test_a_rejection_ends_the_run(place: Path) -> None:
    decided = hansard(place, "gates", "reject", gate(place))
    assert (decided.returncode, "runs resume" in decided.stderr) == (0, True)
    assert hansard(place, "runs", "resume", "last").returncode == 11
