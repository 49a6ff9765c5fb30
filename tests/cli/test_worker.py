import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import command_line
from command_line import UNJUDGED, started, workplace
from shell import hansard


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = workplace(tmp_path)
    (folder / "hansard.toml").write_text('ledger = "l.db"')
    return folder


@contextmanager
def working(place: Path) -> "Iterator[subprocess.Popen[str]]":
    """A worker that has begun; it is told to stop at the end."""
    process = started(place, "worker", "--json")
    try:
        assert process.stdout is not None
        assert "working on" in process.stdout.readline()
        yield process
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def asking(place: Path, seconds: float = 0) -> tuple[str, ...]:
    return ("--plan", "plan.json", "--cmd", f"{sys.executable} {place / 'echo.py'} {seconds}", *UNJUDGED)


def state(place: Path) -> str:
    shown: str = json.loads(hansard(place, "runs", "show", "last", "--json").stdout)["state"]
    return shown


def waited(place: Path, wanted: str) -> None:
    for _ in range(150):
        if state(place) == wanted:
            return
        time.sleep(0.1)
    raise AssertionError(f"the run is {state(place)}, not {wanted}")


def test_without_a_worker_nothing_is_detached_and_nothing_recorded(place: Path) -> None:
    refused = hansard(place, "submit", "x", *asking(place), "--detach")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "`hansard worker` starts one" in refused.stderr
    elsewhere = hansard(place, "submit", "x", *asking(place), "--detach", "--ledger", "m.db")
    assert "`hansard worker --ledger m.db` starts one" in elsewhere.stderr
    assert not (place / "l.db").exists()
    hansard(place, "init")
    assert hansard(place, "submit", "x", *asking(place), "--detach").returncode == 2
    assert json.loads(hansard(place, "runs", "--json").stdout) == []


def test_a_worker_drives_what_is_detached(place: Path) -> None:
    with working(place):
        given = hansard(place, "submit", "x", *asking(place), "--detach")
        assert given.returncode == 0
        waited(place, "answered")
        assert json.loads(hansard(place, "runs", "show", "last", "--json").stdout)["run"] == given.stdout.strip()
        # Whoever submits in the foreground drives it himself.
        assert hansard(place, "submit", "x", *asking(place)).stdout == "a fine result\n"
    assert hansard(place, "verify", "l.db", "--deep").returncode == 0


def test_a_worker_that_is_stopped_leaves_runs_that_the_next_one_goes_on_with(place: Path) -> None:
    with working(place):
        hansard(place, "submit", "x", *asking(place, 60), "--detach")
        waited(place, "running")
    assert state(place) == "interrupted"
    (place / "echo.py").write_text("print('after all')")
    with working(place):
        waited(place, "answered")


def test_there_is_one_worker_to_a_ledger(place: Path) -> None:
    with working(place):
        second = command_line.hansard(place, "worker")
        assert (second.returncode, "held by process" in second.stderr) == (11, True)


def test_a_worker_that_was_held_up_and_replaced_says_so_and_stops(place: Path) -> None:
    hansard(place, "init")
    held_up = started(place, "worker", "--json")
    assert held_up.stdout is not None
    assert "working on" in held_up.stdout.readline()
    held_up.send_signal(signal.SIGSTOP)
    with closing(sqlite3.connect(place / "l.db")) as database, database:
        # Its lease is over.
        database.execute("UPDATE claims SET until_us = 1 WHERE name = 'worker'")
    with working(place):
        held_up.send_signal(signal.SIGCONT)
        _, said = held_up.communicate(timeout=30)
        assert held_up.returncode == 11
        assert "l.db, and this one stops: worker in" in said
