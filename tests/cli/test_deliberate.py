"""`hansard deliberate` as people meet it: answers from a script or a program, signals, and what a kill leaves."""

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import command_line
from command_line import started
from deliberating import Heard, config, fails, result, synthesis, turn, verdict
from hansard.app.settings import Settings
from hansard.app.telling.nested_view import nested_view
from hansard.app.wiring import open_ledger
from hansard.deliberation.archive import read_journal, read_manifest
from hansard.store.base import Query
from shell import Shell, hansard
from store.disks import halving_disk

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
SKELETON = ("--config", CONFIGS / "walking-skeleton.json", "--script", CONFIGS / "walking-skeleton.script.json")
NONE = '"resolved_disagreements": [], "unresolved_disagreements": []'
PANELLIST = f"""\
import sys, time
asked = sys.stdin.read()
time.sleep(float(sys.argv[1]))
if "integrated_answer" in asked:
    print('{{"integrated_answer": "Forty-two.", {NONE}}}')
elif "next_action" in asked:
    print('{{"next_action": "finalize", "rationale": "r", "confidence": 0.5, "focus": "f", "next_agents": [], {NONE}}}')
else:
    print('{{"text": "I think so."}}')
"""


def case(folder: Path, *heard: Heard, budget: dict[str, Any] | None = None, **knobs: Any) -> tuple[Any, ...]:
    """The flags for a session with these answers."""
    (folder / "config.json").write_text(json.dumps(config(budget=budget, **knobs).as_data()))
    entries = [{"result": result(each)} for each in heard]
    (folder / "script.json").write_text(json.dumps({"schema_version": "1.0.0", "entries": entries}))
    return "--config", "config.json", "--script", "script.json"


ROUND = (turn(), turn(), turn())


def test_a_session_ends_with_its_answer_and_a_summary_of_one_screen(tmp_path: Path) -> None:
    done = hansard(tmp_path, "deliberate", *SKELETON)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No. Recompute every hour")
    words = {line.split()[0] for line in done.stdout.splitlines()[2:]}
    assert {"outcome", "panel", "digest", "folder", "run"} <= words
    assert len(done.stdout.splitlines()) < 24
    assert read_manifest(tmp_path / "runs" / "walking-skeleton").status == "complete"
    shown = hansard(tmp_path, "runs", "show", "last")
    assert f"folder   {tmp_path / 'runs' / 'walking-skeleton'}\n" in shown.stdout


@pytest.mark.parametrize(
    ("code", "reason", "heard", "knobs"),
    [
        (0, None, (*ROUND, verdict("finalize"), synthesis()), {}),
        (11, "provider_unrecoverable", (fails("auth_failure"),), {}),
        (11, "schema_error", (fails("malformed_response"),), {"per_agent_retry_budget": 0}),
        (12, "budget_exceeded", (*ROUND, verdict()), {"budget": {"max_rounds": 1}}),
        (14, "user_input_required", (*ROUND, verdict("request_user_input")), {}),
        (14, "external_research_required", (*ROUND, verdict("request_external_research")), {}),
    ],
)
def test_the_exit_code_says_how_the_session_ended(
    code: int, reason: str | None, heard: tuple[Heard, ...], knobs: dict[str, Any], shell: Shell
) -> None:
    ended, out = shell.type("deliberate", *case(shell.folder, *heard, **knobs), "--json")
    assert ended == code, shell.err
    assert json.loads(out).get("termination_reason") == reason


def test_the_summary_says_what_failed_calls_took_too(shell: Shell) -> None:
    flags = case(shell.folder, *[fails("network", tokens=1_000)] * 3, budget={"max_total_tokens": 1_500})
    code, told = shell.type("deliberate", *flags)
    assert (code, "spent    2 calls, 2,000 tokens, $" in told) == (12, True), told
    assert next(line for line in told.splitlines() if line.startswith("spent")) in shell.type("runs", "show", "last")[1]
    assert shell.asks("session", "chain", "last")["tokens"] == 2_000
    again = shell.asks("deliberate", *flags)
    assert (again["spent"]["calls"], again["cumulative_usage"]["total_tokens"]) == (2, 0)


def test_a_time_that_is_over_ends_with_twelve(tmp_path: Path) -> None:
    (tmp_path / "panellist.py").write_text(PANELLIST)
    flags = case(tmp_path, turn(), budget={"max_wallclock_seconds": 1})[:2]
    done = hansard(tmp_path, "deliberate", *flags, "--cmd", f"{sys.executable} {tmp_path}/panellist.py 30", "--json")
    assert done.returncode == 12, done.stderr
    assert json.loads(done.stdout)["termination_reason"] == "timeout"


