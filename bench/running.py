"""Rows about whole runs: plans beside the peer's, what a chain costs beside a fan, many runs at once, and a large ledger."""

from functools import partial
from typing import Any

from bench.process import RUNS, Sample, in_turn
from bench.setting import Setting
from bench.shim import slowed
from bench.table import Row, faster, judged, rate, span, times

TASKS = 1_000
FAN_COMMITS = 100
CHAIN_COMMITS_PER_TASK = 2
LONG = 10_000
CHAIN_TIMES = 1.5
SLOWER_US = 1000
AT_ONCE, LATENCY_S, LIMIT = 50, 0.5, 25
CALLS_IN_A_ROW = 6
IDEAL_TIMES = 1.5
LARGE = 500_000
LARGE_TIMES = 1.15


def runs(bench: Setting) -> None:
    """Whole runs of stub tasks."""
    bench.table.title(
        f"runs of {TASKS:,} stub tasks: SQLite, sealed, each step awaited; submit_plan on JSONL with fsync_each"
    )
    _fan(bench, {}, "as the disk is", 3.5, count_commits=True)
    if bench.shim is None:
        bench.table.add(Row(what="fan, +1 ms", target=">= 15 x", verdict="left out"))
    else:
        _fan(bench, slowed(bench.shim, SLOWER_US), "every sync +1 ms", 15)
    _chain(bench)
    _long_chain(bench)
    _many_runs(bench)
    _large_ledger(bench)


def _ours(bench: Setting, shape: str, count: int, env: dict[str, str] | None = None) -> Sample:
    return RUNS.sample("plan", env=env, ledger=bench.fresh() / "ledger.db", shape=shape, count=count)


def _fan(bench: Setting, env: dict[str, str], disk: str, at_least: float, *, count_commits: bool = False) -> None:
    works: dict[str, Any] = {"ours": lambda: _ours(bench, "fan", TASKS, env)}
    if bench.peer:
        ask = partial(bench.peer.sample, "plan", env=env, count=TASKS)
        works["peer"] = lambda: ask(folder=bench.fresh())
    taken = in_turn(bench.times, works)
    bench.table.add(faster(f"fan, tasks, {disk}", taken["ours"], taken.get("peer"), at_least))
    if count_commits:
        commits = taken["ours"].middle("commits")
        reached = judged(commits <= FAN_COMMITS)
        bench.table.add(Row(what="fan, commits", ours=f"{commits:,.0f}", target=f"<= {FAN_COMMITS}", verdict=reached))


def _chain(bench: Setting) -> None:
    taken = in_turn(bench.times, {"ours": lambda: _ours(bench, "chain", TASKS)})["ours"]
    each = taken.middle("commits") / TASKS
    bench.table.add(Row(what="chain, tasks, as the disk is", ours=rate(taken.each_s), cpu=span(taken.cpu_each_s)))
    bench.table.add(
        Row(
            what="chain, commits per task",
            ours=f"{each:.2f}",
            target=f"<= {CHAIN_COMMITS_PER_TASK}",
            verdict=judged(each <= CHAIN_COMMITS_PER_TASK),
        )
    )


def _long_chain(bench: Setting) -> None:
    count = LONG // 5 if bench.quick else LONG
    ask = partial(RUNS.sample, "plan", ledger="memory:", count=count)
    taken = in_turn(bench.times, {"chain": partial(ask, shape="chain"), "fan": partial(ask, shape="fan")})
    chain, fan = taken["chain"], taken["fan"]
    bench.table.add(
        _no_dearer(
            f"{count:,} in memory, per task: chain : fan",
            (chain.each_s, fan.each_s),
            (chain.cpu_each_s, fan.cpu_each_s),
            CHAIN_TIMES,
        )
    )


def _many_runs(bench: Setting) -> None:
    def ours() -> Sample:
        place = bench.fresh() / "ledger.db"
        return RUNS.sample("at_once", ledger=place, runs=AT_ONCE, latency_s=LATENCY_S, limit=LIMIT)

    # One repetition takes as long as the model does, and what is measured is mostly its time.
    taken = in_turn(1, {"ours": ours})["ours"]
    took_s, calls = taken.each_s * AT_ONCE, taken.middle("calls")
    ideal_s = max(CALLS_IN_A_ROW * LATENCY_S, calls * LATENCY_S / LIMIT)
    bench.table.add(
        Row(
            what=f"{AT_ONCE} runs at once, {calls:.0f} calls of {LATENCY_S:g} s, limit {LIMIT}",
            ours=span(took_s),
            peer=f"ideal {span(ideal_s)}",
            ratio=times(took_s / ideal_s),
            cpu=span(taken.cpu_each_s * AT_ONCE),
            target=f"<= {IDEAL_TIMES} x",
            verdict=judged(took_s / ideal_s <= IDEAL_TIMES),
        )
    )


def _large_ledger(bench: Setting) -> None:
    size = LARGE // 5 if bench.quick else LARGE
    # Nobody else needs it, so the runs may stay in it; they are few beside what it holds.
    large = bench.our_ledger(size)
    ask = partial(RUNS.sample, "plan", shape="fan", count=TASKS)
    works: dict[str, Any] = {
        "large": lambda: ask(ledger=large),
        "empty": lambda: ask(ledger=bench.fresh() / "ledger.db"),
    }
    taken = in_turn(bench.times + 2, works)
    of_large, of_empty = taken["large"], taken["empty"]
    bench.table.add(
        _no_dearer(
            f"fan on a ledger of {size:,} : on an empty one",
            (of_large.each_s, of_empty.each_s),
            (of_large.cpu_each_s, of_empty.cpu_each_s),
            LARGE_TIMES,
        )
    )


def _no_dearer(what: str, wall: tuple[float, float], cpu: tuple[float, float], limit: float) -> Row:
    ratio = wall[0] / wall[1]
    return Row(
        what=what,
        ours=span(wall[0]),
        peer=span(wall[1]),
        ratio=times(ratio),
        cpu=times(cpu[0] / cpu[1]),
        target=f"<= {limit} x",
        verdict=judged(ratio <= limit),
    )
