import contextlib
import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hansard.surfaces.cli.main import main
from shell import hansard

SRC = str(Path(__file__).parents[2] / "src")
HELP = f"import sys; sys.path.insert(0, {SRC!r}); sys.argv = ['hansard', '--help']; from hansard.surfaces.cli.main import main; main()"

HELPED = (
    *("", "submit", "plan", "runs", "runs show", "gates", "gates approve", "bench", "worker", "deliberate", "session"),
    *("session eval", "session execution-replay", "panel", "serve", "serve token add", "mcp", "ledger"),
    *(
        "ledger import",
        "ledger receipt",
        "ledger verify",
        "verify",
        "witness",
        "route",
        "roster",
        "doctor",
        "demo",
        "init",
    ),
)


def work_of(code: str, times: int = 7) -> float:
    """The processor time that a process takes for this: what else the machine does has little part in it."""
    least = float("inf")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-I", "-c", code], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        least = min(least, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return least


def test_help_takes_less_than_three_times_the_work_of_argparse_alone() -> None:
    assert work_of(HELP.replace("main()", "main() or 0")) <= 3 * work_of("import argparse")


def test_help_loads_nothing_heavy() -> None:
    loaded, alone = loaded_by(HELP), loaded_by("import argparse; argparse.ArgumentParser().parse_args(['--help'])")
    assert "hansard.surfaces.cli.main" in loaded
    for heavy in (
        "asyncio",
        "sqlite3",
        "cryptography",
        "orjson",
        "rich",
        "psycopg",
        "hansard.store.base",
        "dataclasses",
    ):
        # What argparse loads by itself is not ours: from Python 3.14 on it has colours.
        assert heavy not in loaded - alone, heavy


def loaded_by(code: str) -> set[str]:
    """The modules that are there when this has printed its help."""
    told = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    print(*sys.modules, sep='\\n', file=sys.stderr)"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_an_interrupt_while_it_is_loaded_shows_no_traceback(tmp_path: Path) -> None:
    """Somebody thinks better of it within the first tenth of a second."""
    (tmp_path / "sitecustomize.py").write_text(
        "import signal, sys\n"
        "class Impatient:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'hansard.surfaces.cli.main':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Impatient())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "hansard", "doctor"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{SRC}"},
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "hansard: interrupted\n")


def test_a_token_has_every_role_that_was_named_for_it(tmp_path: Path) -> None:
    add = ("serve", "token", "add")
    assert hansard(tmp_path, *add, "ann", "--roles", "reader", "--roles", "operator, approver").returncode == 0
    assert hansard(tmp_path, *add, "bob").returncode == 0
    assert hansard(tmp_path, *add, "cyd", "--roles", ",").returncode == 2
    kept = json.loads(hansard(tmp_path, "serve", "token", "list", "--json").stdout)
    assert {each["name"]: each["roles"] for each in kept} == {
        "ann": ["reader", "operator", "approver"], "bob": ["reader"]
    }  # fmt: skip


def test_the_module_runs_as_a_program() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hansard", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": SRC},
    )
    assert ran.stdout.startswith("hansard 0.")


