"""What is derived, compared with the lines and put right; and what a bounded look tells of the end of the log.

Lines are never changed: where they do not hold together, this refuses.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import psycopg

from hansard.errors import StoreError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.events import tombstone_of
from hansard.ledger.form import read
from hansard.ledger.merkle import Frontier, leaf_hash
from hansard.store.postgres.layout import READ_HEAD, READ_NODES
from hansard.store.postgres.rows import erase, head_row, only, part_id, write_head
from hansard.store.postgres.session import Connection
from hansard.store.postgres.turn import Turn
from hansard.store.sequence import Sequence, tail_fault, tail_start, tree_of_blocks

PAGE = 512
FIRST = -(1 << 62)


def fault(reader: Connection) -> str | None:
    """What is wrong at the end of the log, as far as a bounded look can tell; verification looks at everything."""
    try:
        # Others may be writing: only in one snapshot do head and entries belong together.
        with reader.transaction():
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row = reader.execute(READ_HEAD).fetchone()
            last = only(reader, "SELECT max(seq) FROM entries")
            if row is None or last is None or row[0] != last + 1:
                return f"the head row says {row[0] if row else 'nothing'}, the last entry is {last}"
            lines = reader.execute(
                "SELECT line FROM entries WHERE seq >= %s ORDER BY seq", (tail_start(row[0]),)
            ).fetchall()
            blocks = tree_of_blocks(row[0], lambda *span: [node for (node,) in reader.execute(READ_NODES, span)])
    except Malformed as error:
        return f"a node is damaged: {error}"
    except (psycopg.DataError, psycopg.InternalError) as error:
        return f"the end of the log cannot be read: {error.diag.message_primary}"
    try:
        head = Sequence(leaf=row[1], ts=row[2], frontier=Frontier.from_bytes(row[0], row[3]))
        return tail_fault(head, [line for (line,) in lines], lambda: blocks)
    except Malformed as error:
        return f"the head row or the last entry is damaged: {error}"


def rebuild(turn: Turn, place: str) -> int:
    """Derived rows from the lines, which must chain and end as the head row says; comes back how many were wrong,
    missing or too many."""
    writer, sequence = turn.writer, turn.sequence
    nodes: set[tuple[int, int, bytes]] = set()
    changed = 0
    for page in _pages(writer, place):
        for entry in page:
            if (entry.seq, entry.prev) != (sequence.size, sequence.leaf.hex()) or entry.ts < sequence.ts:
                raise StoreError(
                    f"cannot repair {place}: entry {entry.seq} does not follow the one before; entries are never changed"
                )
            sequence.leaf, sequence.ts = sha256(b"\x00" + entry.line).digest(), entry.ts
            nodes.update(sequence.frontier.push(sequence.leaf))
        changed += _mend_causes(writer, page)
    if not sequence.size:
        raise StoreError(f"cannot repair {place}: it has no entries")
    changed += writer.execute("DELETE FROM causes WHERE seq < 0 OR seq >= %s", (sequence.size,)).rowcount
    changed += _mend(writer, "nodes", "level, idx, hash", nodes, "", ())
    head = writer.execute(READ_HEAD).fetchall()
    for size, leaf, *_ in head:
        _check_head(writer, size - 1, leaf, place)
    if head != [tuple(head_row(sequence).values())]:
        write_head(writer, sequence)
        changed += 1
    return changed


def finish_redactions(writer: Connection, place: str) -> int:
    """Erase what a tombstone names and is still there ([B3]): same entry, same part, same commitment."""
    erased = 0
    for seq, line in writer.execute(
        "SELECT seq, line FROM entries WHERE kind = 'body.redacted' ORDER BY seq"
    ).fetchall():
        stone = tombstone_of(_read(seq, line, place))
        found = stone and only(writer, "SELECT line FROM entries WHERE seq = %s", stone.seq)
        entry = _read(stone.seq, found, place) if stone and found else None
        if stone and entry and entry.body.get(stone.part) == stone.commitment:
            erased += erase(writer, part_id(entry, stone.part))
    return erased


def _check_head(writer: Connection, last: int, leaf: bytes, place: str) -> None:
    """A head row that lags behind, or is gone, is made anew. One that names another last entry is the only witness of it."""
    line = only(writer, "SELECT line FROM entries WHERE seq = %s", last)
    if line is None or leaf_hash(line) != leaf:
        raise StoreError(
            f"cannot repair {place}: what stands there is not the entry {last} that the head row names, so an entry was "
            f"changed or cut off, or the head row was; bring back a copy that passes: hansard verify"
        )


def _pages(writer: Connection, place: str) -> Iterator[list[Entry]]:
    at = FIRST
    while True:
        rows = writer.execute(
            "SELECT seq, line FROM entries WHERE seq >= %s ORDER BY seq LIMIT %s", (at, PAGE), binary=True
        ).fetchall()
        if not rows:
            return
        page = [_read(seq, line, place) for seq, line in rows]
        yield page
        at = rows[-1][0] + 1


def _read(seq: int, line: bytes, place: str) -> Entry:
    try:
        entry = read(line)
    except Malformed as error:
        raise StoreError(
            f"cannot repair {place}: entry {seq} is broken ({error}); entries are never changed"
        ) from error
    if entry.seq != seq:
        raise StoreError(f"cannot repair {place}: entry {entry.seq} stands at {seq}; entries are never changed")
    return entry


def _mend_causes(writer: Connection, page: list[Entry]) -> int:
    wanted = {(entry.seq, cause) for entry in page for cause in entry.causes}
    return _mend(writer, "causes", "seq, cause", wanted, "WHERE seq >= %s AND seq <= %s", (page[0].seq, page[-1].seq))


def _mend(writer: Connection, table: str, columns: str, wanted: set[Any], where: str, bounds: tuple[int, ...]) -> int:
    kept = set(writer.execute(f"SELECT {columns} FROM {table} {where}", bounds).fetchall())
    if kept != wanted:
        marks = ", ".join(["%s"] * len(columns.split(", ")))
        writer.execute(f"DELETE FROM {table} {where}", bounds)
        writer.cursor().executemany(f"INSERT INTO {table} VALUES ({marks})", sorted(wanted))
    return len(kept ^ wanted)
