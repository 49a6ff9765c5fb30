"""Standard streams that are closed, full or unread, as processes meet them: the work is done, and the exit code is its own."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import command_line
from command_line import started
from daemons import wait_for
from hansard.deliberation.archive import read_manifest
from hansard.surfaces.cli.streams import Stream
from shell import hansard

CONFIGS = Path(__file__).parents[2] / "examples" / "configs"
SKELETON = ("--config", CONFIGS / "walking-skeleton.json", "--script", CONFIGS / "walking-skeleton.script.json")
PLAIN = ("--progress", "plain")
WORKS = {
    "deliberate": ("deliberate", *SKELETON, *PLAIN),
    "submit": ("submit", "compare three queues", "--provider", "rehearsal", *PLAIN),
}
STREAMS = {"stdin": 0, "stdout": 1, "stderr": 2}


@contextmanager
def unread() -> Iterator[int]:
    """A pipe whose reader has gone."""
    read, write = os.pipe()
    os.close(read)
    try:
        yield write
    finally:
        os.close(write)


def _close(streams: dict[str, str]) -> None:
    for name, how in streams.items():
        if how == "closed":
            os.close(STREAMS[name])


def told(folder: Path, *words: object, **streams: str) -> "subprocess.CompletedProcess[str]":
    """A command whose streams are each `closed`, `full` or `unread`."""
    with unread() as pipe, open("/dev/full", "w") as full:
        given: dict[str, Any] = {
            name: {"unread": pipe, "full": full, "closed": None}[how] for name, how in streams.items()
        }
        process = started(folder, *words, **given, preexec_fn=partial(_close, streams))
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(params=["buffered", "unbuffered"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1" if request.param == "unbuffered" else "")
    return tmp_path


def last(folder: Path) -> Any:
    return json.loads(hansard(folder, "runs", "show", "last", "--json").stdout)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["closed", "full", "unread"])
@pytest.mark.parametrize("work", WORKS)
def test_progress_that_cannot_be_shown_ends_nothing(tmp_path: Path, work: str, how: str) -> None:
    done = told(tmp_path, *WORKS[work], stderr=how)
    assert done.returncode == 0
    assert done.stdout.startswith(("No. Recompute", "[rehearsal]"))
    assert last(tmp_path)["state"] == "answered"
    if work == "deliberate":
        assert read_manifest(tmp_path / "runs" / "walking-skeleton").status == "complete"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("work", WORKS)
def test_a_reader_who_has_seen_enough_changes_nothing(place: Path, work: str) -> None:
    done = told(place, *WORKS[work][:-2], stdout="unread")
    assert (done.returncode, done.stderr) == (0, "")
    assert last(place)["state"] == "answered"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("how", "why"), [("closed", "it is closed"), ("full", "No space left on device")])
@pytest.mark.parametrize("work", WORKS)
def test_an_answer_that_cannot_be_printed_is_on_the_record_and_one_line_says_where(
    place: Path, work: str, how: str, why: str
) -> None:
    done = told(place, *WORKS[work][:-2], stdout=how)
    view = last(place)
    assert view["state"] == "answered"
    seen = f"the work itself is done, and `hansard runs show {view['run'][:13]}` shows what came of it"
    assert done.stderr == f"hansard: standard output cannot be written ({why}); {seen}\n"
    assert done.returncode == 1


def test_a_plan_that_cannot_be_printed_is_named_where_it_stands(tmp_path: Path) -> None:
    done = told(tmp_path, "plan", "x", "--provider", "rehearsal", stdout="full")
    [command] = re.findall("`hansard (.*)` shows what came of it", done.stderr)
    assert done.returncode == 1
    shown = hansard(tmp_path, *shlex.split(command)).stdout
    assert [task["id"] for task in json.loads(shown)["tasks"]] == ["look", "build"]


@pytest.mark.parametrize("how", ["closed", "full", "unread"])
def test_the_exit_code_is_the_commands_own_whatever_becomes_of_its_output(tmp_path: Path, how: str) -> None:
    hansard(tmp_path, "deliberate", *SKELETON)
    folder = tmp_path / "runs" / "walking-skeleton"
    artifact = json.loads((folder / "artifact.json").read_bytes())
    artifact["canonical_transcript"][-1]["content"]["integrated_answer"] = "Yes."
    (folder / "artifact.json").write_text(json.dumps(artifact))
    assert told(tmp_path, "session", "replay", folder, stdout=how).returncode == 4
    assert told(tmp_path, "session", "validate", folder, stdout=how).returncode == 1
    unknown = SKELETON[1].read_text().replace('"provider": "fake"', '"provider": "nobody-knows-it"')
    (tmp_path / "unknown.json").write_text(unknown)
    assert told(tmp_path, "deliberate", "--config", "unknown.json", stdout=how).returncode == 11
    assert told(tmp_path, "runs", "show", "nothere", stdout=how).returncode == 2


def test_what_is_said_to_people_never_lands_on_standard_output(tmp_path: Path) -> None:
    hansard(tmp_path, "deliberate", *SKELETON)
    exact = hansard(tmp_path, "session", "replay", "walking-skeleton")
    assert exact.stderr.startswith("hansard: digest")
    done = told(tmp_path, "session", "replay", "walking-skeleton", stderr="closed")
    assert (done.returncode, done.stdout) == (0, exact.stdout)


def test_help_that_cannot_be_printed_is_no_success(tmp_path: Path) -> None:
    assert told(tmp_path, "--help", stdout="full").returncode == 1
    assert told(tmp_path, "--help", stdout="unread").returncode == 0
    assert told(tmp_path, "runs", "nothing-like-it", stdout="closed").returncode == 2


def test_everything_closed_is_a_deliberation_all_the_same(tmp_path: Path) -> None:
    done = told(tmp_path, "deliberate", *SKELETON, stdin="closed", stdout="closed", stderr="closed")
    assert done.returncode == 1
    assert last(tmp_path)["state"] == "answered"
    assert hansard(tmp_path, "session", "validate", "walking-skeleton").returncode == 0


def test_whoever_follows_stops_when_nobody_reads(tmp_path: Path) -> None:
    hansard(tmp_path, "submit", "compare three queues", "--provider", "rehearsal", "--gate", "plan")
    for flags in ((), ("--json",)):
        assert told(tmp_path, "runs", "follow", "last", *flags, stdout="unread").returncode == 14


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words", [("deliberate", "-"), ("submit", "-"), ("plan", "-"), ("route", "-"), ("gates", "edit", "g-1", "-")]
)
def test_standard_input_that_is_closed_or_no_text_is_refused_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    refused = told(tmp_path, *words, stdin="closed")
    assert (refused.returncode, refused.stderr) == (2, "hansard: cannot read standard input: it is closed\n")
    with subprocess.Popen(["printf", r"a\377b"], stdout=subprocess.PIPE) as source:
        process = started(tmp_path, *words, stdin=source.stdout)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, "not UTF-8 text: invalid start byte at byte 1" in said) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "show", b"\xff"),
        ("deliberate", "What?", "--output", b"\xff"),
        ("deliberate", "What?", "--expert", b"a\xff"),
        ("deliberate", "What?", "--producer", "me", b"\xff"),
        ("deliberate", "--continue", b"\xff", "--answer", "x"),
        ("verify", b"\xff"),
    ],
)
def test_an_argument_that_is_no_text_is_refused_in_a_sentence(tmp_path: Path, words: tuple[Any, ...]) -> None:
    done = hansard(tmp_path, *(os.fsdecode(word) for word in words))
    assert done.returncode == 2
    assert "is not UTF-8 text; write it in UTF-8" in done.stderr
    assert not (tmp_path / "state").exists()


def test_an_argument_that_python_was_told_to_read_otherwise_is_not_called_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")):
        monkeypatch.setenv(name, value)
    done = command_line.hansard(tmp_path, "route", b"\xc3\xa4".decode("ascii", "surrogateescape"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not ascii, as which Python reads it here; set PYTHONUTF8=1, or LC_ALL=C.UTF-8" in done.stderr


def test_a_stream_takes_what_its_encoding_has_no_letters_for() -> None:
    behind = io.TextIOWrapper(io.BytesIO(), "ascii")
    stream = Stream(behind)
    print("for ever…", file=stream, flush=True)
    behind.seek(0)
    assert (behind.read(), stream.fault) == ("for ever\\u2026\n", None)


def test_a_pipe_that_does_not_wait_gets_everything() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    words = ("-c", "from hansard.surfaces.cli.streams import *\nwith standard_streams(): print('x' * 1_000_000)")
    with subprocess.Popen([sys.executable, *words], stdout=write, env={"PYTHONPATH": ":".join(sys.path)}) as process:
        os.close(write)
        with open(read, "rb") as source:
            assert source.read() == b"x" * 1_000_000 + b"\n"
    assert process.returncode == 0


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_another_encoding_gets_the_same_words(tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hansard(tmp_path, "submit", "naïve 漢字", "--provider", "rehearsal")
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = command_line.hansard(tmp_path, "runs", "show", "last", "--json")
    assert json.loads(done.stdout)["request"] == "naïve 漢字"
    if encoding != "latin-1":
        shown = command_line.hansard(tmp_path, "runs")
        assert (shown.returncode, "漢字" in shown.stdout) == (0, encoding == "utf-8")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_name_in_other_bytes_is_spelled_out_in_json(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / os.fsdecode(b"n\xff")
    folder.mkdir()
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = command_line.hansard(folder, "doctor", "--json")
    found = {each["name"]: each["detail"] for each in json.loads(done.stdout)}
    assert f"{tmp_path}/n\\xff" in found["state folder"]
    # A strict reader takes it: every string is text.
    json.dumps(found, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    "words",
    [("serve", "--provider", "rehearsal"), ("witness", "--name", "witness.example/w1")],
    ids=["serve", "witness"],
)
def test_where_it_listens_stands_in_a_file_at_once(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    said = tmp_path / "said"
    with said.open("w") as out, (tmp_path / "log").open("w") as log:
        process = started(tmp_path, *words, "--port", 0, stdout=out, stderr=log)
    try:
        assert wait_for(said.read_text, 30).startswith(f"hansard {words[0]}: http://127.0.0.1:")
    finally:
        process.kill()
        process.communicate()
