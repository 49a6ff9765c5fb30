"""What may be wrong with a ledger file, and what may be put right: derived tables and unfinished redactions, never an entry."""

import sqlite3
from hashlib import sha256

from hansard.errors import StoreError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.ledger.layout import INDEXES, body_id
from hansard.ledger.merkle import leaf_hash
from hansard.store.sequence import Sequence, tail_fault, tail_start, tree_of_blocks
from hansard.store.sqlite.rows import READ_HEAD, READ_NODES, as_bytes, erase_body, sequence_of, write_head


def fault(connection: sqlite3.Connection) -> str | None:
    """What is wrong at the end of the log, as far as a bounded look can tell; verification looks at everything."""
    try:
        connection.execute("BEGIN")
        try:
            return _fault(connection)
        finally:
            connection.execute("ROLLBACK")
    except (sqlite3.Error, Malformed, TypeError, IndexError) as error:
        return f"the end of the log cannot be read: {error}"


def _fault(connection: sqlite3.Connection) -> str | None:
    for name, sql in _indexes(connection).items():
        if sql != INDEXES.get(name, "").encode():
            # Each insert would work out what it says.
            return f"the index {name} is not that of a ledger"
    row = connection.execute(READ_HEAD).fetchone()
    last = connection.execute("SELECT max(seq) FROM entries").fetchone()[0]
    if row is None or last is None or row[0] != last + 1:
        return f"the head row says {row[0] if row else 'nothing'}, the last entry is {last}"
    head = sequence_of(row)
    lines = connection.execute("SELECT line FROM entries WHERE seq >= ? ORDER BY seq", (tail_start(head.size),))
    return tail_fault(
        head,
        [as_bytes(line) for (line,) in lines],
        lambda: tree_of_blocks(head.size, lambda *span: [node for (node,) in connection.execute(READ_NODES, span)]),
    )


def rebuild(writer: sqlite3.Connection, place: str) -> tuple[Sequence, int]:
    """Derived tables from the lines: the head as it is then, and how many rows were wrong.

    Lines that do not follow each other, or that the head row or a kept checkpoint contradicts, are never made to look
    right: it raises.
    """
    rebuilt, causes, nodes = _read_all(writer, place)
    _check_checkpoints(writer, place, rebuilt.size)
    _check_head(writer, place)
    changed = _restore_indexes(writer)
    for table, columns, wanted in (("causes", "seq, cause", causes), ("nodes", "level, idx, hash", nodes)):
        kept = set(writer.execute(f"SELECT {columns} FROM {table}").fetchall())
        if kept != wanted:
            changed += len(kept ^ wanted)
            marks = ", ".join("?" * len(columns.split(", ")))
            writer.execute(f"DELETE FROM {table}")
            writer.executemany(f"INSERT INTO {table} VALUES ({marks})", sorted(wanted))
    want = (rebuilt.size, rebuilt.leaf, rebuilt.ts, rebuilt.frontier.to_bytes())
    if writer.execute(READ_HEAD).fetchone() != want:
        changed += 1
        writer.execute("INSERT INTO head VALUES (0, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING", want)
        write_head(writer, rebuilt)
    return rebuilt, changed


def _restore_indexes(writer: sqlite3.Connection) -> int:
    """Make the indexes anew that are not there, or stand there as something else: how many."""
    found = _indexes(writer)
    wrong = {name: sql for name, sql in INDEXES.items() if found.get(name) != sql.encode()}
    for name, sql in wrong.items():
        writer.execute(f"DROP INDEX IF EXISTS {name}")
        writer.execute(sql)
    return len(wrong)


def _indexes(connection: sqlite3.Connection) -> dict[str, bytes]:
    """The text of each index that somebody has made, by name."""
    query = "SELECT name, CAST(sql AS BLOB) FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    return {as_bytes(name).decode(errors="replace"): sql for name, sql in connection.execute(query)}


def finish_redactions(writer: sqlite3.Connection) -> tuple[int, bool]:
    """Erase what a tombstone names and a crash left behind ([B3]): how many bodies, and whether any was ever to be erased.

    A tombstone of another commitment names nothing.
    """
    # Every command opens a ledger, and few mend one.
    from hansard.ledger.events import tombstone_of

    erased = 0
    tombstones = writer.execute("SELECT line FROM entries WHERE kind = 'body.redacted' ORDER BY seq").fetchall()
    for (line,) in tombstones:
        stone = tombstone_of(read(as_bytes(line)))
        row = stone and writer.execute("SELECT line FROM entries WHERE seq = ?", (stone.seq,)).fetchone()
        entry = read(as_bytes(row[0])) if row else None
        if stone and entry and entry.body.get(stone.part) == stone.commitment:
            erased += erase_body(writer, body_id(entry.seq, entry.part_position(stone.part)))
    return erased, bool(tombstones)


def _check_checkpoints(writer: sqlite3.Connection, place: str, size: int) -> None:
    newest = writer.execute("SELECT max(size) FROM checkpoints").fetchone()[0]
    if newest is not None and not (isinstance(newest, int) and newest <= size):
        raise StoreError(
            f"cannot repair {place}: a checkpoint of {newest!r:.40} entries is kept and the log ends at {size}: its end was cut off"
        )


def _check_head(writer: sqlite3.Connection, place: str) -> None:
    """A head row that lags behind, or is gone, is made anew. One that names another last entry is the only witness of it."""
    row = writer.execute(READ_HEAD).fetchone()
    if row is None:
        return
    last = row[0] - 1 if isinstance(row[0], int) and row[0] > 0 else -1
    line = writer.execute("SELECT line FROM entries WHERE seq = ?", (last,)).fetchone()
    if line is None or leaf_hash(as_bytes(line[0])) != row[1]:
        raise StoreError(
            f"cannot repair {place}: what stands there is not the entry {last} that the head row names, so an entry was "
            f"changed or cut off, or the head row was; bring back a copy that passes: hansard verify"
        )


def _read_all(
    writer: sqlite3.Connection, place: str
) -> tuple[Sequence, set[tuple[int, int]], set[tuple[int, int, bytes]]]:
    sequence = Sequence()
    causes: set[tuple[int, int]] = set()
    nodes: set[tuple[int, int, bytes]] = set()
    for seq, raw in writer.execute("SELECT seq, line FROM entries ORDER BY seq"):
        entry = _following(sequence, seq, as_bytes(raw), place)
        sequence.leaf, sequence.ts = sha256(b"\x00" + entry.line).digest(), entry.ts
        causes.update((seq, cause) for cause in entry.causes)
        nodes.update(sequence.frontier.push(sequence.leaf))
    if not sequence.size:
        raise StoreError(f"cannot repair {place}: it has no entries")
    return sequence, causes, nodes


def _following(sequence: Sequence, seq: int, line: bytes, place: str) -> Entry:
    try:
        entry = read(line)
    except Malformed as error:
        raise StoreError(
            f"cannot repair {place}: entry {seq} is broken ({error}); entries are never changed"
        ) from error
    if (seq, entry.seq, entry.prev) != (sequence.size, seq, sequence.leaf.hex()) or entry.ts < sequence.ts:
        raise StoreError(
            f"cannot repair {place}: entry {seq} does not follow the one before; entries are never changed"
        )
    return entry
