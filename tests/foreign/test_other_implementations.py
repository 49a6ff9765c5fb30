"""What we hand out is accepted, and refused when altered, by code that nobody here wrote.

aics-tlog (Python) reads checkpoints, tiles and proofs; witness-log (Rust) is a tlog-witness. They live in an environment of
their own, outside the repository, with a Python that they support.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components import need
from handed_out import Handed, flip
from hansard.ledger.merkle import EMPTY_ROOT
from hansard.ledger.note import Signature, VerifierKey, format_note, open_note, parse_note
from hansard.ledger.receipt import parse_proof
from hansard.ledger.witness import Refused
from hansard.record.receipts import make_consistency
from hansard.seal.signing import SigningKey, sign_checkpoint
from hansard.seal.witness import Witness
from signed_log import ORIGIN, SignedLog

pytestmark = pytest.mark.long

PACKAGES = ("aics-tlog==0.2.1", "witness-log==0.6.1")
OLDEST = (3, 12)

# Speaks JSON on standard input and output, so that nothing of ours is imported where their code runs.
ASK = """
import json, sys
asked = json.load(sys.stdin)
import aics_tlog, witness_log
def leaf_in(line, index, size, path, root):
    leaf = aics_tlog.leaf_hash(line.encode())
    by_rust = witness_log.verify_inclusion(leaf.hex(), index, size, path, root)
    try:
        by_python = aics_tlog.verify_inclusion(leaf, index, size, [bytes.fromhex(p) for p in path], bytes.fromhex(root))
    except ValueError:
        by_python = False
    return [bool(by_rust), by_python is not False]
def witness(origin, key, bodies):
    service = witness_log.WitnessService.new("witness.example/w1", bytes(range(32)))
    service.add_log(origin, key)
    return [service.vkey(), [service.handle_add_checkpoint(body, 1800000000) for body in bodies]]
