"""Records that earlier versions wrote, with their keys: today's verifies them, shows them, runs them again, and goes on with them.

Each lies in `tests/data/earlier` as its version left it, under the day of that version. Its keys are nobody's.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from shell import hansard

EARLIER = Path(__file__).parents[1] / "data" / "earlier"
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in EARLIER.iterdir())
REWORDED = {"2026-11-15"}
"""Versions that asked with other words than we do."""
REDACTED = None
ENDED = {REDACTED: "answered", "in parts": "partial", "ask first": "answered", "no more than this": "stopped"}
LEFT = {"still waiting": "waiting", "should we?": "answered"}


@pytest.fixture(params=VERSIONS)
def record(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a record, as it was left; the modes of the folders of its keys, too."""
    folder = tmp_path / str(request.param)
    with tarfile.open(EARLIER / f"{folder.name}.tar.xz") as packed:
        packed.extractall(folder, filter="tar")
    return folder


def said(folder: Path, *words: object, code: int = 0) -> str:
    done = hansard(folder, *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def runs_of(folder: Path) -> dict[str | None, dict[str, Any]]:
    return {run["request"]: run for run in json.loads(said(folder, "runs", "list", "--json"))}


def test_it_verifies_to_the_last_body_under_its_pin(record: Path) -> None:
    pin = (record / "pin").read_text().strip()
    told = said(record, "verify", "record.jsonl", "--deep", "--all-signatures", "--pin", pin)
    assert told.startswith("OK")
    assert "1 redacted, 0 pending, 0 missing" in told


def test_every_run_of_it_is_listed_and_shown_as_it_ended(record: Path) -> None:
    runs = runs_of(record)
    assert {request: run["state"] for request, run in runs.items()} == ENDED | LEFT
    assert {runs[request]["spent"]["priced"] for request in ENDED if request is not REDACTED} == {None}
    for run in runs.values():
        assert run["run"] in said(record, "runs", "show", run["run"])


def test_its_runs_come_out_the_same_or_it_is_told_why_they_cannot(record: Path) -> None:
    runs = runs_of(record)
    for request in ("in parts", "ask first", "no more than this"):
        reworded = record.name in REWORDED
        told = said(record, "runs", "rerun", runs[request]["run"], code=4 if reworded else 0)
        assert ("our prompts have other words since" in told) == reworded


def test_its_session_still_stands_as_it_was_sealed(record: Path) -> None:
    [session] = (record / "sessions").iterdir()
    said(record, "session", "replay", session)
    assert said(record, "session", "validate", session).startswith("valid")
    said(record, "session", "metrics", session)


def test_what_waited_goes_on_and_what_was_done_is_done_again(record: Path) -> None:
    [gate] = json.loads(said(record, "gates", "list", "--json"))
    said(record, "gates", "approve", gate["gate"], "--resume")
    said(record, "runs", "retry", runs_of(record)["in parts"]["run"], "c", code=10)
    said(record, "submit", "and now?", "--provider", "rehearsal")
    assert {run["state"] for run in runs_of(record).values()} == {"answered", "partial", "stopped"}
    pin = (record / "pin").read_text().strip()
    assert "(nothing unsealed)" in said(record, "verify", "record.jsonl", "--deep", "--pin", pin)


def test_it_moves_into_another_kind_of_ledger(record: Path) -> None:
    said(record, "ledger", "import", "record.jsonl", "--ledger", "moved.db")
    pin = (record / "pin").read_text().strip()
    assert said(record, "verify", "moved.db", "--deep", "--pin", pin).startswith("OK")
