"""The tables of a SQLite ledger that are derived from its lines, compared with them ([S3]).

Editing a query column, a node or the head must not hide or move an entry. It never reads a line itself.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any

from ..report import Findings
from .base import Block, State

Rows = Callable[[str, tuple[object, ...]], list[tuple[Any, ...]]]


class Derived:
    """Compares causes, nodes and head while a walk goes by."""

    def __init__(self, rows: Rows, findings: Findings, sound: Set[str]) -> None:
        self._rows = rows
        self._findings = findings
        self._sound = sound

    def block(self, block: Block) -> None:
        if block.causes is not None and "causes" in self._sound:
            self._compare_causes(block.first, block.stop, block.causes)
        if "nodes" in self._sound:
            for level, index, node in block.nodes:
                self._compare_node(level, index, node)

    def finish(self, end: State, since: int) -> None:
        if "head" in self._sound:
            self._compare_head(end)
        if "nodes" in self._sound:
            self._find_extra_nodes(end.size)
        if "causes" in self._sound:
            query = "SELECT seq, cause FROM causes WHERE seq < 0 OR seq >= ? LIMIT 1"
            for seq, cause in self._rows(query, (end.size,)):
                self._causes_differ(f"({seq!r:.24}, {cause!r:.24}) is stored, and there is no such entry", None)

    def _compare_causes(self, first: int, stop: int, expected: Sequence[tuple[int, int]]) -> None:
        # What is no number may be large, and there may be many of it.
        query = (
            "SELECT seq, iif(typeof(cause) = 'integer', cause, NULL) FROM causes"
            " WHERE seq >= ? AND seq < ? ORDER BY seq, cause LIMIT ?"
        )
        found = self._rows(query, (first, stop, len(expected) + 1))
        if found == expected:
            return
        at = next(
            (i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), min(len(found), len(expected))
        )
        stored = found[at] if at < len(found) else None
        meant = expected[at] if at < len(expected) else None
        seqs = [row[0] for row in (stored, meant) if row is not None and isinstance(row[0], int)]
        self._causes_differ(f"the table has {stored!r:.80}, the lines have {meant}", min(seqs, default=first))

    def _causes_differ(self, message: str, seq: int | None) -> None:
        self._findings.add("causes", "structure", f"[S3] the causes table was edited: {message}", seq=seq)

    def _compare_node(self, level: int, index: int, node: bytes) -> None:
        rows = self._rows("SELECT hash FROM nodes WHERE level = ? AND idx = ?", (level, index))
        if not rows or rows[0][0] != node:
            state = "differs" if rows else "is not stored"
            last = (index + 1 << level) - 1
            message = f"[H6] node ({level}, {index}) over the entries {index << level} to {last} {state}"
            self._findings.add("node", "structure", message, seq=last)

    def _find_extra_nodes(self, size: int) -> None:
        query = (
            "SELECT level, idx FROM nodes WHERE typeof(level) <> 'integer' OR typeof(idx) <> 'integer'"
            " OR level < 8 OR level > 56 OR level % 8 <> 0 OR idx < 0 OR idx >= (? >> level) LIMIT 1"
        )
        for level, index in self._rows(query, (size,)):
            message = f"[H6] node ({level!r:.24}, {index!r:.24}) is stored, and the log has no such node"
            self._findings.add("node", "structure", message)

    def _compare_head(self, end: State) -> None:
        rows = self._rows("SELECT id, size, leaf, ts, frontier FROM head LIMIT 2", ())
        # A ledger without entries has no head yet, or one that says so.
        leaf = bytes.fromhex(end.leaf)
        wanted = (0, end.size, leaf, end.ts, end.frontier.to_bytes())
        if not rows and end.size == 0:
            return
        if len(rows) != 1:
            self._findings.add("head", "structure", f"[S3] the head table has {len(rows)} rows instead of 1")
            return
        names = ("id", "size", "leaf", "ts", "frontier")
        odd = [name for name, a, b in zip(names, rows[0], wanted, strict=True) if a != b or type(a) is not type(b)]
        if odd:
            message = f"[S3] head does not describe the last entry ({', '.join(odd)} differ): it, or the end of the log, was edited"
            self._findings.add("head", "structure", message, seq=max(0, end.size - 1))
