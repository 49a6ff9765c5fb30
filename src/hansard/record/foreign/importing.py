"""Brings a forum-engine ledger in as foreign entries: read, verified, salvaged, and honestly marked.

It reads the two formats from their description and runs nothing of that engine. What its entries claim is kept as it was
found; the report says what held, what did not, and what no check of such a ledger can show.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from hansard.domain.custody import ForeignEntry, Imported
from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.ledger.layout import APPLICATION_ID
from hansard.record.foreign.chain import Branch, Choice, choose
from hansard.record.foreign.format import Findings, ForeignSource, HexTree, Payload, Row
from hansard.record.foreign.jsonl import ENTRIES, PAYLOADS, JsonlLedger
from hansard.record.foreign.sqlite import SqliteLedger
from hansard.record.recorder import Cause, Sealing, Step, Within, record_now
from hansard.store.base import Store

GROUP_ENTRIES = 256
GROUP_BYTES = 4 << 20
BRANCHES_TOLD = 50
NOT_PROVEN = (
    "who wrote it: the ledger is unsigned, and anyone could have rebuilt it whole",
    "that it is complete: entries cut off at its end leave no trace",
    "times below a microsecond, and fields that its hashes do not cover",
    "that what it says happened",
)

State = Literal["opened", "absent", "differs"]
Progress = Callable[[int, int], None]


@value
class ForeignReport:
    """What was found in a foreign ledger. `verified` only where nothing at all was found amiss."""

    name: str
    format: Literal["forum_jsonl", "forum_sqlite"]
    entries: int
    chained: int
    left_out: int
    verified: bool
    head: str
    root: str
    findings: dict[str, Any]
    branches: tuple[Branch, ...]
    files: tuple[dict[str, Any], ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "branches": [branch._asdict() for branch in self.branches[:BRANCHES_TOLD]],
            "branches_more": max(0, len(self.branches) - BRANCHES_TOLD),
            "chained": self.chained,
            "entries": self.entries,
            "files": list(self.files),
            "findings": self.findings,
            "format": self.format,
            "head": self.head,
            "left_out": self.left_out,
            "name": self.name,
            "not_proven": list(NOT_PROVEN),
            "root": self.root,
            "verified": self.verified,
        }


@value
class ForeignImport:
    """An import that is on the record: the seq of its log.imported entry, and the report."""

    seq: int
    report: ForeignReport


def is_foreign(path: Path) -> bool:
    """Whether this looks like a forum-engine ledger: a folder with its files, or a SQLite file that is not one of ours."""
    if path.is_dir():
        return (path / PAYLOADS).is_file() or ((path / ENTRIES).is_file() and not (path / "bodies.jsonl").exists())
    if not path.is_file():
        # A pipe would hold whoever opens it for ever.
        return False
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:] != APPLICATION_ID.to_bytes(4, "big")


def examine(path: Path) -> ForeignReport:
    """Verify a foreign ledger and say what an import would take; nothing is recorded."""
    source = _open(path)
    try:
        return _examined(path, source)[0]
    finally:
        source.close()


def check_foreign(path: Path) -> None:
    """UsageError where an import would find nothing to bring in. For whoever has to make a ledger for it first."""
    report = examine(path)
    if not report.entries:
        raise _nothing_in(path, report)


def import_foreign(
    store: Store, path: Path, *, actor: str, sealing: Sealing | None = None, progress: Progress | None = None
) -> ForeignImport:
    """Record log.imported with the report, then one foreign.entry for each entry that was salvaged, group by group.

    A crash in between leaves a log.imported that claims more entries than follow it as its effects: import again.
    """
    source = _open(path)
    try:
        report, choice, payloads = _examined(path, source)
        if not choice.rows:
            raise _nothing_in(path, report)
        fact = Imported(
            format=report.format,
            entries=report.entries,
            left_out=report.left_out,
            verified=report.verified,
            report=Body.json(json.dumps(report.as_json(), sort_keys=True).encode()),
        )
        [imported] = record_now(store, [Step(fact, actor)], sealing=sealing)
        seqs: dict[int, int] = {}
        for group in _groups(source, choice, payloads):
            steps = _steps(group, imported.seq, seqs, actor)
            placed = record_now(store, steps, sealing=sealing)
            seqs.update((fact.foreign_seq, at.seq) for (fact, _), at in zip(group, placed, strict=True))
            if progress:
                progress(len(seqs), len(choice.rows))
        return ForeignImport(seq=imported.seq, report=report)
    finally:
        source.close()


def _nothing_in(path: Path, report: ForeignReport) -> UsageError:
    return UsageError(f"nothing in {path} could be salvaged: {', '.join(report.findings) or 'it is empty'}")


def _open(path: Path) -> ForeignSource:
    if path.is_dir():
        return JsonlLedger(path)
    if not path.is_file():
        raise UsageError(f"no ledger at {path}; check the path")
    if not is_foreign(path):
        raise UsageError(f"{path} is not a SQLite file of a foreign ledger")
    return SqliteLedger(path)


def _examined(path: Path, source: ForeignSource) -> tuple[ForeignReport, Choice, dict[bytes, Payload]]:
    findings = Findings()
    rows = list(source.rows(findings))
    payloads = _indexed(source, {row.payload for row in rows}, findings)
    choice = choose(rows, findings)
    root = _walk(source, choice, payloads, findings)
    report = ForeignReport(
        name=path.resolve().name,
        format=source.format,
        entries=len(choice.rows),
        chained=choice.chained,
        left_out=source.rows_seen - len(choice.rows),
        verified=bool(choice.rows) and not findings.counts,
        head=choice.rows[-1].hash.hex() if choice.rows else "",
        root=root,
        findings=findings.as_json(),
        branches=choice.branches,
        files=tuple(source.files()),
    )
    return report, choice, payloads


def _indexed(source: ForeignSource, named: set[bytes], findings: Findings) -> dict[bytes, Payload]:
    """The payloads that entries name. The first row of a hash counts, unless a later one is the first to give it."""
    found: dict[bytes, Payload] = {}
    for payload in source.payloads(findings):
        if payload.hash not in named:
            findings.tell("payload_unreferenced", f"payload line {payload.line}")
            continue
        known = found.setdefault(payload.hash, payload)
        if payload.holds and not known.holds:
            found[payload.hash] = payload
        if not payload.holds:
            findings.tell("payload_differs", f"payload line {payload.line}")
    return found


def _walk(source: ForeignSource, choice: Choice, payloads: dict[bytes, Payload], findings: Findings) -> str:
    """Tell what only shows in the order of the entries; gives the root that the engine would have for them."""
    seqs = {row.seq for row in choice.rows}
    tree = HexTree()
    last = float("-inf")
    for at, row in enumerate(choice.rows):
        place = f"seq {row.seq}, line {row.line}"
        if row.ts < last:
            findings.tell("time_backwards", place)
        last = row.ts
        if row.parent is not None and row.parent >= row.seq:
            findings.tell("parent_not_before", place)
        elif row.parent is not None and row.parent not in seqs:
            findings.tell("parent_left_out", place)
        payload = payloads.get(row.payload)
        if payload is None:
            findings.tell("payload_missing", place)
        elif row.is_checkpoint and payload.holds and at < choice.chained:
            _check_root(source.payload_bytes(payload), tree, place, findings)
        tree.push(row.hash)
    return tree.root()


def _check_root(payload: bytes, tree: HexTree, place: str, findings: Findings) -> None:
    body = json.loads(payload)
    if isinstance(body, dict) and "root" in body and body["root"] != tree.root():
        findings.tell("checkpoint_differs", place)


def _groups(
    source: ForeignSource, choice: Choice, payloads: dict[bytes, Payload]
) -> Iterator[list[tuple[ForeignEntry, int | None]]]:
    """Facts with their foreign parents, in groups that fit a commit."""
    group: list[tuple[ForeignEntry, int | None]] = []
    held = 0
    for at, row in enumerate(choice.rows):
        payload = payloads.get(row.payload)
        fact = _fact(source, row, payload, chained=at < choice.chained)
        group.append((fact, row.parent))
        held += len(fact.entry.data or b"") + len(fact.payload.data or b"" if fact.payload else b"")
        if len(group) == GROUP_ENTRIES or held >= GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _fact(source: ForeignSource, row: Row, payload: Payload | None, *, chained: bool) -> ForeignEntry:
    state: State = "absent" if payload is None else "opened" if payload.holds else "differs"
    body = None
    if payload is not None:
        data = source.payload_bytes(payload)
        body = Body.json(data) if payload.holds else Body.raw(data)
    return ForeignEntry(
        foreign_seq=row.seq,
        chained=chained,
        body_state=state,
        entry=Body.json(source.row_bytes(row)),
        payload=body,
    )


def _steps(group: list[tuple[ForeignEntry, int | None]], imported: int, seqs: dict[int, int], actor: str) -> list[Step]:
    """Each entry is caused by the import and, where it lies before, by its foreign parent."""
    places = {fact.foreign_seq: at for at, (fact, _) in enumerate(group)}
    steps = []
    for at, (fact, parent) in enumerate(group):
        causes: list[Cause] = [imported]
        if parent is not None and parent in seqs:
            causes.append(seqs[parent])
        elif parent is not None and places.get(parent, at) < at:
            causes.append(Within(places[parent]))
        steps.append(Step(fact, actor, causes))
    return steps
