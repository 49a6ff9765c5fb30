"""The one way to read a body for use: nobody is shown, asked or run with what does not open its commitment ([B2]).

What a store gives is a stranger's word. Bare `store.body` is for those who say what state a body is in, and for copies. Entries
are read for use here as well: bare `store.select` is for those who show data as it is, or take nothing of it for granted.
"""

from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import TypeVar

from hansard.domain.fact import Body
from hansard.errors import StoreError, Tampered, Unavailable
from hansard.ledger.body import opens
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.record.codec import misfit
from hansard.store.base import Query, Store, StoredBody, verify_of

T = TypeVar("T")

MARK = "(not what was recorded; run: hansard verify --deep)"


def read_entries(store: Store, query: Query) -> Iterator[Entry]:
    """The entries that are asked for. Tampered where one has not the form of its kind."""
    return (formed(store, entry) for entry in store.select(query))


def newly(store: Store, kinds: Iterable[str], after: int, before: int) -> list[Entry]:
    """The entries of these kinds between two others, found by kind: most are of none. One that cannot be read is the
    verifier's to tell of, and hides no other."""
    wanted = tuple(kinds)
    try:
        return [entry for kind in wanted for entry in store.select(Query(kind=kind, after=after, before=before))]
    except Unavailable:
        raise
    except StoreError:
        return [entry for line in store.lines(after + 1, before) if (entry := _parsed(line)) and entry.kind in wanted]


def _parsed(line: bytes) -> Entry | None:
    try:
        return read(line)
    except Malformed:
        return None


def formed(store: Store, entry: Entry) -> Entry:
    """The entry, where it has the form of its kind; else Tampered."""
    if why := misfit(entry):
        raise Tampered(
            f"entry {entry.seq} ({entry.kind}) in {store.place} is not as Hansard writes it: {why}; "
            f"`hansard ledger get {entry.seq} --ledger {quote(store.place)}` shows it as it is"
        )
    return entry


def came_of(known: Mapping[int, T], entry: Entry) -> T:
    """What the entry's first cause is among these, its question say; Tampered where it is none of them."""
    if not entry.causes or entry.causes[0] not in known:
        raise Tampered(
            f"entry {entry.seq} ({entry.kind}) does not come of what it should; "
            f"`hansard ledger causes {entry.seq}` shows what it names"
        )
    return known[entry.causes[0]]


def strange(entry: Entry, part: str, why: object) -> Tampered:
    """The error for a body that opens its commitment, and yet holds something else than Hansard writes there."""
    return Tampered(
        f"the {part} of entry {entry.seq} is not as this version writes it ({why}); "
        f"`hansard ledger get {entry.seq} --part {part}` shows it as it is"
    )


def read_body(store: Store, entry: Entry, part: str) -> StoredBody | None:
    """The body of a part; None where the entry has no such part, or the body is not in the ledger any more.

    Tampered when the body is not the one that the entry commits to.
    """
    stored = store.body(entry.seq, part) if part in entry.body else None
    if stored and not opens(entry.body[part], stored.salt, stored.media, stored.body):
        raise Tampered(
            f"the {part} of entry {entry.seq} in {store.place} is not what was recorded: it does not open its commitment; "
            f"{verify_of(store.place, deep=True)}"
        )
    return stored


def read_text(store: Store, entry: Entry, part: str) -> str | None:
    """The same as text."""
    stored = read_body(store, entry, part)
    return Body(stored.media, stored.body).as_text() if stored else None


def read_for_list(store: Store, entry: Entry, part: str) -> str | None:
    """The same where several stand side by side: one that was tampered with is marked, and hides no other."""
    try:
        return read_text(store, entry, part)
    except Tampered:
        return MARK
