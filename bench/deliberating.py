"""Rows about deliberations beside the reference runtime: a long session, what a message costs as it grows, start-up."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.process import SOURCE, Driver, DriverFailed, Sample, Samples, in_turn, run
from bench.reference import find_reference
from bench.reference import folder as reference_folder
from bench.setting import Setting
from bench.table import Row, judged, span, times

OURS = Driver(python=Path(sys.executable), module="bench.council_driver", path=SOURCE)
ROUNDS, SHORT, LONG = 50, 50, 1_600
SESSIONS = 15
"""A session lasts a sixth of a second, and a machine that others use swings by half: three of each said anything."""
MOST_TIMES = 1.5
GROWS_TIMES = 1.3
START_SHARE = 3.0
STARTS = 7
MEMORY = Path("/dev/shm")
LEDGERS = {"in SQLite": "ledger.db", "in JSON lines": "ledger.jsonl"}


def deliberations(bench: Setting) -> None:
    """Sessions of scripted agents, in memory: what is measured is the runtime and not the disk."""
    reference, version = find_reference()
    place = MEMORY if os.access(MEMORY, os.W_OK) else bench.folder
    bench.table.title(
        f"sessions of 5 agents on {place}: archive, and with us a sealed ledger; symposium-protocol {version}"
    )
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as name:
        _session(bench, reference, Path(name))
        _growth(bench, reference, Path(name))
    _start(bench, reference)


def _held(driver: Driver, place: Path, rounds: int, **asked: Any) -> Sample:
    with tempfile.TemporaryDirectory(dir=place) as folder:
        return driver.sample("session", folder=folder, rounds=rounds, **asked)


def _session(bench: Setting, reference: Driver | None, place: Path) -> None:
    works: dict[str, Callable[[], Sample]] = {
        name: lambda file=file: _held(OURS, place, ROUNDS, ledger=file)  # type: ignore[misc]
        for name, file in LEDGERS.items()
    }
    if reference:
        works["peer"] = lambda: _held(reference, place, ROUNDS)
    taken = in_turn(max(bench.times, SESSIONS), works)
    for name in LEDGERS:
        bench.table.add(_at_most(f"{ROUNDS} rounds, a message, {name}", taken[name], taken.get("peer"), MOST_TIMES))


def _at_most(what: str, ours: Samples, peer: Samples | None, limit: float) -> Row:
    target = f"<= {limit:g} x"
    if peer is None:
        return Row(what=what, ours=span(ours.each_s), target=target, verdict="left out")
    ratio = ours.each_s / peer.each_s
    cpu = times(ours.cpu_each_s / peer.cpu_each_s)
    return Row(
        what=what,
        ours=span(ours.each_s),
        peer=span(peer.each_s),
        ratio=times(ratio),
        cpu=cpu,
        target=target,
        verdict=judged(ratio <= limit),
    )


def _growth(bench: Setting, reference: Driver | None, place: Path) -> None:
    """What one message costs in a session of 9,600, beside one in a session of 300."""
    long = LONG // 4 if bench.quick else LONG
    sides: dict[str, Driver] = {"ours": OURS} | ({"peer": reference} if reference else {})
    works: dict[str, Callable[[], Sample]] = {
        f"{side} {rounds}": lambda driver=driver, rounds=rounds: _held(driver, place, rounds)  # type: ignore[misc]
        for side, driver in sides.items()
        for rounds in (SHORT, long)
    }
    taken = in_turn(bench.times, works)
    grown = {side: taken[f"{side} {long}"].each_s / taken[f"{side} {SHORT}"].each_s for side in sides}
    by_cpu = taken[f"ours {long}"].cpu_each_s / taken[f"ours {SHORT}"].cpu_each_s
    bench.table.add(
        Row(
            what=f"a message of {long * 6:,} beside one of {SHORT * 6}",
            ours=times(grown["ours"]),
            peer=times(grown["peer"]) if "peer" in grown else "-",
            cpu=times(by_cpu),
            target=f"<= {GROWS_TIMES:g} x",
            verdict=judged(grown["ours"] <= GROWS_TIMES),
        )
    )


def _start(bench: Setting, reference: Driver | None) -> None:
    theirs = reference_folder() / "bin"
    ours = {"PYTHONPATH": str(SOURCE)}
    rows = {
        "import": ([sys.executable, "-c", "import hansard"], [str(theirs / "python"), "-c", "import symposium"]),
        "CLI, --version": ([sys.executable, "-m", "hansard", "--version"], [str(theirs / "symposium"), "--version"]),
    }
    for what, (command, other) in rows.items():
        works = {"ours": lambda command=command: _started(command, ours)}
        if reference:
            works["peer"] = lambda other=other: _started(other, {})
        taken = in_turn(STARTS, works)
        bench.table.add(_at_most(what, taken["ours"], taken.get("peer"), 1 / START_SHARE))


def _started(command: list[str], env: Mapping[str, str]) -> Sample:
    """A program from its start to its end."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = run(command, env=env)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise DriverFailed(f"{' '.join(command)}: {done.stderr[-200:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(count=1, wall_s=wall_s, cpu_s=cpu_s)
