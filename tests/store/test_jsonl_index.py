import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.ledger.entry import Entry
from hansard.store.base import Head, Query, Store
from hansard.store.conformance.sample import Clock, draft, fill, genesis, part, put, walk
from hansard.store.jsonl import JsonlStore
from hansard.store.jsonl.files import Paths


@pytest.fixture
def path(quick_folder: Path) -> Path:
    """A closed ledger of 300 entries."""
    path = quick_folder / "log.jsonl"
    store = JsonlStore.create(path, genesis(), clock=Clock())
    put(store, draft(run="r2", actor="human:k7", kind="turn.taken", causes=(0,), parts=[part(b"one")]))
    fill(store, 299)
    put(store, draft(run="r2", causes=(0, 1)))
    store.close()
    return path


def picture(store: Store) -> object:
    """Everything that is looked up through the index."""
    nodes = [store.node(level, 0) for level in range(9)]
    chosen = [
        list(store.select(query)) for query in (Query(), Query(run="r2"), Query(actor="human:k7", newest_first=True))
    ]
    return store.head(), walk(store), nodes, chosen, store.effects(0), store.effects(1), store.body(1, "output")


def pictured(path: Path, *, reading: bool = False) -> object:
    store = JsonlStore.open(path, reading=reading, clock=Clock())
    try:
        assert store.broken is None
        return picture(store)
    finally:
        store.close()


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(Paths.of(path).index, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def delete(path: Path) -> None:
    Paths.of(path).index.unlink()


def empty(path: Path) -> None:
    Paths.of(path).index.write_bytes(b"")


def garbage(path: Path) -> None:
    Paths.of(path).index.write_bytes(b"\xff" * 8192)


def halve(path: Path) -> None:
    index = Paths.of(path).index
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])


def foreign(path: Path) -> None:
    delete(path)
    change(path, "CREATE TABLE head(size INTEGER)")


def of_another_version(path: Path) -> None:
    change(path, "PRAGMA user_version = 99")


def of_another_log(path: Path) -> None:
    other = path.parent / "other.jsonl"
    store = JsonlStore.create(other, genesis(), clock=Clock())
    fill(store, 300)
    store.close()
    Paths.of(other).index.replace(Paths.of(path).index)


def with_a_wrong_leaf(path: Path) -> None:
    change(path, "UPDATE head SET leaf = zeroblob(32)")


def with_a_wrong_tree(path: Path) -> None:
    change(path, "UPDATE head SET frontier = substr(frontier, 1, length(frontier) - 32) || zeroblob(32)")


def with_a_wrong_tree_further_up(path: Path) -> None:
    change(path, "UPDATE head SET frontier = CAST(zeroblob(32) || substr(frontier, 33) AS BLOB)")


def with_a_wrong_node(path: Path) -> None:
    change(path, "UPDATE nodes SET hash = zeroblob(32)")


def with_a_wrong_time(path: Path) -> None:
    change(path, "UPDATE head SET ts = ts + 1")


def with_a_wrong_end(path: Path) -> None:
    change(path, "UPDATE head SET at = at - 1")


def in_use_when_the_machine_went_down(path: Path) -> None:
    change(path, "UPDATE head SET boot = 'another boot'", "DELETE FROM entries WHERE seq = 50", "DELETE FROM causes")


HARMS = (
    *(delete, empty, garbage, halve, foreign, of_another_version, of_another_log),
    *(with_a_wrong_tree_further_up, with_a_wrong_node),
    *(with_a_wrong_leaf, with_a_wrong_tree, with_a_wrong_time, with_a_wrong_end, in_use_when_the_machine_went_down),
)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("reading", [False, True], ids=["writing", "reading"])
def test_an_index_that_does_not_fit_the_lines_is_not_believed(
    path: Path, harm: Callable[[Path], None], reading: bool
) -> None:
    before = pictured(path)
    lines = path.read_bytes()
    harm(path)
    assert pictured(path, reading=reading) == before
    assert pictured(path) == before
    assert path.read_bytes() == lines


