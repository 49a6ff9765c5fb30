import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import command_line
from command_line import UNJUDGED, started, workplace
from hansard.app import service
from hansard.app.driving.runs import Runs
from hansard.app.opened import Opened
from hansard.app.settings import Settings
from hansard.app.wiring import open_or_found
from hansard.domain.work import RunRequested
from hansard.record.recorder import Recorder, Step
from hansard.surfaces.cli.main import main
from hansard.surfaces.cli.streams import MAX_INPUT_BYTES
from ledgers import full_disk
from shell import hansard

Said = tuple[int, str, str]
Run = Callable[..., Said]
REHEARSAL = ("--provider", "rehearsal")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return workplace(tmp_path)


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    monkeypatch.setenv("HANSARD_STATE", str(place / "state"))
    monkeypatch.setenv("HANSARD_LEDGER", str(place / "ledger.db"))
    monkeypatch.chdir(place)

    def call(*words: str) -> Said:
        capfdbinary.readouterr()
        code = main(words)
        sys.stdout.flush()
        said = capfdbinary.readouterr()
        return code, said.out.decode(), said.err.decode()

    return call


def echo(seconds: float = 0) -> str:
    return f"{sys.executable} {Path.cwd() / 'echo.py'} {seconds}"


def test_the_answer_goes_to_standard_output_and_a_pipe_hears_nothing_else(run: Run) -> None:
    code, out, err = run("submit", "compare three queues", *REHEARSAL)
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert out.startswith("[rehearsal]")


@pytest.mark.parametrize(
    "settings",
    [
        '[policy]\nallow_lanes = ["technical-writing"]',
        '[policy]\ndeny_categories = ["engineering"]',
        "[run]\nmax_tasks = 1",
        "[run]\nmax_output_tokens = 100",
    ],
)
@pytest.mark.parametrize("how", [(), ("--single",)])
def test_the_rehearsal_keeps_to_what_the_settings_allow(run: Run, settings: str, how: tuple[str, ...]) -> None:
    Path("hansard.toml").write_text(settings)
    code, out, err = run("submit", "hello there", *how, *REHEARSAL)
    assert (code, err) == (0, "")
    assert out.startswith("[rehearsal]")


def test_the_rehearsal_has_a_word_of_the_intent_judge_too(run: Run) -> None:
    assert run("submit", "a joke about llamas in Norway", "--judge-intent", *REHEARSAL)[0] == 0
    assert "checked  intent judge: passed" in run("runs", "show", "last")[1]


def test_json_is_the_view_of_the_run_and_nothing_else(run: Run) -> None:
    code, out, err = run("submit", "compare three queues", *REHEARSAL, "--json", "--progress", "plain")
    view = json.loads(out)
    assert (code, view["state"], view["mode"], len(view["tasks"])) == (0, "answered", "request", 2)
    assert "passed" in err
    assert json.loads(run("runs", "show", view["run"], "--json")[1]) == view


def test_a_request_comes_from_a_word_a_file_or_standard_input(place: Path) -> None:
    (place / "wish.md").write_text("from a file ä\n")
    words = ("--provider", "rehearsal", "--ledger", "l.db", "--json", "--lane", "backend")
    assert json.loads(hansard(place, "submit", "@wish.md", *words).stdout)["request"] == "from a file ä\n"
    piped = command_line.hansard(place, "submit", "-", *words, stdin="from a pipe")
    assert json.loads(piped.stdout)["request"] == "from a pipe"
    (place / "marked.md").write_text("as some editors write", "utf-8-sig")
    for word, said in (("@marked.md", ""), ("-", "\ufeffas some editors write")):
        marked = command_line.hansard(place, "submit", word, *words, stdin=said)
        assert json.loads(marked.stdout)["request"] == "as some editors write"


def test_a_file_beyond_the_limit_is_refused_before_there_is_a_ledger(place: Path) -> None:
    (place / "long.md").touch()
    os.truncate(place / "long.md", MAX_INPUT_BYTES + 1)
    refused = hansard(place, "submit", "@long.md", "--provider", "rehearsal", "--ledger", "new.db")
    assert refused.returncode == 2
    assert f"long.md has more than {MAX_INPUT_BYTES:,} bytes; split it" in refused.stderr
    assert not (place / "new.db").exists()


