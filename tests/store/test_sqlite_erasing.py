"""What was erased from a ledger file stands nowhere in it any more, wherever SQLite had moved it before."""

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from hansard.store.conformance.sample import Clock, draft, genesis, part, put, redacted
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite import writer as sqlite_writer
from hansard.store.sqlite.writer import Writer, take_turn

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
        store.erase(1 + number, "output")
        assert told(tmp_path, number) == []
    store.close()


def test_a_repair_removes_what_somebody_who_was_killed_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "log.db")
    with monkeypatch.context() as killed:
        killed.setattr(Writer, "leave_no_trace", lambda _: None)
        for at in range(COUNT):
            number = at * STEP % COUNT
            put(store, redacted(1 + number, part(b""), committed=store.entry(1 + number).body["output"]))
            store.erase(1 + number, "output")
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
