"""What we hand out and serve is read, and refused when altered, by the log of Go's checksum database.

`auditor.go` beside this file is all that we bring; signatures, tiles and proofs are judged by golang.org/x/mod/sumdb, which is
older than the public formats' other readers and shares no code with them.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from components import need
from daemons import Served, place, serving
from handed_out import Handed, flip
from hansard.ledger.receipt import format_proof, parse_proof
from shell import hansard
from signed_log import SignedLog
from witnesses import watching

pytestmark = pytest.mark.long

GOPATH = Path("/usr/share/gocode")
"""Where Debian keeps the sources of Go's packages, so that nothing is fetched."""

Audit = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """The auditor's program, built once; called with the flags, where the log is, and the identity key."""
    there = shutil.which("go") and (GOPATH / "src/golang.org/x/mod/sumdb/tlog").is_dir()
    need(bool(there), "Go and golang.org/x/mod (apt install golang-go golang-golang-x-mod-dev)")
    folder = tmp_path_factory.mktemp("go")
    source, program = Path(__file__).with_name("auditor.go"), folder / "auditor"
    settings = {"GO111MODULE": "off", "GOPATH": str(GOPATH), "GOFLAGS": "", "GOCACHE": str(folder / "cache")}
    for words in (["vet", source], ["build", "-o", program, source]):
        done = subprocess.run(
            ["go", *map(str, words)], env=os.environ | settings, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def call(*words: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False, timeout=120)

    return call


def told(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What the auditor found, once nothing was wrong."""
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def refused(done: "subprocess.CompletedProcess[str]") -> bool:
    return done.returncode == 1 and "panic" not in done.stderr


@pytest.fixture
def handed(tmp_path: Path) -> Handed:
    made = Handed(tmp_path)
    (tmp_path / "receipt").write_text(made.receipt)
    return made


def test_an_export_with_its_older_checkpoint_and_receipt_is_accepted(
    audit: Audit, handed: Handed, tmp_path: Path
) -> None:
    root = handed.new.note.split("\n")[2]
    found = told(audit("-against", tmp_path / "old", "-receipt", tmp_path / "receipt", handed.tiles, handed.key))
    assert found == [f"checkpoint 615 {root}", "entries 615", "checkpoints 3", "extends 11", "receipt of 5 at 615"]


def test_an_altered_export_is_refused(audit: Audit, handed: Handed) -> None:
    for name in (
        "checkpoint",
        "tile/0/000",
        "tile/0/002.p/103",
        "tile/1/000.p/2",
        "tile/entries/000",
        "tile/entries/002.p/103",
        "entries.jsonl",
        "checkpoints.jsonl",
    ):
        path = handed.tiles / name
        kept = path.read_bytes()
        for change in (lambda: flip(path, 40), lambda: path.write_bytes(kept[:-32]), path.unlink):  # noqa: B023
            change()
            assert refused(audit(handed.tiles, handed.key)), name
            path.write_bytes(kept)
    told(audit(handed.tiles, handed.key))


def test_a_log_that_was_built_anew_is_refused(audit: Audit, handed: Handed, tmp_path: Path) -> None:
    other = SignedLog.create(tmp_path / "other")
    other.ask("another past")
    (tmp_path / "another past").write_text(other.checkpoint().note)
    assert refused(audit(handed.tiles, other.identity))
    assert refused(audit("-against", tmp_path / "another past", handed.tiles, handed.key))
    other.store.close()


def test_an_altered_receipt_is_refused(audit: Audit, handed: Handed, tmp_path: Path) -> None:
    proof = parse_proof(handed.receipt.encode())
    extra = json.loads(proof.extra or b"")
    for change in (
        {"index": proof.index + 1},
        {"path": proof.path[:-1]},
        {"path": proof.path[::-1]},
        {"extra": json.dumps(extra | {"line": extra["line"].replace("human:k7", "human:k8")}).encode()},
        {"checkpoint": proof.checkpoint.replace("\n615\n", "\n616\n")},
        {"checkpoint": handed.old.note},
    ):
        fields = {name: getattr(proof, name) for name in ("extra", "index", "path", "checkpoint")} | change
        (tmp_path / "receipt").write_text(format_proof(type(proof)(**fields)))
        assert refused(audit("-receipt", tmp_path / "receipt", handed.tiles, handed.key)), change


def test_a_daemon_that_is_written_to_is_read_and_each_state_extends_the_one_before(
    audit: Audit, tmp_path: Path
) -> None:
    with serving(place(tmp_path), "--provider", "quick") as daemon:
        key = daemon.cli("ledger", "pin").stdout.split("@")[0]
        old, sizes = tmp_path / "old", []
        with ThreadPoolExecutor() as pool:
            for _ in range(4):
                runs = [pool.submit(daemon.submit, wait=60) for _ in range(20)]
                while not all(run.done() for run in runs):
                    sizes.append(_size(audit, daemon, key, old))
        assert sizes[-1] > 256, "there is more than one tile"
        assert sizes == sorted(sizes)
        made = daemon.get("/v1/ledger/entries/300/receipt").json()["receipt"]
        (tmp_path / "receipt").write_text(made)
        told(audit("-token", daemon.token, "-receipt", tmp_path / "receipt", daemon.address, key))
        assert refused(audit("-token", "another", daemon.address, key))


def _size(audit: Audit, daemon: Served, key: str, old: Path) -> int:
    """How large the daemon's log is; it extends what was seen the last time."""
    against = ("-against", old) if old.exists() else ()
    found = told(audit("-token", daemon.token, *against, daemon.address, key))
    note = daemon.get("/checkpoint")
    assert note.status_code == 200
    old.write_text(note.text)
    return int(found[0].split()[1])


def test_the_word_of_a_witness_is_read_from_a_receipt(audit: Audit, tmp_path: Path) -> None:
    keeper = tmp_path / "keeper"
    keeper.mkdir()
    hansard(keeper, "init")
    hansard(keeper, "submit", "please", "--provider", "rehearsal")
    pin = hansard(keeper, "ledger", "pin").stdout.strip()
    with watching(tmp_path / "witness") as witness:
        witness.trust(pin)
        done = hansard(keeper, "ledger", "witness", witness.url, "--key", witness.key)
        assert done.returncode == 0, done.stderr
        other = witness.key
    hansard(keeper, "ledger", "receipt", "1", "--cosigned", "-o", "r.tlog-proof")
    hansard(keeper, "ledger", "export", "audit")
    key, proof = pin.split("@")[0], keeper / "r.tlog-proof"
    assert told(audit("-receipt", proof, "-cosigned", other, keeper / "audit", key))[-1].startswith("receipt of 1 at")
    text = proof.read_text()
    line = text.splitlines()[-1]
    assert line.startswith("— witness.example/w1 ")
    proof.write_text(text.replace(line + "\n", ""))
    assert refused(audit("-receipt", proof, "-cosigned", other, keeper / "audit", key))