def test_whoever_has_a_file_is_told_to_name_a_provider_there_and_not_to_make_one(place: Path) -> None:
    assert "hansard init " in hansard(place, "submit", "x", "--ledger", "l.db").stderr
    (place / "hansard.toml").write_text("")
    said = hansard(place, "submit", "x", "--ledger", "l.db").stderr
    assert "nobody can be asked yet" in said
    assert f"[providers.NAME]           in {place / 'hansard.toml'} names one for good" in said
    assert "hansard init" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x",), "nobody can be asked yet"),
        (("plan.json", *REHEARSAL), "plan.json is a file; write @plan.json to hand in what it says"),
        (("", *REHEARSAL), "empty"),
        (("@nothing.md", *REHEARSAL), "cannot read nothing.md"),
        (("x", "--plan", "nothing.json", *REHEARSAL), "cannot read nothing.json: "),
        (("x", "--lane", "banana", *REHEARSAL), "--lane: there is no lane 'banana'"),
        (("x", "--single", "--plan", "plan.json", *REHEARSAL), "contradicts --lane and --single"),
        (("x", "--cmd", "true", "--api", "gpt-4.1"), "keep one"),
        (("x", "--chat-url", "http://127.0.0.1:1/v1"), "--model"),
        (("x", "--provider", "banana"), "banana"),
        (("x", "--max-usd", "much", *REHEARSAL), "dollars"),
        (("x", "--roster", "nothing.toml", *REHEARSAL), "nothing.toml"),
        (("x", "--profile", "banana", *REHEARSAL), "brief, normal"),
        (("x", "--context-run", "banana", *REHEARSAL), "banana"),
        (("x", "--context-run", "last", *REHEARSAL), "there is no run 'last': there are no runs yet"),
        (("x", "--profile", "", *REHEARSAL), "--profile is empty"),
        (("x", "--plan", "null.json", *REHEARSAL), "null.json holds no plan"),
        (("x", "--plan", "", *REHEARSAL), "--plan is empty; leave it out"),
        (("x", "--plan", "broken.toml", *REHEARSAL), "cannot read the plan broken.toml: "),
        (
            ("x", "--plan", "twice.json", *REHEARSAL),
            "the plan twice.json is no JSON: 'tasks' stands twice in one object",
        ),
        (
            ("x", "--gate", "lane:banana", *REHEARSAL),
            "--gate 'lane:banana': there is no lane 'banana'; roster 'default' has backend",
        ),
        (
            ("x", "--gate", "task:banana", "--plan", "plan.json", *REHEARSAL),
            "no task 'banana'; its tasks are first, second",
        ),
        (("x", "--max-usd", "1e400", *REHEARSAL), "--max-usd: '1e400' is no amount of dollars from 0 to 9,007,199"),
        (("x", "--max-usd", "1e999999", *REHEARSAL), "dollars"),
        (("x", "--max-usd", "nan", *REHEARSAL), "dollars"),
        (("x", "--verifier", " ", *REHEARSAL), "--verifier needs a program"),
        (("x", "--cmd", " "), "--cmd needs a program"),
    ],
)
def test_a_wrong_wish_is_told_in_a_sentence_and_records_no_run(run: Run, words: tuple[str, ...], said: str) -> None:
    Path("null.json").write_text("null")
    Path("broken.toml").write_text("[[tasks]]\nid = ")
    Path("twice.json").write_text('{"tasks": [], "tasks": []}')
    code, out, err = run("submit", *words)
    assert (code, out) == (2, "")
    assert err.startswith("hansard: ")
    assert said in err
    assert not Path("ledger.db").exists()
    assert not Path("state").exists()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("submit", "x", "--cmd", "nosuchprogram"), "there is no program 'nosuchprogram'"),
        (("submit", "x", "--chat-url", "nowhere", "--model", "m"), "base_url must begin with http"),
        (("submit", "x", "--lane", "nosuch", *REHEARSAL), "there is no lane 'nosuch'"),
        (("submit", "x", "--plan", "wrong.json", *REHEARSAL), "the plan, tasks 1: id must be a text"),
        (("submit", "x", *REHEARSAL, "--context-run", "y"), "there is no run 'y': there are no runs yet"),
        (("plan", "x", "--cmd", "nosuchprogram"), "there is no program 'nosuchprogram'"),
        (("deliberate", "x", "--cmd", "nosuchprogram"), "there is no program 'nosuchprogram'"),
        (("deliberate", "x", "--provider", "nosuch"), "there is no provider 'nosuch'; known are rehearsal"),
        (("deliberate", "--config", "wrong.json", *REHEARSAL), "Config: must have schema_version"),
        (("deliberate", "x", *REHEARSAL, "--ledger", "here.txt"), "cannot tell what here.txt is"),
        (("serve", "--port", "0", "--provider", "nosuch"), "there is no provider 'nosuch'"),
        (("serve", "--port", "0", "--cmd", "nosuchprogram"), "there is no program 'nosuchprogram'"),
        (("serve", "--port", "0", "--max-usd", "much"), "--max-usd: 'much' is no amount of dollars"),
        (("mcp", "--cmd", "nosuchprogram"), "there is no program 'nosuchprogram'"),
        (("mcp", "--max-usd", "much"), "--max-usd: 'much' is no amount of dollars"),
        (("init", "--origin", "two words"), "cannot name a log"),
        (("init", "--ledger", "here.txt"), "cannot tell what here.txt is"),
    ],
)
def test_a_mistyped_first_command_leaves_the_folder_as_it_was(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "wrong.json").write_text('{"tasks": [{"id": 1}]}')
    done = hansard(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["wrong.json"]


def test_no_task_at_once_is_wrong_usage_and_records_no_run(place: Path) -> None:
    refused = hansard(place, "submit", "x", *REHEARSAL, "--max-parallel", "0", "--ledger", "l.db")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "'0' is not a whole number from 1 to 999,999,999,999,999" in refused.stderr
    for flag, word, said in (
        ("calls", "1e3", "whole number from 0"),
        ("tokens", "9" * 16, "to 999,999,999,999,999"),
        ("seconds", "1e9", "less than 1,000,000,000"),
    ):
        assert said in hansard(place, "submit", "x", *REHEARSAL, f"--max-{flag}", word).stderr
    assert not (place / "l.db").exists()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('[policy]\ndeny_lanes = ["banana"]', "[policy]: there is no lane 'banana'; roster 'default' has backend,"),
        ('[policy]\nallow_lanes = ["banana"]', "there is no lane 'banana'"),
        ('[policy]\ndeny_categories = ["banana"]', "no category 'banana'; roster 'default' has engineering,"),
        ('[policy]\nallow_categories = ["banana"]', "there is no category 'banana'"),
        ('[policy]\nallow_lanes = ["backend"]\ndeny_lanes = ["backend"]', "it leaves no lane of roster 'default'"),
        ('[[gate]]\nlanes = ["banana"]', "gate 'gate-1': there is no lane 'banana'"),
        ("[run]\nzzz = 1", "retries, revise, timeout_s, tries"),
        ('[budget]\nmax_usd = "1e400"', "[budget] max_usd: '1e400' is no amount of dollars"),
        ("[budgets]\nmax_calls = 1", "unknown key budgets; did you mean budget?"),
    ],
)
def test_a_rule_that_would_be_passed_over_is_refused_and_records_no_run(run: Run, table: str, said: str) -> None:
    Path("hansard.toml").write_text(table)
    code, out, err = run("submit", "x", *REHEARSAL)
    assert (code, out) == (2, "")
    assert said in err
    assert not Path("ledger.db").exists()


