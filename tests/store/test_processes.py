"""Several processes and one ledger: taking turns, taking over, and being fenced out. Real processes, real signals."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from shutil import which

import pytest

from components import need
from hansard.app.ledgers.verifying import verify_apart
from hansard.errors import StoreError
from hansard.ledger.sources import view
from hansard.ledger.verify import Options, verify
from hansard.store.conformance.sample import draft, put
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite import writer as sqlite_writer
from store import writer
from store.faults import FORMS, PATIENCE_S, Child, after_fault, named, new_ledger, opened
from store.forking import holds_in_a_child, is_left_to_its_parent, is_refused


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return new_ledger(named(tmp_path, "sqlite"))


def test_eight_processes_append_at_once_and_nothing_is_lost(ledger: Path) -> None:
    with ExitStack() as stack:
        children = [stack.enter_context(Child(ledger)) for _ in range(8)]
        for child in children:
            child.tell("open")
        for child in children:
            assert child.hear("ready ")
        for child in children:
            child.tell("append 50 3 200")
        for child in children:
            assert child.hear("done"), child.refusals or child.stderr
            assert len(child.acknowledged) == 150
    promised = {seq: leaf for child in children for seq, leaf in child.acknowledged.items()}
    assert sorted(promised) == list(range(1, 1201)), "each seq was promised to exactly one process"
    entries = after_fault(ledger, promised, batch=0)
    groups = [{entry.data["by"] for entry in entries[at : at + 3]} for at in range(1, 1201, 3)]
    assert all(len(writers) == 1 for writers in groups), "a group stands together"


def test_a_forked_child_leaves_the_ledger_to_its_parent(ledger: Path) -> None:
    # SQLite's locks are those of a process: the parent would delete the WAL that a child of it goes on to write to.
    with closing(SqliteStore.open(ledger)) as store:
        assert is_left_to_its_parent(store)
        assert holds_in_a_child(lambda: is_refused(lambda: SqliteStore.open(ledger)))
        put(store, draft())
    assert holds_in_a_child(lambda: SqliteStore.open(ledger).head().size == 2)


def test_a_driver_that_was_stopped_and_replaced_cannot_append(ledger: Path) -> None:
    with opened(ledger) as first, opened(ledger) as second:
        assert first.ask("claim r1 0.5") == "claimed 1 new"
        assert first.ask("drive").startswith("ack 1:")
        assert second.ask("claim r1 60").startswith("refused Fenced r1 ")
        first.stop()
        time.sleep(0.6)
        assert second.ask("claim r1 60") == "claimed 2 expired"
        assert second.ask("drive").startswith("ack 2:")
        first.signal(signal.SIGCONT)
        assert first.ask("drive").startswith("refused Fenced r1: this process holds epoch 1, the claim is at 2")
        assert first.ask("claim r1 60").startswith("refused Fenced ")
        assert second.ask("drive").startswith("ack 3:")
        promised = first.acknowledged | second.acknowledged
    entries = after_fault(ledger, promised, batch=0)
    assert len(entries) == 4, "nothing of the fenced driver is there but what it wrote while it held the claim"


def test_a_process_stopped_in_mid_commit_keeps_nobody_waiting_without_end(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(which("strace") is not None, "strace (apt install strace)")
    monkeypatch.setattr(sqlite_writer, "BUSY_S", 0.5)
    stop = "strace -f -qq -o /dev/null -e trace=fdatasync -e inject=fdatasync:signal=STOP:when=1"
    with Child(ledger, prefix=stop.split()) as stopped, closing(writer.reopen(ledger)) as store:
        stopped.tell("open")
        assert stopped.hear("ready ")
        stopped.tell("append 1 1 200")
        _wait_until_held(Path(f"{ledger}.lock"))
        with pytest.raises(StoreError, match="look for one that is stopped"):
            store.append([[writer.draft("whose turn is it?")]])
        stopped.signal(signal.SIGCONT)
        assert stopped.hear("done"), stopped.refusals
        store.append([[writer.draft("now it is ours")]])
    assert len(after_fault(ledger, stopped.acknowledged, batch=1)) == 3


def _wait_until_held(lock: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    with lock.open("rb") as file:
        while time.monotonic() < until:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.001)
    raise AssertionError("nobody took the lock")


@pytest.mark.parametrize("form", FORMS)
def test_a_killed_holder_is_taken_over_at_once(tmp_path: Path, form: str) -> None:
    path = new_ledger(named(tmp_path, form))
    with opened(path) as holder:
        assert holder.ask("claim r1 600") == "claimed 1 new"
        assert holder.ask("drive").startswith("ack 1:")
        holder.kill()
        holder.finish()
    with opened(path) as heir:
        assert heir.ask("claim r1 600") == "claimed 2 dead"
        assert heir.ask("drive").startswith("ack 2:")
    after_fault(path, holder.acknowledged | heir.acknowledged, batch=0)


def test_a_killed_holder_whom_its_parent_has_not_buried_is_dead_too(ledger: Path) -> None:
    with opened(ledger) as holder, opened(ledger) as heir:
        assert holder.ask("claim r1 600") == "claimed 1 new"
        holder.kill()
        assert holder.hear() == "", "its pipe is closed; as a zombie it waits for us"
        _wait_until_zombie(holder.pid)
        assert heir.ask("claim r1 600") == "claimed 2 dead"


def _wait_until_zombie(pid: int) -> None:
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.01)


def test_a_living_holder_on_this_machine_is_not_taken_over(ledger: Path) -> None:
    with opened(ledger) as holder, opened(ledger) as other:
        assert holder.ask("claim r1 600") == "claimed 1 new"
        assert other.ask("claim r1 600").startswith("refused Fenced r1 ")
        assert holder.ask("drive").startswith("ack 1:")


@pytest.mark.parametrize("form", FORMS)
def test_of_two_processes_that_create_one_ledger_exactly_one_does(tmp_path: Path, form: str) -> None:
    for attempt in range(4):
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        path = named(folder, form)
        with Child(path) as first, Child(path) as second:
            assert [first.hear(), second.hear()] == ["here", "here"]
            first.tell("create")
            second.tell("create")
            said = sorted([first.hear(), second.hear()])
            assert said[0] == "ready 1"
            assert said[1].startswith(("refused StoreError ", "refused Unavailable ")), said
            assert str(folder) in said[1]
        assert first.stderr + second.stderr == b""
        assert len(after_fault(path, {}, batch=0)) == 1


def test_a_ledger_opened_twice_in_one_process_keeps_its_locks(ledger: Path) -> None:
    with closing(writer.reopen(ledger)) as first, closing(writer.reopen(ledger)):
        first.append([[writer.draft("before")]])
        _another_comes_and_goes(ledger)
        first.append([[writer.draft("after")]])
        with Child(ledger) as other:
            other.hear()
            assert other.ask("open") == "ready 4", "what was appended after that is seen by others"
    assert len(after_fault(ledger, {}, batch=3)) == 4


def test_verifying_apart_from_the_process_that_writes_keeps_its_locks(ledger: Path) -> None:
    with closing(writer.reopen(ledger)) as store:
        store.append([[writer.draft("before")]])
        assert verify_apart(str(ledger))["ok"]
        _another_comes_and_goes(ledger)
        store.append([[writer.draft("after")]])
        with Child(ledger) as other:
            other.hear()
            assert other.ask("open") == "ready 4", "what was appended after that is seen by others"
    assert len(after_fault(ledger, {}, batch=3)) == 4


def _another_comes_and_goes(ledger: Path) -> None:
    """Closing a file cancels all POSIX locks of its process; then the next to close takes the WAL for unused, and deletes it."""
    with opened(ledger) as passing:
        assert passing.ask("append 1 1 200").startswith("ack 2:")
        assert passing.hear("done")
        assert passing.ask("close") == "closed"


def test_a_writer_goes_on_while_its_ledger_is_copied_to_be_verified(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = view._copy
    with opened(ledger) as child:
        child.tell("append 3 1 200")
        assert child.hear("done")

        def while_it_is_copied(path: Path, to: Path, held: int | None = None) -> None:
            if path == ledger:
                child.tell("append 3 1 200")
                assert child.hear("done"), child.refusals
            copy(path, to, held)

        monkeypatch.setattr(view, "_copy", while_it_is_copied)
        report = verify(ledger, Options(deep=True))
    assert (report.size, report.bodies.opened, report.findings) == (7, 6, ())


def test_a_ledger_whose_wal_begins_anew_while_it_is_copied_is_copied_again_under_its_lock(
    ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, lock, tried = view._copy, Path(f"{ledger}.lock"), []
    with opened(ledger) as child:
        child.tell("append 3 1 200")
        assert child.hear("done")

        def while_it_is_copied(path: Path, to: Path, held: int | None = None) -> None:
            if path == ledger:
                tried.append(held is not None)
                os.utime(lock, (0, 0))
            copy(path, to, held)
            if path == ledger and len(tried) == 1:
                # What it did before goes from the WAL into the file, a part of which is copied already.
                child.ask("close")
                child.ask("open")
                child.tell("append 3 1 20000")
                assert child.hear("done"), child.refusals
            elif path == ledger:
                assert lock.stat().st_mtime, "whoever waits for the lock sees that its holder goes on"

        monkeypatch.setattr(view, "_copy", while_it_is_copied)
        report = verify(ledger, Options(deep=True))
    assert tried == [False, True]
    assert (report.size, report.bodies.opened, report.findings) == (7, 6, ())


HOLDS_AND_WAITS = """
import fcntl, os, sys, threading, time
from hansard.store.sqlite import writer

writer.BUSY_S = 2.0
mine, theirs = (os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) for _ in range(2))
held = threading.Event()

def hold():
    writer.take_turn(theirs, "log")
    held.set()
    for _ in range(100):
        time.sleep(0.005)
    fcntl.flock(theirs, fcntl.LOCK_UN)

threading.Thread(target=hold).start()
held.wait()
print("waits", flush=True)
writer.take_turn(mine, "log")
print("has the turn", flush=True)
"""


def test_who_waited_while_the_machine_stood_still_has_not_waited(tmp_path: Path) -> None:
    # Whoever holds the turn and whoever waits for it stand still together, and the clock goes on.
    argv = [sys.executable, "-c", HOLDS_AND_WAITS, str(tmp_path / "lock")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as both:
        assert both.stdout is not None
        assert both.stdout.readline() == "waits\n"
        time.sleep(0.1)
        both.send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        both.send_signal(signal.SIGCONT)
        assert both.stdout.read() == "has the turn\n"
    assert both.returncode == 0
