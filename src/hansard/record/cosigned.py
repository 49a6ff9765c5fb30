"""What witnesses have seen of a log, from their words on its record."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain, islice

from hansard.domain.custody import AnchorRecorded
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.note import Note, Signature, format_note, parse_note
from hansard.record.reading import read_text
from hansard.store.base import Query, Store, StoredCheckpoint

MOST_WORDS = 64
"""So many of the newest words are looked at."""


def most_cosigned(store: Store, seq: int) -> StoredCheckpoint | None:
    """The checkpoint beyond an entry that the most witnesses have seen, the newest of these, with the word of each of them."""
    notes: dict[str, list[Note]] = {}
    anchors = store.select(Query(kind=AnchorRecorded.KIND, newest_first=True))
    words = (entry for entry in anchors if entry.data.get("by") == "witness")
    for entry in islice((each for each in words if _size(each.data.get("size")) > seq), MOST_WORDS):
        token = read_text(store, entry, "token")
        with suppress(Malformed):
            note = parse_note(token or "")
            notes.setdefault(note.text, []).append(note)
    signed = {text: _signatures(found) for text, found in notes.items()}
    for text in sorted(signed, key=lambda each: len(signed[each]), reverse=True):
        with suppress(Malformed):
            return StoredCheckpoint(size=parse_checkpoint(text).size, note=format_note(text, signed[text]))
    return None


def _size(said: object) -> int:
    return said if isinstance(said, int) else 0


def _signatures(notes: Sequence[Note]) -> list[Signature]:
    """Those of one text, each key's once, in their newest form."""
    found: dict[tuple[str, bytes], Signature] = {}
    for each in chain.from_iterable(note.signatures for note in notes):
        found.setdefault((each.name, each.key_id), each)
    return list(found.values())