def test_a_plan_of_ones_own_runs_as_it_is(run: Run) -> None:
    code, out, _ = run("submit", "x", "--plan", "plan.json", "--cmd", echo(), *UNJUDGED, "--json")
    view = json.loads(out)
    assert (code, view["plan"]["by"], view["mode"]) == (0, "user", "plan")
    assert [task["task"] for task in view["tasks"]] == ["first", "second", "third"]
    assert view["answer"] == "a fine result\n"


def test_single_and_lane_make_one_task(run: Run) -> None:
    _, out, _ = run("submit", "build a REST API with a database", "--single", *REHEARSAL, "--json")
    assert [task["task"] for task in json.loads(out)["tasks"]] == ["task"]
    _, out, _ = run("submit", "anything", "--lane", "teaching", *REHEARSAL, "--json")
    assert json.loads(out)["tasks"][0]["lane"] == "teaching"


def test_plan_prints_what_submit_accepts(run: Run, place: Path) -> None:
    code, out, _ = run("plan", "compare three queues", *REHEARSAL)
    assert (code, [task["id"] for task in json.loads(out)["tasks"]]) == (0, ["look", "build"])
    assert run("plan", "compare three queues", *REHEARSAL, "-o", "made.json")[:2] == (0, "")
    assert run("plan", "compare three queues", *REHEARSAL, "-o", "told.json", "--json")[:2] == (0, out)
    assert run("submit", "compare", "--plan", "made.json", *REHEARSAL)[0] == 0
    code, _, err = run("plan", "compare three queues", *REHEARSAL, "-o", "made.json")
    assert (code, "there already" in err) == (2, True)


def test_flags_go_before_what_hansard_toml_says(run: Run, place: Path) -> None:
    lines = ["[run]", 'judge = "model"', 'answer = "synthesize"', 'profile = "brief"', 'ladder = ["rehearsal"]']
    Path("hansard.toml").write_text("\n".join(["[providers.rehearsal]", 'kind = "scripted"', "entries = [{}]", *lines]))
    flags = ("--judge", "checks", "--answer", "join", "--profile", "report")
    code, out, err = run("submit", "x", "--lane", "backend", "--cmd", f"{sys.executable} {place / 'echo.py'}", *flags)
    assert (code, out) == (0, "a fine result\n"), err


