"""Rows about verifying and opening: as installed, by a stranger with the standard library, and beside a bare loop."""

import resource
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from bench.memory import peak_kib
from bench.process import OURS, SOURCE, STRANGER, Driver, DriverFailed, Sample, Samples, in_turn, run
from bench.setting import OPENED, VERIFIED, Setting
from bench.table import Row, faster, judged, mib, span, times

JOBS = 2
BARE_TIMES = 2.5
MEMORY_SHARE = 1 / 8


def verify(bench: Setting) -> None:
    """Open and full verification of 100,000 entries."""
    bench.table.title(f"open + full verification, {VERIFIED:,} entries, signed SQLite against JSONL")
    ledger = bench.our_ledger(VERIFIED)
    installed = partial(OURS.sample, "verify", ledger=ledger, jobs=JOBS)
    works: dict[str, Any] = {
        "installed": partial(installed, deep=False),
        "deep": partial(installed, deep=True),
        "stdlib": partial(STRANGER.sample, "verify", ledger=ledger, source=SOURCE),
        "bare": partial(STRANGER.sample, "bare", ledger=ledger),
    }
    zipped = bench.folder / "verify.pyz"
    OURS.ask("zip", place=zipped)
    works["zipped"] = partial(_run_zipped, zipped, ledger)
    if bench.peer:
        works["peer"] = partial(bench.peer.sample, "verify", folder=bench.peers_ledger(VERIFIED), deep=False)
        works["peer deep"] = partial(bench.peer.sample, "verify", folder=bench.peers_ledger(VERIFIED), deep=True)
    taken = in_turn(bench.times, works)
    peer, deep = taken.get("peer"), taken.get("peer deep")
    bench.table.add(faster(f"as installed, {JOBS} processes (aim 4 x)", taken["installed"], peer, 2.5, "span"))
    bench.table.add(faster(f"deep, {JOBS} processes", taken["deep"], deep, 2.8, "span"))
    bench.table.add(faster("zipped verifier, standard library, one core", taken["zipped"], peer, 1, "span"))
    bench.table.add(_memory_row(bench))
    bench.table.add(_bare_row(taken["stdlib"], taken["bare"]))


def opening(bench: Setting) -> None:
    """Opening alone."""
    bench.table.title(f"open, {OPENED:,} entries")
    ledger, warm = bench.our_ledger(OPENED), bench.our_ledger(VERIFIED)
    works: dict[str, Any] = {"ours": partial(OURS.sample, "open", ledger=ledger, warm=warm)}
    if bench.peer:
        works["peer"] = partial(bench.peer.sample, "open", folder=bench.peers_ledger(OPENED))
    taken = in_turn(bench.times, works)
    bench.table.add(faster("open", taken["ours"], taken.get("peer"), 1000, "span"))


def _run_zipped(zipped: Path, ledger: Path) -> Sample:
    """The whole process, its start included: that is what an auditor waits for."""
    cpu, start = _children_s(), time.perf_counter()
    done = run([sys.executable, "-I", "-S", str(zipped), "--jobs", "1", str(ledger)])
    wall = time.perf_counter() - start
    if done.returncode:
        raise DriverFailed(f"{zipped.name}: {done.stdout.strip().splitlines()[:2]} {done.stderr.strip()[-200:]}")
    return Sample(count=1, wall_s=wall, cpu_s=_children_s() - cpu)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def verifying_kib(ledger: Path) -> int | None:
    """The peak memory of our verification as installed."""
    return peak_kib(OURS.command("verify", ledger=ledger, jobs=JOBS, deep=False), OURS.env())


def _memory_row(bench: Setting) -> Row:
    row = partial(Row, what="peak memory, all processes", target="<= 1/8")
    ours = verifying_kib(bench.our_ledger(VERIFIED))
    peer = _peer_kib(bench, bench.peer) if bench.peer else None
    if ours is None or peer is None:
        return row(ours=mib(ours) if ours else "-", verdict="left out")
    share = ours / peer
    return row(ours=mib(ours), peer=mib(peer), ratio=f"1/{1 / share:.1f}", verdict=judged(share <= MEMORY_SHARE))


def _peer_kib(bench: Setting, peer: Driver) -> int | None:
    return peak_kib(peer.command("verify", folder=bench.peers_ledger(VERIFIED), deep=False), peer.env())


def _bare_row(ours: Samples, bare: Samples) -> Row:
    ratio = ours.each_s / bare.each_s
    return Row(
        what="standard library, one process : bare loop",
        ours=span(ours.each_s),
        peer=f"bare {span(bare.each_s)}",
        ratio=times(ratio),
        cpu=times(ours.cpu_each_s / bare.cpu_each_s),
        target=f"<= {BARE_TIMES} x",
        verdict=judged(ratio <= BARE_TIMES),
    )
