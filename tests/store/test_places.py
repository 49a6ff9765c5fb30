"""A ledger that is reached by a link is the one ledger that it is; one that is taken away while it is open is not written to."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.ledger.verify import Options, verify
from hansard.store.base import Store
from hansard.store.conformance.sample import Clock, draft, genesis, part, put, redacted
from hansard.store.jsonl import JsonlStore
from hansard.store.jsonl.writing import LOOK_S
from hansard.store.sqlite import SqliteStore

NAMES = ["log.jsonl", "log.db"]


def created(path: Path) -> Store:
    if path.suffix == ".db":
        return SqliteStore.create(path, genesis(), clock=Clock())
    return JsonlStore.create(path, genesis(), clock=Clock())


def reopened(path: Path) -> Store:
    return SqliteStore.open(path, clock=Clock()) if path.suffix == ".db" else JsonlStore.open(path, clock=Clock())


def verified_size(path: Path) -> int:
    report = verify(path, Options(deep=True, jobs=1))
    assert report.ok, report.findings
    return report.size


def _delete(path: Path) -> None:
    path.unlink()


def _move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def _replace(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copyfile(path, copy)
    copy.replace(path)


def _rotate(path: Path) -> None:
    """What a program does that keeps old logs."""
    path.rename(path.with_name("log.1"))
    shutil.copyfile(path.with_name("log.1"), path)


@pytest.mark.parametrize("harm", [_delete, _move, _replace, _rotate])
@pytest.mark.parametrize("name", NAMES)
def test_a_ledger_that_is_taken_away_while_it_is_open_is_not_written_to(
    quick_folder: Path, name: str, harm: Callable[[Path], None]
) -> None:
    path = quick_folder / name
    with closing(created(path)) as store:
        put(store, draft(parts=[part(b"kept")]))
        harm(path)
        time.sleep(LOOK_S)
        for _ in range(2):
            with pytest.raises(StoreError, match="was deleted, moved or replaced while it was open"):
                store.append([[draft()]])
        assert store.broken


@pytest.mark.parametrize("harm", [_delete, _move, _replace, _rotate])
@pytest.mark.parametrize("file", ["x.bodies.jsonl", "x.checkpoints.jsonl"])
def test_a_ledger_of_which_one_file_is_taken_away_is_not_written_to(
    quick_folder: Path, file: str, harm: Callable[[Path], None]
) -> None:
    with closing(created(quick_folder / "x.jsonl")) as store:
        put(store, draft(parts=[part(b"kept")]))
        harm(quick_folder / file)
        time.sleep(LOOK_S)
        with pytest.raises(StoreError, match=f"{file} was deleted, moved or replaced while it was open"):
            store.append([[draft(parts=[part(b"lost")])]])
        assert store.head().size == 2


@pytest.mark.parametrize("name", NAMES)
def test_whoever_goes_to_another_folder_still_has_his_ledger(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(quick_folder)
    with closing(created(Path(name))) as store:
        (quick_folder / "elsewhere").mkdir()
        monkeypatch.chdir(quick_folder / "elsewhere")
        put(store, draft(parts=[part(b"kept")]))
        with ThreadPoolExecutor(1) as another:
            stored = another.submit(store.body, 1, "output").result()
        assert stored is not None
        store.claim("run:a", 60)
        assert os.listdir() == []
    assert verified_size(quick_folder / name) == 2


@pytest.mark.parametrize("name", NAMES)
def test_through_a_link_it_is_the_same_ledger(quick_folder: Path, name: str) -> None:
    for folder in ("real", "linked"):
        (quick_folder / folder).mkdir()
    path, link = quick_folder / "real" / name, quick_folder / "linked" / name
    with closing(created(path)) as store:
        put(store, draft(parts=[part(b"by its name")]))
    link.symlink_to(path)
    with closing(reopened(link)) as store:
        put(store, draft(parts=[part(b"by a link")]))
        # While it is open: entries may lie in what is beside the file.
        assert verified_size(link) == verified_size(path) == 3
    assert verified_size(link) == verified_size(path) == 3
    assert os.listdir(quick_folder / "linked") == [name]


def test_a_second_writer_through_a_link_is_refused_like_any_other(quick_folder: Path) -> None:
    path = quick_folder / "log.jsonl"
    (quick_folder / "link.jsonl").symlink_to(path)
    with closing(created(path)), pytest.raises(StoreError, match="has one writer"):
        reopened(quick_folder / "link.jsonl")


def test_what_is_erased_is_gone_from_where_a_link_leads(quick_folder: Path) -> None:
    path, bodies, elsewhere = (quick_folder / name for name in ("log.jsonl", "log.bodies.jsonl", "elsewhere"))
    secret = part(b"the secret word")
    with closing(created(path)) as store:
        put(store, draft(parts=[secret]))
    bodies.rename(elsewhere)
    bodies.symlink_to(elsewhere)
    with closing(reopened(path)) as store:
        put(store, redacted(1, secret))
        store.erase((1, secret.name))
        put(store, draft(parts=[part(b"later")]))
    assert bodies.is_symlink()
    assert b"the secret word" not in elsewhere.read_bytes()
    assert verified_size(path) == 4


def test_a_copy_that_sqlite_made_is_read_as_it_is_and_written_with_a_wal(quick_folder: Path) -> None:
    path, copy = quick_folder / "log.db", quick_folder / "copy.db"
    with closing(created(path)) as store:
        put(store, draft(parts=[part(b"kept")]))
    with closing(sqlite3.connect(path)) as db:
        db.execute("VACUUM INTO ?", (str(copy),))
    made = copy.read_bytes()
    with closing(reopened(copy)) as store:
        assert store.head().size == 2
    assert copy.read_bytes() == made
    with closing(reopened(copy)) as store:
        put(store, draft(parts=[part(b"later")]))
        # While it is open: beside a writer with a rollback journal a verifier would find that journal.
        assert verify(copy, Options(deep=True, jobs=1)).findings == ()
    assert verified_size(copy) == 3
