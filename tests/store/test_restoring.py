"""A log that is laid out anew in any store is the same log there, and goes on; one that does not hold together leaves nothing."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from hansard.errors import StoreError, UsageError
from hansard.ledger.entry import parse
from hansard.record.export import export
from hansard.record.imports import import_log
from hansard.store.base import Head, Part, Store, StoredCheckpoint
from hansard.store.conformance.sample import draft, put, walk
from hansard.store.jsonl import JsonlStore
from hansard.store.jsonl.index import Index
from hansard.store.jsonl.restoring import restore as restore_lines
from hansard.store.postgres import PostgresStore
from hansard.store.postgres import restoring as postgres_restoring
from hansard.store.postgres import session as sessions
from hansard.store.retracing import Restored, Retracing
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite.restoring import restore as restore_file
from postgres import shared
from signed_log import SignedLog, some_of_everything
from specimens import Log
from store.disks import tmpfs


@dataclass(frozen=True)
class Place:
    """Where a log is laid out, how, and what of it is there."""

    restore: Callable[[Iterable[Restored], Iterable[StoredCheckpoint]], Head]
    open: Callable[[], Store]
    left: Callable[[], list[str]]


@pytest.fixture(params=["sqlite", "jsonl", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    folder = tmp_path / "new"
    folder.mkdir()

    def left() -> list[str]:
        return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")

    if request.param == "sqlite":
        file = folder / "log.db"
        return Place(lambda *log: restore_file(file, *log), lambda: SqliteStore.open(file), left)
    if request.param == "jsonl":
        lines = folder / "log.jsonl"
        return Place(lambda *log: restore_lines(lines, *log), lambda: JsonlStore.open(lines), left)
    # Several batches, some of them because of one large body.
    monkeypatch.setattr(postgres_restoring, "BATCH_ENTRIES", 64)
    monkeypatch.setattr(postgres_restoring, "BATCH_BYTES", 20_000)
    url = shared().url(shared().database())
    return Place(
        lambda *log: postgres_restoring.restore(url, *log),
        lambda: PostgresStore.open(url),
        lambda: ["tables"] if PostgresStore.exists(url) else [],
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SignedLog]:
    made = some_of_everything(tmp_path_factory.mktemp("original") / "log")
    yield made
    made.store.close()


def told(store: Store) -> list[object]:
    """All that a store says of its log."""
    entries = walk(store)
    bodies = [store.body(entry.seq, part) for entry in entries for part in sorted(entry.body)]
    nodes = [store.node(0, 5), store.node(3, 2), store.node(8, 0)]
    effects = [store.effects(entry.seq) for entry in entries]
    return [store.head(), list(store.lines()), bodies, list(store.checkpoints()), nodes, effects, store.broken]


def test_a_log_that_is_laid_out_anew_is_the_same_and_goes_on(original: SignedLog, place: Place) -> None:
    done = import_log(original.path, place.restore)
    with closing(place.open()) as store:
        assert done.head == store.head()
        assert told(store) == told(original.store)
        assert store.repair() == []
        [placed] = put(store, draft(causes=(0,)))
        assert placed.seq == original.store.head().size
        assert store.effects(0)[-1] == placed.seq
        assert store.broken is None
    with closing(place.open()) as store:
        assert len(walk(store)) == placed.seq + 1


def test_what_was_laid_out_anew_is_exported_byte_for_byte(original: SignedLog, place: Place, tmp_path: Path) -> None:
    import_log(original.path, place.restore)
    export(original.store, tmp_path / "theirs")
    with closing(place.open()) as store:
        export(store, tmp_path / "ours")
    names = ("entries.jsonl", "bodies.jsonl", "checkpoints.jsonl", "checkpoint")
    for name in names:
        assert (tmp_path / "ours" / name).read_bytes() == (tmp_path / "theirs" / name).read_bytes()


def test_a_ledger_that_is_there_is_never_overwritten(original: SignedLog, place: Place) -> None:
    import_log(original.path, place.restore)
    before = place.left()
    with closing(place.open()) as store:
        size = store.head().size
    with pytest.raises(StoreError, match=r"exists already|in use already"):
        import_log(original.path, place.restore)
    with closing(place.open()) as store:
        assert store.head().size == size
    assert set(before) <= set(place.left())
    assert not [name for name in place.left() if name.endswith((".tmp", ".partial"))]


def test_what_a_killed_import_left_is_removed_by_the_next(original: SignedLog, tmp_path: Path) -> None:
    left = [tmp_path / f".x.db.0123456789ab.partial{ending}" for ending in ("", "-wal", "-shm")]
    for each in left:
        each.write_bytes(b"what was to be erased later")
    import_log(original.path, partial(restore_file, tmp_path / "x.db"))
    assert not any(each.exists() for each in left)


def test_lines_that_do_not_hold_together_leave_nothing(original: SignedLog, place: Place) -> None:
    lines = list(original.store.lines())[:200]
    good: list[Restored] = [(line, ()) for line in lines]
    part = sorted(parse(lines[1]).body)[0]
    forged = Part(part, "text/plain", bytes(32), b"forged")
    spoilt: list[list[Restored]] = [
        [],
        [*good[:150], *good[151:]],
        [*good[:150], (b"{}", ())],
        [good[0], (lines[1], [forged])],
        [(lines[0], [forged])],
    ]
    for rows in spoilt:
        with pytest.raises(StoreError, match="cannot be restored"):
            place.restore(rows, [])
        assert place.left() == []


def test_a_log_whose_time_falls_is_not_laid_out() -> None:
    log = Log.begun()
    log.grow(2, bodies=False)
    way = Retracing()
    for line in log.lines[:2]:
        way.step(line, ())
    log.edit(2, lambda entry: entry.update(ts=way.sequence.ts - 1))
    with pytest.raises(StoreError, match="does not follow"):
        way.step(log.lines[2], ())
    log.edit(2, lambda entry: entry.update(ts=way.sequence.ts))
    way.step(log.lines[2], ())


def test_a_source_that_is_read_slowly_is_laid_out_all_the_same(
    original: SignedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server ends a turn in which nothing is said for long; here it is said by a disk, or by another server."""
    monkeypatch.setattr(sessions, "IDLE_S", 0.1)
    lines = list(original.store.lines())[:3]

    def rows() -> Iterator[Restored]:
        for line in lines:
            time.sleep(0.15)
            yield line, ()

    url = shared().url(shared().database())
    assert postgres_restoring.restore(url, rows(), []).size == 3