def test_what_plan_tells_people_to_type_is_quoted(run: Run) -> None:
    _, _, err = run("plan", "compare", *REHEARSAL, "-o", "my plan.json")
    assert "`hansard submit REQUEST --plan 'my plan.json'" in err


def test_a_plan_that_could_not_be_written_is_refused_before_anybody_is_asked(run: Run) -> None:
    Path("made.json").write_text("mine")
    dash = ("-", "- names no file; write --output FILE, or leave it out")
    for place, said in (("made.json", "there already"), ("nowhere/made.json", "is no folder"), ("", "is empty"), dash):
        code, _, err = run("plan", "compare three queues", *REHEARSAL, "-o", place)
        assert (code, said in err) == (2, True)
    assert not Path("ledger.db").exists()
    assert Path("made.json").read_text() == "mine"


def test_a_provider_that_nobody_asks_need_not_be_there(run: Run, place: Path) -> None:
    lines = ["[providers.cloud]", 'kind = "command"', 'argv = ["no-such-agent"]', "[tiers]", 'cheap = "cloud"']
    Path("hansard.toml").write_text("\n".join([*lines, "[roles]", 'intent_judge = "cloud"', ""]))
    assert run("submit", "x", *REHEARSAL)[0] == 0
    code, _, err = run("submit", "x")
    assert (code, "there is no program 'no-such-agent'" in err) == (2, True)


def test_exit_codes_tell_how_a_run_ended(run: Run, place: Path) -> None:
    plan = json.loads((place / "plan.json").read_text())
    plan["tasks"] = [
        plan["tasks"][0],
        {"id": "odd", "lane": "backend", "instruction": "x", "checks": [{"regex": "unicorn"}]},
    ]
    (place / "partly.json").write_text(json.dumps(plan))
    plan["tasks"] = plan["tasks"][1:]
    (place / "never.json").write_text(json.dumps(plan))
    words = ("--cmd", echo(), *UNJUDGED)
    code, out, err = run("submit", "x", "--plan", "partly.json", *words)
    assert (code, out) == (10, "a fine result\n")
    assert "without odd" in err
    assert "runs retry" in err
    code, out, err = run("submit", "x", "--plan", "never.json", *words)
    assert (code, out) == (11, "")
    assert "did not pass" in err
    assert ("odd: " in err, "unicorn" in err) == (True, True)
    code, out, err = run("submit", "x", "--plan", "plan.json", *words, "--max-calls", "1")
    assert (code, out, "calls: 1 of 1" in err) == (12, "", True)
    # The same limit would stop a retry at once.
    assert ("runs retry" in err, "with higher ones" in err) == (False, True)
    code, _, err = run("submit", "x", "--plan", "plan.json", "--cmd", echo(30), *UNJUDGED, "--max-seconds", "0.5")
    assert (code, "deadline" in err) == (12, True)


@pytest.mark.parametrize(
    ("words", "way"),
    [
        ((), "--single"),
        (("--single",), "--lane NAME"),
        (("--lane", "backend"), "--judge checks"),
    ],
)
def test_whoever_asks_a_program_that_only_works_is_told_what_does_without_the_rest(
    run: Run, words: tuple[str, ...], way: str
) -> None:
    only_works = f"{sys.executable} -c \"import sys; sys.stdin.read(); print('done')\""
    code, out, err = run("submit", "what is to be done with it?", "--cmd", only_works, *words)
    assert (code, out) == (11, "")
    assert f"submit it with `{way}`" in err


def test_a_run_shows_what_a_role_gave_instead_of_a_usable_answer(run: Run, place: Path) -> None:
    (place / "fails.py").write_text("import sys; print('warming up', file=sys.stderr); sys.exit('out of order')")
    for word, error, said in (
        ("fails.py", "internal", "out of order"),
        ("echo.py", "malformed response", "a fine result"),
    ):
        code, _, err = run("submit", "x", "--cmd", f"{sys.executable} {place / word}")
        assert (code, "`--single`" in err) == (11, word == "echo.py")
        _, shown, _ = run("runs", "show", "last")
        seq = json.loads(run("runs", "show", "last", "--json")[1])["unusable"]["seq"]
        assert f"why      the coordinator gave no usable answer: {error} (entry {seq}): {said}\n" in shown
        assert said in run("runs", "page", "last")[1]


