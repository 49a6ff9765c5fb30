"""Lines that exist already, on their way into a store anew: each must follow the one before, and each body be the one that
its entry commits to. Pure: every store lays them out in its own way.
"""

from collections.abc import Sequence as Items

from hansard.errors import StoreError
from hansard.ledger.body import opens
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.ledger.merkle import Completed, leaf_hash
from hansard.store.base import Head, Part
from hansard.store.sequence import Sequence

Restored = tuple[bytes, Items[Part]]
"""An entry's line, and those of its parts that are at hand."""


class Retracing:
    """The way of a log from its first entry; `sequence` is how far it has come."""

    def __init__(self) -> None:
        self.sequence = Sequence()

    def step(self, line: bytes, parts: Items[Part]) -> tuple[Entry, Completed]:
        """The next entry, and the nodes of the tree that it completes; StoreError where it does not belong here."""
        sequence = self.sequence
        try:
            entry = read(line)
        except Malformed as error:
            raise StoreError(f"entry {sequence.size} cannot be restored: {error}") from error
        if (entry.seq, entry.prev) != (sequence.size, sequence.leaf.hex()) or entry.ts < sequence.ts:
            raise StoreError(f"entry {sequence.size} cannot be restored: it does not follow the one before")
        for part in parts:
            committed = entry.body.get(part.name)
            if committed is None or not opens(committed, part.salt, part.media, part.body):
                raise StoreError(
                    f"a body does not belong to entry {entry.seq}, part {part.name}; it cannot be restored"
                )
        sequence.leaf, sequence.ts = leaf_hash(line), entry.ts
        return entry, sequence.push(sequence.leaf)

    def end(self) -> Head:
        """The head of the whole log; StoreError where there is none."""
        if not self.sequence.size:
            raise StoreError("a log without entries cannot be restored")
        return self.sequence.head()