@pytest.mark.requirement("R-7.3-2")
def test_the_same_configuration_twice_gives_two_directories_and_leaves_the_first_as_it_was(shell: Shell) -> None:
    assert shell.type("deliberate", *SKELETON)[0] == 0
    first = (shell.folder / "runs" / "walking-skeleton" / "artifact.json").read_bytes()
    assert shell.asks("deliberate", *SKELETON)["run_dir"].endswith("runs/walking-skeleton-r1")
    assert (shell.folder / "runs" / "walking-skeleton" / "artifact.json").read_bytes() == first


def test_a_problem_is_a_file_or_a_text(shell: Shell) -> None:
    (shell.folder / "problem.md").write_text("From a file.\n")
    for word, wanted in (("problem.md", "From a file."), ("Said.", "Said.")):
        assert shell.asks("deliberate", word, "--provider", "rehearsal")["problem"] == wanted
    assert shell.asks("deliberate", "@problem.md", "--provider", "rehearsal")["problem"] == "From a file."
    for word in ("nothere.md", " ", "@nothere", "runs"):
        assert shell.type("deliberate", word, "--provider", "rehearsal")[0] == 2
    assert shell.type("deliberate", "--provider", "rehearsal")[0] == 2


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_problem_that_may_not_be_read_is_not_taken_for_a_text(shell: Shell) -> None:
    (shell.folder / "shut").mkdir(mode=0)
    assert shell.type("deliberate", "shut/problem", "--provider", "rehearsal")[0] == 2
    assert "cannot read shut/problem: Permission denied" in shell.err


def test_a_problem_may_be_longer_than_the_name_of_a_file(shell: Shell) -> None:
    problem = "\u554f" * 200
    assert shell.asks("deliberate", problem, "--provider", "rehearsal")["problem"] == problem


def test_a_problem_is_read_from_a_pipe_of_the_shell(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"From a process.\n")
    os.close(writing)
    words = ("deliberate", f"/dev/fd/{reading}", "--provider", "rehearsal", "--json")
    out, _ = started(tmp_path, *words, pass_fds=(reading,)).communicate(timeout=120)
    os.close(reading)
    assert json.loads(out)["problem"] == "From a process."


def test_a_problem_is_read_from_standard_input(tmp_path: Path) -> None:
    words = ("deliberate", "-", "--provider", "rehearsal", "--json")
    done = command_line.hansard(tmp_path, *words, stdin="From a pipe.\n")
    assert json.loads(done.stdout)["problem"] == "From a pipe."


def test_a_problem_on_the_command_line_takes_the_place_of_the_one_in_the_configuration(shell: Shell) -> None:
    flags = case(shell.folder, *ROUND, verdict("finalize"), synthesis())
    assert shell.asks("deliberate", "Another?", *flags)["problem"] == "Another?"


def test_the_default_panel_sits_when_no_configuration_is_named(shell: Shell) -> None:
    view = shell.asks("deliberate", "What now?", "--provider", "rehearsal")
    assert view["selected_agents"] == ["logician", "visionary", "researcher", "critic", "engineer"]
    assert view["session_id"] == view["run"]


def test_panel_and_rounds_can_be_chosen(shell: Shell) -> None:
    asks = ("deliberate", "What?", "--provider", "rehearsal")
    view = shell.asks(*asks, "--panel", "critic, logician", "--max-rounds", 2)
    assert view["selected_agents"] == ["critic", "logician"]
    written = json.loads((Path(view["run_dir"]) / "config.json").read_bytes())
    assert written["budget"]["max_rounds"] == 2
    for flags in (("--panel", "nobody"), ("--max-rounds", 0)):
        assert shell.type(*asks, *flags)[0] == 2
        assert "Traceback" not in shell.err


def test_who_is_named_by_a_flag_of_their_own_sits_too(shell: Shell) -> None:
    asks = ("deliberate", "What?", "--provider", "rehearsal", "--panel", "critic", "--panel", "logician, engineer")
    assert shell.asks(*asks)["selected_agents"] == ["critic", "logician", "engineer"]


