"""Rows of the report: what was measured on each side, the ratio, the target, and whether it is reached."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bench.process import Samples

Verdict = Literal["pass", "MISS", "left out", ""]
_WIDTHS = (50, 15, 15, 9, 9, 17)
_TITLES = ("", "ours", "peer", "ratio", "(CPU)", "target", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the report; no verdict where there is no target."""

    what: str
    ours: str = "-"
    peer: str = "-"
    ratio: str = "-"
    cpu: str = ""
    target: str = ""
    verdict: Verdict = ""


class Table:
    """Prints rows as they come and remembers what was missed."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def title(self, text: str) -> None:
        print(f"\n{text}", flush=True)
        print(_line(_TITLES), flush=True)

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(_line((row.what, row.ours, row.peer, row.ratio, row.cpu, row.target, row.verdict)), flush=True)

    def note(self, text: str) -> None:
        print(f"  {text}", flush=True)

    @property
    def missed(self) -> list[Row]:
        return [row for row in self.rows if row.verdict == "MISS"]

    def summary(self) -> Iterator[str]:
        counts = {word: sum(row.verdict == word for row in self.rows) for word in ("pass", "MISS", "left out")}
        yield ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        yield from (
            f"  {row.what}: {row.ratio if row.ratio != '-' else row.ours}, wanted {row.target}" for row in self.missed
        )


def faster(what: str, ours: Samples, peer: Samples | None, at_least: float, show: str = "rate") -> Row:
    """How many times faster than the peer, by wall time; the ratio of CPU time stands beside it."""
    form = rate if show == "rate" else span
    target = f">= {at_least:,g} x"
    if peer is None:
        return Row(what=what, ours=form(ours.each_s), target=target, verdict="left out")
    ratio = peer.each_s / ours.each_s
    return Row(
        what=what,
        ours=form(ours.each_s),
        peer=form(peer.each_s),
        ratio=times(ratio),
        cpu=times(peer.cpu_each_s / ours.cpu_each_s),
        target=target,
        verdict=judged(ratio >= at_least),
    )


def judged(reached: bool) -> Verdict:
    return "pass" if reached else "MISS"


def times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 100 else f"{ratio:.2f} x"


def rate(each_s: float) -> str:
    return f"{1 / each_s:,.0f} /s"


def span(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def mib(kib: float) -> str:
    return f"{kib / 1024:.0f} MiB"


def _line(cells: tuple[str, ...]) -> str:
    first, *rest = cells
    columns = [f"{cell:>{width}}" for cell, width in zip(rest, (*_WIDTHS[1:], 0), strict=True)]
    return f"{first:<{_WIDTHS[0]}}{''.join(columns[:-1])}  {columns[-1]}".rstrip()
