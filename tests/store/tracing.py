"""What strace does to a writer: list the changes that it makes to files, then let one of them fail or be its last."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from shutil import which

from components import need
from store.faults import run

# Whatever changes a file, its name or its durability; the writer's own words on its pipe are among them, so that dying
# between a commit and its acknowledgement is a step too. A `?` stands before calls that not every machine has.
CHANGES = ",".join(
    (
        *("write", "?writev", "pwrite64", "?pwritev", "fdatasync", "fsync", "ftruncate", "?fallocate"),
        *("?unlink", "unlinkat", "?rename", "?renameat", "?renameat2"),
    )
)
_CALL = re.compile(r"\d+ +(\w+)\([^<]*<([^>]*)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The nth time that a writer makes a call, and on what."""

    call: str
    nth: int
    file: str


def need_strace() -> None:
    need(which("strace") is not None, "strace (apt install strace)")
    need(os.geteuid() == 0, "root, to trace processes (run the tests with sudo, or in a container)")


def inject(call: str, fault: str, when: int | str) -> list[str]:
    """The words to put before a program, so that a fault (`signal=KILL`, `error=EIO`) happens at the nth such call."""
    return ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{fault}:when={when}"]


def steps_of(path: Path, orders: Sequence[str], log: Path) -> list[Step]:
    """Every step that a writer takes while it obeys, in order."""
    child = run(path, orders, prefix=["strace", "-f", "-qq", "-y", "-o", str(log), "-e", f"trace={CHANGES}"])
    assert not child.refusals, child.refusals
    assert child.stderr == b""
    found = [(call, Path(file).name) for call, file in _CALL.findall(log.read_text())]
    counted: Counter[str] = Counter()
    steps = []
    for call, file in found:
        counted[call] += 1
        steps.append(Step(call=call, nth=counted[call], file=file))
    return steps


def turning_points(steps: Sequence[Step], most: int) -> list[Step]:
    """Steps next to which the work changes its kind, at most so many, spread over all of it from the first to the last.

    Files that can be derived from the others are left to the full sweep.
    """
    true = [step for step in steps if not step.file.endswith(("-shm", ".index", ".index-journal"))]
    turns = {0, len(true) - 1}
    for at, (one, following) in enumerate(pairwise(true)):
        if (one.call, one.file) != (following.call, following.file):
            turns |= {at, at + 1}
    points = sorted(turns)
    every = max(1, -(-(len(points) - 1) // (most - 1)))
    return [true[at] for at in sorted({*points[::every], points[-1]})]