def test_a_program_can_be_the_whole_panel(shell: Shell) -> None:
    (shell.folder / "panellist.py").write_text(PANELLIST)
    program = f"{sys.executable} {shell.folder}/panellist.py 0"
    code, out = shell.type("deliberate", "What?", "--panel", "critic", "--cmd", program)
    assert code == 0, shell.err
    assert out.startswith("Forty-two.")


def test_nobody_to_ask_says_what_to_type_and_leaves_nothing_behind(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(shell.folder))
    assert shell.type("deliberate", "What?")[0] == 2
    assert "--provider rehearsal" in shell.err
    assert not (shell.folder / "state").exists()
    assert not (shell.folder / "runs").exists()


@pytest.mark.requirement("R-6.11-1")
def test_an_unknown_provider_is_a_session_that_ends_with_schema_error(shell: Shell) -> None:
    named = SKELETON[1].read_text().replace('"provider": "fake"', '"provider": "nobody-knows-it"')
    code, out = shell.type("deliberate", "--config", shell.write("config.json", json.loads(named)), "--json")
    assert (code, json.loads(out)["termination_reason"]) == (11, "schema_error")


def test_what_kept_a_panel_from_sitting_is_told_wherever_the_run_is(shell: Shell) -> None:
    named = SKELETON[1].read_text().replace('"provider": "fake"', '"provider": "nobody-knows-it"')
    shell.type("deliberate", "--config", shell.write("config.json", json.loads(named)))
    assert (
        "\nwhy      Config agent logician: names the provider 'nobody-knows-it'"
        in shell.type("runs", "show", "last")[1]
    )
    assert "panel ended schema_error (Config agent logician: names" in shell.type("runs", "follow", "last")[1]


def test_why_an_adaptive_deliberation_does_not_go_on_is_told(shell: Shell) -> None:
    flags = case(shell.folder, *ROUND, verdict("request_external_research"))
    assert shell.type("deliberate", *flags, "--adaptive")[0] == 14
    assert "nothing goes on by itself: that session was answered by a script; give the answers of the next" in shell.err
    assert "as --script" in shell.err
    ended = case(shell.folder, *ROUND, verdict("finalize"), synthesis())
    assert shell.type("deliberate", *ended, "--adaptive")[0] == 0
    assert "nothing goes on" not in shell.err


def test_a_number_that_could_not_be_read_again_is_refused_before_there_is_a_session(shell: Shell) -> None:
    flags = case(shell.folder, *ROUND, verdict("finalize"), synthesis())
    made = json.loads((shell.folder / "config.json").read_text())
    tool = {"name": "look", "description": "looks", "input_schema": {"maximum": 1e20}}
    made["agents"][0]["tools"] = [tool]
    shell.write("config.json", made)
    code, _ = shell.type("deliberate", *flags)
    assert (code, "beyond 2^53-1" in shell.err) == (2, True), shell.err
    assert not (shell.folder / "runs").exists()


def test_a_script_that_is_missing_or_none_is_a_mistake_of_usage(shell: Shell) -> None:
    flags = case(shell.folder, turn())
    assert shell.type("deliberate", *flags[:2])[0] == 2
    assert "--script" in shell.err
    shell.write("script.json", {"entries": []})
    assert shell.type("deliberate", *flags)[0] == 2
    alone = ("--config", CONFIGS / "llm-selector.json", "--script", CONFIGS / "llm-selector.script.json")
    assert shell.type("deliberate", *alone)[0] == 2
    assert "--selector-script" in shell.err


def test_the_debate_is_told_line_by_line_where_it_is_wanted(shell: Shell) -> None:
    shell.type("deliberate", *SKELETON, "--progress", "plain")
    told = shell.err.splitlines()
    assert "round 1" in told
    assert any(line.startswith("  ↳ engineer") for line in told)
    assert any("continue (0.55)" in line for line in told)
    shell.type("deliberate", *SKELETON)
    assert shell.err == ""


def under_way(tmp_path: Path, *words: object) -> Any:
    """A session in which somebody is being asked, for a long time."""
    (tmp_path / "panellist.py").write_text(PANELLIST)
    process = started(
        tmp_path, "deliberate", "What?", "--panel", "critic", "--cmd", f"{sys.executable} {tmp_path}/panellist.py 30",
        "--progress", "plain", *words,
    )  # fmt: skip
    assert process.stderr is not None
    while not process.stderr.readline().startswith("panel"):
        assert process.poll() is None
    time.sleep(0.2)
    return process


