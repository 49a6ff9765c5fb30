"""One body of a ledger in JSON lines that is damaged beyond reading: it hides no other, and can still be redacted."""

import json
import shlex
from pathlib import Path

import pytest

from command_line import workplace
from forging import database
from shell import hansard


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two runs; what the first one was asked is no text any more."""
    folder = workplace(tmp_path)
    (folder / "hansard.toml").write_text('ledger = "l.jsonl"')
    for request in ("call 555-1234", "the other one"):
        assert hansard(folder, "submit", request, "--provider", "rehearsal", "--single").returncode == 0
    bodies = folder / "l.bodies.jsonl"
    first, _, others = bodies.read_bytes().partition(b"\n")
    bodies.write_bytes(first.replace(b"call 555", b"call\xff555") + b"\n" + others)
    return folder


def test_a_damaged_body_is_marked_and_hides_no_other(place: Path) -> None:
    listed = hansard(place, "runs", "list")
    assert listed.returncode == 0, listed.stderr
    assert "the other one" in listed.stdout
    assert "not what was recorded" in listed.stdout
    assert "part    request: differs" in hansard(place, "ledger", "get", "1").stdout
    refused = hansard(place, "ledger", "get", "1", "--part", "request")
    assert (refused.returncode, "not the body that was committed to" in refused.stderr) == (11, True)
    exported = hansard(place, "ledger", "export", "out", "--json")
    assert (exported.returncode, json.loads(exported.stdout)["missing"]) == (0, 1), exported.stderr
    assert "1 of its bodies are missing or damaged" in exported.stderr
    assert [hansard(place, "verify", copy, "--deep").returncode for copy in ("l.jsonl", "out")] == [20, 22]


def test_a_damaged_body_can_be_redacted(place: Path) -> None:
    told = hansard(place, "ledger", "redact", "1", "request", "--reason", "personal_data", "--json")
    assert told.returncode == 0, told.stderr
    view = json.loads(told.stdout)
    assert (view["state"], view["differed"]) == ("redacted", [{"seq": 1, "part": "request"}])
    assert b"call\xff555" not in (place / "l.bodies.jsonl").read_bytes()
    assert hansard(place, "verify", "l.jsonl", "--deep").returncode == 0


def test_whoever_redacts_what_was_swapped_is_told_so(tmp_path: Path) -> None:
    """Afterwards no verifier can tell, and where else the recorded text stands was not found."""
    there = ("--ledger", "l.db")
    assert hansard(tmp_path, "submit", "call 555-1234", "--provider", "rehearsal", *there).returncode == 0
    with database(tmp_path / "l.db") as into:
        into.execute(SWAPPED)
    told = hansard(tmp_path, "ledger", "redact", "1", "request", "--reason", "personal_data", *there)
    assert told.returncode == 0, told.stderr
    assert "what lay there as the part 'request' of entry 1 was not what was recorded" in told.stdout
    assert "where else stands what was recorded could not be searched" in told.stdout
    again = hansard(tmp_path, "ledger", "redact", "5", "prompt", "--reason", "personal_data", *there)
    assert "not what was recorded" not in again.stdout


SHOW, SUBMIT = ("runs", "show", "last"), ("submit", "y", "--provider", "rehearsal")
SWAPPED = "UPDATE bodies SET body = CAST('call 555-4321' AS BLOB) WHERE id = 256"
EDITED = "UPDATE entries SET line = replace(line, 'answered', 'answerer') WHERE kind = 'run.ended'"


@pytest.mark.parametrize(("verb", "damage"), [(SHOW, SWAPPED), (SUBMIT, EDITED)])
def test_what_to_type_names_the_ledger_as_a_shell_takes_it(tmp_path: Path, verb: tuple[str, ...], damage: str) -> None:
    there = ("--ledger", "a ledger.db")
    assert hansard(tmp_path, "submit", "call 555-1234", "--provider", "rehearsal", *there).returncode == 0
    with database(tmp_path / "a ledger.db") as into:
        into.execute(damage)
    refused = hansard(tmp_path, *verb, *there)
    assert refused.returncode == 11, refused.stderr
    advised = shlex.split(refused.stderr.partition("run: ")[2].splitlines()[0])
    assert advised[:2] == ["hansard", "verify"]
    assert hansard(tmp_path, *advised[1:]).returncode == 20


def test_of_json_lines_too(tmp_path: Path) -> None:
    there = ("--ledger", "a ledger.jsonl")
    assert hansard(tmp_path, "submit", "call 555-1234", "--provider", "rehearsal", *there).returncode == 0
    bodies = tmp_path / "a ledger.bodies.jsonl"
    bodies.write_bytes(bodies.read_bytes().replace(b"call 555-1234", b"call 555-4321", 1))
    refused = hansard(tmp_path, *SHOW, *there)
    assert refused.stderr.endswith("run: hansard verify --deep 'a ledger.jsonl'\n")
