"""Exports: complete or not there at all, private, and accepted by the verifier they carry, on its own, until one byte changes."""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.merkle import leaf_hash, root_at, root_of
from hansard.ledger.report import Report
from hansard.ledger.tiles import decode_bundle, tiles_for
from hansard.ledger.verify import Options, verify
from hansard.record.draft import Drafter
from hansard.record.export import export
from hansard.record.sealed import newest_sealed
from hansard.record.verifier_archive import archive
from hansard.seal.genesis import found
from hansard.store.base import StoredCheckpoint
from hansard.store.conformance.sample import draft, put
from hansard.store.memory import MemoryStore
from hansard.store.sqlite import SqliteStore
from signed_log import SignedLog


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> SignedLog:
    """A log with some of everything: rotations, redactions, odd bodies, an unsealed tail."""
    log = SignedLog.create(tmp_path_factory.mktemp("original") / "log")
    log.ask("plain", plan=b'{"tasks": []}')
    log.ask("line\u2028separator \ud800")
    log.ask(b"\xff\x00\x80")
    log.ask("x" * 20_000)
    log.redact(log.ask("secret"), "request")
    log.ask_many(301)
    log.rotate()
    log.ask_many(10)
    log.checkpoint()
    log.ask("tail")
    return log


@pytest.fixture
def full(original: SignedLog, tmp_path: Path) -> Iterator[SignedLog]:
    made = original.copy(tmp_path / "log")
    yield made
    made.store.close()


@pytest.fixture(scope="module")
def exported(original: SignedLog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    log = original.copy(folder / "log")
    export(log.store, folder / "out")
    log.store.close()
    return folder / "out"


@pytest.fixture
def out(exported: Path, tmp_path: Path) -> Path:
    """An export of the log that a test may spoil."""
    return shutil.copytree(exported, tmp_path / "out")


def deep(path: Path) -> Report:
    return verify(path, Options(deep=True))


def alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the verifier in the folder as a stranger would: no site packages, no environment, nothing of ours."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(folder / "verify.pyz"), *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={},
        cwd="/",
    )


def test_a_tombstone_that_names_nothing_hides_nothing(log: SignedLog, tmp_path: Path) -> None:
    log.ask("plain")
    named = {"commitment": "0" * 64, "part": "request", "reason": "other", "seq": 1}
    odd: list[dict[str, Any]] = [{"seq": []}, {"part": {}}, {"commitment": 7}]
    for each in odd:
        put(log.store, draft(kind="body.redacted", run="", data=named | each))
    done = export(log.store, tmp_path / "export")
    assert (done.bodies, done.redacted) == (1, 0)
    assert {each.code for each in verify(tmp_path / "export", Options(deep=True)).findings} == {"special"}


def test_a_tombstone_of_another_commitment_hides_nothing(log: SignedLog, tmp_path: Path) -> None:
    log.ask("plain")
    named = {"commitment": "0" * 64, "part": "request", "reason": "other", "seq": 1}
    put(log.store, draft(kind="body.redacted", run="", data=named))
    done = export(log.store, tmp_path / "export")
    assert (done.bodies, done.redacted) == (1, 0)
    assert verify(tmp_path / "export", Options(deep=True)).bodies == verify(log.path, Options(deep=True)).bodies


def test_an_export_verifies_like_the_log_that_it_came_from(full: SignedLog, tmp_path: Path) -> None:
    done = export(full.store, tmp_path / "out")
    theirs, ours = deep(tmp_path / "out"), deep(full.path)
    assert theirs.exit_code == 0
    assert theirs.form == "export"
    for name in ("size", "head", "root", "origin", "genesis", "bodies", "signed"):
        assert getattr(theirs, name) == getattr(ours, name)
    assert (done.size, done.published, done.checkpoints) == (320, 319, 2)
    assert (done.bodies, done.redacted, done.missing, done.left_out) == (317, 1, 0, 0)


def test_lines_are_the_bytes_of_the_store(full: SignedLog, tmp_path: Path) -> None:
    export(full.store, tmp_path / "out")
    assert (tmp_path / "out/entries.jsonl").read_bytes() == b"".join(line + b"\n" for line in full.store.lines())
    notes = [json.loads(line)["note"] for line in (tmp_path / "out/checkpoints.jsonl").read_bytes().splitlines()]
    assert notes == [each.note for each in full.store.checkpoints()]


def test_an_export_is_accepted_by_the_verifier_it_carries(exported: Path) -> None:
    done = alone(exported, "--deep")
    assert (done.returncode, done.stderr) == (0, "")
    assert "sealed to 319" in done.stdout