@pytest.mark.requirement("R-8.5-1", "R-3-1")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_session_with_user_cancel(sent: signal.Signals, tmp_path: Path) -> None:
    process = under_way(tmp_path, "--json")
    process.send_signal(sent)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 13
    view = json.loads(out)
    assert (view["termination_reason"], view["rounds"]) == ("user_cancel", 1)
    assert read_manifest(Path(view["run_dir"])).status == "terminated"
    assert hansard(tmp_path, "session", "validate", view["run_dir"]).returncode == 0


def test_a_run_that_is_left_when_its_session_is_over_is_told_as_interrupted(
    tmp_path: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def left(*args: Any, **how: Any) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.2)

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("hansard.app.driving.holding.Hold._ended", left)
        ended, out, err = run("deliberate", *SKELETON)
    assert (ended, out) == (130, "")
    assert "interrupted; `hansard runs resume " in err
    ended, out, _ = run("runs", "resume", "last")
    assert (ended, out.split(".")[0]) == (0, "No")


@pytest.mark.requirement("R-8.5-1")
def test_another_process_can_cancel_a_session(tmp_path: Path) -> None:
    process = under_way(tmp_path, "--json")
    assert hansard(tmp_path, "runs", "cancel", "last").returncode == 0
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 13
    assert json.loads(out)["termination_reason"] == "user_cancel"