@pytest.mark.parametrize("words", [(), ("submit",), ("runs", "show"), ("verify",)])
def test_help_is_also_a_word(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for asked in (("help", *words), (*words, "--help")):
        with contextlib.suppress(SystemExit):
            main(asked)
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[0].startswith(f"usage: {' '.join(('hansard', *words))} ")


def test_verify_says_that_it_takes_a_database_and_what_it_takes_without_a_path(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextlib.suppress(SystemExit):
        main(["verify", "--help"])
    said = capsys.readouterr().out
    assert ("postgresql://…" in said, "default: the ledger" in said) == (True, True)


@pytest.mark.parametrize("words", HELPED)
def test_help_fits_a_terminal_of_80_columns(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        main([*words.split(), "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("submit", "two", "words"),
            "hansard submit: error: unrecognized arguments: words; text of several words goes",
        ),
        (("submit", "x", "--porvider=y"), "unrecognized arguments: --porvider=y; did you mean --provider?"),
        (("runs", "show", "last", "--jsn"), "hansard runs show: error: unrecognized arguments: --jsn; did you mean"),
        (("ledger", "show", "x"), "hansard ledger show: error: unrecognized arguments: x\n"),
        (("verify", "--ledger", "x.db"), "--ledger; the ledger stands there by itself: hansard verify PATH\n"),
        (("ledger", "verify", "--deep", "--ledger=x.db"), "the ledger stands there by itself: hansard verify PATH\n"),
        (("submit", "@nofile"), "hansard: cannot read nofile: No such file or directory\n"),
        (
            ("--json", "runs", "list"),
            "--json stands behind the command that it is for; write: hansard runs … --json",
        ),
        (("--ledger=x.db", "runs"), "--ledger stands behind the command that it is for"),
        (
            ("runs", "--limit", "5"),
            "--limit stands behind the verb that it is for; write: hansard runs list … --limit\n",
        ),
        (("gates", "--json", "--run=last"), "for; write: hansard gates list … --run\n"),
        (("ledger", "--limit", "5", "show"), "for; write: hansard ledger show … --limit\n"),
        (("session", "--runs", "elsewhere", "validate", "last"), "for; write: hansard session validate … --runs\n"),
        (("session", "--runs", "elsewhere"), "for; write: hansard session VERB … --runs\n"),
        (
            ("runs", "--lim", "5"),
            "hansard: --limit stands behind the verb that it is for; write: hansard runs list … --limit",
        ),
        (("runs", "--js", "--sta=running"), "for; write: hansard runs list … --state\n"),
        (("session", "--r", "elsewhere"), "for; write: hansard session VERB … --r\n"),
        (("serve", "token", "--json", "list"), "for; write: hansard serve token list … --json\n"),
        (("serve", "--port", "0", "token", "--rol=x", "add"), "for; write: hansard serve token add … --roles\n"),
        (("--led", "x.db", "runs"), "it is for; write: hansard runs … --led\n"),
        (("runs", "five"), "hansard: there is no `hansard runs five`; `hansard runs --help` tells what there is\n"),
        (("sumbit", "x"), "there is no `hansard sumbit`; did you mean submit? `hansard --help` tells what there is\n"),
        (("ledger", "Shwo"), "there is no `hansard ledger Shwo`; did you mean show?"),
        (("compare three queues",), "a request is handed in with `hansard submit`, and `hansard --help` tells"),
        (("--provider", "rehearsal", "submit", "x"), "it is for; write: hansard submit … --provider\n"),
        (("--max-calls=3", "deliberate", "x"), "it is for; write: hansard deliberate … --max-calls\n"),
    ],
)
def test_what_a_command_does_not_know_is_told_by_that_command(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(words)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("session", "replay", "{}"),
        ("session", "validate", "{}"),
        ("demo", "--folder", "{}"),
        ("init", "--ledger", "{}.db"),
    ],
)
def test_a_name_that_no_file_can_have_is_wrong_usage_and_no_bug(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main([word.format("x" * 300) for word in words]) == 2
    assert "a bug of ours" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_sqlite_does_not_take_is_wrong_usage_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    deep = tmp_path.joinpath(*["x" * 200] * 3)
    deep.mkdir(parents=True)
    assert main(["init", "--ledger", str(deep / "l.db")]) == 2
    assert "longer than the 500 bytes that SQLite takes" in capsys.readouterr().err
    assert list(deep.iterdir()) == []
    assert main(["init", "--ledger", str(tmp_path / "l.db")]) == 0
    (tmp_path / "l.db").rename(deep / "l.db")
    assert main(["ledger", "show", "--ledger", str(deep / "l.db")]) == 2
    assert "move it nearer to the root" in capsys.readouterr().err


def test_an_error_that_quotes_somebody_elses_file_does_not_drive_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hansard.toml").write_text('ledger = "\\u001b]0;title\\u0007\\u202ex"')
    assert main(["runs", "list"]) == 2
    told = capsys.readouterr().err
    assert "\\x1b]0;title\\x07\\u202ex" in told
    assert told.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["verify"], "postgresql+psycopg://me:hunter2222@host/database"),
        (["ledger", "adopt"], "POSTGRESQL://me:hunter2222@host/database"),
        (["ledger", "import"], "postgres+pool://me:hunter2222@host/database"),
        (["verify"], "host=localhost password=hunter2222"),
        (["ledger", "adopt"], "postgresql:/me:hunter2222@host/database"),
        (["ledger", "import"], "host=localhost Password = hunter2222"),
        (["runs", "list", "--ledger"], "postgresql:/me:hunter2222@host/database"),
        (["runs", "list", "--ledger"], "host=localhost password=hunter2222"),
        (["runs", "list", "--ledger"], "host=localhost password=hunter2222 dbname=runs.db"),
        (["submit", "x", "--ledger"], "postgresql:/me:hunter2222@host/runs.jsonl"),
    ],
)
def test_an_address_that_is_no_ledgers_is_refused_without_its_password(
    words: list[str], place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main([*words, place]) == 2
    told = capsys.readouterr()
    assert "postgresql://…" in told.err
    assert "hunter2222" not in told.out + told.err


def test_a_traceback_does_not_drive_the_terminal_and_changes_no_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hansard.toml").write_text('ledger = "\\u001b]0;title\\u0007\\u202ex"')
    for code, words in ((2, ["runs", "list"]), (1, ["session", "execution-replay", "last"])):
        assert main([*words, "--debug"]) == code
        told = capsys.readouterr().err
        assert told.startswith("Traceback (most recent call last):\n")
        assert "\\x1b]0;title\\x07\\u202ex" in told.splitlines()[-1]
        assert told.replace("\n", "").isprintable()