def test_the_readme_names_a_command_that_works(exported: Path) -> None:
    text = (exported / "README.txt").read_text()
    [command] = [line.split() for line in text.splitlines() if "verify.pyz --deep ." in line]
    assert command[0] == "python3"
    done = subprocess.run([sys.executable, *command[1:]], cwd=exported, capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("upto", [None, 5])
def test_the_readme_names_what_lies_there_and_nothing_else(full: SignedLog, tmp_path: Path, upto: int | None) -> None:
    export(full.store, tmp_path / "out", upto=upto)
    text = (tmp_path / "out/README.txt").read_text()
    listed = text[text.index("entries.jsonl") :].splitlines()
    named = {name.rstrip("/") for line in listed for name in line.split("  ")[0].split(", ")}
    assert named == {each.name for each in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("entries.jsonl", b"human:k7", b"human:k8"),
        ("entries.jsonl", b'"seq":7', b'"seq":8'),
        ("bodies.jsonl", b"plain", b"PLAIN"),
        ("checkpoints.jsonl", b"\\n319\\n", b"\\n318\\n"),
        ("checkpoint", b"\n319\n", b"\n318\n"),
        ("tile/entries/000", b"human:k7", b"human:k8"),
    ],
)
def test_a_tampered_export_is_refused(out: Path, name: str, old: bytes, new: bytes) -> None:
    path = out / name
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    assert deep(out).exit_code == 20


def test_a_tampered_export_is_refused_by_the_verifier_it_carries(out: Path) -> None:
    path = out / "bodies.jsonl"
    path.write_bytes(path.read_bytes().replace(b"plain", b"PLAIN", 1))
    done = alone(out, "--deep")
    assert done.returncode == 20
    assert "entry 1 part request" in done.stdout


@pytest.mark.parametrize("name", ["tile/0/000", "tile/0/001.p/63", "tile/1/000.p/1", "tile/entries/001.p/63"])
def test_a_tile_that_is_gone_or_changed_is_refused(out: Path, name: str) -> None:
    path = out / name
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert deep(out).exit_code == 20
    path.unlink()
    assert deep(out).exit_code == 20


def test_the_pin_decides_whether_it_is_the_log_that_was_meant(full: SignedLog, exported: Path) -> None:
    leaf = leaf_hash(full.store.entry(0).line).hex()
    assert alone(exported, "--pin", f"{full.identity}@{leaf}").returncode == 0
    assert verify(exported, Options(pin=f"{full.identity}@{'0' * 64}")).exit_code == 21


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 512, 700])
def test_the_tiles_are_those_of_the_published_size_and_no_others(log: SignedLog, tmp_path: Path, size: int) -> None:
    log.ask_many(size - 1)
    log.checkpoint()
    out = tmp_path / "out"
    export(log.store, out)
    hashes = b"".join(
        (out / f"tile/0/{index:03}{'' if width == 256 else f'.p/{width}'}").read_bytes()
        for level, index, width in tiles_for(size)
        if level == 0
    )
    leaves = [hashes[at : at + 32] for at in range(0, len(hashes), 32)]
    assert root_of(leaves) == root_at(size, log.store)
    bundles = sorted((out / "tile/entries").rglob("*"), key=lambda path: path.relative_to(out).parts[2][:3])
    lines = [line for path in bundles if path.is_file() for line in decode_bundle(path.read_bytes())]
    assert lines == list(log.store.lines())
    report = deep(out)
    assert (report.exit_code, [finding.message for finding in report.findings]) == (0, [])


def test_an_export_up_to_a_size_holds_no_more_than_that(full: SignedLog, tmp_path: Path) -> None:
    done = export(full.store, tmp_path / "out", upto=309)
    report = deep(tmp_path / "out")
    assert (done.size, done.published, report.size, report.exit_code) == (309, 309, 309, 0)
    assert done.checkpoints == 1


def test_an_export_of_a_log_whose_end_was_cut_off_is_found_to_be_cut(log: SignedLog, tmp_path: Path) -> None:
    log.ask_many(3)
    shorter = log.copy(tmp_path / "shorter")
    log = shorter.copy(tmp_path / "longer")
    log.ask("what somebody wants to be forgotten")
    kept = log.checkpoint()
    log.store.close()
    shorter = SignedLog(store=SqliteStore.open(shorter.path), ring=shorter.ring)
    claim = shorter.store.claim("seal", 60)
    shorter.store.add_checkpoint(kept, claim.epoch)
    done = export(shorter.store, tmp_path / "out")
    shorter.store.close()
    assert (done.size, done.checkpoints) == (4, 1)
    for path in (shorter.path, tmp_path / "out"):
        assert [each.code for each in deep(path).findings] == ["tail_cut"]