def test_a_model_without_a_price_is_named_beside_what_was_spent(run: Run, place: Path) -> None:
    table = f'kind = "command"\nargv = ["{sys.executable}", "echo.py"]\nmodel = "house-blend"\n'
    (place / "hansard.toml").write_text(f"[providers.billed]\n{table}unmetered = false\n[providers.free]\n{table}")
    for provider, said in (("billed", "$0 (no price is known of house-blend)"), ("free", "$0")):
        words = ("--provider", provider, "--lane", "backend", "--judge", "checks", "--progress", "plain")
        code, _, err = run("submit", "x", *words)
        assert (code, f"tokens, {said}, " in err) == (0, True), err
        assert f"tokens, {said}, " in run("runs", "show", "last")[1]
        assert ("no price is known of house-blend" in run("runs", "page", "last")[1]) == (provider == "billed")
    assert json.loads(run("runs", "show", "last", "--json")[1])["unpriced"] == []
    free, billed = run("runs", "list")[1].splitlines()
    assert re.search(r" tokens  \$0 +x$", free)
    assert billed.endswith(" tokens  no price is known  x")
    views = json.loads(run("runs", "list", "--json")[1])
    assert [view["spent"]["priced"] for view in views] == [True, False]
    compared = run("runs", "compare", views[1]["run"], views[0]["run"])[1]
    assert re.search(r"^calls_without_price +1 +0 +-1$", compared, re.MULTILINE)


def test_flags_say_who_looks_at_the_answer_and_what_is_told_along(run: Run, place: Path) -> None:
    code, out, _ = run("submit", "first", *REHEARSAL, "--json")
    first = json.loads(out)["run"]
    (place / "look.py").write_text('print(\'{"ok": false, "reasons": "too short"}\')')
    looks = ("--verifier", f"{sys.executable} {place / 'look.py'}", "--judge-intent", "--revise", "--profile", "brief")
    code, out, _ = run("submit", "second", *REHEARSAL, *looks, "--context-run", first, "--json")
    assert code == 0
    second = json.loads(out)["run"]
    shown = run("ledger", "show", "--run", second, "--json", "--limit", "100")[1]
    kinds = [json.loads(line)["kind"] for line in shown.splitlines()]
    assert {"context.given", "answer.checked"} <= set(kinds)


def test_what_was_found_of_an_answer_is_shown_with_it(run: Run, place: Path) -> None:
    said = json.dumps({"outcome": "refused", "detail": "no source is named\x1b[31m\nnone"})
    (place / "refuses.py").write_text(f"print({said!r})")
    code, out, _ = run("submit", "x", *REHEARSAL, "--verifier", f"{sys.executable} {place / 'refuses.py'}", "--json")
    checks = json.loads(out)["checks"]
    assert (code, [each["check"] for each in checks]) == (0, ["intent", "delivery", "verifier"])
    assert (checks[2]["outcome"], checks[2]["detail"]) == ("refused", "no source is named\x1b[31m\nnone")
    intent, delivery, verifier = run("runs", "show", "last")[1].splitlines()[-3:]
    nothing = "the request names nothing that could be looked for"
    assert intent == f"checked  intent: abstained (entry {checks[0]['seq']}): {nothing}"
    assert delivery == f"checked  delivery: passed (entry {checks[1]['seq']})"
    assert verifier == f"checked  verifier: refused (entry {checks[2]['seq']}): no source is named\\x1b[31m"
    assert "no source is named" in run("runs", "page", "last")[1]


def test_a_context_source_that_failed_is_told_with_the_run_and_why(run: Run, place: Path) -> None:
    (place / "hansard.toml").write_text(
        '[[context]]\nname = "wiki"\ncommand = ["no-such-program"]\nwhen = "both"\n'
        '[[context]]\nname = "said"\ncommand = ["echo", "words"]'
    )
    code, _, err = run("submit", "compare three queues", *REHEARSAL, "--progress", "plain")
    assert (code, "no context  wiki (NotStarted: no-such-program" in err) == (0, True)
    assert "no context  wiki build (NotStarted" in err
    assert "said" not in err
    told = [line for line in run("runs", "show", "last")[1].splitlines() if line.startswith("context ")]
    view = json.loads(run("runs", "show", "last", "--json")[1])
    assert [(each["source"], each["task"], each["failed"]) for each in view["contexts"]] == [
        ("wiki", None, True), ("said", None, False), ("wiki", "look", True), ("wiki", "build", True)
    ]  # fmt: skip
    failed = [each for each in view["contexts"] if each["failed"]]
    for line, each, whom in zip(told, failed, ("", " for look", " for build"), strict=True):
        assert line.startswith(f"context  wiki failed{whom} (entry {each['seq']}): NotStarted: no-such-program")
    assert view["contexts"][1]["why"] is None
    assert "wiki failed for look (entry" in run("runs", "page", "last")[1]