@pytest.mark.requirement("R-7.3-3", "R-7.3-1")
def test_a_session_that_was_killed_is_found_crashed_and_resumed(tmp_path: Path) -> None:
    process = under_way(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    [folder] = (tmp_path / "runs").iterdir()
    assert read_manifest(folder).status == "in_progress"
    assert len(read_journal(folder)) == 1
    for verb in ("replay", "metrics", "export"):
        refused = hansard(tmp_path, "session", verb, folder)
        assert refused.returncode == 2
        assert "session resume" in refused.stderr
    (tmp_path / "panellist.py").write_text(PANELLIST.replace("float(sys.argv[1])", "0"))
    done = hansard(tmp_path, "session", "resume", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Forty-two.")
    assert hansard(tmp_path, "session", "validate", folder).returncode == 0
    assert hansard(tmp_path, "session", "resume", folder).returncode == 2


@pytest.mark.parametrize("name", ["artifact.json", "transcript.jsonl", "pins.json", "seal.json"])
def test_a_disk_that_fails_says_nothing_of_a_session(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hansard(tmp_path, "deliberate", *SKELETON).returncode == 0
    [folder] = (tmp_path / "runs").iterdir()
    for variable, value in (("LD_PRELOAD", halving_disk(tmp_path)), ("TORN_NAME", name), ("TORN_READ", 0)):
        monkeypatch.setenv(variable, str(value))
    done = command_line.hansard(tmp_path, "session", "validate", folder)
    said = f"hansard: cannot read {folder / name}: Input/output error\n"
    assert (done.returncode, done.stdout, done.stderr) == (11, "", said)


def test_the_files_of_a_session_that_was_cut_short_are_held_against_the_record(tmp_path: Path) -> None:
    process = under_way(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    [folder] = (tmp_path / "runs").iterdir()
    looked_at = hansard(tmp_path, "session", "validate", folder)
    assert (looked_at.returncode, "the session is crashed" in looked_at.stderr) == (0, True)
    for name in ("transcript.jsonl", "config.json"):
        written = (folder / name).read_text()
        (folder / name).write_text(written.replace('"user"', '"somebody"'))
        assert (folder / name).read_text() != written
        found = hansard(tmp_path, "session", "validate", folder)
        assert (found.returncode, found.stdout.startswith(name)) == (1, True), found.stdout
        (folder / name).write_text(written)
    with (folder / "transcript.jsonl").open("rb+") as journal:
        # A line that a crash tore is one.
        journal.truncate(20)
    assert hansard(tmp_path, "session", "validate", folder).returncode == 0


def test_a_session_that_asks_for_something_ends_the_same_whoever_goes_on_with_it(tmp_path: Path) -> None:
    process = under_way(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    asking = PANELLIST.replace("float(sys.argv[1])", "0").replace('"finalize"', '"request_user_input"')
    asking = asking.replace('"next_agents": []', '"next_agents": [], "user_input_request": {"question": "which?"}')
    (tmp_path / "panellist.py").write_text(asking)
    done = hansard(tmp_path, "runs", "resume", "last")
    assert done.returncode == 14, done.stderr
    assert "deliberate --continue" in done.stderr
    assert "higher" not in done.stderr
    assert hansard(tmp_path, "runs", "follow", "last").returncode == 14


def in_the_way(folder: Path, name: str) -> str:
    """A program that is the whole panel, and puts a directory where a file of the session's directory must go."""
    lines = f"from pathlib import Path\nfor each in Path({str(folder / 'runs')!r}).iterdir():\n"
    (folder / "panellist.py").write_text(f"{lines}    (each / {name!r}).mkdir(exist_ok=True)\n{PANELLIST}")
    return f"{sys.executable} {folder}/panellist.py 0"


@pytest.mark.requirement("R-4.1-8")
def test_a_directory_that_could_not_be_written_is_told_and_can_be_completed(shell: Shell) -> None:
    asks = ("deliberate", "What?", "--panel", "critic", "--cmd", in_the_way(shell.folder, "metrics.json"))
    code, out = shell.type(*asks)
    [folder] = (shell.folder / "runs").iterdir()
    assert (code, out.startswith("Forty-two.")) == (0, True)
    assert "\nfault    the folder is not complete: " in out
    assert f"{folder} is not complete: " in shell.err
    assert shell.type("session", "validate", folder)[0] == 0
    assert f"the session is over, and its directory is not complete; `hansard session resume {folder}`" in shell.err
    assert f"`hansard session resume {folder}` completes it" in shell.err
    assert "metrics.json" in shell.asks(*asks)["fault"]
    assert "is not complete" in shell.err
    [on_record] = shell.asks("session", "chain", "last")["sessions"]
    assert "the directory is not complete; `hansard session resume" in on_record["fault"]
    (folder / "metrics.json").rmdir()
    completed = shell.asks("session", "resume", folder)
    assert (completed["fault"], shell.err) == (None, "")
    assert shell.type("session", "validate", folder)[0] == 0


def test_an_expert_who_was_not_made_is_told(shell: Shell) -> None:
    (shell.folder / "panellist.py").write_text(PANELLIST)
    asks = ("deliberate", "What?", "--panel", "critic", "--cmd", f"{sys.executable} {shell.folder}/panellist.py 0")
    view = shell.asks(*asks, "--expert", "a lawyer")
    assert (view["selected_agents"], view["refused_experts"]) == (["critic"], ["a lawyer"])
    assert "no expert was made for 'a lawyer', and the panel sat without one; `hansard runs follow" in shell.err
    told = shell.type("runs", "follow", view["run"])[1]
    assert 'not made    a persona; what was said: {"text": "I think so."}' in told


def test_a_continuation_refuses_what_the_session_before_has_settled_and_takes_the_rest(shell: Shell) -> None:
    asking = case(shell.folder, *ROUND, verdict("request_user_input"))
    assert shell.type("deliberate", *asking, "--output", "first")[0] == 14
    goes_on = ("deliberate", "--continue", "last", "--answer", "forty", "--script", "next.json")
    answers = [{"result": result(each)} for each in (*ROUND, verdict("finalize"), synthesis())]
    shell.write("next.json", {"schema_version": "1.0.0", "entries": answers})
    for flags in (
        ("--panel", "zork"),
        ("--max-rounds", 1, "--config", "config.json"),
        ("--ensemble",),
        ("--message-shape", "golden"),
        ("--producer", "me", "1"),
    ):
        assert shell.type(*goes_on, *flags)[0] == 2
        named = next(flag for flag in flags if str(flag).startswith("--") and flag != "--max-rounds")
        assert f"does not take {named}" in shell.err
    assert shell.type(*goes_on[:-2], "--model", "m")[0] == 2
    assert len(shell.asks("runs")) == 1
    held = Path(shell.asks(*goes_on, "--max-rounds", 1)["run_dir"])
    assert held.parent == shell.folder / "first"
    assert json.loads((held / "config.json").read_bytes())["budget"]["max_rounds"] == 1
    told = [line.split() for line in shell.type("session", "chain", "last")[1].splitlines()]
    assert [line[1:] for line in told if line[0] in ("asks", "told")] == [["which?"], ["forty"]]


def test_what_is_cut_of_a_session_is_said_before_it_and_before_the_one_that_goes_on_from_it(shell: Shell) -> None:
    asking = case(shell.folder, *ROUND, verdict("request_user_input"))
    answers = [{"result": result(each)} for each in (*ROUND, verdict("finalize"), synthesis())]
    shell.write("next.json", {"schema_version": "1.0.0", "entries": answers})
    goes_on = ("deliberate", "--continue", "last", "--answer", "forty", "--script", "next.json")
    for ended, most, words in ((14, 900, ("deliberate", *asking)), (0, 400, goes_on)):
        (shell.folder / "hansard.toml").write_text(f"[budget]\nmax_tokens = {most}\n")
        assert shell.type(*words)[0] == ended
        assert f"max_total_tokens is {most} and not" in shell.err


def test_follow_names_who_sits_on_the_panel(shell: Shell) -> None:
    assert shell.type("deliberate", "What?", "--panel", "critic", "--provider", "rehearsal")[0] == 0
    lines = [line.split()[2:] for line in shell.type("runs", "follow", "last")[1].splitlines()]
    assert ["convened", "a", "panel"] in lines
    assert ["seated", "critic"] in lines


def test_a_session_that_asks_says_how_to_go_on_in_that_ledger(shell: Shell) -> None:
    asking = case(shell.folder, *ROUND, verdict("request_user_input"))
    code, out = shell.type("deliberate", *asking, "--ledger", "own.db")
    run = shell.asks("runs", "--ledger", "own.db")[0]["run"]
    assert (code, f'`hansard deliberate --continue {run} --answer "…" --ledger own.db`' in out) == (14, True)


LEDGER = 'ledger = "state/ledger.db"\n'
ASKING = PANELLIST.replace('"finalize"', '"request_user_input", "user_input_request": {"question": "q"}')


def test_a_continuation_keeps_who_answers_and_stays_within_what_the_host_allows_now(shell: Shell) -> None:
    (shell.folder / "panellist.py").write_text(ASKING)
    program = f"{sys.executable} {shell.folder}/panellist.py 0"
    asks = ("deliberate", "What?", "--panel", "critic,engineer", "--cmd", program)
    assert shell.asks(*asks)["termination_reason"] == "user_input_required"
    run = shell.asks("runs")[0]["run"]
    (shell.folder / "panellist.py").write_text(PANELLIST)
    goes_on = ("deliberate", "--continue", run, "--answer", "forty")
    view = shell.asks(*goes_on, "--max-rounds", 1)
    assert (view["outcome"], view["cut"]) == ("synthesis", [])
    (shell.folder / "hansard.toml").write_text(f"{LEDGER}[budget]\nmax_tokens = 900\nmax_calls = 1\n")
    cut = shell.asks(*goes_on)
    assert [each.partition(" ")[0] for each in cut["cut"]] == ["max_total_tokens"]
    assert cut["termination_reason"] in ("provider_unrecoverable", "budget_exceeded")
    limits = shell.asks("runs", "show", cut["run"])["budget"]
    assert (limits["max_tokens"], limits["max_calls"]) == (900, 1)
    (shell.folder / "hansard.toml").write_text(f"{LEDGER}[budget]\nmax_tokens = 0\n")
    before = len(shell.asks("runs"))
    assert shell.type(*goes_on)[0] == 2
    assert len(shell.asks("runs")) == before


def test_every_file_of_a_session_that_cost_nothing_comes_back_and_so_does_the_whole_directory(shell: Shell) -> None:
    (shell.folder / "panellist.py").write_text(PANELLIST)
    asks = ("deliberate", "What?", "--panel", "critic", "--cmd", f"{sys.executable} {shell.folder}/panellist.py 0")
    folder = Path(shell.asks(*asks)["run_dir"])
    for lost in sorted(each for each in folder.iterdir() if each.name != ".lock"):
        lost.unlink()
        assert shell.type("session", "resume", folder)[0] == 0, (lost.name, shell.err)
        assert shell.type("session", "validate", folder, "--ledger", "state/ledger.db")[0] == 0, lost.name
    shutil.rmtree(folder)
    assert shell.type("session", "resume", folder.name)[0] == 0, shell.err
    assert shell.type("session", "validate", folder, "--ledger", "state/ledger.db")[0] == 0


def test_what_is_said_of_a_deliberation_that_is_over_is_true_of_it(shell: Shell) -> None:
    shell.type("deliberate", *SKELETON)
    for words in (("resume", "last"), ("retry", "last", "x")):
        assert shell.type("runs", *words)[0] == 2
        assert "runs retry" not in shell.err
        assert "runs resume" not in shell.err
        assert "`hansard deliberate --continue RUN`" in shell.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("session", "chain"), "is no deliberation; `hansard runs show"),
        (("deliberate", "--answer", "x", "--continue"), "is no deliberation; `hansard runs show"),
        (("session", "export"), "has no session that has ended; `hansard runs show"),
        (("session", "metrics"), "has no session that has ended; `hansard runs show"),
        (("session", "postmortem"), "has no session that has ended; `hansard runs show"),
        (("session", "questions"), "has no session; `hansard runs show"),
    ],
)
def test_what_only_a_deliberation_has_is_refused_in_words_for_another_run(words: Any, said: str, shell: Shell) -> None:
    shell.type("submit", "x", "--lane", "backend", "--provider", "rehearsal", "--judge", "checks", "--answer", "join")
    [run] = [each["run"] for each in shell.asks("runs", "list")]
    assert shell.type(*words, run)[0] == 2
    assert said in shell.err
    assert "a bug of ours" not in shell.err


@pytest.mark.parametrize(
    "words",
    [
        ("session", "chain"),
        ("session", "export"),
        ("session", "questions"),
        ("deliberate", "--answer", "x", "--continue"),
    ],
)
def test_advice_about_another_run_names_the_ledger_that_it_is_in(words: Any, shell: Shell) -> None:
    asked = ("--lane", "backend", "--provider", "rehearsal", "--judge", "checks", "--answer", "join")
    shell.type("submit", "x", *asked, "--ledger", "other.db")
    [run] = [each["run"] for each in shell.asks("runs", "list", "--ledger", "other.db")]
    assert shell.type(*words, run, "--ledger", "other.db")[0] == 2
    assert f"`hansard runs show {run} --ledger other.db`" in shell.err


def test_the_figures_and_the_debate_of_the_last_session_are_found_and_printed_as_json(shell: Shell) -> None:
    shell.type("deliberate", *SKELETON)
    folder = shell.folder / "runs" / "walking-skeleton"
    assert shell.asks("session", "metrics", "last") == json.loads((folder / "metrics.json").read_bytes())
    artifact = json.loads((folder / "artifact.json").read_bytes())
    assert shell.asks("session", "export", "last") == artifact
    assert shell.type("session", "export", "last", "--json", "-o", "debate.json") == (0, "")
    assert json.loads((shell.folder / "debate.json").read_bytes()) == artifact
    assert shell.type("session", "export", "last", "--json", "--html")[0] == 2


def test_no_session_is_put_into_the_directory_of_another(tmp_path: Path) -> None:
    assert hansard(tmp_path, "deliberate", *SKELETON).returncode == 0
    held = tmp_path / "runs" / "walking-skeleton"
    (tmp_path / "link").symlink_to(held)
    before = sorted(held.iterdir())
    for place in ("runs/walking-skeleton", "runs/walking-skeleton/deeper", "link"):
        done = hansard(tmp_path, "deliberate", *SKELETON, "--output", place)
        assert done.returncode == 2
        assert f"{held} is the directory of a session" in done.stderr
    again = ("session", "execution-replay", held, *SKELETON[2:], "--output", held)
    assert hansard(tmp_path, *again).returncode == 1
    assert sorted(held.iterdir()) == before
    assert hansard(tmp_path, "session", "validate", held).returncode == 0


@pytest.mark.parametrize("form", ["words", "json"])
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_whoever_interrupts_a_set_of_problems_has_what_was_tried_until_then(
    sent: signal.Signals, form: str, tmp_path: Path
) -> None:
    slow = PANELLIST.replace("float(sys.argv[1])", "30 if 'slowly' in asked else 0")
    (tmp_path / "panellist.py").write_text(slow)
    (tmp_path / "set.txt").write_text('at once\n{"problem": "slowly"}\nlater\n')
    asked = ("--panel", "critic", "--cmd", f"{sys.executable} {tmp_path}/panellist.py")
    assert hansard(tmp_path, "init").returncode == 0
    process = started(tmp_path, "session", "eval", "set.txt", *asked, *(["--json"] if form == "json" else []))
    assert process.stdout is not None
    if form == "words":
        assert process.stdout.readline().split()[:4] == ["1", "synthesis", "1", "round"]
    while [run["state"] for run in listed(tmp_path)] != ["running", "answered"]:
        assert process.poll() is None
    process.send_signal(sent)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    if form == "json":
        told = json.loads(out)
        assert [row["outcome"] for row in told["problems"]] == ["synthesis"]
        assert told["stopped_by"] == "a signal"
    else:
        assert "sessions                1\n" in out
    assert "1 of 3 problems were tried" in err
    assert [run["state"] for run in listed(tmp_path)] == ["interrupted", "answered"]


@pytest.mark.parametrize("form", ["words", "json"])
def test_a_set_of_problems_that_the_ledger_stops_is_told_as_far_as_it_came(form: str, tmp_path: Path) -> None:
    ledger = tmp_path / "l.jsonl"
    breaking = (
        f"import os\nif 'xylotomy' in asked and os.path.exists({str(ledger)!r}): os.rename({str(ledger)!r}, 'away')\n"
    )
    (tmp_path / "panellist.py").write_text(PANELLIST.replace("time.sleep(float(sys.argv[1]))\n", breaking))
    (tmp_path / "set.txt").write_text('at once\n{"problem": "xylotomy"}\nlater\n')
    asked = ("--panel", "critic", "--cmd", f"{sys.executable} {tmp_path}/panellist.py", "--ledger", ledger)
    done = hansard(tmp_path, "session", "eval", "set.txt", *asked, *(["--json"] if form == "json" else []))
    assert done.returncode == 11
    assert "was deleted, moved or replaced" in done.stderr
    if form == "json":
        told = json.loads(done.stdout)
        assert [row["outcome"] for row in told["problems"]] == ["synthesis"]
        assert told["summary"]["sessions"] == 1
        assert "was deleted, moved or replaced" in told["stopped_by"]
    else:
        assert "sessions                1\n" in done.stdout


def listed(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(hansard(folder, "runs", "list", "--json").stdout)
    return found


def test_models_without_a_price_are_named_wherever_the_money_of_a_session_is_told(tmp_path: Path) -> None:
    (tmp_path / "panel.py").write_text(PANELLIST)
    table = f'kind = "command"\nargv = ["{sys.executable}", "panel.py", "0"]\nmodel = "house-blend"\n'
    for name, unknown in (("free", False), ("billed", True)):
        said = f"[tiers]\ncheap = 'panel:board'\n[panels.board]\nprovider = '{name}'\n"
        tables = f"[providers.billed]\n{table}unmetered = false\n[providers.free]\n{table}{said}"
        (tmp_path / "hansard.toml").write_text(tables)
        told = "tokens, $0 (no price is known of house-blend)" if unknown else "tokens, $0\n"
        done = hansard(tmp_path, "deliberate", "What?", "--provider", name, "--ensemble")
        assert (done.returncode, told in done.stdout) == (0, True), done
        assert told.strip() in hansard(tmp_path, "runs", "show", "last").stdout
        assert ("tokens  no price is known  " in hansard(tmp_path, "runs", "list").stdout) == unknown
        assert listed(tmp_path)[0]["spent"]["priced"] is not unknown
        assert json.loads(hansard(tmp_path, "runs", "show", "last", "--json").stdout)["unpriced"] == (
            ["house-blend"] if unknown else []
        )
        shown = hansard(tmp_path, "ledger", "show", "--limit", "0", "--json").stdout
        data = [each for each in map(json.loads, shown.splitlines()) if "cost_usd_nano" in each["data"]]
        known = {each["kind"]: each["data"]["cost_basis"] for each in data if each["data"].get("prompt_tokens")}
        assert known == dict.fromkeys(("ensemble.answered", "turn.taken"), "unknown" if unknown else "unmetered")
        for way in ((), ("--html",)):
            page = hansard(tmp_path, "session", "export", "last", *way).stdout
            assert "0 is also what nobody knows the price of" in page
        lane = ("--lane", "backend", "--judge", "checks")
        done = hansard(tmp_path, "submit", "x", *lane, "--quiet")
        assert done.returncode == 0, done
        view = json.loads(hansard(tmp_path, "runs", "show", "last", "--json").stdout)
        assert view["unpriced"] == (["house-blend"] if unknown else [])
        basis = view["tasks"][0]["attempts"][0]["returned"]["cost_basis"]
        assert basis == ("unknown" if unknown else "unmetered")
        [ledger] = tmp_path.rglob("*.db")
        with open_ledger(Settings(ledger=str(ledger), state=tmp_path)) as opened:
            [met] = opened.store.select(Query(run=view["run"], kind="session.convened"))
            nested = nested_view(opened.store, view["run"], met.data["session"])
        assert nested["unpriced"] == (["house-blend"] if unknown else [])
    summary = json.loads(hansard(tmp_path, "ledger", "summary", "--json").stdout)
    assert (summary["cost_usd_nano"], summary["unpriced"]) == (0, ["house-blend"])