def test_a_source_that_fails_in_the_middle_leaves_nothing(original: SignedLog, place: Place) -> None:
    def rows() -> Iterator[Restored]:
        yield from ((line, ()) for line in list(original.store.lines())[:200])
        raise StoreError("it was changed while it was being imported")

    with pytest.raises(StoreError, match="it was changed"):
        place.restore(rows(), [])
    assert place.left() == []


def test_a_ledger_in_json_lines_is_laid_out_with_its_index(original: SignedLog, tmp_path: Path) -> None:
    import_log(original.path, lambda *log: restore_lines(tmp_path / "log.jsonl", *log))
    index = Index.over(tmp_path / "log.index")
    assert index is not None
    with closing(index):
        assert index.reach.sequence.size == original.store.head().size


def test_where_only_the_index_has_no_space_there_is_a_ledger_all_the_same(original: SignedLog, tmp_path: Path) -> None:
    import_log(original.path, lambda *log: restore_lines(tmp_path / "log.jsonl", *log))
    kib = sum(path.stat().st_size // 1024 + 4 for path in tmp_path.glob("*.jsonl"))
    with tmpfs(tmp_path / "small", size_kib=kib + 8) as folder:
        import_log(original.path, lambda *log: restore_lines(folder / "log.jsonl", *log))
        with closing(JsonlStore.open(folder / "log.jsonl", reading=True)) as store:
            assert store.head() == original.store.head()


def test_a_full_disk_leaves_nothing_of_a_ledger_in_json_lines(original: SignedLog, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "small", size_kib=64) as folder:
        with pytest.raises(StoreError, match=r"cannot restore to .*No space left"):
            import_log(original.path, lambda *log: restore_lines(folder / "log.jsonl", *log))
        assert [path.name for path in folder.iterdir()] == ["log.lock"]


@pytest.mark.parametrize(("name", "restore"), [("log.db", restore_file), ("log.jsonl", restore_lines)])
def test_a_ledger_whose_name_may_not_last_leaves_nothing(
    original: SignedLog,
    tmp_path: Path,
    name: str,
    restore: Callable[..., Head],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sync = os.fsync

    def failing(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), tmp_path.stat()):
            raise OSError(5, "Input/output error")
        sync(fd)

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", failing)
        with pytest.raises(StoreError, match=r"cannot restore to .*Input/output error"):
            import_log(original.path, partial(restore, tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["log.db.lock" if name == "log.db" else "log.lock"]
    import_log(original.path, partial(restore, tmp_path / name))


def test_a_folder_that_is_not_there_is_wrong_usage(original: SignedLog, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot restore to"):
        import_log(original.path, lambda *log: restore_lines(tmp_path / "nowhere" / "log.jsonl", *log))