def test_a_run_that_waits_at_a_gate_says_where_to_decide(run: Run) -> None:
    code, out, err = run("submit", "x", "--plan", "plan.json", "--cmd", echo(), *UNJUDGED, "--gate", "plan")
    assert (code, out) == (14, "")
    assert "`hansard gates list`" in err


def test_quiet_says_nothing_but_the_answer(run: Run) -> None:
    assert run("submit", "x", *REHEARSAL, "-q", "--progress", "plain")[2] == ""
    assert run("plan", "x", *REHEARSAL, "-q", "-o", "quiet.json") == (0, "", "")


def first_attempt(place: Path) -> None:
    """Return when the program has been started."""
    for _ in range(600):
        shown = (
            hansard(place, "ledger", "show", "--ledger", "l.db", "--kind", "task.attempted")
            if (place / "l.db").exists()
            else None
        )
        if shown and shown.stdout:
            return
        time.sleep(0.05)
    raise AssertionError("no attempt was recorded")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_the_run_and_resume_goes_on(place: Path, number: signal.Signals) -> None:
    slow = f"{sys.executable} {place / 'echo.py'}"
    process = started(place, "submit", "x", "--plan", "plan.json", "--cmd", f"{slow} 60", *UNJUDGED, "--ledger", "l.db")
    first_attempt(place)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "`hansard runs resume " in err
    shown = hansard(place, "runs", "show", "last", "--ledger", "l.db").stdout
    assert ("first  backend: cut short\n" in shown, "no answer came\n" in shown) == (True, True)
    assert "--ledger l.db" in err
    view = json.loads(hansard(place, "runs", "show", "last", "--ledger", "l.db", "--json").stdout)
    assert view["state"] == "interrupted"
    (place / "echo.py").write_text("print('after all')")
    resumed = hansard(place, "runs", "resume", "last", "--ledger", "l.db", "--progress", "plain")
    assert "(it was cut short)" in resumed.stderr
    assert (resumed.returncode, resumed.stdout) == (0, "after all\n")
    assert hansard(place, "verify", "l.db", "--deep").returncode == 0


@pytest.mark.parametrize("words", [("submit", "x"), ("deliberate", "x")])
def test_whom_a_full_disk_stops_is_told_how_the_run_goes_on(
    run: Run, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("submit", "first", *REHEARSAL)[0] == 0
    answered = " OR ".join(
        f"instr(NEW.line, CAST('{said}' AS BLOB))" for said in ("task.returned", "coordination_turn")
    )
    with monkeypatch.context() as patched, ExitStack() as filled:

        def opened(settings: Settings) -> Opened:
            # It is full from then on: what makes it so would not be opened.
            found = open_or_found(settings)
            filled.enter_context(full_disk("ledger.db", when=answered))
            return found

        patched.setattr(service, "open_or_found", opened)
        code, out, err = run(*words, *REHEARSAL)
    assert (code, out) == (11, "")
    assert "disk is full" in err
    [told] = re.findall(r"once the ledger takes entries again, `hansard (.*)` goes on from where it stopped", err)
    assert run(*told.split())[0] == 0


def test_a_signal_before_anybody_has_taken_the_run_interrupts_it_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        async def interrupted(runs: Runs, name: str) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)

        patched.setattr(Runs, "drive", interrupted)
        code, out, err = run("submit", "compare three queues", *REHEARSAL)
    assert (code, out) == (130, "")
    assert "interrupted; `hansard runs resume " in err
    assert run("runs", "resume", "last")[0] == 0


def interrupted_while_recording(monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """A signal comes as soon as a request is on the record, and before whoever recorded it hears of that."""
    record_all = Recorder.record_all

    async def slowly(recorder: Recorder, steps: list[Step], **more: Any) -> Any:
        recorded = await record_all(recorder, steps, **more)
        if isinstance(steps[0].fact, RunRequested):
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.05)
        return recorded

    monkeypatch.setattr(Recorder, "record_all", slowly)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("words", "ends"), [(("submit", "x"), 130), (("plan", "x"), 130), (("deliberate", "x", "--output", "made"), 13)]
)
def test_a_signal_while_a_run_is_handed_in_leaves_none_that_nobody_was_told_of(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], ends: int, number: signal.Signals
) -> None:
    assert run("submit", "first", *REHEARSAL)[0] == 0
    interrupted_while_recording(monkeypatch, number)
    code, _, err = run(*words, *REHEARSAL)
    view = json.loads(run("runs", "show", "last", "--json")[1])
    assert (code, view["spent"]["calls"]) == (ends, 0)
    assert (f"`hansard runs resume {view['run'][:13]}" in err) or view["state"] == "cancelled"


