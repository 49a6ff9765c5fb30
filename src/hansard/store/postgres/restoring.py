"""Lays out a PostgreSQL ledger from lines that exist already: an import, never a way to write new entries.

All of it is one transaction, so that there is a whole ledger or none. Claims do not come along.
"""

from collections.abc import Iterable

from hansard.ledger.entry import Entry
from hansard.store.base import Head, Part, StoredCheckpoint
from hansard.store.postgres.address import Address
from hansard.store.postgres.rows import keep_note, make_tables, part_id, write
from hansard.store.postgres.session import Connection, connect, made_whole
from hansard.store.postgres.turn import Turn
from hansard.store.retracing import Restored, Retracing

BATCH_ENTRIES = 500
BATCH_BYTES = 8 << 20


def restore(url: str, rows: Iterable[Restored], checkpoints: Iterable[StoredCheckpoint]) -> Head:
    """Make a new ledger of these lines, bodies and checkpoints; StoreError when one is there, or they do not fit together."""
    address = Address.parse(url)
    connection = connect(address, writing=True)
    try:
        with connection.unhurried(), made_whole(connection, address, "restore to"):
            # Between two batches a slow disk is read.
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            make_tables(connection, address)
            head = _fill(connection, address, rows)
            for each in checkpoints:
                keep_note(connection, each.size, each.note)
    finally:
        connection.close()
    return head


def _fill(connection: Connection, address: Address, rows: Iterable[Restored]) -> Head:
    way = Retracing()
    entries: list[Entry] = []
    parts: list[tuple[int, Part]] = []
    nodes: list[tuple[int, int, bytes]] = []
    size = 0

    def flush() -> None:
        write(Turn(connection, way.sequence, way.sequence.ts), entries, parts, nodes, address.channel)
        for each in (entries, parts, nodes):
            each.clear()

    for line, at_hand in rows:
        entry, completed = way.step(line, at_hand)
        entries.append(entry)
        parts += [(part_id(entry, part.name), part) for part in at_hand]
        nodes += completed
        size += len(line) + sum(len(part.body) for part in at_hand)
        if len(entries) >= BATCH_ENTRIES or size >= BATCH_BYTES:
            flush()
            size = 0
    head = way.end()
    if entries:
        flush()
    return head
