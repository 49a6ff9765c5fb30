"""The command: `make bench`, `make bench ONLY=append`, `make bench BENCH=--quick`."""

import argparse
import tempfile
from pathlib import Path

from bench.appending import append, memory, slow
from bench.deliberating import deliberations
from bench.growing import growth
from bench.machine import describe, real_folder
from bench.peer import NAME, find_peer
from bench.process import OURS
from bench.running import runs
from bench.sealing import seal
from bench.serving import serve
from bench.setting import Setting
from bench.shim import build_shim
from bench.table import Table
from bench.verifying import opening, verify

SECTIONS = {
    "append": append,
    "slow": slow,
    "memory": memory,
    "verify": verify,
    "open": opening,
    "seal": seal,
    "growth": growth,
    "runs": runs,
    "deliberations": deliberations,
    "serve": serve,
}


def main() -> int:
    """Run the sections that are asked for; 1 when --check is given and a target is missed."""
    asked = _arguments()
    table = Table()
    place = real_folder(asked.dir)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place) as name:
        bench = _set_up(table, Path(name), asked)
        for section in asked.only or SECTIONS:
            SECTIONS[section](bench)
    print()
    for line in table.summary():
        print(line)
    return 1 if asked.check and table.missed else 0


def _set_up(table: Table, folder: Path, asked: argparse.Namespace) -> Setting:
    peer, version = find_peer()
    shim, no_shim = build_shim(folder)
    found = OURS.ask("versions") | ({NAME: version} if peer else {})
    print("machine   " + "\n          ".join(describe(folder)))
    print("versions  " + ", ".join(f"{name} {version}" for name, version in found.items()))
    times = 1 if asked.quick else asked.times
    print(f"medians of {times}, both sides in turn, each in a fresh process; ratios by wall time, (CPU) by CPU time")
    if peer is None:
        print(f"left out  every comparison with the peer: {version}")
    if shim is None:
        print(f"left out  slowed and counted syncs: {no_shim}")
    return Setting(table=table, folder=folder, times=times, quick=asked.quick, full=asked.full, peer=peer, shim=shim)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Hansard beside its peer, in one run.")
    parser.add_argument("only", nargs="*", metavar="SECTION", help=f"only these of: {', '.join(SECTIONS)}")
    parser.add_argument("--times", type=int, default=3, help="repetitions, of which the median counts (default 3)")
    parser.add_argument("--quick", action="store_true", help="one repetition, smaller")
    parser.add_argument("--full", action="store_true", help="growth up to 1,000,000 entries")
    parser.add_argument("--check", action="store_true", help="end with 1 when a target is missed")
    parser.add_argument("--dir", help="a folder on the disk to measure (default: build, or TMPDIR)")
    asked = parser.parse_args()
    unknown = [section for section in asked.only if section not in SECTIONS]
    if unknown or asked.times < 1:
        parser.error(f"no such section: {', '.join(unknown)}" if unknown else "--times must be at least 1")
    return asked


if __name__ == "__main__":
    raise SystemExit(main())
