"""Reading lines that an index does not know yet, and judging an index by the lines. Writes to the index, never to lines."""

import os
import sqlite3
from dataclasses import dataclass, field
from typing import NamedTuple

from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import MAX_LINE, parse
from hansard.ledger.form import FAILURES, QuickForm
from hansard.ledger.merkle import leaf_hash
from hansard.store.jsonl.files import LF, lines_from, whole_end
from hansard.store.jsonl.index import Index, Mark
from hansard.store.sequence import Sequence, tree_of_blocks

BATCH = 512


@dataclass(slots=True)
class _Batch:
    marks: list[Mark] = field(default_factory=list)
    nodes: list[tuple[int, int, bytes]] = field(default_factory=list)


class _Seen(NamedTuple):
    """What an index wants to know of a line; nothing when it cannot be read."""

    run: str | None = None
    kind: str | None = None
    actor: str | None = None
    causes: tuple[int, ...] = ()
    ts: int = 0


def scan(fd: int, index: Index, *, past_faults: bool = False, end: int | None = None) -> str | None:
    """Take complete lines behind the index's reach into it, up to a place where a line ends, or all.

    Comes back the first fault, at which it stops unless told otherwise. Past a fault the tree is that of the lines as
    they stand, so that a broken log can still be looked at.
    """
    sequence, at = index.reach.sequence.copy(), index.reach.at
    form, batch, first = QuickForm(), _Batch(), None
    try:
        for start, line in lines_from(fd, at, whole_end(fd) if end is None else end, MAX_LINE):
            seen, fault = _look(line, sequence, form)
            first = first or fault
            if fault and not past_faults:
                break
            _follow(batch, sequence, start, line, seen)
            at = start + len(line) + 1
            if len(batch.marks) >= BATCH:
                index.add(batch.marks, batch.nodes, sequence.copy(), at)
                batch = _Batch()
    except Malformed as error:
        first = first or f"entry {sequence.size} cannot be read: {error}"
    if batch.marks:
        index.add(batch.marks, batch.nodes, sequence, at)
    return first


def agrees(fd: int, index: Index) -> bool:
    """Whether the index's reach is the end of a line of this file, and that line and its block are those it names."""
    try:
        return _agrees(fd, index)
    except (sqlite3.Error, TypeError, ValueError):
        return False


def _agrees(fd: int, index: Index) -> bool:
    sequence, at = index.reach
    size = sequence.size
    if not size:
        return at == 0
    start = (size - 1) & ~255
    first, last = index.place(start), index.place(size - 1)
    if first is None or last is None or sum(last) + 1 != at or not 0 <= at - first[0] <= 256 * (MAX_LINE + 1):
        return False
    data = os.pread(fd, at - first[0], first[0])
    lines = data.split(LF)
    if len(data) != at - first[0] or lines.pop() != b"" or len(lines) != size - start:
        return False
    leaves = [leaf_hash(line) for line in lines]
    if leaves[-1] != sequence.leaf or not _says(lines[-1], size - 1, sequence.ts):
        return False
    tree = tree_of_blocks(size, index.nodes)
    for leaf in leaves if size & 255 else ():
        tree.push(leaf)
    return tree.size == size and tree.hashes() == sequence.frontier.hashes()


def _says(line: bytes, seq: int, ts: int) -> bool:
    try:
        entry = parse(line)
    except Malformed:
        return False
    return (entry.seq, entry.ts) == (seq, ts)


def _look(line: bytes, sequence: Sequence, form: QuickForm) -> tuple[_Seen, str | None]:
    """What the line says, and why it cannot stand behind the lines before, if it cannot."""
    try:
        members = form.members(line, sequence.size, sequence.leaf.hex())
        if members["ts"] >= sequence.ts:
            causes = tuple(members["causes"])
            return _Seen(members["run"], members["kind"], members["actor"], causes, members["ts"]), None
    except FAILURES:
        pass
    return _look_closely(line, sequence)


def _look_closely(line: bytes, sequence: Sequence) -> tuple[_Seen, str]:
    seq = sequence.size
    try:
        entry = parse(line)
    except Malformed as error:
        return _Seen(), f"entry {seq} cannot be read: {error}"
    seen = _Seen(entry.run, entry.kind, entry.actor, entry.causes, entry.ts)
    if entry.seq != seq:
        return seen, f"where entry {seq} should stand lies one that says it is {entry.seq}"
    if entry.ts < sequence.ts:
        return seen, f"the time of entry {seq} is before that of the one before"
    return seen, f"entry {seq} does not follow the one before: its prev is the hash of another line"


def _follow(batch: _Batch, sequence: Sequence, start: int, line: bytes, seen: _Seen) -> None:
    batch.marks.append(Mark(sequence.size, start, len(line), seen.run, seen.kind, seen.actor, seen.causes))
    sequence.leaf = leaf_hash(line)
    sequence.ts = max(sequence.ts, seen.ts)
    batch.nodes += sequence.frontier.push(sequence.leaf)
