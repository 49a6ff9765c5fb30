"""Brings one of our own logs back as a ledger, byte for byte: from an export, from JSON lines, from another store's file.

It is verified to the last body first. The same log then lies in two places: it goes on under its keys only where the keys
are, and only one of the copies may go on; a log whose keys are lost is adopted by a new one instead.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hansard.domain.value import value
from hansard.errors import StoreError, UsageError
from hansard.ledger import ed25519
from hansard.ledger.canonical import Malformed
from hansard.ledger.events import REDACTED, tombstone_of
from hansard.ledger.form import read
from hansard.ledger.merkle import Frontier, leaf_hash
from hansard.ledger.report import Findings, Report
from hansard.ledger.sources import CannotRead, NotALedger, Source, open_source
from hansard.ledger.sources.base import Stored
from hansard.ledger.tools import Tools
from hansard.ledger.verify import Options, verify
from hansard.seal import signing
from hansard.store.base import Head, Part, StoredCheckpoint

Row = tuple[bytes, Sequence[Part]]
Restore = Callable[[Iterable[Row], Iterable[StoredCheckpoint]], Head]
"""Makes a new ledger in some store out of lines with their bodies, and checkpoints."""

BODIES_MISSING = 22


@value
class Restored:
    """A log that lies in a new place, and the report on where it came from."""

    head: Head
    report: Report


def import_log(
    source: Path, restore: Restore, *, pin: str | None = None, lacking: bool = False, shown: str | None = None
) -> Restored:
    """Verify a log deeply and hand it to `restore`; nothing is made unless it verifies. A copy is named as `shown`.

    A body whose redaction is pending stays behind: what was to be erased is not copied.
    With `lacking` a log whose bodies are missing is taken as it is, and is found lacking ever after.
    """
    report = verified(source, pin=pin, deep=True, allow=(BODIES_MISSING,) if lacking else (), shown=shown)
    try:
        opened = open_source(source, Findings())
    except (CannotRead, NotALedger) as error:
        raise UsageError(f"cannot read {report.path}: {error}") from error
    try:
        head = restore(_rows(opened, report), _checkpoints(opened, report))
    finally:
        opened.close()
    return Restored(head=head, report=report)


def verified(
    source: Path, *, pin: str | None, deep: bool, allow: tuple[int, ...] = (), shown: str | None = None
) -> Report:
    """The report on a log that verifies; UsageError names the first thing that does not hold. A copy is named as `shown`."""
    name = shown or str(source)
    check = signing.verify if signing.available() else ed25519.verify
    try:
        report = verify(source, Options(deep=deep, pin=pin), Tools(ed25519=check))
    except CannotRead as error:
        raise UsageError(f"{error}") from error
    if report.form == "receipt":
        raise UsageError(f"{name} is a receipt of one entry, not a log")
    first = report.first_bad
    if first and report.exit_code not in allow:
        where = "" if first.seq is None else f"entry {first.seq}: "
        raise UsageError(f"{name} does not verify, so nothing was taken from it: {where}{first.message}")
    return replace(report, path=name)


def _rows(source: Source, report: Report) -> Iterator[Row]:
    """The entries with their bodies. Ends in an error unless they are the ones that were verified."""
    tree = Frontier()
    erased = _tombstones(source, report) if report.bodies.pending else frozenset()
    bodies = source.bodies(0, report.size)
    waiting = next(bodies, None)
    opened = 0
    for _, line in source.lines(0, report.size):
        seq = tree.size
        tree.push(leaf_hash(line))
        parts: list[Part] = []
        while waiting is not None and waiting.seq == seq:
            part = _part(line, waiting, report)
            if (seq, part.name) not in erased:
                parts.append(part)
            waiting = next(bodies, None)
        opened += len(parts)
        yield line, parts
    # A body that was erased meanwhile is not missed by whoever takes what comes: its tombstone stands behind these entries.
    if (tree.size, tree.root().hex(), opened) != (report.size, report.root, report.bodies.opened):
        raise _changed(report)


def _tombstones(source: Source, report: Report) -> frozenset[tuple[int, str]]:
    """The parts that are to be gone; in a log that verifies no tombstone names another commitment than is there ([B3])."""
    try:
        entries = [read(line) for _, line in source.lines(0, report.size) if REDACTED.encode() in line]
    except Malformed as error:
        raise _changed(report) from error
    found = [tombstone_of(entry) for entry in entries if entry.kind == REDACTED]
    return frozenset((stone.seq, stone.part) for stone in found if stone)


def _part(line: bytes, stored: Stored, report: Report) -> Part:
    name = stored.part
    if isinstance(name, int):
        try:
            name = sorted(read(line).body)[name]
        except (Malformed, IndexError) as error:
            raise _changed(report) from error
    return Part(name, stored.media, stored.salt, stored.body)


def _checkpoints(source: Source, report: Report) -> Iterator[StoredCheckpoint]:
    count = 0
    for noted in source.checkpoints(-1, None):
        count += 1
        yield StoredCheckpoint(size=noted.size, note=noted.raw)
    if count != report.signed.checkpoints or not source.unchanged():
        raise _changed(report)


def _changed(report: Report) -> StoreError:
    return StoreError(f"{report.path} was changed while it was being imported; import a copy of it")
