"""Rows about checkpoints and receipts."""

from functools import partial
from typing import Any

from bench.process import OURS, SOURCE, STRANGER, in_turn
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
    ours = taken["ours"].each_s
    bench.table.add(
        Row(what="root + two signatures", ours=span(ours), target="< 1 ms", verdict=judged(ours < CHECKPOINT_S))
    )
    bench.table.add(faster("against the peer's checkpoint()", taken["ours"], taken.get("peer"), 300, "span"))
    bench.table.add(Row(what="making a receipt with a body disclosed", ours=span(made.wall_s)))
    took = taken["receipt"].each_s
    what = "verifying it, two signatures, standard library"
    bench.table.add(Row(what=what, ours=span(took), target="< 10 ms", verdict=judged(took < RECEIPT_S)))
