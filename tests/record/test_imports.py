"""A log that is brought back is the same log: same bytes, same root, same checkpoints, same bodies; a spoilt one is refused."""

import sqlite3
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.report import Findings, Report
from hansard.ledger.sources import Source, open_source
from hansard.ledger.verify import Options, verify
from hansard.record.adopt import adopt
from hansard.record.export import export
from hansard.record.imports import Row, import_log
from hansard.record.receipts import make_receipt
from hansard.seal.genesis import found
from hansard.store.base import Head, Part, StoredCheckpoint
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite.restoring import restore
from signed_log import ORIGIN, SignedLog, some_of_everything


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> SignedLog:
    return some_of_everything(tmp_path_factory.mktemp("original") / "log")


@pytest.fixture
def log(original: SignedLog, tmp_path: Path) -> Iterator[SignedLog]:
    made = original.copy(tmp_path / "log")
    yield made
    made.store.close()


def deep(path: Path) -> Report:
    return verify(path, Options(deep=True))


def jsonl_of(folder: Path, at: Path) -> Path:
    """An export's three files under the names of a ledger in JSON lines ([J1]-[J3])."""
    at.mkdir()
    for old, new in (("entries", "log"), ("bodies", "log.bodies"), ("checkpoints", "log.checkpoints")):
        (at / f"{new}.jsonl").write_bytes((folder / f"{old}.jsonl").read_bytes())
    return at / "log.jsonl"


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in a ledger file but what coordinates its writers."""
    db = sqlite3.connect(path)
    tables = ("entries", "causes", "nodes", "head", "checkpoints", "bodies", "shared")
    found = {table: db.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables}
    db.close()
    return found


@pytest.mark.parametrize("form", ["export", "jsonl", "sqlite"])
def test_a_log_comes_back_byte_for_byte(log: SignedLog, tmp_path: Path, form: str) -> None:
    export(log.store, tmp_path / "out")
    sources = {
        "export": tmp_path / "out",
        "jsonl": jsonl_of(tmp_path / "out", tmp_path / "lines"),
        "sqlite": log.path,
    }
    done = import_log(sources[form], partial(restore, tmp_path / "back.db"))
    assert done.report.form == form
    assert done.head == log.store.head()
    assert rows_of(tmp_path / "back.db") == rows_of(log.path)
    theirs, ours = deep(tmp_path / "back.db"), deep(log.path)
    assert theirs.exit_code == 0
    assert theirs.findings == ()
    for name in ("size", "head", "root", "bodies", "signed"):
        assert getattr(theirs, name) == getattr(ours, name)


def test_a_body_that_is_to_be_erased_is_not_copied(log: SignedLog, tmp_path: Path) -> None:
    log.bury(log.ask("kept", plan=b"another secret"), "plan")
    assert deep(log.path).bodies.pending == 1
    new = tmp_path / "new.db"
    import_log(log.path, partial(restore, new))
    found = deep(new)
    assert (found.ok, found.bodies.pending, found.bodies.redacted) == (True, 0, 2)
    assert b"another secret" not in new.read_bytes()


def test_the_restored_log_goes_on_where_its_keys_are(log: SignedLog, tmp_path: Path) -> None:
    export(log.store, tmp_path / "out")
    import_log(tmp_path / "out", partial(restore, tmp_path / "back.db"))
    store = SqliteStore.open(tmp_path / "back.db")
    assert store.broken is None
    again = SignedLog(store=store, ring=log.ring, epoch=log.epoch)
    seq = again.ask("after the restore")
    again.checkpoint()
    make_receipt(store, seq, ("request",))
    store.close()
    report = deep(tmp_path / "back.db")
    assert (report.exit_code, report.unsealed_tail) == (0, 0)


def test_the_restored_file_is_private_and_leaves_no_company(log: SignedLog, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    import_log(log.path, partial(restore, target / "back.db"))
    assert sorted(path.name for path in target.iterdir()) == ["back.db", "back.db.lock"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in target.iterdir())
    with sqlite3.connect(target / "back.db") as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("entries.jsonl", b"human:k7", b"human:k8"),
        ("bodies.jsonl", b"plain", b"PLAIN"),
        ("checkpoint", b"log.example", b"log.elsewhere"),
    ],
)
def test_a_spoilt_export_is_refused_and_nothing_is_made(
    log: SignedLog, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    export(log.store, tmp_path / "out")
    path = tmp_path / "out" / name
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    with pytest.raises(UsageError, match="does not verify, so nothing was taken from it"):
        import_log(tmp_path / "out", partial(restore, tmp_path / "back.db"))
    assert not (tmp_path / "back.db").exists()


def test_a_log_without_its_bodies_is_taken_only_when_asked_for(log: SignedLog, tmp_path: Path) -> None:
    export(log.store, tmp_path / "out", bodies=False)
    with pytest.raises(UsageError, match="does not verify"):
        import_log(tmp_path / "out", partial(restore, tmp_path / "back.db"))
    done = import_log(tmp_path / "out", partial(restore, tmp_path / "back.db"), lacking=True)
    assert done.head == log.store.head()
    assert deep(tmp_path / "back.db").exit_code == 22
    assert verify(tmp_path / "back.db").exit_code == 0


def test_the_pin_is_asked_before_anything_is_made(log: SignedLog, tmp_path: Path) -> None:
    pin = f"{log.identity}@{leaf_hash(log.store.entry(0).line).hex()}"
    with pytest.raises(UsageError, match=r"\[C8\]"):
        import_log(log.path, partial(restore, tmp_path / "back.db"), pin=pin.replace("@", "@00")[:-2])
    assert not (tmp_path / "back.db").exists()
    import_log(log.path, partial(restore, tmp_path / "back.db"), pin=pin)


def test_an_existing_ledger_is_never_overwritten(log: SignedLog, tmp_path: Path) -> None:
    before = rows_of(log.path)
    with pytest.raises(StoreError, match="exists already"):
        import_log(log.path, partial(restore, log.path))
    assert rows_of(log.path) == before
    assert not [path for path in log.path.parent.iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize("ending", ["-wal", "-journal"])
def test_a_log_is_not_laid_beside_what_sqlite_kept_of_another(log: SignedLog, tmp_path: Path, ending: str) -> None:
    place = tmp_path / "new" / "log.db"
    place.parent.mkdir()
    Path(f"{place}{ending}").write_bytes(b"pages of a ledger that was moved away")
    with pytest.raises(StoreError, match=f"log.db{ending} exists already"):
        import_log(log.path, partial(restore, place))
    with pytest.raises(StoreError, match=f"log.db{ending} exists already"):
        SignedLog.create(place.parent, signed=False)
    assert sorted(each.name for each in place.parent.iterdir()) == [f"log.db{ending}", "log.db.lock"]


@pytest.mark.parametrize("what", ["nothing", "receipt", "noise"])
def test_what_is_no_log_is_refused_by_name(log: SignedLog, tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "receipt":
        path.write_text(make_receipt(log.store, 1))
    elif what == "noise":
        path.write_bytes(b"noise")
    with pytest.raises(UsageError, match=what):
        import_log(path, partial(restore, tmp_path / "back.db"))


def test_a_log_that_changes_after_it_was_verified_is_not_restored(log: SignedLog, tmp_path: Path) -> None:
    export(log.store, tmp_path / "out")
    path = tmp_path / "out/entries.jsonl"

    def slow(rows: Iterable[Row], checkpoints: Iterable[StoredCheckpoint]) -> Head:
        # The first line has been read, the rest is changed on the disk, as by somebody who waited for the verification.
        raw = path.read_bytes()
        cut = raw[: raw[:-1].rindex(b"\n") + 1]
        path.write_bytes(cut)
        return restore(tmp_path / "back.db", rows, checkpoints)

    with pytest.raises(StoreError, match="was changed while it was being imported"):
        import_log(tmp_path / "out", slow)
    assert not (tmp_path / "back.db").exists()


def test_a_log_of_which_a_body_was_erased_after_it_was_verified_is_not_restored(
    log: SignedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seq = log.ask("erased meanwhile")
    log.checkpoint()

    def late(source: Path, findings: Findings) -> Source:
        log.redact(seq, "request")
        return open_source(source, findings)

    monkeypatch.setattr("hansard.record.imports.open_source", late)
    with pytest.raises(StoreError, match="was changed while it was being imported"):
        import_log(log.path, partial(restore, tmp_path / "back.db"))
    assert not (tmp_path / "back.db").exists()


def test_lines_that_do_not_follow_each_other_are_not_restored(log: SignedLog, tmp_path: Path) -> None:
    lines = list(log.store.lines())
    spoilt: list[list[Row]] = [
        [],
        [(lines[0], ()), (lines[2], ())],
        [(lines[1], ())],
        [(lines[0], ()), (b"{}", ())],
        [(lines[0], ()), (lines[1], [Part("request", "text/plain", bytes(32), b"forged")])],
        [(lines[0], [Part("request", "text/plain", bytes(32), b"unasked")])],
    ]
    for rows in spoilt:
        with pytest.raises(StoreError, match="cannot be restored"):
            restore(tmp_path / "back.db", rows, [])
    assert [path.name for path in tmp_path.iterdir() if "back" in path.name] == []


def test_a_folder_that_is_not_there_is_named(log: SignedLog, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot restore to"):
        import_log(log.path, partial(restore, tmp_path / "nowhere/back.db"))


def test_a_new_log_can_name_the_old_one_in_its_genesis(log: SignedLog, tmp_path: Path) -> None:
    export(log.store, tmp_path / "out")
    for old in (log.path, tmp_path / "out"):
        state = adopt(old).state
        assert (state.origin, state.size, state.root) == (ORIGIN, log.store.head().size, log.store.head().root)
    genesis, _ = found(lambda nonce: tmp_path / nonce, None, "test", adopt(log.path).state)
    assert (genesis.adopts_origin, genesis.adopts_size) == (ORIGIN, log.store.head().size)
    assert genesis.adopts_root == log.store.head().root.hex()


def test_a_log_that_lost_bodies_may_be_adopted_and_a_broken_one_may_not(log: SignedLog, tmp_path: Path) -> None:
    log.store.erase((1, "request"))
    assert adopt(log.path).state.size == log.store.head().size
    export(log.store, tmp_path / "out")
    path = tmp_path / "out/entries.jsonl"
    path.write_bytes(path.read_bytes().replace(b"human:k7", b"human:k8", 1))
    with pytest.raises(UsageError, match="does not verify"):
        adopt(tmp_path / "out")
    with pytest.raises(UsageError, match="nothing"):
        adopt(tmp_path / "nothing")
