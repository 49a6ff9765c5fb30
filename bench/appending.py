"""Rows about appending: on the disk as it is, on a slower one, how often it syncs, and in memory."""

from functools import partial
from typing import Any

from bench.process import OURS, Sample, Samples, in_turn
from bench.setting import Setting
from bench.shim import slowed
from bench.table import Row, faster, judged

WRITERS = 64
LIMIT_S = 8.0
SLOWER_US = 1000
COMMITS_PER_ENTRY = 1 / 32


def append(bench: Setting) -> None:
    """64 writers and one on the disk as it is."""
    bench.table.title("append, bodies of 1 KiB, each awaited: SQLite through recorder.record, JSONL with fsync_each")
    taken = _on_disk(bench, {}, many=20_000, one=3_000)
    _two_rows(bench, taken, "as the disk is", many=6, one=1)
    entries, commits = taken["many"].middle("count"), taken["many"].middle("commits")
    _commits_row(bench, "commits per entry, 64 writers", commits / entries)


def slow(bench: Setting) -> None:
    """The same with every sync of both sides slowed, and the syncs counted."""
    bench.table.title("append, every fsync and fdatasync 1 ms slower on both sides")
    if bench.shim is None:
        for what, target in (("64 writers, +1 ms", ">= 25 x"), ("one writer, +1 ms", ">= 1.5 x"), ("fdatasyncs", "1")):
            bench.table.add(Row(what=what, target=target, verdict="left out"))
        return
    taken = _on_disk(bench, slowed(bench.shim, SLOWER_US), many=20_000, one=1_000)
    _two_rows(bench, taken, "+1 ms", many=25, one=1.5)
    told = OURS.ask(
        "syncs",
        env=slowed(bench.shim, 0),
        ledger=bench.fresh() / "ledger.db",
        writers=WRITERS,
        count=6_450,
        limit_s=LIMIT_S,
    )
    each = told["single_syncs"] / told["singles"]
    what = f"fdatasyncs per single append ({told['singles']}, no WAL checkpoint)"
    bench.table.add(Row(what=what, ours=f"{each:.3f}", target="1", verdict=judged(each == 1)))
    _commits_row(bench, "fdatasyncs per entry, 64 writers, all included", told["syncs"] / told["count"])


def memory(bench: Setting) -> None:
    """Without a disk."""
    bench.table.title("append in memory")
    count = 10_000 if bench.quick else 20_000
    ours = partial(OURS.sample, "append", ledger="memory:", writers=1, count=count, limit_s=LIMIT_S)
    works: dict[str, Any] = {"orjson": ours, "stdlib": partial(ours, orjson=False)}
    if bench.peer:
        works["peer"] = partial(bench.peer.sample, "append", store="memory", count=count, limit_s=LIMIT_S)
    # A run takes half a second, so more of them cost nothing and calm the medians.
    taken = in_turn(bench.times + 2, works)
    bench.table.add(faster("memory store, with orjson", taken["orjson"], taken.get("peer"), 1.2))
    bench.table.add(faster("memory store, standard library encoder", taken["stdlib"], taken.get("peer"), 0.9))


def _on_disk(bench: Setting, env: dict[str, str], *, many: int, one: int) -> dict[str, Samples]:
    shrink = 3 if bench.quick else 1

    def ours(writers: int, count: int) -> Sample:
        place = bench.fresh() / "ledger.db"
        return OURS.sample("append", env=env, ledger=place, writers=writers, count=count // shrink, limit_s=LIMIT_S)

    works: dict[str, Any] = {"many": lambda: ours(WRITERS, many), "one": lambda: ours(1, one)}
    if bench.peer:
        ask = partial(bench.peer.sample, "append", env=env, store="file", count=one // shrink, limit_s=LIMIT_S)
        works["peer"] = lambda: ask(folder=bench.fresh())
    return in_turn(bench.times, works)


def _two_rows(bench: Setting, taken: dict[str, Samples], disk: str, *, many: float, one: float) -> None:
    bench.table.add(faster(f"{WRITERS} writers, {disk}", taken["many"], taken.get("peer"), many))
    bench.table.add(faster(f"one writer, {disk}", taken["one"], taken.get("peer"), one))


def _commits_row(bench: Setting, what: str, each: float) -> None:
    reached = judged(each <= COMMITS_PER_ENTRY)
    bench.table.add(Row(what=what, ours=f"1 per {1 / each:.1f}", target="<= 1 per 32", verdict=reached))
