"""Writes ledgers in the two layouts of forum-engine, from the description of the format, so that tests can spoil them.

It shares no code with the reader under test: hashes are computed here in their own words.
"""

import hashlib
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ZEROS = "0" * 64
Row = dict[str, Any]


def body_hash(body: Any) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def row_hash(row: Row) -> str:
    parent = "" if row["causal_parent"] is None else str(row["causal_parent"])
    ts = "{:.6f}".format(row["ts"])
    joined = "\x1f".join(
        [str(row["seq"]), ts, row["actor"], row["kind"], parent, row["payload_hash"], row["prev_hash"]]
    )
    return hashlib.sha256(joined.encode("utf-8")).hexdigest()


def root_of(hashes: list[str]) -> str:
    level = [hashlib.sha256(b"\x00" + each.encode()).hexdigest() for each in hashes]
    if not level:
        return ZEROS
    while len(level) > 1:
        paired = [
            hashlib.sha256(b"\x01" + (level[at] + level[at + 1]).encode()).hexdigest()
            for at in range(0, len(level) - 1, 2)
        ]
        level = paired + level[len(paired) * 2 :]
    return level[0]


@dataclass(slots=True)
class Forum:
    """Rows and payloads in memory; a writer that knows only its own copy of them, as that engine does."""

    rows: list[Row] = field(default_factory=list)
    payloads: list[tuple[str, Any]] = field(default_factory=list)

    def append(
        self,
        body: Any,
        *,
        actor: str = "client",
        kind: str = "request",
        parent: int | None = None,
        ts: float | None = None,
    ) -> Row:
        digest = body_hash(body)
        if all(known != digest for known, _ in self.payloads):
            self.payloads.append((digest, body))
        row: Row = {
            "seq": len(self.rows),
            "ts": 1700000000.125 + len(self.rows) if ts is None else ts,
            "actor": actor,
            "kind": kind,
            "causal_parent": parent,
            "payload_hash": digest,
            "prev_hash": self.rows[-1]["entry_hash"] if self.rows else ZEROS,
        }
        row["entry_hash"] = row_hash(row)
        self.rows.append(row)
        return row

    def fork(self) -> "Forum":
        """A second writer that has read the same file."""
        return Forum(list(self.rows), list(self.payloads))

    def checkpoint(self) -> Row:
        root = root_of([row["entry_hash"] for row in self.rows])
        return self.append({"wave": 0, "root": root}, actor="dispatch", kind="checkpoint")

    @classmethod
    def of(cls, count: int) -> "Forum":
        """A plain ledger: each entry the child of the one before."""
        made = cls()
        for at in range(count):
            made.append({"text": f"entry {at}", "score": at / 3}, parent=at - 1 if at else None)
        return made

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder, self.rows)
        write_payloads(folder, self.payloads)
        return folder

    def write_sqlite(self, path: Path) -> Path:
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(
            "CREATE TABLE entries (seq INTEGER PRIMARY KEY, ts REAL, actor TEXT, kind TEXT, causal_parent INTEGER,"
            " payload_hash TEXT, prev_hash TEXT, entry_hash TEXT)"
        )
        db.execute("CREATE TABLE payloads (payload_hash TEXT PRIMARY KEY, body TEXT)")
        db.executemany(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [tuple(row.values()) for row in self.rows]
        )
        bodies = [(digest, json.dumps(body, ensure_ascii=False)) for digest, body in self.payloads]
        db.executemany("INSERT INTO payloads VALUES (?, ?)", bodies)
        db.commit()
        db.close()
        return path


def line_of(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def write_rows(folder: Path, rows: list[Row]) -> None:
    (folder / "entries.jsonl").write_bytes(b"".join(line_of(row) for row in rows))


def write_payloads(folder: Path, payloads: list[tuple[str, Any]]) -> None:
    lines = [line_of({"hash": digest, "body": body}) for digest, body in payloads]
    (folder / "payloads.jsonl").write_bytes(b"".join(lines))
