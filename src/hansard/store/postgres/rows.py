"""What a writer does in its turn: rows in, rows out. Nothing here begins, ends or repeats a transaction."""

from collections.abc import Sequence as Items
from typing import Any

from hansard.errors import Broken, StoreError, UsageError
from hansard.ledger.body import digest
from hansard.ledger.entry import Entry
from hansard.ledger.layout import body_id
from hansard.store.base import Draft, Part, Placed
from hansard.store.postgres.address import Address
from hansard.store.postgres.layout import CLOCK, INSERT, MARK, SHARED_FROM_BYTES, TABLES
from hansard.store.postgres.session import Connection
from hansard.store.postgres.turn import Clock, Turn
from hansard.store.sequence import Sequence

OLDEST_SERVER = 12


def lay_out(writer: Connection, address: Address, genesis: Draft, clock: Clock | None) -> None:
    """Make the schema and its tables, and write entry 0; refused when the schema holds anything."""
    if genesis.parts:
        raise Broken("a genesis entry has no parts")
    make_tables(writer, address)
    now_us = int(clock() * 1_000_000) if clock else only(writer, CLOCK)
    sequence = Sequence()
    rows = sequence.place([genesis], now_us, lambda _: 0)
    sequence.grow(rows)
    insert(Turn(writer, sequence, now_us), rows, [], address.channel)


def make_tables(writer: Connection, address: Address) -> None:
    """Make the schema and its tables with the head of an empty log; refused when the schema holds anything."""
    schema, place = address.schema, address.place
    if writer.info.server_version < OLDEST_SERVER * 10_000:
        raise UsageError(f"{place} is a PostgreSQL older than {OLDEST_SERVER}; use a newer server")
    await_makers(writer, schema)
    if is_in_use(writer, schema):
        raise StoreError(f"schema {schema} of {place} is in use already; open it, or choose another with ?schema=NAME")
    if not only(writer, "SELECT count(*) FROM pg_namespace WHERE nspname = %s", schema):
        writer.execute(f'CREATE SCHEMA "{schema}"')
    for statement in TABLES:
        writer.execute(statement)
    write_head(writer, Sequence())


def await_makers(session: Connection, schema: str) -> None:
    """Return when nobody else is about to make a ledger in this schema: who comes second finds what the first one made."""
    session.execute("SELECT pg_advisory_xact_lock(hashtext('hansard'), hashtext(%s))", (schema,))


def is_in_use(reader: Connection, schema: str) -> bool:
    """Whether a schema holds any table; whose they are is another question."""
    return bool(
        only(
            reader,
            "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s",
            schema,
        )
    )


def layout_version(reader: Connection, schema: str) -> str | None:
    """The version of the layout, when the tables are a ledger's; None for anything else."""
    columns = only(
        reader,
        "SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname IN ('name', 'value')",
        f'"{schema}".meta',
    )
    found: str | None = only(reader, "SELECT value FROM meta WHERE name = %s", MARK) if columns == 2 else None
    return found


def insert(turn: Turn, rows: list[Placed], nodes: list[tuple[int, int, bytes]], channel: str) -> None:
    """Write placed rows with all that hangs on them, move the head, and tell the followers."""
    parts = [(body_id(row.seq, at), part) for row in rows for at, part in enumerate(row.draft.parts)]
    write(turn, rows, parts, nodes, channel)


def write(
    turn: Turn,
    rows: Items[Placed] | Items[Entry],
    parts: list[tuple[int, Part]],
    nodes: list[tuple[int, int, bytes]],
    channel: str,
) -> None:
    """The same for parts that know their rows: where an entry was not just placed, some of its parts may be gone."""
    large = [
        (part.digest or digest(part.media, part.body), part.body)
        for _, part in parts
        if len(part.body) >= SHARED_FROM_BYTES
    ]
    if large:
        turn.writer.cursor().executemany("INSERT INTO shared VALUES (%b, %b) ON CONFLICT DO NOTHING", large)
    names = iter(large)
    shared = [next(names)[0] if len(part.body) >= SHARED_FROM_BYTES else None for _, part in parts]
    turn.writer.execute(
        INSERT,
        {
            "seqs": [row.seq for row in rows],
            "lines": [row.line for row in rows],
            "effects": [row.seq for row in rows for _ in row.causes],
            "causes": [cause for row in rows for cause in row.causes],
            "ids": [at for at, _ in parts],
            "salts": [part.salt for _, part in parts],
            "medias": [part.media for _, part in parts],
            "bodies": [None if name else part.body for name, (_, part) in zip(shared, parts, strict=True)],
            "shared": shared,
            "levels": [level for level, _, _ in nodes],
            "indexes": [index for _, index, _ in nodes],
            "hashes": [node for _, _, node in nodes],
            "channel": channel,
            **head_row(turn.sequence),
        },
    )


def head_row(sequence: Sequence) -> dict[str, Any]:
    return {
        "size": sequence.size,
        "leaf": sequence.leaf,
        "ts": sequence.ts,
        "frontier": sequence.frontier.to_bytes(),
    }


def write_head(writer: Connection, sequence: Sequence) -> None:
    """Put the head row right, or back."""
    writer.execute("DELETE FROM head")
    writer.execute("INSERT INTO head VALUES (0, %(size)s, %(leaf)b, %(ts)s, %(frontier)b)", head_row(sequence))


def epochs(writer: Connection, names: set[str]) -> dict[str, int]:
    """The newest epochs of these claims; a name that was never claimed is not among them."""
    if not names:
        return {}
    return dict(writer.execute("SELECT name, epoch FROM claims WHERE name = ANY(%s)", (list(names),)).fetchall())


def keep_note(writer: Connection, size: int, note: str) -> None:
    writer.execute("INSERT INTO checkpoints(size, note) VALUES (%s, %b)", (size, note.encode()))


def erase(writer: Connection, at: int) -> int:
    """Delete a body and its salt, and the shared bytes with their last user; comes back how many there were."""
    gone = writer.execute("DELETE FROM bodies WHERE id = %s RETURNING shared", (at,)).fetchall()
    for (name,) in gone:
        writer.execute(
            "DELETE FROM shared s WHERE digest = %b AND NOT EXISTS (SELECT FROM bodies b WHERE b.shared = s.digest)",
            (name,),
        )
    return len(gone)


def part_id(entry: Entry, part: str) -> int:
    """body_id by name; Malformed when the entry has no such part."""
    return body_id(entry.seq, entry.part_position(part))


def only(reader: Connection, sql: str, *values: object) -> Any:
    """The one value that a query gives."""
    row = reader.execute(sql, values or None).fetchone()
    return row[0] if row else None
