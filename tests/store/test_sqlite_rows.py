"""Whatever somebody puts into a row of a ledger file, whoever reads it is told in words."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from forging import chain, database, read, write
from hansard.errors import HansardError, StoreError, Unavailable
from hansard.ledger.layout import INDEXES
from hansard.record.export import export
from hansard.record.reading import read_body
from hansard.record.receipts import make_receipt
from hansard.record.recovery import newest_checkpoint
from hansard.store.base import Query, Store
from hansard.store.conformance.sample import draft, fill, genesis, part, put
from hansard.store.sqlite import SqliteStore
from signed_log import SignedLog

COLUMNS = {
    "bodies": ("salt", "media", "body", "shared"),
    "checkpoints": ("size", "note"),
    "claims": ("epoch", "holder", "until_us"),
    "head": ("size", "leaf", "ts", "frontier"),
    "nodes": ("hash",),
}
VALUES = ("7", "-1", "2000000000000", "9223372036854775807", "1.5", "'x'", "x'ff'", "''", "CAST(x'ff' AS TEXT)")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log = SignedLog.create(tmp_path_factory.mktemp("rows"))
    log.ask_many(256)
    log.checkpoint()
    log.store.close()
    return log.path


def uses(store: Store, folder: Path) -> Iterator[Callable[[], object]]:
    yield store.head
    yield lambda: export(store, folder)
    yield lambda: make_receipt(store, 3, ("request",))
    yield lambda: [read_body(store, entry, "request") for entry in store.select(Query(limit=5))]
    yield lambda: newest_checkpoint(store)
    yield lambda: (store.epoch("seal"), store.wait(0, 0))
    yield lambda: store.release(store.claim("seal", 5))
    yield store.repair


@pytest.mark.sampled(42)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("table", "column"), [(table, each) for table, names in COLUMNS.items() for each in names])
def test_a_value_that_does_not_belong_there_is_told(
    tmp_path: Path, original: Path, table: str, column: str, value: str
) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with suppress(sqlite3.IntegrityError), database(path) as into:
        into.execute(f"UPDATE {table} SET {column} = {value}")
    with suppress(HansardError), closing(SqliteStore.open(path)) as store:
        for use in uses(store, tmp_path / "export"):
            with suppress(HansardError):
                use()


def test_a_body_of_which_nothing_is_left_in_its_row_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(SqliteStore.create(path, genesis())) as store:
        put(store, draft(parts=[part(b"what was said")]))
    with database(path) as into:
        into.execute("UPDATE bodies SET body = NULL")
    with closing(SqliteStore.open(path)) as store:
        assert store.body(1, "output") is None


@pytest.mark.parametrize("gone", ["seq = 270", "seq < 288 AND seq >= 256", "seq < 296 AND seq >= 256"])
def test_a_log_that_lacks_lines_of_its_last_block_is_not_extended(tmp_path: Path, gone: str) -> None:
    path = tmp_path / "x.db"
    with closing(SqliteStore.create(path, genesis())) as store:
        fill(store, 300)
    with database(path) as into:
        into.execute(f"DELETE FROM entries WHERE {gone}")
    with closing(SqliteStore.open(path)) as store:
        assert store.broken == "entries 256 to 299 do not give the tree that the head row names"
        with pytest.raises(StoreError, match="may not be extended"):
            put(store, draft())


@pytest.mark.parametrize("size", [300, 512, 600])
@pytest.mark.parametrize(
    ("edit", "fault"),
    [
        ("UPDATE head SET ts = ts + 1", "the head row names another time than entry"),
        ("UPDATE head SET ts = 1 << 62", "the head row names another time than entry"),
        ("UPDATE head SET ts = 0", "the head row names another time than entry"),
        (
            "UPDATE head SET frontier = CAST(zeroblob(32) || substr(frontier, 33) AS BLOB)",
            "the nodes do not give the tree",
        ),
        ("UPDATE nodes SET hash = zeroblob(32) WHERE idx = 0", "the nodes do not give the tree"),
        ("DELETE FROM nodes WHERE idx = 0", "the nodes do not give the tree"),
        ("UPDATE head SET frontier = zeroblob(31)", "the end of the log cannot be read: a tree of "),
        ("DELETE FROM head", "the head row says nothing, the last entry is"),
    ],
)
def test_a_log_whose_head_names_another_time_or_tree_is_not_extended_until_it_is_repaired(
    tmp_path: Path, size: int, edit: str, fault: str
) -> None:
    path = tmp_path / "x.db"
    with closing(SqliteStore.create(path, genesis())) as store:
        fill(store, size)
        head = store.head()
    with database(path) as into:
        into.execute(edit)
    with closing(SqliteStore.open(path)) as store:
        assert fault in (store.broken or "")
        with pytest.raises(StoreError, match="may not be extended"):
            put(store, draft())
        store.repair()
        assert (store.broken, store.head()) == (None, head)
        put(store, draft())


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (
            "UPDATE entries SET line = replace(line, '\"n\":4}', '\"n\":7}') WHERE seq = 5",
            "entry 6 does not follow the one",
        ),
        (
            "UPDATE entries SET line = replace(line, '\"n\":8}', '\"n\":7}') WHERE seq = 9",
            "not the entry 9 that the head row",
        ),
        ("UPDATE entries SET line = '{}' WHERE seq = 5", "entry 5 is broken"),
        ("DELETE FROM entries WHERE seq = 5", "entry 6 does not follow the one before"),
        ("DELETE FROM entries WHERE seq = 9", "not the entry 9 that the head row names"),
        ("DELETE FROM entries", "it has no entries"),
    ],
)
def test_a_repair_never_makes_lines_look_right_that_do_not_hold_together(tmp_path: Path, edit: str, why: str) -> None:
    path = tmp_path / "x.db"
    with closing(SqliteStore.create(path, genesis())) as store:
        fill(store, 10)
    with database(path) as into:
        into.execute(edit)
        before = list(into.iterdump())
    with closing(SqliteStore.open(path)) as store:
        assert store.broken
        with pytest.raises(StoreError, match=f"cannot repair .*{why}"):
            store.repair()
        assert store.broken
    with database(path) as into:
        assert list(into.iterdump()) == before


def test_a_repair_does_not_accept_a_time_that_falls_though_the_chain_holds(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(SqliteStore.create(path, genesis())) as store:
        fill(store, 10)
    entries = read(path)
    entries[5]["ts"] -= 1
    write(path, chain(entries))
    refused = pytest.raises(StoreError, match="entry 5 does not follow the one before; entries are never changed")
    with closing(SqliteStore.open(path)) as store, refused:
        store.repair()


def test_a_schema_that_is_damaged_in_the_middle_of_a_character_is_told(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(original.read_bytes().replace(b"CREATE TABLE checkpoints", b"CREATE \xcc(BLE checkpoints"))
    with pytest.raises(StoreError, match=r"cannot open .*log\.db: .*hansard verify"):
        SqliteStore.open(path)


@pytest.mark.parametrize(
    ("what", "statements"),
    [
        ("the view 'meta'", ["ALTER TABLE meta RENAME TO kept", "CREATE VIEW meta AS SELECT * FROM kept"]),
        ("the trigger 't'", ["CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM bodies; END"]),
        ("the index 'i'", ["CREATE INDEX i ON entries(length(line))"]),
        ("other tables than a ledger", ["DROP TABLE claims", "CREATE TABLE claims(name, epoch, holder, until_us)"]),
    ],
)
def test_what_sqlite_would_run_for_somebody_else_is_not_opened(
    original: Path, tmp_path: Path, what: str, statements: list[str]
) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        for each in statements:
            into.execute(each)
    with pytest.raises(StoreError, match=f"has {what}.* is not opened; .*run: hansard verify"):
        SqliteStore.open(path)


def test_whoever_made_an_index_of_his_own_is_told_to_drop_it_and_may_go_on(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        into.execute("CREATE INDEX entries_by_actor ON entries(actor)")
    with pytest.raises(StoreError, match="is not opened; if you made it, drop it again, else run: hansard verify"):
        SqliteStore.open(path)
    with database(path) as into:
        into.execute("DROP INDEX entries_by_actor")
    with closing(SqliteStore.open(path)) as store:
        put(store, draft())


def test_an_index_of_other_words_is_never_worked_out_and_is_made_anew_by_a_repair(
    original: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        into.execute("DROP INDEX causes_by_cause")
        # It may as well take for ever.
        into.execute("CREATE INDEX causes_by_cause ON causes(abs(-9223372036854775807 - (seq > 256)))")
    with closing(SqliteStore.open(path)) as store:
        assert store.broken == "the index causes_by_cause is not that of a ledger"
        with pytest.raises(StoreError, match="may not be extended: the index"):
            put(store, draft(causes=(0,)))
        assert store.repair() == [("derived", 1)]
        put(store, draft(causes=(0,)))
    with database(path) as found:
        [made_anew] = found.execute("SELECT sql FROM sqlite_schema WHERE name = 'causes_by_cause'").fetchall()
    assert made_anew == (INDEXES["causes_by_cause"],)


def test_what_somebody_keeps_beside_the_tables_keeps_nobody_out(original: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        into.execute("ANALYZE")
    with closing(SqliteStore.open(path)) as store:
        put(store, draft())


def test_a_log_whose_tree_lies_on_a_damaged_page_is_opened_to_be_read(tmp_path: Path, original: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        [page] = into.execute("SELECT rootpage FROM sqlite_master WHERE name = 'nodes'").fetchone()
        [size] = into.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with closing(SqliteStore.open(path)) as store:
        assert "the end of the log cannot be read: database disk image is malformed" in str(store.broken)
        assert len(list(store.select(Query()))) == store.head().size
        with pytest.raises(StoreError, match="may not be extended"):
            put(store, draft())


@pytest.mark.parametrize("table", ["bodies", "causes", "checkpoints", "claims"])
def test_a_damaged_file_is_not_told_as_a_disk_that_may_answer_later(tmp_path: Path, original: Path, table: str) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(original.read_bytes())
    with database(path) as into:
        [page] = into.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        [size] = into.execute("PRAGMA page_size").fetchone()
    told = []
    with closing(SqliteStore.open(path)) as store, path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
        file.flush()
        for change in (
            lambda: put(store, draft(parts=[part(b"x")], causes=(0,))),
            lambda: store.release(store.claim("seal", 5)),
            lambda: store.add_checkpoint(next(store.checkpoints()), store.epoch("seal")),
            store.repair,
        ):
            try:
                change()
            except StoreError as error:
                told.append(error)
    assert told
    for each in told:
        assert not isinstance(each, Unavailable), each
        assert "run: hansard verify" in str(each)
