"""What is derived from the lines, compared with them ([S3]): an export, through which this ledger is verified, has lines alone.

Changes nothing and holds nobody up: what lies below a size that the log has reached stays as it is, so each page of it may be
read by itself.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.events import read_note
from hansard.ledger.form import read
from hansard.ledger.layout import body_id
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.report import Finding, Findings
from hansard.store.postgres.layout import READ_HEAD
from hansard.store.postgres.rows import head_row
from hansard.store.sequence import Sequence

PAGE = 512
Fetch = Callable[..., list[Any]]
"""The rows that answer a question, given with its values."""
Look = Callable[[int, int], None]
"""Told how many entries are done, and of how many."""

# Each is one statement, and so of one moment: whoever writes meanwhile moves the head together with the rows.
_SIZE = "(SELECT size FROM head)"
_OUTSIDE = {
    "entries": ("entry", f"SELECT seq FROM entries WHERE seq < 0 OR seq >= {_SIZE} ORDER BY seq LIMIT 1"),
    "causes": ("causes", f"SELECT seq FROM causes WHERE seq < 0 OR seq >= {_SIZE} ORDER BY seq LIMIT 1"),
    "bodies": ("body_unreferenced", f"SELECT id >> 8 FROM bodies WHERE id < 0 OR id >> 8 >= {_SIZE} LIMIT 1"),
    "nodes": (
        "node",
        "SELECT idx FROM nodes WHERE level NOT IN (8, 16, 24, 32, 40, 48, 56)"
        f" OR idx < 0 OR idx >= {_SIZE} >> level LIMIT 1",
    ),
}
"""Of each table what a finding is called, and how to find a row that stands where the log has nothing."""
_UNSHARED = "SELECT count(*) FROM shared s WHERE NOT EXISTS (SELECT FROM bodies b WHERE b.shared = s.digest)"


def compare(fetch: Fetch, look: Look) -> tuple[Finding, ...]:
    """What does not agree with the lines. What is wrong with those is told by whoever verifies them."""
    findings = Findings()
    _look_outside(fetch, findings)
    _compare_checkpoints(fetch, findings)
    head = fetch(READ_HEAD)
    sequence, size = Sequence(), head[0][0] if head else 0
    for at in range(0, size, PAGE):
        look(at, size)
        stop = min(at + PAGE, size)
        rows = fetch("SELECT line, run, kind, actor FROM entries WHERE seq >= %s AND seq < %s ORDER BY seq", at, stop)
        try:
            entries = [read(line) for line, *_ in rows]
        except Malformed:
            break
        if gone := sorted({*range(at, stop)} - {each.seq for each in entries}):
            message = f"[S3] it is not there, and the head row says that there are {size} entries"
            findings.add("head", "structure", message, seq=gone[0])
            break
        _compare_columns(entries, rows, findings)
        _compare_causes(entries, fetch, findings)
        _compare_bodies(entries, fetch, findings)
        _compare_nodes(entries, sequence, fetch, findings)
    else:
        if head != [tuple(head_row(sequence).values())]:
            findings.add(
                "head", "structure", "[S3] the head row does not describe the last entry", seq=max(size - 1, 0)
            )
    return findings.all()


def _look_outside(fetch: Fetch, findings: Findings) -> None:
    for table, (code, question) in _OUTSIDE.items():
        for (place,) in fetch(question):
            findings.add(code, "structure", f"[S3] the table {table} has a row at {place}, where the log has none")
    [(count,)] = fetch(_UNSHARED)
    if count:
        findings.add("body_unreferenced", "structure", f"[B4] {count} shared bodies belong to no part")


def _compare_checkpoints(fetch: Fetch, findings: Findings) -> None:
    """The size under which a checkpoint is found is that of its note; whether it is a good one is told by whoever verifies it."""
    at = -1
    while page := fetch("SELECT id, size, note FROM checkpoints WHERE id > %s ORDER BY id LIMIT %s", at, PAGE):
        for _, size, note in page:
            with suppress(Malformed):
                if (noted := read_note(bytes(note))).size != size:
                    message = f"[S3] a checkpoint of size {noted.size} is kept under size {size}"
                    findings.add("checkpoint_size", "structure", message)
        at = page[-1][0]


def _compare_columns(entries: list[Entry], rows: list[Any], findings: Findings) -> None:
    for entry, (_, *columns) in zip(entries, rows, strict=True):
        if columns != [entry.run, entry.kind, entry.actor]:
            message = "[S3] run, kind or actor by which it is found are not those of its line: the table was altered"
            findings.add("columns", "structure", message, seq=entry.seq)


def _compare_causes(entries: list[Entry], fetch: Fetch, findings: Findings) -> None:
    found = fetch("SELECT seq, cause FROM causes WHERE seq >= %s AND seq <= %s", entries[0].seq, entries[-1].seq)
    odd = {(entry.seq, cause) for entry in entries for cause in entry.causes} ^ set(found)
    for seq in sorted({seq for seq, _ in odd}):
        findings.add("causes", "structure", "[S3] the causes table was edited: it differs from the line", seq=seq)


def _compare_bodies(entries: list[Entry], fetch: Fetch, findings: Findings) -> None:
    first, behind = body_id(entries[0].seq, 0), body_id(entries[-1].seq + 1, 0)
    parts = {body_id(entry.seq, at) for entry in entries for at in range(len(entry.body))}
    for (place,) in fetch("SELECT id FROM bodies WHERE id >= %s AND id < %s", first, behind):
        if place not in parts:
            findings.add(
                "body_unreferenced", "structure", "[B4] a body is stored that no entry commits to", seq=place >> 8
            )


def _compare_nodes(entries: list[Entry], sequence: Sequence, fetch: Fetch, findings: Findings) -> None:
    for entry in entries:
        sequence.leaf, sequence.ts = leaf_hash(entry.line), entry.ts
        for level, index, node in sequence.push(sequence.leaf):
            if fetch("SELECT hash FROM nodes WHERE level = %s AND idx = %s", level, index) != [(node,)]:
                message = f"[H6] node ({level}, {index}) is not the one that the lines give"
                findings.add("node", "structure", message, seq=entry.seq)
