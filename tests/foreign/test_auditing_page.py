"""The scripts of docs/auditing.md, as they stand there: nothing of ours runs, only coreutils, OpenSSL and jq."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from components import need
from handed_out import flip
from hansard.app.ledgers.custody import pin_of
from hansard.record.export import export
from signed_log import SignedLog

pytestmark = pytest.mark.long

PAGE = (Path(__file__).parents[2] / "docs" / "auditing.md").read_text("utf-8")
CHECK, OPEN = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _programs() -> None:
    for program, package in (("basenc", "coreutils"), ("openssl", "openssl"), ("jq", "jq")):
        need(shutil.which(program) is not None, f"{program} (apt install {package})")


class Audited:
    """An export with some entries behind its checkpoint, and the log's pin."""

    def __init__(self, folder: Path) -> None:
        log = SignedLog.create(folder / "log")
        while "+" not in log.identity.split("+", 2)[2]:
            # Every other key has this sign of base64 in it, which also stands between the parts of a verifier key.
            log.store.close()
            shutil.rmtree(folder / "log")
            log = SignedLog.create(folder / "log")
        log.ask("what is older: 紙 or 'paper'?\n")
        log.ask_many(20)
        log.rotate()
        log.ask_many(6)
        log.checkpoint()
        log.ask("tail")
        self.folder, self.pin = folder / "audit", str(pin_of(log.store))
        export(log.store, self.folder)
        log.store.close()

    def check(self, pin: str = "") -> "subprocess.CompletedProcess[str]":
        return run(CHECK, self.folder, pin or self.pin)


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    return Audited(tmp_path)


def run(script: str, *words: object) -> "subprocess.CompletedProcess[str]":
    argv = ["bash", "-c", script, "check.sh", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_an_export_is_accepted_and_its_tail_is_told_of(audited: Audited) -> None:
    done = audited.check()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "the first 29 of 30 entries are what log.example/tests has signed"


def test_an_altered_export_is_refused(audited: Audited) -> None:
    entries, checkpoint = audited.folder / "entries.jsonl", audited.folder / "checkpoint"
    lines, note = entries.read_bytes().splitlines(keepends=True), checkpoint.read_text()
    changed = lines[7].replace(b"human:k7", b"human:k8")
    for altered in (
        [*lines[:7], changed, *lines[8:]],
        [*lines[:7], *lines[8:]],
        [*lines[:7], lines[7], *lines[7:]],
        [*lines[:7], lines[8], lines[7], *lines[9:]],
        lines[:28],
        [*lines[:28], lines[28][:-1]],
        [*lines[:7], lines[7].replace(b"\n", b"\0\n"), *lines[8:]],
        [*lines[:7], lines[7].replace(b"\n", b" \n"), *lines[8:]],
    ):
        entries.write_bytes(b"".join(altered))
        done = audited.check()
        assert done.returncode != 0
        assert "entries are what" not in done.stdout
    entries.write_bytes(b"".join(lines))
    for at in range(0, len(note.split("\n\n")[0]), 7):
        flip(checkpoint, at)
        assert audited.check().returncode != 0, at
        checkpoint.write_text(note)
    for altered_note in (
        note.replace("\n29\n", "\n28\n"),
        note.replace("— log.example/tests ", "— log.example/test "),
        "",
    ):
        checkpoint.write_text(altered_note)
        assert audited.check().returncode != 0
    checkpoint.write_text(note)
    assert audited.check().returncode == 0


def test_another_log_is_refused(audited: Audited, tmp_path: Path) -> None:
    other = Audited(tmp_path / "other")
    assert audited.check(other.pin).returncode != 0
    assert audited.check(audited.pin.rpartition("@")[0] + "@" + other.pin.rpartition("@")[2]).returncode != 0
    assert audited.check(other.pin.rpartition("@")[0] + "@" + audited.pin.rpartition("@")[2]).returncode != 0


def test_a_text_opens_its_commitment_and_another_one_does_not(audited: Audited) -> None:
    done = run(OPEN, audited.folder)
    assert done.returncode == 0, done.stderr
    bodies = audited.folder / "bodies.jsonl"
    bodies.write_text(bodies.read_text().replace("older", "newer", 1))
    assert run(OPEN, audited.folder).returncode != 0
