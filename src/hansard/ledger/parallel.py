"""Work split over forked processes: each result comes back through a pipe, in the order of the tasks.

Knows nothing of ledgers. Where forking is not to be had, or not safe, the caller does the work itself.
"""

import os
import pickle
import select
import threading
from collections.abc import Callable, Sequence
from typing import Any

_POLL_S = 0.2


def available() -> bool:
    """Whether this process may fork: only without other threads, whose locks a child would inherit for ever."""
    return hasattr(os, "fork") and threading.active_count() == 1


def processors() -> int:
    """How many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run(tasks: Sequence[Callable[[], Any]], waiting: Callable[[], None] = lambda: None) -> list[Any] | None:
    """The results of all tasks; None when any of them could not start, failed or died. `waiting` is called now and then."""
    running: list[tuple[int, int]] = []
    try:
        running += (_start(task) for task in tasks)
    except OSError:
        _finish(running, kill=True)
        return None
    chunks: dict[int, list[bytes]] = {pipe: [] for _, pipe in running}
    open_pipes = set(chunks)
    try:
        while open_pipes:
            ready, _, _ = select.select(list(open_pipes), [], [], _POLL_S)
            for pipe in ready:
                data = os.read(pipe, 1 << 16)
                if data:
                    chunks[pipe].append(data)
                else:
                    open_pipes.discard(pipe)
            waiting()
    finally:
        failed = _finish(running, kill=bool(open_pipes))
    if failed:
        return None
    return [pickle.loads(b"".join(chunks[pipe])) for _, pipe in running]


def _start(task: Callable[[], Any]) -> tuple[int, int]:
    reading, writing = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if child:
        os.close(writing)
        return child, reading
    # From here on this is the child: it must not return, whatever happens.
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            pickle.dump(task(), out)
        status = 0
    finally:
        os._exit(status)


def _finish(running: Sequence[tuple[int, int]], *, kill: bool) -> bool:
    """Reap every child; whether any of them did not end well."""
    failed = False
    for child, pipe in running:
        os.close(pipe)
        if kill:
            os.kill(child, 9)
        _, status = os.waitpid(child, 0)
        failed |= status != 0
    return failed
