"""Verification of a whole ledger: total, graded, and honest about what it did not look at ([V1]-[V7]).

Any bytes give a Report. It writes nothing, opens no network, and believes nothing that does not re-hash.
"""

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from . import parallel
from .anchors import Kept, compare, load_kept, load_pin
from .bodies import Redactions
from .canonical import Malformed
from .entry import GENESIS, parse
from .events import ROTATED, Absent, Anchored, Event, Genesis, Noted, Rotated, Tombstone, read_event
from .form import Tools
from .merkle import leaf_hash
from .openings import verify_receipt
from .report import Bracket, Finding, Findings, Report
from .seals import Pin, Seals
from .sources import open_source, recognise
from .sources.base import NotALedger, Source, State
from .sources.export import ExportSource
from .sources.sqlite import SqliteSource
from .walk import START, WIDTH, Tally, Walk

Progress = Callable[[int, int], None]
"""Told how many entries are done, and of about how many."""

_WORTH_SPLITTING = 20_000
_MAX_EVENTS = 50_000
_MAX_ANCHORED = 1_000
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked for. `pin` is a pin or the file of one; `since` and `against` are files."""

    deep: bool = False
    strict: bool = False
    since: str | None = None
    pin: str | None = None
    against: tuple[str, ...] = ()
    all_signatures: bool = False
    jobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Options with their files read; --strict cannot promise that nothing is pending without looking ([V5])."""

    deep: bool
    strict: bool
    since: Kept | None
    pin: Pin | None
    against: tuple[Kept, ...]
    all_signatures: bool
    jobs: int | None

    @classmethod
    def of(cls, options: Options) -> "_Asked":
        return cls(
            deep=options.deep or options.strict,
            strict=options.strict,
            since=load_kept(options.since) if options.since is not None else None,
            pin=load_pin(options.pin) if options.pin is not None else None,
            against=tuple(load_kept(each) for each in options.against),
            all_signatures=options.all_signatures,
            jobs=options.jobs,
        )


def verify(
    path: str | Path, options: Options = Options(), tools: Tools = Tools(), progress: Progress | None = None
) -> Report:
    """Verify a ledger, an export or a receipt. CannotRead is raised only for what the caller got wrong: a path, a file."""
    asked, place = _Asked.of(options), Path(path)
    form = recognise(place)
    try:
        if form == "receipt":
            return verify_receipt(place, pin=asked.pin, against=asked.against, tools=tools)
        for _ in range(_TRIES):
            report, steady = _verify_once(place, asked, tools, progress)
            if steady:
                return report
        message = "the files changed while they were read, again and again; verify a copy"
        return replace(report, findings=(*report.findings, Finding(code="moving", grade="warning", message=message)))
    except NotALedger as error:
        finding = Finding(code="not_a_ledger", grade="structure", message=f"not a ledger: {error}")
        return Report(path=str(path), form="unknown", findings=(finding,), not_proven=("anything",))
