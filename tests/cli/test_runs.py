import json
import shlex
import sys
from pathlib import Path
from typing import get_args

import pytest

from command_line import UNJUDGED, started, workplace
from hansard.app.telling import recorded
from hansard.surfaces.cli.arguments import STATES
from hansard.surfaces.shapes import State
from shell import hansard


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with an answered run and a newer one that failed in its second task."""
    folder = workplace(tmp_path_factory.mktemp("runs"))
    (folder / "hansard.toml").write_text('ledger = "l.db"')
    plan = json.loads((folder / "plan.json").read_text())
    plan["tasks"][1]["checks"] = [{"regex": "second wind"}]
    (folder / "checked.json").write_text(json.dumps(plan))
    cmd = ("--cmd", f"{sys.executable} {folder / 'echo.py'}", *UNJUDGED)
    assert hansard(folder, "submit", "the first request", "--plan", "plan.json", *cmd).returncode == 0
    assert (
        hansard(folder, "submit", "the \x1b[31msecond[bold] request", "--plan", "checked.json", *cmd).returncode == 10
    )
    return folder


def test_runs_alone_lists_the_newest_first(place: Path) -> None:
    lines = hansard(place, "runs").stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["partial", "answered"]
    assert "\\x1b[31msecond[bold] request" in lines[0]
    [newest] = hansard(place, "runs", "list", "--limit", "1").stdout.splitlines()
    assert newest.split()[:2] == lines[0].split()[:2]
    assert len(hansard(place, "runs", "list", "--limit", "0").stdout.splitlines()) == 2
    # The newest is not in that state, and still the older ones are looked at.
    assert len(hansard(place, "runs", "list", "--limit", "0", "--state", "answered").stdout.splitlines()) == 1
    assert [
        each["state"] for each in json.loads(hansard(place, "runs", "list", "--state", "answered", "--json").stdout)
    ] == ["answered"]
    assert len(json.loads(hansard(place, "runs", "--json").stdout)) == 2


def test_one_call_is_a_call(tmp_path: Path) -> None:
    one = ("--cmd", "echo done", "--lane", "backend", "--judge", "checks", "--answer", "join")
    assert hansard(tmp_path, "submit", "x", *one).returncode == 0
    [line] = hansard(tmp_path, "runs").stdout.splitlines()
    assert "1 call " in line


def test_an_empty_list_says_what_there_is_none_of(place: Path) -> None:
    said = hansard(place, "runs", "list", "--state", "stopped").stderr
    assert said == "hansard: no run is stopped; `hansard runs list` shows the others\n"
    assert "no gate of run" in hansard(place, "gates", "list", "--run", "last").stderr
    assert hansard(place, "gates", "list", "--all").stderr == "hansard: there is no gate\n"
    assert hansard(place, "init", "--ledger", "other.db").returncode == 0
    said = hansard(place, "runs", "--ledger", "other.db").stderr
    assert said == "hansard: there are no runs yet; `hansard submit REQUEST --ledger other.db` starts one\n"


def test_show_tells_tasks_attempts_verdicts_and_the_answer(place: Path) -> None:
    said = hansard(place, "runs", "show", "last").stdout
    for piece in (
        "partial: parts missing",
        "without second, third",
        "+ first",
        "x second",
        "rejected by checks",
        "- third",
        "a fine result",
    ):
        assert piece in said, said
    assert "\x1b" not in said


def test_a_run_is_found_by_the_beginning_or_the_end_of_its_id(place: Path) -> None:
    whole = json.loads(hansard(place, "runs", "--json").stdout)[0]["run"]
    for part in (whole[:13], whole[-12:], whole.upper(), whole[:13].upper(), whole[-12:].upper()):
        assert json.loads(hansard(place, "runs", "show", part, "--json").stdout)["run"] == whole
    none = hansard(place, "runs", "show", "banana")
    assert (none.returncode, "runs list" in none.stderr) == (2, True)
    both = hansard(place, "runs", "show", whole[:1])
    assert (both.returncode, "write more of it" in both.stderr) == (2, True)


def test_flags_may_stand_before_the_verb(place: Path) -> None:
    elsewhere = hansard(place, "runs", "--ledger", "typo.db", "show", "last")
    assert (elsewhere.returncode, "typo.db" in elsewhere.stderr) == (2, True)
    assert json.loads(hansard(place, "runs", "--json", "show", "last").stdout)["state"] == "partial"


def test_the_record_of_a_run_is_run_again_and_compared(place: Path) -> None:
    again = hansard(place, "runs", "rerun", "last")
    assert (again.returncode, again.stdout.split()[0]) == (0, "identical")
    first = json.loads(hansard(place, "runs", "--json").stdout)[1]["run"]
    assert "the answers are the same" in hansard(place, "runs", "compare", first, "last").stdout
    assert hansard(place, "bench", first, "last").stdout == hansard(place, "runs", "compare", first, "last").stdout
    assert hansard(place, "runs", "page", "last").stdout.startswith("<!doctype html>")
    assert json.loads(hansard(place, "runs", "capsule", "last").stdout)["schema"] == "hansard.capsule/1"


@pytest.mark.parametrize("sides", [("last@copy.db", "last"), ("last", "last@copy.db"), ("last@copy.db", "last@l.db")])
def test_runs_of_two_ledgers_are_compared_whichever_of_them_is_named(place: Path, sides: tuple[str, str]) -> None:
    if not (place / "copy.db").exists():
        (place / "copy.db").write_bytes((place / "l.db").read_bytes())
    compared = hansard(place, "runs", "compare", *sides)
    assert (compared.returncode, "the answers are the same" in compared.stdout) == (0, True), compared.stderr


def test_figures_of_a_run_that_came_to_little_agree_with_what_is_shown_of_it(tmp_path: Path) -> None:
    folder = workplace(tmp_path)
    for more, code in ((("--max-calls", "1"), 12), (("--gate", "plan"), 14)):
        words = ("--plan", "plan.json", "--provider", "rehearsal", "--ledger", "l.db", *more)
        assert hansard(folder, "submit", "x", *words).returncode == code
    stopped, waiting = (
        each["run"] for each in reversed(json.loads(hansard(folder, "runs", "--json", "--ledger", "l.db").stdout))
    )
    said = hansard(folder, "runs", "compare", stopped, waiting, "--ledger", "l.db").stdout
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines()}
    assert (rows["state"], rows["tasks"][:2], rows["skipped"][0]) == (["stopped", "waiting"], ["3", "3"], "3")
    assert rows["answer_bytes"] == ["–", "–"]
    assert "task first: skipped: budget in A, no verdict in B" in said


def test_what_was_redacted_of_a_run_is_told_to_be_gone(tmp_path: Path) -> None:
    folder, there = workplace(tmp_path), ("--ledger", "l.db")
    words = ("--plan", "plan.json", "--provider", "rehearsal", "--gate", "plan", "--max-calls", "1")
    assert hansard(folder, "submit", "call 555-1234", *words, *there).returncode == 14
    made = json.loads(hansard(folder, "runs", "show", "last", "--json", *there).stdout)["plan"]["seq"]
    parts = ("1", "request", "1", "plan", made, "plan")
    assert hansard(folder, "ledger", "redact", *parts, "--reason", "legal", *there).returncode == 0
    assert hansard(folder, "runs", *there).stdout.endswith("(not in the ledger any more)\n")
    shown = hansard(folder, "runs", "show", "last", *there).stdout
    assert "\nlimits   1 call\n" in shown
    assert "plan     3 tasks in 3 waves, by the user" in shown
    assert "\n  - 3 tasks that nobody began: (not in the ledger any more)\n" in shown


def test_a_rerun_says_who_was_asked(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    (place / "hansard.toml").write_text('ledger = "l.db"')
    (place / "said.sh").write_text(f"cat > /dev/null; echo asked >> {place / 'trace'}; echo a fine result")
    cmd = ("--cmd", f"sh {place / 'said.sh'}", "--single", "--lane", "backend", *UNJUDGED)
    assert hansard(place, "submit", "please", *cmd).returncode == 0
    assert hansard(place, "runs", "rerun", "last").stdout.endswith("; nobody was asked\n")
    swapped = hansard(place, "runs", "rerun", "last", "--swap", "worker=flag").stdout
    assert swapped.split()[0] == "identical"
    assert swapped.endswith("; nobody was asked but who was swapped in (worker)\n")
    assert (place / "trace").read_text().split() == ["asked", "asked"]


def test_a_page_is_a_new_file_and_no_json(place: Path) -> None:
    (place / "mine.html").write_text("mine")
    refused = hansard(place, "runs", "page", "last", "-o", "mine.html")
    assert (refused.returncode, "there already" in refused.stderr) == (2, True)
    assert (place / "mine.html").read_text() == "mine"
    assert hansard(place, "runs", "page", "last", "-o", "new.html").returncode == 0
    assert (place / "new.html").read_text().startswith("<!doctype html>")
    refused = hansard(place, "runs", "page", "last", "--json")
    assert (refused.returncode, refused.stdout, "runs show RUN --json" in refused.stderr) == (2, "", True)


def test_follow_tells_the_story_and_ends_with_the_runs_own_code(place: Path) -> None:
    told = hansard(place, "runs", "follow", "last")
    assert told.returncode == 10
    words = [line.split()[2] for line in told.stdout.splitlines()]
    assert words == ["requested", "planned", "started", "passed", "started", "rejected", "skipped", "answered", "ended"]
    lines = hansard(place, "runs", "follow", "last", "--json").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines][-1] == "run.ended"


def test_what_is_not_there_is_told_with_where_to_look_in_that_ledger(tmp_path: Path) -> None:
    there = ("--ledger", "a log.db")
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--gate", "plan", *there).returncode == 14
    for words in (("runs", "show", "zzz"), ("runs", "rerun", "zzz"), ("gates", "show", "zzz")):
        refused = hansard(tmp_path, *words, *there)
        advised = shlex.split(refused.stderr.partition("`")[2].partition("`")[0])
        assert (refused.returncode, advised[2]) == (2, "list")
        assert hansard(tmp_path, *advised[1:]).stdout.count("\n") == 1


def test_a_run_that_ended_is_neither_resumed_nor_cancelled(place: Path) -> None:
    for verb in ("resume", "cancel"):
        refused = hansard(place, "runs", verb, "last")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "has ended (partial)" in refused.stderr


def test_retry_does_a_task_again_and_what_was_built_on_it(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    cmd = ("--cmd", f"{sys.executable} {place / 'echo.py'}", *UNJUDGED, "--ledger", "l.db")
    hansard(place, "submit", "x", "--plan", "plan.json", *cmd)
    (place / "echo.py").write_text("print('better')")
    again = hansard(place, "runs", "retry", "last", "second", "--ledger", "l.db", "--json")
    view = json.loads(again.stdout)
    assert (again.returncode, view["answer"]) == (0, "better\n")
    assert [len(task["attempts"]) for task in view["tasks"]] == [1, 2, 2]
    unknown = hansard(place, "runs", "retry", "last", "fourth", "--ledger", "l.db")
    assert (unknown.returncode, "first, second, third" in unknown.stderr) == (2, True)


def test_retry_of_a_run_that_another_process_drives_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    cmd = ("--cmd", f"{sys.executable} {place / 'echo.py'} 2", *UNJUDGED, "--ledger", "l.db", "--progress", "plain")
    driving = started(place, "submit", "x", "--plan", "plan.json", *cmd)
    assert driving.stderr is not None
    while "started" not in driving.stderr.readline():
        assert driving.poll() is None
    refused = hansard(place, "runs", "retry", "last", "first", "--ledger", "l.db")
    assert (refused.returncode, "is held by process" in refused.stderr) == (11, True)
    driving.communicate(timeout=60)
    assert hansard(place, "ledger", "show", "--kind", "run.retry_asked", "--ledger", "l.db").stdout == ""
    again = hansard(place, "runs", "rerun", "last", "--ledger", "l.db")
    assert (driving.returncode, again.returncode, again.stdout.split()[0]) == (0, 0, "identical")


def test_a_run_that_was_cancelled_in_its_second_task_is_identical_until_then(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    (place / "echo.py").write_text("import sys, time\nif 'second' in sys.stdin.read(): time.sleep(60)\nprint('fine')")
    cmd = ("--cmd", f"{sys.executable} {place / 'echo.py'}", *UNJUDGED, "--ledger", "l.db", "--progress", "plain")
    driving = started(place, "submit", "x", "--plan", "plan.json", *cmd)
    assert driving.stderr is not None
    while "second" not in driving.stderr.readline():
        assert driving.poll() is None
    assert hansard(place, "runs", "cancel", "last", "--ledger", "l.db").returncode == 0
    driving.communicate(timeout=60)
    again = hansard(place, "runs", "rerun", "last", "--ledger", "l.db")
    assert (again.returncode, again.stdout.split()[0]) == (0, "identical"), again.stdout
    assert "its decisions until then were compared" in again.stdout


def test_cancel_reaches_a_run_that_another_process_drives(tmp_path: Path) -> None:
    place = workplace(tmp_path)
    cmd = ("--cmd", f"{sys.executable} {place / 'echo.py'} 60", *UNJUDGED, "--ledger", "l.db", "--progress", "plain")
    driving = started(place, "submit", "x", "--plan", "plan.json", *cmd)
    assert driving.stderr is not None
    while "started" not in driving.stderr.readline():
        assert driving.poll() is None
    asked = hansard(place, "runs", "cancel", "last", "--ledger", "l.db", "--json")
    assert (asked.returncode, json.loads(asked.stdout)["state"]) == (0, "cancelled")
    _, err = driving.communicate(timeout=30)
    assert (driving.returncode, "cancelled" in err) == (13, True)


@pytest.mark.parametrize(
    "verb", [("list",), ("show", "last"), ("follow", "last"), ("resume", "last"), ("cancel", "last")]
)
def test_a_ledger_that_is_not_there_is_an_error_and_is_not_made(tmp_path: Path, verb: tuple[str, ...]) -> None:
    ran = hansard(tmp_path, "runs", *verb, "--ledger", "typo.db")
    assert ran.returncode == 2
    assert ran.stderr.startswith("hansard: ")
    assert not (tmp_path / "typo.db").exists()


def test_a_state_that_no_run_can_be_in_is_refused(place: Path) -> None:
    said = hansard(place, "runs", "list", "--state", "zzz")
    assert (said.returncode, "answered" in said.stderr) == (2, True)
    assert recorded.STATES == STATES == get_args(State)