def test_a_signal_while_a_run_is_handed_to_a_worker_leaves_none_that_nobody_was_told_of(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("submit", "first", *REHEARSAL)[0] == 0
    interrupted_while_recording(monkeypatch, signal.SIGINT)
    monkeypatch.setattr("hansard.surfaces.cli.submit.is_alive", lambda _: True)
    code, out, _ = run("submit", "x", *REHEARSAL, "--detach")
    view = json.loads(run("runs", "show", "last", "--json")[1])
    assert (code, out, view["state"]) == (0, f"{view['run']}\n", "requested")


def test_kill_9_is_no_end(place: Path) -> None:
    slow = f"{sys.executable} {place / 'echo.py'}"
    process = started(place, "submit", "x", "--plan", "plan.json", "--cmd", f"{slow} 60", *UNJUDGED, "--ledger", "l.db")
    first_attempt(place)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    (place / "echo.py").write_text("print('after all')")
    resumed = hansard(place, "runs", "resume", "last", "--ledger", "l.db", "--json")
    view: Any = json.loads(resumed.stdout)
    assert (resumed.returncode, view["state"]) == (0, "answered")
    assert [attempt["attempt"] for attempt in view["tasks"][0]["attempts"]] == [1, 2]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("login", "actor"),
    [
        ("jane", "human:jane"),
        ("jane@corp.example", "human:jane"),
        ("CORP\\jane", "human:CORP-jane"),
        ("jane doe", "human:jane-doe"),
        ("jörg", "human:j-rg"),
        ("ü", f"human:uid-{os.getuid()}"),
        ("j" * 300, f"human:{'j' * 100}"),
    ],
)
def test_whoever_has_an_odd_login_name_can_submit(
    run: Run, monkeypatch: pytest.MonkeyPatch, login: str, actor: str
) -> None:
    monkeypatch.setenv("LOGNAME", login)
    assert run("submit", "x", "--single", *REHEARSAL)[0] == 0
    [asked] = run("ledger", "show", "--kind", "run.requested", "--json")[1].splitlines()
    assert json.loads(asked)["actor"] == actor


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cmd", "no-such-program"), "hansard: --cmd: there is no program 'no-such-program'"),
        (("--chat-url", "zzz", "--model", "m"), "hansard: --chat-url: "),
        (("--api", "some-model"), "hansard: --api: "),
        (("--provider", "zzz"), "known are rehearsal"),
        (("--verifier", "no-such-program", *REHEARSAL), "hansard: --verifier: there is no program"),
        (("--verifier", "./no-such-program", *REHEARSAL), "hansard: --verifier: there is no program"),
    ],
)
def test_a_wrong_flag_is_blamed_and_not_a_file(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    code, _, err = run("submit", "x", *words)
    assert (code, "hansard.toml" in err) == (2, False)
    assert said in err


@pytest.mark.parametrize("flags", [("--cmd",), (*REHEARSAL, "--verifier")], ids=lambda flags: flags[-1])
def test_what_lies_there_and_cannot_be_run_is_told_as_such(run: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "an answer").write_text("echo Paris.\n")
    code, _, err = run("submit", "x", *flags, f"'{tmp_path}/an answer'")
    assert (code, f"may not be executed; run: chmod +x '{tmp_path}/an answer'" in err) == (2, True)
    code, _, err = run("submit", "x", *flags, str(tmp_path))
    assert (code, f"{str(tmp_path)!r} is a folder, and no program" in err) == (2, True)


def test_a_verifier_of_one_word_is_a_program_unless_a_package_brings_it(run: Run) -> None:
    assert run("submit", "x", "--single", "--verifier", "true", *REHEARSAL)[0] == 0
    config = run("ledger", "get", "2", "--part", "config")[1]
    assert json.loads(config)["verifier"] == {"command": ["true"]}


def test_a_verifier_is_looked_for_where_it_is_typed_and_not_where_hansard_toml_lies(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "hansard.toml").write_text("")
    (place / "below").mkdir()
    look = place / "below" / "look"
    look.write_text('#!/bin/sh\ncat > /dev/null\necho \'{"outcome": "refused", "detail": "too short"}\'\n')
    look.chmod(0o700)
    monkeypatch.chdir(place / "below")
    assert run("submit", "x", *REHEARSAL, "--single", "--verifier", "./look --strictly")[0] == 0
    shown = run("ledger", "show", "--kind", "answer.checked", "--json")[1]
    told = [json.loads(line)["data"] for line in shown.splitlines()]
    assert [each["outcome"] for each in told if each["check"] == "verifier"] == ["refused"]


def test_results_that_are_joined_are_whole_however_long(run: Run, place: Path) -> None:
    """What the synthesizer is given has its limit; where nobody is given anything, there is none."""
    tasks = [{"id": id, "lane": "backend", "instruction": "x"} for id in ("a", "b")]
    (place / "two.json").write_text(json.dumps({"tasks": tasks}))
    (place / "long.py").write_text("import sys\nsys.stdin.read()\nprint('word ' * 20_000 + 'end')\n")
    command = f"{sys.executable} {place / 'long.py'}"
    code, out, _ = run("submit", "x", "--plan", "two.json", "--cmd", command, "--judge", "checks", "--answer", "join")
    whole = "word " * 20_000 + "end"
    assert (code, out) == (0, f"## a\n\n{whole}\n\n## b\n\n{whole}\n")
    assert run("runs", "rerun", "last")[0] == 0


def test_a_roster_that_is_named_for_one_run_may_lack_lanes_of_the_standing_rules(tmp_path: Path) -> None:
    rules = '[policy]\ndeny_lanes = ["mobile"]\n[[gate]]\nname = "g"\nlanes = ["backend"]\n'
    (tmp_path / "hansard.toml").write_text(rules)
    (tmp_path / "mine.toml").write_text('name = "mine"\n[[lane]]\nname = "legal"\ndomain = "law"\ncategory = "law"\n')
    asked = ("submit", "x", "--roster", "mine.toml", "--lane", "legal", "--provider", "rehearsal")
    done = hansard(tmp_path, *asked)
    assert done.returncode == 0, done.stderr


def test_an_empty_path_is_no_ledger(tmp_path: Path) -> None:
    hansard(tmp_path, "submit", "x", "--provider", "rehearsal")
    done = hansard(tmp_path, "verify", "")
    assert (done.returncode, "is empty" in done.stderr) == (2, True)


def test_a_pattern_that_is_not_found_is_told_as_that_and_not_by_an_exit_code(run: Run, place: Path) -> None:
    checked = {"id": "a", "lane": "backend", "instruction": "x", "checks": [{"regex": "POST /"}]}
    (place / "plan.json").write_text(json.dumps({"tasks": [checked]}))
    code, _, err = run(
        "submit", "x", "--plan", "plan.json", "--cmd", "echo hi", "--judge", "checks", "--progress", "plain"
    )
    shown = (
        err,
        run("runs", "show", "last")[1],
        run("runs", "page", "last")[1].replace("&#x27;", "'").replace("&#39;", "'"),
    )
    assert code == 11
    assert all("no match for 'POST /'." in each and "exit code" not in each for each in shown), shown


@pytest.mark.parametrize(
    ("role", "words", "without"),
    [
        ("reviser", ("--lane", "backend", "--revise"), ("--lane", "backend")),
        (
            "intent_judge",
            ("--lane", "backend", "--judge-intent"),
            ("--lane", "backend", "--judge-intent", "--answer", "join"),
        ),
        ("validator", ("--lane", "backend"), ("--lane", "backend", "--judge", "checks")),
        ("synthesizer", ("--lane", "backend"), ("--lane", "backend", "--answer", "join")),
        ("coordinator", (), ("--lane", "backend")),
        ("classifier", ("--single",), ("--lane", "backend")),
    ],
)
def test_only_a_role_that_may_be_asked_needs_a_price(
    run: Run, place: Path, role: str, words: tuple[str, ...], without: tuple[str, ...]
) -> None:
    table = f'kind = "command"\nargv = ["{sys.executable}", "echo.py"]\n'
    (place / "hansard.toml").write_text(
        f'[providers.free]\n{table}[providers.billed]\n{table}model = "house-blend"\nunmetered = false\n'
        f'[roles]\ndefault = "free"\n{role} = "billed"\n'
    )
    code, _, err = run("submit", "build an api", "--max-usd", "1", *words)
    assert (code, "the price of 'house-blend' (billed) is not known" in err) == (2, True), err
    code, _, err = run("submit", "build an api", "--max-usd", "1", *without)
    assert "the price of" not in err
    assert code != 2, err


def test_a_reviser_that_is_plugged_in_needs_no_price_of_a_model(run: Run, place: Path) -> None:
    table = f'kind = "command"\nargv = ["{sys.executable}", "echo.py"]\n'
    (place / "hansard.toml").write_text(
        f'[providers.free]\n{table}[providers.billed]\n{table}model = "house-blend"\nunmetered = false\n'
        '[roles]\ndefault = "free"\nreviser = "billed"\n[reviser]\ncommand = ["cat"]\n'
    )
    assert run("submit", "build an api", "--max-usd", "1", "--lane", "backend", "--judge", "checks")[0] == 0