@pytest.mark.parametrize("reading", [False, True], ids=["writing", "reading"])
def test_an_index_with_a_view_in_the_place_of_a_table_is_not_believed(path: Path, reading: bool) -> None:
    before = pictured(path)
    with closing(sqlite3.connect(Paths.of(path).index)) as connection:
        rows = connection.execute("SELECT seq, at, length FROM entries").fetchall()
    told = ", ".join(f"({seq}, {at}, {length}, '', '', '')" for seq, at, length in rows)
    change(
        path,
        "DROP TABLE entries",
        f"CREATE VIEW entries(seq, at, length, run, kind, actor) AS VALUES {told}",
        *(f"CREATE INDEX entries_by_{name} ON nodes(level)" for name in ("run", "kind", "actor")),
    )
    assert pictured(path, reading=reading) == before


def test_an_index_that_is_behind_is_read_on_from_where_it_ends(path: Path) -> None:
    index = Paths.of(path).index
    behind = index.read_bytes()
    store = JsonlStore.open(path, clock=Clock())
    fill(store, 1_000)
    put(store, draft(run="r2", causes=(0, 1)))
    before = picture(store)
    store.close()
    index.write_bytes(behind)
    assert pictured(path, reading=True) == before
    assert index.read_bytes() == behind
    assert pictured(path) == before


def test_an_index_that_is_ahead_of_the_lines_is_built_anew(path: Path) -> None:
    before, lines = pictured(path), path.read_bytes()
    store = JsonlStore.open(path, clock=Clock())
    fill(store, 320)
    store.close()
    path.write_bytes(lines)
    assert pictured(path, reading=True) == before
    assert pictured(path) == before


def test_with_its_index_a_log_is_opened_without_reading_it(path: Path) -> None:
    # The first block, which no bounded look reaches, no longer says what it said.
    lines = path.read_bytes().split(b"\n")
    lines[5] = lines[5].replace(b'"n":3', b'"n":7')
    path.write_bytes(b"\n".join(lines))
    store = JsonlStore.open(path, clock=Clock())
    assert store.broken is None
    store.close()
    delete(path)
    store = JsonlStore.open(path, clock=Clock())
    assert store.broken
    store.close()


def test_names_in_the_index_are_checked_against_the_lines(path: Path) -> None:
    change(path, "UPDATE entries SET run = 'r2', actor = 'human:k7' WHERE seq BETWEEN 10 AND 20")
    store = JsonlStore.open(path, clock=Clock())
    assert [entry.seq for entry in store.select(Query(run="r2"))] == [1, 299]
    assert [entry.seq for entry in store.select(Query(actor="human:k7", limit=5))] == [1]
    store.close()


def test_places_in_the_index_are_checked_against_the_lines(path: Path) -> None:
    change(
        path,
        "UPDATE entries SET at = at + 1 WHERE seq = 10",
        "UPDATE entries SET length = length + 1 WHERE seq = 11",
        "UPDATE entries SET (at, length) = (SELECT at, length FROM entries WHERE seq = 40) WHERE seq = 12",
        "UPDATE entries SET at = 1 << 40 WHERE seq = 13",
        "DELETE FROM entries WHERE seq = 14",
        "UPDATE entries SET length = 1 << 40 WHERE seq = 15",
        "UPDATE entries SET at = 'text' WHERE seq = 16",
        "UPDATE entries SET at = -1 WHERE seq = 17",
        "UPDATE entries SET length = NULL WHERE seq = 18",
    )
    for reading in (False, True):
        store = JsonlStore.open(path, reading=reading, clock=Clock())
        for seq in range(10, 19):
            with pytest.raises(StoreError, match=r"hansard ledger repair --ledger /\S+/log.jsonl"):
                store.entry(seq)
            with pytest.raises(StoreError, match="hansard ledger repair"):
                next(store.lines(seq))
        store.close()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("value", ["'text'", "NULL", "-1", "1 << 62", "zeroblob(31)", "1.5"])
@pytest.mark.parametrize("column", ["size", "at", "leaf", "ts", "frontier", "boot"])
def test_any_value_in_the_head_row_leaves_a_log_that_opens(path: Path, column: str, value: str) -> None:
    head, lines = walked(path)
    change(path, f"UPDATE head SET {column} = {value}")
    assert walked(path) == (head, lines)