json.dump({"leaf_in": leaf_in, "witness": witness}[asked["call"]](*asked["with"]), sys.stdout)
"""


def pythons() -> list[str]:
    """Interpreters that may be new enough: this one, those beside it, those on the path."""
    beside = sorted(str(path) for path in Path(sys.base_prefix).parent.glob("3.1[2-9]*/bin/python3"))
    named = [shutil.which(f"python3.{minor}") for minor in (12, 13, 14)]
    return [sys.executable, *beside, *(path for path in named if path)]


def supports(python: str) -> bool:
    done = subprocess.run(
        [python, "-c", f"import sys; sys.exit(sys.version_info < {OLDEST})"], capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.fixture(scope="session")
def theirs() -> Path:
    """The folder of programs of an environment that holds the two packages; made once, and kept for the next time."""
    folder = Path(tempfile.gettempdir()) / f"hansard-other-implementations-{'-'.join(PACKAGES).replace('==', '-')}"
    programs = folder / "bin"
    if not (folder / "complete").exists():
        python = next((each for each in pythons() if supports(each)), None)
        need(python is not None, "Python 3.12 or newer beside this one, which aics-tlog asks for")
        subprocess.run([str(python), "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        need(done.returncode == 0, f"{' and '.join(PACKAGES)} from a package index ({done.stderr[-200:]})")
        (folder / "complete").touch()
    return programs


Ask = Callable[..., Any]


@pytest.fixture
def ask(theirs: Path) -> Ask:
    def call(name: str, *values: object) -> Any:
        asked = json.dumps({"call": name, "with": values})
        done = subprocess.run(
            [str(theirs / "python"), "-I", "-c", ASK], input=asked, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    return call


@pytest.fixture
def handed(tmp_path: Path) -> Handed:
    return Handed(tmp_path)


def says(theirs: Path, folder: Path, *arguments: str) -> bool:
    """Whether aics-tlog accepts; its answer is one JSON object, and must agree with its exit code."""
    done = subprocess.run(
        [str(theirs / "aics-tlog"), *arguments, "--vkey-file", str(folder / "key")],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    ok = done.returncode == 0
    if ok:
        assert json.loads(done.stdout)["ok"] is True
    return ok


def test_a_checkpoint_of_ours_is_accepted_and_an_altered_one_refused(
    theirs: Path, handed: Handed, tmp_path: Path
) -> None:
    note = tmp_path / "note"
    check = ("verify-checkpoint", "--note", str(note), "--origin", ORIGIN)
    note.write_text(handed.new.note)
    assert says(theirs, tmp_path, *check)
    assert not says(theirs, tmp_path, *check[:-1], "log.example/other")
    for old, new in (("\n615\n", "\n616\n"), (ORIGIN, "log.example/tester")):
        note.write_text(handed.new.note.replace(old, new, 1))
        assert not says(theirs, tmp_path, *check)


def test_a_tiles_export_of_ours_is_accepted_and_an_altered_one_refused(
    theirs: Path, handed: Handed, tmp_path: Path
) -> None:
    entry = tmp_path / "entry"
    include = ("verify-inclusion", "--tiles", str(handed.tiles), "--index", "5", "--entry-out", str(entry))
    assert says(theirs, tmp_path, "verify-checkpoint", "--tiles", str(handed.tiles))
    assert says(theirs, tmp_path, *include)
    assert entry.read_bytes() == handed.line
    for name in ("tile/0/000", "tile/1/000.p/2", "tile/entries/000", "checkpoint"):
        path = handed.tiles / name
        kept = path.read_bytes()
        flip(path, 40)
        assert not says(theirs, tmp_path, *include), name
        path.write_bytes(kept)
    assert says(theirs, tmp_path, *include)


def test_growth_is_seen_from_the_tiles_and_another_past_is_refused(
    theirs: Path, handed: Handed, tmp_path: Path
) -> None:
    grown = ("verify-consistency", "--tiles", str(handed.tiles), "--old-checkpoint")
    assert says(theirs, tmp_path, *grown, str(tmp_path / "old"))
    other = SignedLog.create(tmp_path / "other")
    other.ask("another past")
    (tmp_path / "theirs").write_text(other.checkpoint().note)
    other.store.close()
    assert not says(theirs, tmp_path, *grown, str(tmp_path / "theirs"))


def test_the_path_of_a_receipt_is_accepted_by_both_and_refused_by_both_when_altered(ask: Ask, handed: Handed) -> None:
    proof = parse_proof(handed.receipt.encode())
    assert proof.extra
    line = json.loads(proof.extra)["line"]
    _, size, root = parse_note(proof.checkpoint).text.split("\n")[:3]
    path = [each.hex() for each in proof.path]
    hex_root = b64decode(root).hex()
    good = (line, proof.index, int(size), path, hex_root)
    assert ask("leaf_in", *good) == [True, True]
    for bad in (
        (line.replace("human:k7", "human:k8"), *good[1:]),
        (line, proof.index + 1, *good[2:]),
        (line, proof.index, int(size) + 1000, path, hex_root),
        (line, proof.index, int(size), path[::-1], hex_root),
        (line, proof.index, int(size), path[:-1], hex_root),
        (line, proof.index, int(size), path, "00" * 32),
    ):
        assert ask("leaf_in", *bad) == [False, False], bad[1:]


def test_a_witness_cosigns_our_growth_and_refuses_what_does_not_follow(ask: Ask, handed: Handed) -> None:
    lines = handed.second.split("\n")
    forged = "\n".join([lines[0], lines[2], lines[1], *lines[3:]])
    bodies = [
        handed.first,
        handed.second.replace("old 11", "old 10", 1),
        forged,
        handed.second.replace("\n615\n", "\n616\n", 1),
        handed.second,
    ]
    key, answers = ask("witness", ORIGIN, handed.key, bodies)
    assert [status for status, _ in answers] == [200, 409, 422, 403, 200]
    cosigner = VerifierKey.parse(key)
    for note, (_, cosignature) in ((handed.old.note, answers[0]), (handed.new.note, answers[4])):
        opened = open_note(parse_note(note + cosignature), [cosigner])
        assert opened.cosigned == ((cosigner, 1800000000),)


def requests(log: SignedLog) -> dict[str, str]:
    """What a log, a stranger and a forger may ask of a witness, in an order in which some of it is cosigned."""
    log.ask_many(10)
    old = log.checkpoint()
    log.ask_many(600)
    new = log.checkpoint()
    assert log.ring
    own, namesake, stranger = log.ring.identity, SigningKey.generate(ORIGIN), SigningKey.generate("log.example/other")
    other = sign_checkpoint("log.example/other", 3, bytes(32), [stranger])
    line, text = "A" * 43 + "=\n", parse_note(new.note).text
    first, second = make_consistency(log.store, 0, old), make_consistency(log.store, old.size, new)
    head, one, two, *rest = second.split("\n")
    broken = Signature(name=ORIGIN, key_id=own.verifier.key_id, blob=bytes(64))
    longer = text + "an extension line\n"
    again = f"old {new.size}\n\n"
    return {
        "nothing": "",
        "no blank line": "old 0\n",
        "no request": "x\n\ny\n",
        "a log that is not known": f"old 0\n\n{other}",
        "the same from beyond its size": f"old 9\n\n{other}",
        "a key of the same name": f"old 0\n\n{sign_checkpoint(ORIGIN, 3, bytes(32), [namesake])}",
        "another size than was signed": first.replace(f"\n{old.size}\n", f"\n{old.size + 1}\n"),
        "from beyond its size": f"old {old.size + 1}\n\n{old.note}",
        "from where the witness is not": make_consistency(log.store, 5, old),
        "an empty log": f"old 0\n\n{sign_checkpoint(ORIGIN, 0, EMPTY_ROOT, [own])}",
        "a proof where there is nothing to prove": f"old 0\n{line}\n{old.note}",
        "a leading zero": f"old 00\n\n{old.note}",
        "a sign": f"old -1\n\n{old.note}",
        "a proof that is not base64": f"old 0\n%%%\n\n{old.note}",
        "a proof that is not of hashes": f"old 0\nAAAA\n\n{old.note}",
        "as many hashes as may be": f"old 0\n{line * 63}\n{old.note}",
        "one more": f"old 0\n{line * 64}\n{old.note}",
        "lines of another system": first.replace("\n", "\r\n"),
        "the first that is good": first,
        "it again from the beginning": first,
        "it again from where it is": f"old {old.size}\n\n{old.note}",
        "it again with a proof": f"old {old.size}\n{line}\n{old.note}",
        "something smaller": f"old 5\n\n{sign_checkpoint(ORIGIN, 5, bytes(32), [own])}",
        "growth without a proof": f"old {old.size}\n\n{new.note}",
        "growth from another size": second.replace(head, f"old {old.size - 1}"),
        "hashes that changed places": "\n".join([head, two, one, *rest]),
        "a proof that is too short": "\n".join([head, two, *rest]),
        "a proof that is too long": second.replace(head, f"{head}\n{one}"),
        "a longer log that is another one": second.replace(
            new.note, sign_checkpoint(ORIGIN, new.size, bytes(32), [own])
        ),
        "the second that is good, with a stranger's signature": second + stranger.sign(text).line(),
        "a signature twice": again + new.note + own.sign(text).line(),
        "sixteen signatures": again + new.note + stranger.sign(text).line() * 14,
        "an extension line": again + format_note(longer, [own.sign(longer)]),
        "a signature that does not hold beside one that does": again + format_note(text, [broken, own.sign(text)]),
    }


def test_their_witness_and_ours_say_the_same_to_everything(ask: Ask, tmp_path: Path) -> None:
    log = SignedLog.create(tmp_path / "log")
    asked = requests(log)
    _, answers = ask("witness", ORIGIN, log.identity, list(asked.values()))
    ours = Witness.open(tmp_path / "w", "witness.example/w1")
    ours.trust(VerifierKey.parse(log.identity))
    found: dict[str, list[Any]] = {}
    for name, body in asked.items():
        try:
            ours.cosign(body.encode(), lambda: 1800000000)
            found[name] = [200, None]
        except Refused as refusal:
            found[name] = [refusal.status, refusal.size]
    theirs = {
        name: [status, int(said) if status == 409 else None]
        for name, (status, said) in zip(asked, answers, strict=True)
    }
    assert found == theirs
    assert {status for status, _ in found.values()} == {200, 400, 403, 404, 409, 422}
