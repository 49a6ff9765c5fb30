"""What lies in the tables: laying them out, writing placed entries, erasing bodies. Every call is inside somebody's transaction."""

import sqlite3
from functools import cache
from itertools import chain
from pathlib import Path

from hansard.errors import Broken, StoreError
from hansard.ledger.body import digest
from hansard.ledger.canonical import Malformed
from hansard.ledger.layout import APPLICATION_ID, SHARED_FROM_BYTES, TABLES, USER_VERSION, body_id
from hansard.ledger.merkle import Frontier
from hansard.store.base import Draft, Part, Placed
from hansard.store.sequence import Sequence

MAX_NUMBER = 1 << 62
"""Beyond any seq; what is asked for above it is cut down to it, since SQLite takes 64 bits."""

_MOST = 64
_FEW = 8

READ_HEAD = "SELECT size, leaf, ts, frontier FROM head"
READ_NODES = "SELECT hash FROM nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx"


def check_unused(path: Path) -> None:
    """StoreError where a ledger is, or what SQLite kept beside one: it would bring that into whatever file has its name."""
    for found in (path, Path(f"{path}-wal"), Path(f"{path}-journal")):
        if found.exists() and found.stat().st_size:
            raise StoreError(f"{found} exists already; open the ledger that it belongs to, or choose another name")


def lay_out(path: Path, genesis: Draft, now_us: int) -> None:
    """Make the tables and entry 0 in an empty file."""
    if genesis.parts:
        raise Broken("a genesis entry has no parts")
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {USER_VERSION}")
        for statement in TABLES:
            connection.execute(statement)
        sequence = Sequence()
        rows = sequence.place([genesis], now_us, lambda _: 0)
        connection.execute("INSERT INTO head VALUES (0, 0, x'', 0, x'')")
        insert(connection, rows, sequence.grow(rows), sequence)
        connection.execute("COMMIT")
        # Last, so that everything lies in the file itself, which is renamed without a WAL beside it.
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def sequence_of(row: object) -> Sequence:
    """The head row as a sequence that can be extended; Malformed when somebody put something else there."""
    match row:
        case (int(size), bytes(leaf), int(ts), bytes(frontier)):
            return Sequence(leaf=leaf, ts=ts, frontier=Frontier.from_bytes(size, frontier))
        case _:
            raise Malformed("the head row is damaged, or not there")


def insert(
    writer: sqlite3.Connection, rows: list[Placed], nodes: list[tuple[int, int, bytes]], sequence: Sequence
) -> None:
    """Write placed entries with all that hangs on them, and move the head."""
    entries: list[object] = []
    causes: list[object] = []
    bodies: list[object] = []
    for seq, _, _, line, because, draft in rows:
        entries += seq, line.decode()
        for cause in because:
            causes += seq, cause
        at = body_id(seq, 0)
        for part in draft[3]:
            _, media, salt, body, _ = part
            if len(body) < SHARED_FROM_BYTES:
                bodies += at, salt, media, body, None
            else:
                bodies += at, salt, media, None, share(writer, part)
            at += 1
    _put(writer, "entries(seq, line)", 2, entries)
    _put(writer, "causes", 2, causes)
    _put(writer, "bodies", 5, bodies)
    if nodes:
        _put(writer, "nodes", 3, list(chain.from_iterable(nodes)))
    write_head(writer, sequence)


def write_head(writer: sqlite3.Connection, sequence: Sequence) -> None:
    writer.execute(
        "UPDATE head SET size = ?, leaf = ?, ts = ?, frontier = ?",
        (sequence.size, sequence.leaf, sequence.ts, sequence.frontier.to_bytes()),
    )


def keep_note(writer: sqlite3.Connection, size: int, note: str) -> None:
    writer.execute("INSERT INTO checkpoints(size, note) VALUES (?, ?)", (size, note))


def erase_body(writer: sqlite3.Connection, at: int) -> bool:
    """Delete one body, and a shared one with its last reference; whether there was one."""
    found = writer.execute("DELETE FROM bodies WHERE id = ? RETURNING shared", (at,)).fetchall()
    for (shared,) in found:
        if shared is None or writer.execute("SELECT 1 FROM bodies WHERE shared = ?", (shared,)).fetchone():
            continue
        writer.execute("DELETE FROM shared WHERE id = ?", (shared,))
    return bool(found)


def as_bytes(value: object) -> bytes:
    """What is stored as bytes, whatever somebody put there."""
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode("utf-8", "surrogatepass")


def as_text(value: object) -> str:
    return as_bytes(value).decode("utf-8", "replace")


def bed(writer: sqlite3.Connection, part: Part) -> tuple[bytes | None, int | None]:
    """Where a body sleeps: in its own row, or once for all when it is large."""
    return (part.body, None) if len(part.body) < SHARED_FROM_BYTES else (None, share(writer, part))


def share(writer: sqlite3.Connection, part: Part) -> int | None:
    """Keep a large body once for all; the row that it has there."""
    _, media, _, body, known = part
    name = known or digest(media, body)
    row = writer.execute("SELECT id FROM shared WHERE digest = ?", (name,)).fetchone()
    if row:
        found: int = row[0]
        return found
    return writer.execute("INSERT INTO shared(digest, body) VALUES (?, ?)", (name, body)).lastrowid


def _put(writer: sqlite3.Connection, table: str, width: int, values: list[object]) -> None:
    """Insert rows, given one after the other, with few statements: one for each row costs half as much again."""
    left = len(values) // width
    if left <= _FEW:
        # By far the most common. SQLite keeps a statement of each length ready, so there are few lengths.
        if left:
            writer.execute(_insertion(table, width, left), values)
        return
    at = 0
    while left:
        count = _MOST if left >= _MOST else min(left, _FEW)
        end = at + width * count
        writer.execute(_insertion(table, width, count), values[at:end])
        at, left = end, left - count


@cache
def _insertion(table: str, width: int, count: int) -> str:
    row = f"({', '.join('?' * width)})"
    return f"INSERT INTO {table} VALUES {', '.join([row] * count)}"
