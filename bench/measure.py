"""What both sides' drivers share: the same facts, the same clock, the same form of answer. Standard library only.

A driver is a process that is asked one thing, as a JSON object on its command line, and answers with one JSON line.
"""

import ctypes
import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

BODY_BYTES = 1024
_FILLER = "The quick brown fox jumps over the lazy dog; the lazy dog has 12 reasons not to mind. " * 12

Asked = dict[str, Any]
Answer = dict[str, Any]


def attempt(number: int) -> dict[str, Any]:
    """What both sides are given to record: an attempt at a task, with a prompt of 1 KiB that no other number has."""
    return {
        "task": f"task-{number}",
        "lane": "backend",
        "attempt": 1,
        "rung": "small",
        "provider": "openai",
        "model": "small-1",
        "template": "task/v1",
        "prompt": f"{number:012d} {_FILLER}"[:BODY_BYTES],
    }


@contextmanager
def timed(answer: Answer) -> Iterator[None]:
    """Wall and CPU time of the block into the answer, the CPU time of workers that it waited for included.

    What was loaded before is not swept again within the block, on either side: whether that falls into it is chance.
    """
    gc.collect()
    gc.freeze()
    cpu, wall = _cpu_s(), time.perf_counter()
    yield
    answer["wall_s"] = time.perf_counter() - wall
    answer["cpu_s"] = _cpu_s() - cpu


def timed_often(work: Callable[[], object], times: int) -> Answer:
    """What one call takes, as the median of many, for work that is too short to be timed once."""
    walls, cpus = [], []
    for _ in range(times):
        cpu, wall = time.thread_time(), time.perf_counter()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.thread_time() - cpu)
    return {"count": 1, "wall_s": median(walls), "cpu_s": median(cpus)}


def syncs() -> tuple[int, int]:
    """How many fsync and fdatasync calls the shim has counted in this process."""
    shim = ctypes.CDLL(None)
    return int(shim.slowsync_fsyncs()), int(shim.slowsync_fdatasyncs())


def serve(works: dict[str, Callable[[Asked], Answer]]) -> None:
    """Do what the command line asks for and print the answer."""
    asked = json.loads(sys.argv[1])
    print(json.dumps(works[asked["do"]](asked)))


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
