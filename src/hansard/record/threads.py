"""Threads that are there before they are needed: a process that comes to its limit of them goes on with those that it has."""

import threading
from concurrent.futures import ThreadPoolExecutor

from hansard.errors import Unavailable


def begun(count: int, name: str) -> ThreadPoolExecutor:
    """A pool of so many threads, all of them started; Unavailable where the system gives no more."""
    pool, all_there = ThreadPoolExecutor(count, name), threading.Event()
    try:
        for _ in range(count):
            # Whoever waits here is not free, so each of these needs a thread of its own.
            pool.submit(all_there.wait)
    except RuntimeError as error:
        pool.shutdown(wait=False)
        raise Unavailable(f"{error}: this process is at a limit of threads, processes or memory; raise it") from error
    finally:
        all_there.set()
    return pool
