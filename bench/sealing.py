"""Rows about checkpoints and receipts."""

from functools import partial
from typing import Any

from bench.process import OURS, SOURCE, STRANGER, Samples, in_turn
from bench.setting import VERIFIED, Setting
from bench.table import Row, faster, judged, span

CHECKPOINT_S = 0.001
RECEIPT_S = 0.010


def seal(bench: Setting) -> None:
    """A checkpoint without its durable write, and a receipt in a stranger's hands."""
    bench.table.title(f"checkpoint and receipt, {VERIFIED:,} entries")
    ledger, receipt = bench.our_ledger(VERIFIED), bench.folder / "receipt.tlog-proof"
    made = OURS.sample("receipt", ledger=ledger, seq=VERIFIED // 2, receipt=receipt)
    works: dict[str, Any] = {
        "ours": partial(OURS.sample, "checkpoint", ledger=ledger, times=301),
        "receipt": partial(STRANGER.sample, "receipt", receipt=receipt, source=SOURCE, times=31),
    }
    if bench.peer:
        works["peer"] = partial(bench.peer.sample, "checkpoint", folder=bench.peers_ledger(VERIFIED))
    taken = in_turn(bench.times, works)
    bench.table.add(_within("root + two signatures", taken["ours"], CHECKPOINT_S))
    bench.table.add(faster("against the peer's checkpoint()", taken["ours"], taken.get("peer"), 300, "span"))
    bench.table.add(Row(what="making a receipt with a body disclosed", ours=span(made.wall_s)))
    bench.table.add(_within("verifying it, two signatures, standard library", taken["receipt"], RECEIPT_S))


def _within(what: str, taken: Samples, limit_s: float) -> Row:
    return Row(
        what=what,
        ours=span(taken.each_s),
        cpu=span(taken.cpu_each_s),
        target=f"< {limit_s * 1e3:g} ms",
        verdict=judged(taken.each_s < limit_s),
    )