def test_an_export_leaves_out_what_was_signed_since_it_began(log: SignedLog, tmp_path: Path) -> None:
    log.ask_many(300)
    log.checkpoint()
    read, grown = log.store.checkpoints, list(range(3))

    def checkpoints(*, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        for _ in range(len(grown)):
            grown.pop()
            log.ask("meanwhile")
            log.checkpoint()
        return read(newest_first=newest_first)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "checkpoints", lambda _, **how: checkpoints(**how))
        done = export(log.store, tmp_path / "out")
    assert (done.size, done.checkpoints, done.published) == (301, 1, 301)
    assert deep(tmp_path / "out").findings == ()


def test_an_export_is_published_at_a_checkpoint_that_comes_along(log: SignedLog, tmp_path: Path) -> None:
    log.ask_many(300)
    log.checkpoint()
    log.ask("not signed yet")
    read, unsigned = log.store.checkpoints, [True]

    def checkpoints(*, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        yield from read(newest_first=newest_first)
        if unsigned:
            unsigned.pop()
            log.checkpoint()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SqliteStore, "checkpoints", lambda _, **how: checkpoints(**how))
        done = export(log.store, tmp_path / "out")
    assert (done.size, done.checkpoints, done.published) == (302, 1, 301)
    assert deep(tmp_path / "out").exit_code == 0


def test_an_export_below_the_first_checkpoint_has_no_tiles(full: SignedLog, tmp_path: Path) -> None:
    done = export(full.store, tmp_path / "out", upto=5)
    assert done.published is None
    assert not (tmp_path / "out/tile").exists()
    assert deep(tmp_path / "out").exit_code == 0


@pytest.mark.parametrize("upto", [0, -1, 321])
def test_a_size_that_the_log_does_not_have_is_refused(full: SignedLog, tmp_path: Path, upto: int) -> None:
    with pytest.raises(UsageError, match="name 1 to 320"):
        export(full.store, tmp_path / "out", upto=upto)
    assert not (tmp_path / "out").exists()


def test_an_unsigned_log_is_exported_and_verifies_unsigned(tmp_path: Path) -> None:
    log = SignedLog.create(tmp_path / "log", signed=False)
    log.ask("hello")
    export(log.store, tmp_path / "out")
    log.store.close()
    done = alone(tmp_path / "out", "--deep")
    assert done.returncode == 0
    assert "unsigned" in done.stdout


def test_without_bodies_the_log_verifies_and_the_bodies_are_said_to_be_missing(full: SignedLog, tmp_path: Path) -> None:
    done = export(full.store, tmp_path / "out", bodies=False)
    assert (done.bodies, done.left_out) == (0, 317)
    assert b"plain" not in (tmp_path / "out/bodies.jsonl").read_bytes()
    assert verify(tmp_path / "out").exit_code == 0
    assert deep(tmp_path / "out").exit_code == 22
    assert "left out" in (tmp_path / "out/README.txt").read_text()