def walked(path: Path) -> tuple[Head, list[Entry]]:
    store = JsonlStore.open(path, clock=Clock())
    try:
        return store.head(), walk(store)
    finally:
        store.close()


@pytest.mark.parametrize("value", ["NULL", "7", "-1", "9223372036854775807", "1.5", "'x'"])
def test_a_node_that_becomes_no_hash_is_told_and_mended(path: Path, value: str) -> None:
    with closing(JsonlStore.open(path, clock=Clock())) as store:
        change(path, f"UPDATE nodes SET hash = {value}")
        with pytest.raises(StoreError, match="lacks the nodes"):
            store.node(8, 0)
        assert store.repair()
        assert len(store.node(8, 0)) == 32


def test_repair_builds_an_index_anew_that_is_not_what_the_lines_give(path: Path) -> None:
    before = pictured(path)
    change(path, "DELETE FROM entries WHERE seq IN (3, 4)", "DELETE FROM causes WHERE cause = 1")
    store = JsonlStore.open(path, clock=Clock())
    assert picture_or_error(store) != before
    assert store.repair() == [("derived", 3)]
    assert picture(store) == before
    assert store.repair() == []
    put(store, draft())
    store.close()


def picture_or_error(store: Store) -> object:
    try:
        return picture(store)
    except StoreError as error:
        return error


def test_an_index_that_breaks_while_it_is_used_is_a_store_error_that_repair_ends(path: Path) -> None:
    before = pictured(path)
    store = JsonlStore.open(path, clock=Clock())
    change(path, "DROP TABLE causes")
    with pytest.raises(StoreError, match="hansard ledger repair"):
        store.effects(0)
    assert dict(store.repair())["derived"] > 0
    assert picture(store) == before
    store.close()


def test_an_index_that_can_no_longer_be_kept_is_replaced_by_a_private_one(path: Path) -> None:
    store = JsonlStore.open(path, clock=Clock())
    put(store, draft(causes=(0,)))
    change(path, "DROP TABLE causes")
    head = store.head()
    with path.open("ab") as file:
        # What another thread is writing just now has no place in any index yet.
        file.write(draft().sketch.line(causes=(), prev=head.leaf.hex().encode(), seq=301, ts=head.ts) + b"\n")
    assert store.effects(0) == [1, 299, 300]
    with path.open("rb+") as file:
        file.truncate(path.read_bytes()[:-1].rfind(b"\n") + 1)
    put(store, draft(causes=(0, 300)))
    assert store.effects(0) == [1, 299, 300, 301]
    assert store.effects(300) == [301]
    store.close()
    assert len(walked(path)[1]) == 302


def test_only_a_closed_index_is_trusted_after_another_boot(path: Path) -> None:
    store = JsonlStore.open(path, clock=Clock())
    assert boot(path) == ""
    put(store, draft())
    store.entry(300)
    assert boot(path)
    store.close()
    assert boot(path) == ""


def boot(path: Path) -> str:
    with closing(sqlite3.connect(f"file:{Paths.of(path).index}?mode=ro", uri=True)) as connection:
        return str(connection.execute("SELECT boot FROM head").fetchone()[0])


def test_a_reader_goes_on_while_the_writer_builds_its_index_anew(path: Path) -> None:
    reader = JsonlStore.open(path, reading=True)
    before = picture(reader)
    delete(path)
    assert pictured(path) == before
    assert picture(reader) == before
    reader.close()


def test_a_reader_goes_on_when_the_writer_is_killed_while_it_writes_the_index(path: Path) -> None:
    killed = (
        "import os, sqlite3, sys; index = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "index.execute('PRAGMA cache_size = 2'); index.execute('BEGIN'); index.execute('UPDATE entries SET length = 0')\n"
        "os.kill(os.getpid(), 9)"
    )
    with closing(JsonlStore.open(path, reading=True)) as reader:
        before = picture(reader)
        done = subprocess.run([sys.executable, "-c", killed, str(Paths.of(path).index)], check=False)
        assert done.returncode == -9
        assert Path(f"{Paths.of(path).index}-journal").stat().st_size
        assert picture(reader) == before
