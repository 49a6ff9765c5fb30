"""Entries beside the tree of their log: whatever was edited in the file is found, wherever it stands."""

import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.record import tree as tree_module
from hansard.record.tree import Known, Tree, check_held
from hansard.store.base import Query, Store
from hansard.store.jsonl.store import JsonlStore
from hansard.store.sqlite.store import SqliteStore
from ledgers import draft, genesis_draft, memory, request

SIZES = (1, 2, 3, 255, 256, 257, 511, 512, 513, 900)
EDITED = 700
OTHERS = [seq for seq in range(900) if seq >> 8 != EDITED >> 8]


def filled(store: Store, size: int) -> None:
    if size > 1:
        store.append([[draft(request(f"request {seq:03}"), run=f"r{seq:03}")] for seq in range(1, size)])


@contextmanager
def edited(path: Path, sql: str) -> Iterator[Store]:
    """A ledger of 900 entries that somebody edited in its file."""
    with closing(SqliteStore.create(path, genesis_draft())) as store:
        filled(store, 900)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(sql)
    with closing(SqliteStore.open(path)) as store:
        yield store


@pytest.mark.parametrize("size", SIZES)
def test_every_entry_of_an_honest_log_is_held_by_its_tree(size: int) -> None:
    store = memory()
    filled(store, size)
    tree = Tree(store)
    for entry in store.select(Query()):
        tree.check(entry)


@pytest.mark.parametrize("size", [257, 900])
def test_it_is_held_in_files_too(size: int, tmp_path: Path) -> None:
    for store in (
        SqliteStore.create(tmp_path / "x.db", genesis_draft()),
        JsonlStore.create(tmp_path / "x.jsonl", genesis_draft()),
    ):
        with closing(store):
            filled(store, size)
            tree = Tree(store)
            for seq in (size - 1, 0, size // 2):
                tree.check(store.entry(seq))


def test_what_is_appended_meanwhile_does_not_matter() -> None:
    store = memory()
    filled(store, 300)
    tree, entries = Tree(store), list(store.select(Query()))
    store.append([[draft(request())] for _ in range(700)])
    for entry in entries:
        tree.check(entry)


@pytest.mark.parametrize("at", [0, 5, 255, 256, EDITED, 768, 899])
def test_an_edited_line_is_found(at: int, tmp_path: Path) -> None:
    with edited(
        tmp_path / "x.db", f"""UPDATE entries SET line = replace(line, '"v":1', '"v":1 ') WHERE seq = {at}"""
    ) as store:
        tree = Tree(store)
        line = next(store.lines(at, at + 1))
        entry = store.entry(at + 1 if at in (0, 256, EDITED) else at - 1)
        assert line.endswith(b'"v":1 }')
        with pytest.raises(StoreError, match=f"entry {entry.seq} .* not what the log's tree says"):
            tree.check(entry)


def test_blocks_without_an_edit_are_held(tmp_path: Path) -> None:
    with edited(tmp_path / "x.db", f"UPDATE entries SET line = line || ' ' WHERE seq = {EDITED}") as store:
        tree = Tree(store)
        for seq in OTHERS:
            tree.check(store.entry(seq))


def test_a_block_that_is_known_is_not_read_again_and_an_edit_in_it_is_found_all_the_same(tmp_path: Path) -> None:
    path, known = tmp_path / "x.db", Known()
    with closing(SqliteStore.create(path, genesis_draft())) as store:
        filled(store, 900)
        for _ in range(2):
            check_held(store, [store.entry(seq) for seq in (3, 300, 899)], known)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            # Of the same length, so that what was read of the file before fits.
            other.execute('UPDATE entries SET line = replace(line, \'"run":"r\', \'"run":"s\') WHERE seq IN (4, 301)')
        check_held(store, [store.entry(3), store.entry(300)], known)
        for seq in (4, 301):
            with pytest.raises(StoreError, match=f"entry {seq} .* not what the log's tree says"):
                check_held(store, [store.entry(seq)], known)
        # Whoever knows nothing yet sees that something near it is wrong.
        with pytest.raises(StoreError, match=r"entry 3 .*, or one near it"):
            check_held(store, [store.entry(3)])


def test_no_more_blocks_are_known_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "MOST_KNOWN", 2)
    store, known = memory(), Known()
    filled(store, 900)
    check_held(store, store.select(Query()), known)
    assert [known.leaf(seq) is not None for seq in (0, 256, 512, 768)] == [False, True, True, False]


def test_drivers_in_threads_of_their_own_share_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "MOST_KNOWN", 2)
    known, leaves, often = Known(), [b""] * 256, sys.getswitchinterval()

    def keep(first: int) -> None:
        for block in range(first, first + 80_000):
            known.keep(block, leaves)

    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for done in [threads.submit(keep, first * 80_000) for first in range(4)]:
                done.result()
    finally:
        sys.setswitchinterval(often)


@pytest.mark.parametrize("sql", ["DELETE FROM entries WHERE seq = 600", "DELETE FROM entries WHERE seq > 880"])
def test_a_line_that_is_gone_is_missed(sql: str, tmp_path: Path) -> None:
    with edited(tmp_path / "x.db", sql) as store:
        entry = store.entry(599 if "600" in sql else 880)
        with pytest.raises(StoreError, match="not what the log's tree says"):
            Tree(store).check(entry)


def test_an_entry_that_is_not_the_one_that_stands_there_is_found_in_a_block_that_is_sound_too() -> None:
    store = memory()
    filled(store, 300)
    tree, entry = Tree(store), store.entry(5)
    tree.check(store.entry(4))
    with pytest.raises(StoreError, match=r"entry 5 .*another line stands there"):
        tree.check(entry._replace(line=entry.line.replace(b"human:test", b"human:tost")))


def test_an_edited_node_is_found(tmp_path: Path) -> None:
    """Whoever edits a line and the node above it has the root to answer to."""
    with edited(tmp_path / "x.db", "UPDATE nodes SET hash = zeroblob(32) WHERE level = 8 AND idx = 1") as store:
        tree = Tree(store)
        with pytest.raises(StoreError, match="another root"):
            tree.check(store.entry(5))
        tree.check(store.entry(300))
