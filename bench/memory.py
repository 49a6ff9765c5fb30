"""The most memory that a driver and its workers hold together, pages that they share counted once. Linux only."""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench.process import DriverFailed, start

_EVERY_S = 0.02


def peak_kib(command: Sequence[str], env: Mapping[str, str]) -> int | None:
    """Run a driver to its end while looking at it; None where the system does not tell."""
    with start(command, env) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(_share_kib(pid) for pid in _family(process.pid)))
            time.sleep(_EVERY_S)
        _, told = process.communicate()
    if process.returncode:
        raise DriverFailed(f"{' '.join(command[:4])} …: {told.strip()[-300:]}")
    return peak or None


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _share_kib(pid: int) -> int:
    """A process's share of the memory: its own pages, and of shared ones its part."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