def test_an_error_of_several_lines_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "x"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4


@pytest.mark.parametrize(
    "words",
    [
        "plan x -o =",
        "runs page last --output =",
        "runs --ledger = list",
        "session export last -o =",
        "session metrics last --output=",
        "ledger receipt 1 -o =",
        "ledger consistency 1 -o =",
        "ledger witness http://127.0.0.1:1 --key k -o =",
        "ledger get 1 --part =",
        "deliberate x --output =",
        "deliberate x --script =",
        "deliberate --continue = x",
        "deliberate x --expert law --expert =",
        "submit x --provider rehearsal --gate =",
        "serve --sessions =",
        "mcp --folder =",
        "demo --folder =",
    ],
)
def test_an_option_without_a_text_is_wrong_usage_for_every_command(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main(["" if word == "=" else word for word in words.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.endswith(" is empty; leave it out, or write what is meant\n")) == ("", True)
    assert list(tmp_path.iterdir()) == []


def test_the_examples_name_entries_that_a_first_run_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main(["submit", "compare three queues", "--provider", "rehearsal"]) == 0
    for words in ("", "ledger"):
        with contextlib.suppress(SystemExit):
            main([*words.split(), "--help"])
    shown = capsys.readouterr().out.split("\n")
    wanted = ("  hansard ledger get ", "  hansard ledger causes ", "  hansard ledger redact ")
    examples = [line.strip().split("   ")[0].split()[1:] for line in shown if line.startswith(wanted)]
    assert len(examples) == 3
    assert [main(words) for words in examples] == [0, 0, 0], capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("init",), ("doctor",), ("runs", "list"), ("submit", "x", "--provider", "rehearsal")]
)
@pytest.mark.parametrize("suffix", [".db", ".jsonl"])
def test_a_ledger_whose_name_holds_nul_is_no_bug(
    words: tuple[str, ...],
    suffix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    (tmp_path / "hansard.toml").write_text(f'ledger = "a\\u0000b{suffix}"\n')
    # The doctor tells what it finds, and has done so.
    assert main(list(words)) == (0 if words == ("doctor",) else 2)
    said = "".join(capsys.readouterr())
    assert "no file can be named" in said
    assert [path.name for path in tmp_path.iterdir()] == ["hansard.toml"]


@pytest.mark.parametrize(
    "words",
    ["roster --json list", "roster --json show backend", "panel --json list", "serve --json token list", "runs --json"],
)
def test_what_is_said_before_a_verb_holds_for_it(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))
    assert main(["init"]) == 0
    capsys.readouterr()
    assert main(words.split()) == 0
    json.loads(capsys.readouterr().out)


def test_whoever_makes_a_ledger_is_told_what_to_type_next_and_it_works(tmp_path: Path) -> None:
    made = hansard(tmp_path, "init")
    assert made.returncode == 0
    [_, after] = made.stdout.split("next     ")
    words = shlex.split(after.splitlines()[1])
    assert words[0] == "hansard"
    assert hansard(tmp_path, *words[1:]).returncode == 0
    assert "next  " not in hansard(tmp_path, "init").stdout
