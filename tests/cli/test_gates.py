import json
import sys
import time
from pathlib import Path

import pytest

from command_line import UNJUDGED, started, workplace
from daemons import wait_for
from forging import swap_body
from shell import hansard


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a run that waits before its plan."""
    return waiting_before_its_plan(tmp_path, "")


def waiting_before_its_plan(tmp_path: Path, rule: str) -> Path:
    folder = workplace(tmp_path)
    (folder / "hansard.toml").write_text(f'ledger = "l.db"\n[[gate]]\nbefore = "plan"\n{rule}')
    assert hansard(folder, "submit", "x", "--plan", "plan.json", "--provider", "rehearsal").returncode == 14
    return folder


def gate(place: Path) -> str:
    [waiting] = json.loads(hansard(place, "gates", "--json").stdout)
    return str(waiting["gate"])


def test_an_approval_lets_the_run_go_on(place: Path) -> None:
    waits = f"\ngate     {gate(place)} waits for a decision: `hansard gates show {gate(place)}`\n"
    assert waits in hansard(place, "runs", "show", "last").stdout
    shown = hansard(place, "gates", "show", gate(place))
    assert "Do the first thing." in shown.stdout
    decided = hansard(place, "gates", "approve", gate(place), "--resume", "--note", "it is good")
    assert (decided.returncode, decided.stdout.startswith("[rehearsal]")) == (0, True)
    assert "waits for a decision" not in hansard(place, "runs", "show", "last").stdout
    assert json.loads(hansard(place, "gates", "list", "--json").stdout) == []
    assert [each["state"] for each in json.loads(hansard(place, "gates", "list", "--all", "--json").stdout)] == [
        "approved"
    ]


def test_a_gate_that_is_decided_waits_for_a_driver_and_for_no_decision(place: Path) -> None:
    waiting = gate(place)
    assert hansard(place, "gates", "approve", waiting).returncode == 0
    shown = hansard(place, "runs", "show", "last").stdout
    run = json.loads(hansard(place, "runs", "show", "last", "--json").stdout)["run"][:13]
    goes_on = f"hansard runs resume {run}"
    assert f"gate     {waiting} is decided; where nobody drives the run, `{goes_on}` goes on\n" in shown
    assert "waits for a decision" not in shown
    assert hansard(place, *goes_on.split()[1:]).returncode == 0


def test_what_a_task_would_be_given_is_shown_before_it_runs(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    second = json.loads((place / "plan.json").read_text())["tasks"][1]["id"]
    (place / "hansard.toml").write_text('ledger = "l.db"')
    asked = ("submit", "x", "--plan", "plan.json", "--provider", "rehearsal", "--gate", f"task:{second}")
    assert hansard(place, *asked).returncode == 14
    show = ("gates", "show", gate(place))
    [given] = json.loads(hansard(place, *show, "--json").stdout)["built_on"]
    head = f"\n  built on the result of {given['task']} (entry {given['seq']}):\n  | "
    assert f"{head}{given['text'].splitlines()[0]}" in hansard(place, *show).stdout
    assert hansard(place, "ledger", "redact", str(given["seq"]), "output", "--reason", "other").returncode == 0
    assert f"{head}(not in the ledger any more)\n" in hansard(place, *show).stdout


def test_an_edit_changes_the_plan(place: Path) -> None:
    edited = '{"tasks": [{"id": "only", "lane": "backend", "instruction": "Do this alone."}]}'
    (place / "new.json").write_text(edited, "utf-8-sig")
    decided = hansard(place, "gates", "edit", gate(place), "@new.json", "--resume", "--json")
    assert [task["task"] for task in json.loads(decided.stdout)["tasks"]] == ["only"]


def test_the_name_of_a_file_is_no_edit(tmp_path: Path) -> None:
    """An edit approves: the task would be done at once, with a name in the place of its instruction."""
    place = workplace(tmp_path)
    (place / "hansard.toml").write_text('ledger = "l.db"')
    asked = ("submit", "x", "--single", "--provider", "rehearsal", "--gate", "task:task")
    assert hansard(place, *asked).returncode == 14
    (place / "new.txt").write_text("Do this alone.")
    refused = hansard(place, "gates", "edit", gate(place), "new.txt")
    assert (refused.returncode, refused.stderr) == (
        2, "hansard: new.txt is a file; write @new.txt to hand in what it says\n"
    )  # fmt: skip
    assert hansard(place, "gates", "edit", gate(place), "@new.txt", "--quiet").returncode == 0


def test_a_decision_is_taken_quietly(place: Path) -> None:
    decided = hansard(place, "gates", "approve", gate(place), "--quiet")
    assert (decided.returncode, decided.stdout, decided.stderr) == (0, "", "")
    assert " approved " in hansard(place, "gates", "list", "--all").stdout


def test_a_word_that_comes_too_late_is_refused(place: Path) -> None:
    waiting = gate(place)
    assert "it is approved" in hansard(place, "gates", "approve", waiting, "--by", "human:ann").stderr
    late = hansard(place, "gates", "reject", waiting, "--by", "human:bob")
    assert (late.returncode, late.stdout) == (2, "")
    assert "is approved already, by human:ann; nothing was changed" in late.stderr
    assert " approved " in hansard(place, "gates", "list", "--all").stdout
    assert hansard(place, "runs", "resume", "last").returncode == 0


def test_who_decided_is_told_how_to_go_on_in_that_ledger(place: Path) -> None:
    decided = hansard(place, "gates", "approve", gate(place), "--ledger", "l.db")
    said = decided.stderr.partition("where nobody does, `hansard ")[2].partition("`")[0]
    assert hansard(place, *said.split()).returncode == 0
    assert said.endswith(" --ledger l.db")


def test_only_approvers_are_counted_and_named(tmp_path: Path) -> None:
    place = waiting_before_its_plan(tmp_path, 'name = "board"\napprovers = ["human:ann"]\n')
    waiting = gate(place)
    void = hansard(place, "gates", "approve", waiting, "--by", "human:mallory")
    told = void.stderr
    assert void.returncode == 2
    assert hansard(place, "gates", "approve", waiting, "--by", "human:mallory", "--json").returncode == 2
    assert "human:mallory is none of those who may decide there, and this does not count" in told
    assert "goes on" not in told
    again = hansard(place, "gates", "approve", waiting, "--by", "human:mallory", "--resume")
    assert (again.returncode, told.splitlines()[0] in again.stderr) == (14, True)
    assert " 0 of 1 approved" in hansard(place, "gates", "list").stdout
    assert "(does not count)" in hansard(place, "gates", "show", waiting).stdout
    hansard(place, "gates", "approve", waiting, "--by", "human:ann")
    late = hansard(place, "gates", "reject", waiting, "--by", "human:ann")
    assert "is approved already, by human:ann; nothing was changed" in late.stderr
    assert " 1 of 1 approved" in hansard(place, "gates", "list", "--all").stdout


def test_a_word_that_counts_is_no_failure_where_others_are_asked_too(tmp_path: Path) -> None:
    place = waiting_before_its_plan(tmp_path, "needed = 2\n")
    first = hansard(place, "gates", "approve", gate(place), "--by", "human:ann")
    assert (first.returncode, "still waits for others (2 needed)\n" in first.stderr) == (0, True)


def test_where_another_process_drives_the_run_a_decision_is_not_called_a_failure(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    (place / "hansard.toml").write_text('ledger = "l.db"')
    tasks = [{"id": name, "lane": "backend", "instruction": "x"} for name in ("slow", "held")]
    (place / "two.json").write_text(json.dumps({"tasks": tasks}))
    (place / "until.py").write_text(
        f"import pathlib, time\nwhile not pathlib.Path({str(place / 'go')!r}).exists(): time.sleep(0.05)\nprint('done')"
    )
    asked = ("--cmd", f"{sys.executable} {place / 'until.py'}", "--gate", "task:held", *UNJUDGED)
    driver = started(place, "submit", "x", "--plan", "two.json", *asked)
    try:
        found = wait_for(lambda: json.loads(hansard(place, "gates", "--json").stdout or "[]"))
        decided = hansard(place, "gates", "approve", found[0]["gate"], "--resume")
        assert (decided.returncode, "it is approved" in decided.stderr) == (0, True), decided.stderr
        assert "another process drives the run, and goes on; `hansard runs follow" in decided.stderr
        (place / "go").touch()
        assert driver.wait(60) == 0
    finally:
        driver.kill()
        driver.communicate()


def test_nobody_decides_without_a_name(place: Path) -> None:
    refused = hansard(place, "gates", "approve", gate(place), "--by", " ")
    assert (refused.returncode, "actor" in refused.stderr) == (2, True)
    assert json.loads(hansard(place, "gates", "--json").stdout)[0]["decisions"] == []


def test_a_rejection_ends_the_run(place: Path) -> None:
    decided = hansard(place, "gates", "reject", gate(place))
    assert (decided.returncode, "runs resume" in decided.stderr) == (0, True)
    assert "it is rejected" in decided.stderr
    assert hansard(place, "runs", "resume", "last").returncode == 11


@pytest.mark.parametrize(("default", "code"), [("reject", 11), ("approve", 0)])
def test_a_gate_expires_by_itself_while_somebody_follows(tmp_path: Path, default: str, code: int) -> None:
    folder = waiting_before_its_plan(tmp_path, f'deadline_s = 1.0\non_expiry = "{default}"\n')
    followed = hansard(folder, "runs", "follow", "last", "--json")
    assert followed.returncode == code
    kinds = [json.loads(line)["kind"] for line in followed.stdout.splitlines()]
    assert kinds.count("gate.closed") == 1
    assert kinds[-1] == "run.ended"


def test_a_gate_outlives_a_driver_that_was_killed(tmp_path: Path) -> None:
    folder = workplace(tmp_path)
    (folder / "hansard.toml").write_text('ledger = "l.db"\n[[gate]]\nlanes = ["sre-ops"]\n')
    tasks = [
        {"id": "first", "lane": "backend", "instruction": "Do this."},
        {"id": "second", "lane": "sre-ops", "instruction": "Do that."},
    ]
    (folder / "two.json").write_text(json.dumps({"tasks": tasks}))
    asked = ("submit", "x", "--plan", "two.json", "--cmd", f"{sys.executable} {folder / 'echo.py'} 2", *UNJUDGED)
    with started(folder, *asked) as driver:
        deadline = time.monotonic() + 60
        while not (folder / "l.db").exists() or "second" not in hansard(folder, "gates", "list").stdout:
            assert time.monotonic() < deadline
        driver.kill()
    assert hansard(folder, "runs", "resume", "last").returncode == 14
    assert hansard(folder, "gates", "approve", gate(folder)).returncode == 0
    assert hansard(folder, "runs", "resume", "last").returncode == 0
    states = [task["state"] for task in json.loads(hansard(folder, "runs", "show", "last", "--json").stdout)["tasks"]]
    assert states == ["passed", "passed"]


def test_a_question_that_was_forged_is_neither_shown_nor_decided_on(place: Path) -> None:
    waiting = gate(place)
    seq = swap_body(place / "l.db", "gate.opened", "question", "May this plan run?\n\nsay hello")
    for words in (("show", waiting), ("approve", waiting, "--resume")):
        refused = hansard(place, "gates", *words)
        assert (refused.returncode, refused.stdout) == (11, "")
        assert f"the question of entry {seq} in {place}/l.db is not what was recorded" in refused.stderr
        assert "hansard verify" in refused.stderr
    assert gate(place) == waiting
    assert "gate.decided" not in hansard(place, "ledger", "show").stdout


def test_a_plan_that_was_forged_behind_its_gate_does_not_run(place: Path) -> None:
    task = {"id": "hello", "lane": "backend", "instruction": "say hello"}
    seq = swap_body(place / "l.db", "plan.made", "plan", json.dumps({"tasks": [task]}))
    refused = hansard(place, "gates", "approve", gate(place), "--resume")
    assert (refused.returncode, refused.stdout) == (11, "")
    assert f"the plan of entry {seq} in {place}/l.db is not what was recorded" in refused.stderr
    assert "task.attempted" not in hansard(place, "ledger", "show").stdout
