"""A part of an entry: the body that lies there, whether it is the one that was committed to, and what redacts it."""

from hansard.domain.custody import BodyRedacted
from hansard.errors import StoreError, Tampered, UsageError
from hansard.ledger import body as bodies
from hansard.ledger.entry import Entry
from hansard.store.base import Store, StoredBody


def entry_with(store: Store, seq: int, part: str) -> Entry:
    """The entry that has this part."""
    entry = store.entry(seq)
    if part not in entry.body:
        raise UsageError(f"entry {seq} has no part {part!r}; it has {', '.join(sorted(entry.body)) or 'none'}")
    return entry


def state_of(store: Store, entry: Entry, part: str) -> tuple[StoredBody | None, str]:
    """The body that lies there, and how it stands: `here`, `pending`, `redacted`, `missing`, or it `differs`."""
    try:
        stored = store.body(entry.seq, part)
    except Tampered:
        return None, "differs"
    redacted = tombstone_of(store, entry, part) is not None
    if stored is None:
        return None, "redacted" if redacted else "missing"
    if not bodies.opens(entry.body[part], stored.salt, stored.media, stored.body):
        return stored, "differs"
    return stored, "pending" if redacted else "here"


def tombstone_of(store: Store, entry: Entry, part: str) -> int | None:
    """The entry that redacts this part ([B3]); one that names another commitment does not."""
    named = {"commitment": entry.body[part], "part": part, "seq": entry.seq}
    for effect in store.effects(entry.seq):
        try:
            found = store.entry(effect)
        except StoreError:
            continue
        if found.kind == BodyRedacted.KIND and named.items() <= found.data.items():
            return effect
    return None
