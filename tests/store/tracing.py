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


def strace(*options: str, log: str = "/dev/null") -> list[str]:
    """The words to put before a program; only calls in CHANGES are looked at."""
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-o", log, "-e", f"trace={CHANGES}", *options]


def inject(step: Step, fault: str) -> list[str]:
    """The words that let a fault happen at one step: `signal=KILL`, `error=EIO`."""
    return strace("-e", f"inject={step.call}:{fault}:when={step.nth}")


def steps_of(path: Path, orders: Sequence[str], log: Path) -> list[Step]:
    """Every step that a writer takes while it obeys, in order."""
    child = run(path, orders, prefix=strace(log=str(log)))
    assert not child.refusals, child.refusals
    assert child.stderr == b""
    found = [(call, Path(file).name) for call, file in _CALL.findall(log.read_text())]
    counted: Counter[str] = Counter()
    steps = []
    for call, file in found:
        counted[call] += 1
        steps.append(Step(call=call, nth=counted[call], file=file))
    return steps


def turning_points(steps: Sequence[Step]) -> list[Step]:
    """The first and the last of each row of equal steps: where a half-done thing looks different from the one before."""
    turns = [0, len(steps) - 1]
    for at, (one, next_one) in enumerate(pairwise(steps)):
        if (one.call, one.file) != (next_one.call, next_one.file):
            turns += [at, at + 1]
    return [steps[at] for at in sorted(set(turns))]
