"""Growth: what appending, a checkpoint and verifying cost as the ledger grows."""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.appending import LIMIT_S, WRITERS
from bench.process import OURS, Samples, in_turn
from bench.setting import Setting
from bench.table import Row, judged, mib, rate, span
from bench.verifying import JOBS, verifying_kib

SIZES = (10_000, 100_000)
FULL_SIZES = (*SIZES, 1_000_000)
TOLERANCE = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one size costs; verifying per entry."""

    size: int
    append: Samples
    checkpoint: Samples
    verify: Samples
    peak_kib: int

    @property
    def verify_each_s(self) -> float:
        return self.verify.each_s / self.size


def growth(bench: Setting) -> None:
    """Each size in turn, repeated; the largest only when all is asked for."""
    bench.table.title("growth: each size beside the others")
    sizes = FULL_SIZES if bench.full else SIZES
    if not bench.full:
        bench.table.note("1,000,000 entries only with BENCH=--full (about 2 GB of disk and some minutes)")
    costs = _measure(bench, {size: bench.our_ledger(size) for size in sizes})
    for cost in costs:
        bench.table.note(
            f"{cost.size:>9,}   append {rate(cost.append.each_s):>10}   checkpoint {span(cost.checkpoint.each_s):>8}"
            f"   verify {span(cost.verify_each_s):>8} an entry   peak {mib(cost.peak_kib)}"
        )
    _flat_row(bench, "append, 64 writers", [cost.append.each_s for cost in costs], [c.append.cpu_each_s for c in costs])
    _flat_row(bench, "checkpoint", [cost.checkpoint.each_s for cost in costs])
    _flat_row(
        bench,
        "verify, per entry",
        [cost.verify_each_s for cost in costs],
        [cost.verify.cpu_each_s / cost.size for cost in costs],
    )
    if all(cost.peak_kib for cost in costs):
        _flat_row(bench, "verify, peak memory", [cost.peak_kib for cost in costs])


def _measure(bench: Setting, ledgers: dict[int, Path]) -> list[Cost]:
    works = {}
    for size, ledger in ledgers.items():
        works[f"append {size}"] = partial(
            OURS.sample, "append", ledger=_twin(bench, ledger), writers=WRITERS, count=10_000, limit_s=LIMIT_S
        )
        works[f"checkpoint {size}"] = partial(OURS.sample, "checkpoint", ledger=ledger, times=301)
        works[f"verify {size}"] = partial(OURS.sample, "verify", ledger=ledger, jobs=JOBS, deep=False)
    taken = in_turn(bench.times, works)
    return [
        Cost(
            size=size,
            append=taken[f"append {size}"],
            checkpoint=taken[f"checkpoint {size}"],
            verify=taken[f"verify {size}"],
            peak_kib=verifying_kib(ledger) or 0,
        )
        for size, ledger in ledgers.items()
    ]


def _twin(bench: Setting, ledger: Path) -> Path:
    """A copy that may grow, so that what is verified stays as large as it is said to be."""
    twin = bench.fresh() / ledger.parent.name
    shutil.copytree(ledger.parent, twin)
    return twin / ledger.name


def _flat_row(bench: Setting, what: str, costs: list[float], cpu: list[float] | None = None) -> None:
    """How much dearer than the smallest ledger any larger one is."""
    worst = max(costs) / costs[0]
    bench.table.add(
        Row(
            what=f"{what}: dearest : smallest ledger",
            ratio=f"{worst:.2f} x",
            cpu=f"{max(cpu) / cpu[0]:.2f} x" if cpu else "",
            target=f"<= {TOLERANCE} x",
            verdict=judged(worst <= TOLERANCE),
        )
    )
