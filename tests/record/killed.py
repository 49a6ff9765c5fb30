"""A program that dies: it does one thing with a sealer again and again, each time killed one step later than before.

Steps are what can change a disk: opening for writing, writing, syncing, renaming and removing files, and every SQL
statement but reads. Each life works on its own copy, OUT/<step>, and writes into OUT/<step>/acknowledged what it was told to be durable.
"""

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledgers import Clock
from sealing import Log, say

Tell = Callable[[int], None]


def seal(log: Log, arm: Callable[[], None], tell: Tell) -> None:
    store = log.open()
    sealer = log.take(store)
    arm()
    tell(say(store, 2, sealer=sealer)[-1].seq + 1)
    tell(say(store, 1, sealer=sealer)[-1].seq + 1)
    tell(sealer.checkpoint().size)


def rotate(log: Log, arm: Callable[[], None], tell: Tell) -> None:
    store = log.open()
    sealer = log.take(store)
    tell(say(store, 2, sealer=sealer)[-1].seq + 1)
    arm()
    tell(sealer.rotate().size)


def rotate_without_key(log: Log, arm: Callable[[], None], tell: Tell) -> None:
    log.ring.destroy_epoch(1)
    store = log.open()
    arm()
    sealer = log.take(store, lost_key_rotates=True)
    assert sealer.newest is not None
    tell(sealer.newest.size)


ACTS = {act.__name__: act for act in (seal, rotate, rotate_without_key)}


class Countdown:
    """Kills this process before the given step."""

    def __init__(self, last: int) -> None:
        self.left = last
        self.armed = False

    def arm(self) -> None:
        self.armed = True

    def step(self) -> None:
        if self.armed:
            self.left -= 1
            if self.left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        patch, connect = pytest.MonkeyPatch(), sqlite3.connect
        for name in ("fsync", "fdatasync", "pwrite", "ftruncate"):
            patch.setattr(os, name, self.watched(getattr(os, name)))

        def watched_connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_trace_callback(lambda sql: None if sql.startswith(("SELECT", "PRAGMA")) else self.step())
            return connection

        patch.setattr(sqlite3, "connect", watched_connect)
        sys.addaudithook(self.watched_event)

    def watched(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def first_a_step(*arguments: Any) -> Any:
            self.step()
            return call(*arguments)

        return first_a_step

    def watched_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event in ("os.remove", "os.rename") or (event == "open" and arguments[2] & writing):
            self.step()


def live(log: Log, act: str, step: int) -> None:
    acknowledged, write = os.open(log.folder / "acknowledged", os.O_WRONLY | os.O_CREAT), os.pwrite
    countdown = Countdown(step)
    countdown.watch()

    def tell(size: int) -> None:
        write(acknowledged, b"%9d" % size, 0)

    ACTS[act](log, countdown.arm, tell)
    os._exit(0)


def main(act: str, form: str, prepared: Path, out: Path) -> None:
    for step in range(1_000):
        clock = Clock()
        log = Log(folder=prepared, clock=clock, form=form).copy(out / str(step))
        child = os.fork()
        if not child:
            try:
                live(log, act, step)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            sys.exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