def test_a_body_whose_redaction_is_pending_stays_at_home(log: SignedLog, tmp_path: Path) -> None:
    seq = log.ask("my password is hunter2")
    log.bury(seq, "request")
    done = export(log.store, tmp_path / "out")
    assert (done.redacted, done.bodies) == (1, 0)
    assert not any(b"hunter2" in path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert deep(tmp_path / "out").bodies.redacted == 1


def test_a_body_that_is_erased_while_an_export_is_made_goes_with_its_tombstone(log: SignedLog, tmp_path: Path) -> None:
    early = log.ask("an early secret")
    log.ask_many(300)
    late = log.ask("a late secret")
    stones: list[int] = []

    def redact_meanwhile(done: int, _: int) -> None:
        if not stones:
            assert early < done <= late
            stones.extend(log.redact(seq, "request") for seq in (early, late))

    done = export(log.store, tmp_path / "out", progress=redact_meanwhile)
    assert (done.size, done.redacted, done.missing, done.bodies) == (stones[-1] + 1, 2, 0, 300)
    report = deep(tmp_path / "out")
    assert (report.ok, report.bodies.redacted, report.bodies.pending) == (True, 2, 0)
    assert b"secret" not in (tmp_path / "out" / "bodies.jsonl").read_bytes()


def test_a_rotation_that_comes_along_with_a_tombstone_is_sealed_as_it_is_in_the_log(
    log: SignedLog, tmp_path: Path
) -> None:
    log.ask_many(300)
    log.checkpoint()
    stones: list[int] = []

    def rotate_and_redact(done: int, _: int) -> None:
        if not stones:
            assert done < 290
            log.rotate()
            stones.append(log.redact(290, "request"))

    done = export(log.store, tmp_path / "out", progress=rotate_and_redact)
    assert (done.size, done.published, done.redacted, done.missing) == (stones[0] + 1, stones[0], 1, 0)
    report = deep(tmp_path / "out")
    assert (report.findings, report.signed.sealed_to, report.bodies.redacted) == ((), stones[0], 1)


def test_an_export_of_a_log_in_which_bodies_are_erased_all_the_time_verifies(log: SignedLog, tmp_path: Path) -> None:
    log.ask_many(600)
    left = list(range(600, 400, -1))

    def redact(done: int, _: int) -> None:
        for seq in left[:50]:
            log.redact(seq, "request")
        del left[:50]

    done = export(log.store, tmp_path / "out", progress=redact)
    report = deep(tmp_path / "out")
    assert (report.ok, report.bodies.pending, report.bodies.redacted) == (True, 0, done.redacted)
    assert done.bodies == report.bodies.opened


def test_a_missing_body_is_counted_and_stays_a_finding(log: SignedLog, tmp_path: Path) -> None:
    log.store.erase((log.ask("gone"), "request"))
    assert export(log.store, tmp_path / "out").missing == 1
    assert deep(tmp_path / "out").exit_code == 22


def test_behind_a_rotation_that_was_never_sealed_nothing_is_published(log: SignedLog, tmp_path: Path) -> None:
    log.ask("one")
    log.checkpoint()
    log.rotate_unsealed()
    log.ask("two")
    log.checkpoint()
    done = export(log.store, tmp_path / "out")
    report = deep(tmp_path / "out")
    assert (done.published, report.signed.sealed_to, report.exit_code) == (2, 2, 0)
    assert report.signed.unsealed_rotations == (2,)


def test_the_sealed_size_is_the_one_that_the_verifier_finds(full: SignedLog) -> None:
    sealed = newest_sealed(full.store, full.store.head().size)
    assert sealed
    assert sealed.checkpoint.size == deep(full.path).signed.sealed_to


def test_everything_in_an_export_is_private(full: SignedLog, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        export(full.store, tmp_path / "out")
    finally:
        os.umask(before)
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_every_name_in_an_export_is_durable_before_it_has_its_own(
    full: SignedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, rename, durable = os.fsync, os.rename, set[int]()

    def seen(fd: int) -> None:
        sync(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            durable.update(each.inode() for each in os.scandir(fd))

    def named(partial: Path, folder: Path) -> None:
        assert {each.stat().st_ino for each in partial.rglob("*")} <= durable
        rename(partial, folder)

    monkeypatch.setattr(os, "fsync", seen)
    monkeypatch.setattr(os, "rename", named)
    export(full.store, tmp_path / "out")
    assert (tmp_path / "out/tile/0/000").is_file()


def test_an_empty_folder_may_be_filled_and_a_full_one_is_left_alone(full: SignedLog, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export(full.store, tmp_path / "empty")
    names = sorted(path.name for path in (tmp_path / "empty").iterdir())
    with pytest.raises(UsageError, match="it is not empty"):
        export(full.store, tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not a folder"):
        export(full.store, tmp_path / "file")
    with pytest.raises(UsageError, match="make it first"):
        export(full.store, tmp_path / "nowhere" / "out")
    assert sorted(path.name for path in (tmp_path / "empty").iterdir()) == names
    assert (tmp_path / "file").read_text() == "mine"


def test_the_folder_that_one_stands_in_is_no_new_folder(
    full: SignedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="an export is a new folder; name one, such as audit"):
        export(full.store, Path("."))
    assert list(Path().iterdir()) == list(tmp_path.glob("**/*.partial")) == []


def test_an_export_that_fails_leaves_nothing_behind(full: SignedLog, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()

    def stop(done: int, total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreError, match="No space left on device; nothing was left there"):
        export(full.store, tmp_path / "target" / "out", progress=stop)
    assert list((tmp_path / "target").iterdir()) == []


def test_an_export_whose_name_may_not_last_leaves_nothing_behind(
    full: SignedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync, target = os.fsync, tmp_path / "target"
    target.mkdir()

    def failing(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), target.stat()):
            raise OSError(5, "Input/output error")
        sync(fd)

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", failing)
        with pytest.raises(StoreError, match="Input/output error; nothing was left there"):
            export(full.store, target / "out")
    assert list(target.iterdir()) == []
    export(full.store, target / "out")


def test_what_a_killed_export_leaves_has_another_name_and_is_removed_by_the_next(
    full: SignedLog, tmp_path: Path
) -> None:
    code = (
        "import os, sys; from pathlib import Path; from hansard.record.export import export\n"
        "from hansard.store.sqlite import SqliteStore\n"
        "export(SqliteStore.open(Path(sys.argv[1])), Path(sys.argv[2]), progress=lambda *_: os.kill(os.getpid(), 9))"
    )
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", code, str(full.path), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )
    assert done.returncode == -9
    assert not (tmp_path / "out").exists()
    [left] = tmp_path.glob(".out.*.partial")
    beside = [tmp_path / ".out.0.partial", tmp_path / ".other.0123456789ab.partial"]
    for each in beside:
        each.mkdir()

    def look(done: int, total: int) -> None:
        # One that is under way is nobody's to remove.
        with pytest.raises(StoreError, match="stop"):
            export(full.store, tmp_path / "out", progress=stop)

    def stop(done: int, total: int) -> None:
        raise StoreError("stop")

    export(full.store, tmp_path / "out", progress=look)
    assert verify(tmp_path / "out", Options(deep=True)).ok
    assert not left.exists()
    assert sorted(tmp_path.glob(".*.partial")) == sorted(beside)


def test_the_archive_is_the_same_each_time_and_holds_sources_only() -> None:
    assert archive() == archive()
    assert archive().startswith(b"#!/usr/bin/env python3\n")


def test_the_archive_holds_the_ledger_floor_and_nothing_else(exported: Path) -> None:
    with zipfile.ZipFile(exported / "verify.pyz") as packed:
        names = packed.namelist()
        assert {info.date_time for info in packed.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    source = Path(__file__).parents[2] / "src/hansard/ledger"
    assert sorted(names) == sorted(path.relative_to(source).as_posix() for path in source.rglob("*.py"))
    assert "__main__.py" in names


def test_progress_is_told_to_the_end(full: SignedLog, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    export(full.store, tmp_path / "out", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(256, 320), (320, 320)]


def test_memory_stays_flat(log: SignedLog, tmp_path: Path) -> None:
    for _ in range(12):
        log.ask(os.urandom(2 << 20))
    tracemalloc.start()
    try:
        export(log.store, tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 18 << 20, f"{peak} bytes at once for 24 MiB of bodies"


def test_a_store_that_lost_an_entry_is_not_exported_as_whole(full: SignedLog, tmp_path: Path) -> None:
    with sqlite3.connect(full.path) as db:
        db.execute("DELETE FROM entries WHERE seq = 7")
    db.close()
    with pytest.raises(StoreError, match="319 entries of 320"):
        export(full.store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_broken_log_is_exported_broken(full: SignedLog, tmp_path: Path) -> None:
    with sqlite3.connect(full.path) as db:
        db.execute("UPDATE entries SET line = replace(line, 'human:k7', 'human:k8') WHERE seq = 7")
        db.execute("UPDATE entries SET line = '{}' WHERE seq = 9")
    db.close()
    done = export(full.store, tmp_path / "out")
    assert done.bodies == 316
    report = deep(tmp_path / "out")
    assert report.exit_code == 20
    assert report.first_bad
    assert report.first_bad.seq in (7, 8)


def test_any_store_can_be_exported(tmp_path: Path) -> None:
    genesis, _ = found(lambda _: tmp_path / "keys", "log.example/memory", "test", signed=False)
    log = SignedLog(store=MemoryStore(Drafter().draft(genesis, actor="log", run="", causes=(), fence=None)), ring=None)
    log.ask_many(300)
    export(log.store, tmp_path / "out")
    report = deep(tmp_path / "out")
    assert (report.exit_code, report.root) == (0, log.store.head().root.hex())


def test_a_checkpoint_larger_than_the_export_is_left_out(full: SignedLog, tmp_path: Path) -> None:
    kept: list[StoredCheckpoint] = list(full.store.checkpoints())
    export(full.store, tmp_path / "out", upto=kept[0].size)
    assert len((tmp_path / "out/checkpoints.jsonl").read_bytes().splitlines()) == 1
