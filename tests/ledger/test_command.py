"""The verifier runs as a module, as a folder and as one zip file, with nothing but the standard library."""

import ast
import json
import os
import subprocess
import sys
import zipapp
from functools import partial
from pathlib import Path

import pytest

import hansard.ledger
from hansard.ledger.command import main
from hansard.ledger.note import VerifierKey
from specimens import honest
from store.disks import halving_disk

LEDGER = Path(hansard.ledger.__file__).parent


@pytest.fixture(scope="module")
def zipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("zip") / "verify.pyz"
    zipapp.create_archive(LEDGER, target, filter=lambda path: "__pycache__" not in path.parts)
    return target


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return honest().write_sqlite(tmp_path / "x.db")


def run(*words: str | Path, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=bare, cwd=folder, timeout=60)


def test_the_zip_file_alone_verifies_every_form(zipped: Path, tmp_path: Path) -> None:
    log = honest()
    (tmp_path / "r.tlog-proof").write_bytes(log.receipt(20, disclose=["prompt"], rotation=30))
    forms = {
        "sqlite": log.write_sqlite(tmp_path / "x.db"),
        "jsonl": log.write_jsonl(tmp_path / "x.jsonl"),
        "export": log.write_export(tmp_path / "x"),
        "receipt": tmp_path / "r.tlog-proof",
    }
    for form, path in forms.items():
        done = run("-I", "-S", zipped, path, "--deep", "--pin", log.pin, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        report = json.loads(done.stdout)
        assert (report["form"], report["ok"], report["signed"]["keys"]) == (form, True, "pinned")


def test_an_older_python_is_told_which_one_is_needed(zipped: Path) -> None:
    ast.parse((LEDGER / "__main__.py").read_text(), feature_version=(3, 8))
    older = f"import runpy, sys; sys.version_info = (3, 10, 13); runpy.run_path({str(zipped)!r}, run_name='__main__')"
    done = run("-I", "-S", "-c", older)
    said = "verify: this needs Python 3.11 or newer, and was run with 3.10\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_an_address_of_a_database_is_not_repeated_with_its_password(zipped: Path) -> None:
    done = run("-I", "-S", zipped, "postgresql://ann:secret@host/log")
    assert (done.returncode, "secret" in done.stderr, "hansard ledger export" in done.stderr) == (2, False, True)


def test_a_path_in_other_bytes_is_spelled_out_in_json(zipped: Path, tmp_path: Path) -> None:
    place = honest().write_sqlite(tmp_path / os.fsdecode(b"\xff.db"))
    done = run("-I", "-S", zipped, place, "--json")
    assert json.loads(done.stdout)["path"].encode().endswith(b"/\\xff.db")


def test_the_zip_file_uses_several_processes(zipped: Path, ledger: Path) -> None:
    done = run("-I", "-S", zipped, ledger, "--jobs", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("OK: ")


def test_the_folder_itself_runs(ledger: Path) -> None:
    assert run("-I", "-S", "-B", LEDGER, ledger).returncode == 0


def test_the_package_runs_as_a_module(ledger: Path) -> None:
    done = run("-c", f"import sys; sys.path.insert(0, {str(LEDGER.parents[1])!r}); sys.argv[1:] = [{str(ledger)!r}]; "
               "import runpy; runpy.run_module('hansard.ledger', run_name='__main__', alter_sys=True)")  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_it_imports_nothing_but_the_standard_library_and_itself(zipped: Path, ledger: Path) -> None:
    script = (
        "import runpy, sys; before = set(sys.modules); sys.argv[1:] = [sys.argv[2]]\n"
        f"try: runpy.run_path({str(zipped)!r}, run_name='__main__')\nexcept SystemExit: pass\n"
        "names = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(names - set(sys.stdlib_module_names)), file=sys.stderr)"
    )
    done = run("-I", "-S", "-c", script, "-", ledger)
    assert done.stderr.strip() == "['ledger']"


def test_a_tampered_ledger_is_named_and_gives_its_exit_code(zipped: Path, tmp_path: Path) -> None:
    log = honest()
    log.edit(7, lambda entry: entry["data"].update(task="t9"))
    done = run("-I", "-S", zipped, log.write_jsonl(tmp_path / "x.jsonl"))
    assert done.returncode == 20
    assert done.stdout.startswith("BROKEN: ")
    assert "entry 7: [H4]" in done.stdout.splitlines()[1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "words",
    [
        ["missing.db"],
        ["x.db", "--pin", "nonsense"],
        ["x.db", "--against", "missing"],
        ["x.db", "--since", "x.db"],
        ["x.db", "--jobs", "0"],
        ["x.db", "--jobs", "many"],
        ["x.db", "--frobnicate"],
        [],
    ],
)
def test_a_usage_error_says_what_and_exits_2_and_creates_nothing(zipped: Path, ledger: Path, words: list[str]) -> None:
    before = sorted(each.name for each in ledger.parent.iterdir())
    done = run("-I", "-S", zipped, *words, folder=ledger.parent)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(each.name for each in ledger.parent.iterdir()) == before


def test_help_shows_examples_and_exit_codes(zipped: Path) -> None:
    done = run("-I", "-S", zipped, "--help")
    assert done.returncode == 0
    assert "examples:" in done.stdout
    assert "exit codes:" in done.stdout


def test_every_grade_has_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = honest()
    (tmp_path / "newest").write_text(log.note())
    whole = str(log.write_jsonl(tmp_path / "whole.jsonl"))
    assert main([whole, "--strict", "--against", str(tmp_path / "newest"), "--all-signatures"]) == 0
    older = log.copy()
    older.cut(31)
    older.checkpoints.pop()
    assert main([str(older.write_jsonl(tmp_path / "older.jsonl")), "--against", str(tmp_path / "newest")]) == 21
    del log.bodies[7, "prompt"]
    bare = str(log.write_jsonl(tmp_path / "bare.jsonl"))
    assert (main([bare]), main([bare, "--deep"])) == (0, 22)
    log.grow(1)
    log.bodies |= honest().bodies
    assert main([str(log.write_jsonl(tmp_path / "tail.jsonl")), "--strict"]) == 23
    capsys.readouterr()


def many_parts_without_bodies(path: Path) -> Path:
    """More of them than fits into the memory that a verifier takes for them."""
    log = honest()
    bodies = {f"p{number:031}": b"" for number in range(255)}
    for _ in range(200):
        log.append(bodies=bodies)
    log.bodies.clear()
    return log.write_jsonl(path)


def test_a_disk_that_fails_within_a_database_is_no_verdict(
    zipped: Path, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", str(halving_disk(tmp_path)))
    monkeypatch.setenv("TORN_NAME", ledger.name)
    for place in (4096, 8192, ledger.stat().st_size - 4096):
        monkeypatch.setenv("TORN_READ", str(place))
        done = run(zipped, ledger, "--deep")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"verify: cannot read {ledger}: Input/output error\n"


def limited(limit: str, most: int, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A program in a process that may not have more of something."""
    told = f"import resource, runpy, sys; resource.setrlimit(resource.{limit}, ({most}, {most})); del sys.argv[0]\n"
    return run("-c", f"{told}runpy.run_path(sys.argv[0], run_name='__main__')", *words)


def test_no_room_for_what_is_set_aside_is_no_verdict(zipped: Path, tmp_path: Path) -> None:
    path = many_parts_without_bodies(tmp_path / "ledger.jsonl")
    assert run(zipped, path, "--deep").returncode == 22
    done = limited("RLIMIT_FSIZE", 0, zipped, path, "--deep")
    assert (done.returncode, done.stdout) == (2, "")
    assert "TMPDIR" in done.stderr


def test_too_little_memory_is_no_verdict(zipped: Path, tmp_path: Path) -> None:
    log = honest()
    log.append(bodies={"output": b"x" * 100_000_000})
    path = log.write_jsonl(tmp_path / "ledger.jsonl")
    assert run(zipped, path, "--deep").returncode == 0
    done = limited("RLIMIT_AS", 250_000_000, zipped, path, "--deep")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"verify: cannot read {path}: it takes more memory than there is\n"


@pytest.mark.parametrize(
    "impatient",
    [
        "class Now:\n    def find_spec(self, name, *_): name == 'ledger.verify' and signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Now())",
        "import sqlite3; sqlite3.connect = lambda *_, **__: signal.raise_signal(signal.SIGINT)",
    ],
    ids=["loaded", "verified"],
)
def test_an_interrupt_shows_no_traceback_and_is_no_verdict(zipped: Path, ledger: Path, impatient: str) -> None:
    told = f"import runpy, signal, sys; del sys.argv[0]\n{impatient}\nrunpy.run_path(sys.argv[0], run_name='__main__')"
    done = run("-c", told, zipped, ledger)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "verify: interrupted\n")


@pytest.mark.parametrize("name", ["entries.jsonl", "bodies.jsonl", "checkpoints.jsonl", "/checkpoint", "tile/0/"])
def test_a_disk_that_fails_is_no_verdict(
    zipped: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest().write_export(tmp_path / "out")
    monkeypatch.setenv("LD_PRELOAD", str(halving_disk(tmp_path)))
    monkeypatch.setenv("TORN_NAME", f"out/{name}".replace("//", "/"))
    assert run(zipped, tmp_path / "out", "--deep").returncode == 0
    monkeypatch.setenv("TORN_READ", "0")
    done = run(zipped, tmp_path / "out", "--deep")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"verify: cannot read {tmp_path / 'out'}: Input/output error\n"


def test_a_name_that_the_terminal_cannot_write_does_not_hide_the_verdict(zipped: Path, tmp_path: Path) -> None:
    path = honest().write_jsonl(tmp_path / "лог.jsonl")
    bare = {"PYTHONIOENCODING": "ascii", "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, zipped, path], capture_output=True, env=bare, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith(b"OK: ")


def test_what_is_said_of_a_strangers_pin_or_key_does_not_drive_the_terminal(
    ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "log\x9b31m\u202e"
    key = VerifierKey.cosigner(name, bytes(32)).text().replace("+", "+00000000", 1)
    (tmp_path / "given").write_text(f"{key}@{'0' * 64}\n")
    for flag in ("--pin", "--witness"):
        assert main([str(ledger), flag, str(tmp_path / "given")]) == 2
        told = capsys.readouterr().err
        assert "log\\x9b31m\\u202e" in told
        assert told.removesuffix("\n").isprintable()


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_what_somebody_kept(
    ledger: Path, tmp_path: Path
) -> None:
    log = honest()
    witness = VerifierKey.cosigner("w.example", bytes(32)).text()
    kept = {"--pin": log.pin, "--against": log.note(), "--since": log.note(), "--witness": witness}
    for flag, text in kept.items():
        (tmp_path / "kept").write_text(text, "utf-8-sig")
        # Nobody cosigned this log, and 23 says so; 2 would be a key that cannot be read.
        assert main([str(ledger), flag, str(tmp_path / "kept")]) == (23 if flag == "--witness" else 0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("how", ["closed", "full", "unread"])
def test_a_stream_that_takes_nothing_changes_no_exit_code(
    how: str, buffered: bool, zipped: Path, tmp_path: Path
) -> None:
    log = honest()
    whole = log.write_sqlite(tmp_path / "x.db")
    log.edit(7, lambda entry: entry["data"].update(task="t9"))
    broken = log.write_jsonl(tmp_path / "x.jsonl")
    start: list[str | Path] = [zipped] if buffered else ["-u", zipped]
    for path, code in ((whole, 0), (broken, 20)):
        done = deaf(how, [1], *start, path, "--json")
        assert done.returncode == code
        assert ("cannot be written" in done.stderr, done.stderr.count("\n")) == (how == "full", how == "full")
        assert deaf(how, [0, 1, 2], *start, path, "--jobs", "2").returncode == code
    assert deaf(how, [2], *start, tmp_path / "missing.db").returncode == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["closed", "full", "unread"])
@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["--frobnicate"], 2)])
def test_the_same_holds_for_what_is_said_of_the_arguments(how: str, words: list[str], code: int, zipped: Path) -> None:
    done = deaf(how, [1, 2], zipped, *words)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def deaf(how: str, streams: list[int], *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run with some standard streams that are closed, full, or a pipe whose reader has gone."""
    read, unread = os.pipe()
    os.close(read)
    full = os.open("/dev/full", os.O_RDWR)
    argv = [sys.executable, "-I", "-S", *words]
    take = partial(_take, streams, {"closed": None, "full": full, "unread": unread}[how])
    try:
        return subprocess.run(argv, capture_output=True, text=True, preexec_fn=take, timeout=60)
    finally:
        os.close(full)
        os.close(unread)


def _take(streams: list[int], instead: int | None) -> None:
    for each in streams:
        if instead is None:
            os.close(each)
        else:
            os.dup2(instead, each)
