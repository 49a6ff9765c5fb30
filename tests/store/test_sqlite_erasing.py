"""What was erased from a ledger file stands nowhere in it any more, wherever SQLite had moved it before."""

import fcntl
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hansard.errors import StoreError
from hansard.ledger.layout import SHARED_FROM_BYTES
from hansard.store.conformance.sample import Clock, draft, genesis, part, put, redacted
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite import writer as sqlite_writer
from hansard.store.sqlite.writer import Writer, take_turn
from store.disks import make_space, tmpfs

COUNT, STEP = 50, 3


def secret(number: int) -> bytes:
    return b"<%04d>" % number * (50 + number * 37 % 50)


def filled(path: Path) -> SqliteStore:
    """A ledger whose rows lie so that erasing every third of them moves others from page to page."""
    store = SqliteStore.create(path, genesis(), clock=Clock())
    for number in range(COUNT):
        put(store, draft(parts=[part(secret(number))]))
    return store


def told(folder: Path, number: int) -> list[str]:
    """The files that still hold what was erased."""
    return [each.name for each in folder.iterdir() if b"<%04d>" % number in each.read_bytes()]


def test_an_erased_body_leaves_no_byte_in_the_folder(tmp_path: Path) -> None:
    store = filled(tmp_path / "log.db")
    for at in range(COUNT):
        number = at * STEP % COUNT
        store.erase((1 + number, "output"))
        assert told(tmp_path, number) == []
    store.close()


def test_a_large_body_that_stands_twice_leaves_no_byte_once_both_are_erased(tmp_path: Path) -> None:
    large = secret(7) * (SHARED_FROM_BYTES // len(secret(7)) + 1)
    with closing(SqliteStore.create(tmp_path / "log.db", genesis(), clock=Clock())) as store:
        for body in (large, large, large[::-1]):
            put(store, draft(parts=[part(body)]))
        store.erase((1, "output"))
        assert told(tmp_path, 7) == ["log.db"]
        store.erase((2, "output"))
        assert told(tmp_path, 7) == []
        left = store.body(3, "output")
        assert left is not None
        assert left.body == large[::-1]


def test_a_repair_removes_what_somebody_who_was_killed_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "log.db")
    with monkeypatch.context() as killed:
        killed.setattr(Writer, "leave_no_trace", lambda _: None)
        for at in range(COUNT):
            number = at * STEP % COUNT
            put(store, redacted(1 + number, part(b""), committed=store.entry(1 + number).body["output"]))
            store.erase((1 + number, "output"))
    assert any(told(tmp_path, number) for number in range(COUNT))
    assert store.repair() == [], "nothing was left to erase"
    assert not any(told(tmp_path, number) for number in range(COUNT))
    store.close()


def test_whoever_waits_for_a_long_turn_goes_on_waiting_while_its_holder_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "BUSY_S", 0.3)
    monkeypatch.setattr(sqlite_writer, "LIFE_S", 0.05)
    held, waiting = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    fcntl.flock(held, fcntl.LOCK_EX)

    def work() -> None:
        with sqlite_writer._showing_life(held):
            time.sleep(1)
        fcntl.flock(held, fcntl.LOCK_UN)

    at_work = threading.Thread(target=work)
    at_work.start()
    take_turn(waiting, "log.db")
    at_work.join()
    os.close(held)
    os.close(waiting)


@contextmanager
def looked_at(path: Path) -> Iterator[None]:
    """Somebody else's program reads the file, and does not end what it began."""
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT size FROM head").fetchall()
        yield


def test_whoever_waits_for_a_reader_to_end_keeps_no_turn_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "BUSY_S", 4.0)
    said: list[str] = []

    def erase() -> None:
        try:
            store.erase((1, "output"))
        except StoreError as error:
            said.append(str(error))

    with closing(filled(tmp_path / "log.db")) as store, closing(SqliteStore.open(tmp_path / "log.db")) as other:
        with looked_at(tmp_path / "log.db"):
            put(store, draft())
            erasing = threading.Thread(target=erase)
            erasing.start()
            waits = []
            while erasing.is_alive():
                began = time.monotonic()
                put(other, draft())
                waits.append(time.monotonic() - began)
            erasing.join()
        assert "a reader keeps the WAL" in said[0]
        assert len(waits) > 10
        assert max(waits) < 3.0
        store.erase((1, "output"))
        assert told(tmp_path, 0) == []


def test_closing_does_not_wait_for_a_reader(tmp_path: Path) -> None:
    store = filled(tmp_path / "log.db")
    with looked_at(tmp_path / "log.db"):
        put(store, draft())
        began = time.monotonic()
        store.close()
        assert time.monotonic() - began < 30.0


@pytest.mark.needs_root
def test_a_file_that_finds_no_space_to_be_written_anew_gives_back_what_it_took(tmp_path: Path) -> None:
    with closing(filled(tmp_path / "log.db")) as store:
        put(store, *(draft(parts=[part(b"many others" * 300)]) for _ in range(500)))
        size = store.head().size
    with tmpfs(tmp_path / "full", 2600) as place:
        shutil.copy(tmp_path / "log.db", place)
        with closing(SqliteStore.open(place / "log.db")) as store:
            put(store, draft())
            before = free(place)
            with pytest.raises(StoreError, match=r"the body is deleted, but .*make space"):
                store.erase((1, "output"))
            assert free(place) >= before
            assert told(place, 0) == []
            put(store, draft())
            make_space(place)
            store.repair()
            assert store.head().size == size + 2


def free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize
