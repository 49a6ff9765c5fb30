"""Which kept checkpoint speaks for which entries: the keys in force at a size, and the newest note that both of them signed.

Reads a store and checks signatures; it signs nothing and never sees a private key.
"""

from dataclasses import dataclass

from hansard.errors import StoreError
from hansard.ledger import ed25519
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint, parse_checkpoint
from hansard.ledger.entry import Entry
from hansard.ledger.note import Check, VerifierKey, open_note, parse_note
from hansard.seal import signing
from hansard.store.base import Query, Store, StoredCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A checkpoint whose two signatures hold ([C6]); `rotation` introduced its epoch key, unless that is the first."""

    note: str
    checkpoint: Checkpoint
    rotation: Entry | None


def is_unsigned(genesis: Entry) -> bool:
    """Whether this log has no keys, and so never any checkpoint ([C10])."""
    return genesis.data.get("custody") == "none"


def newest_signed(store: Store, *, covering: int = -1, upto: int | None = None) -> Signed | None:
    """The newest kept checkpoint that covers entry `covering` and does not reach beyond size `upto`."""
    for stored in store.checkpoints(newest_first=True):
        if covering < stored.size and (upto is None or stored.size <= upto):
            try:
                return check_signed(store, stored)
            except Malformed:
                continue
    return None


def check_signed(store: Store, stored: StoredCheckpoint) -> Signed:
    """The stored checkpoint with its signatures checked; Malformed says what does not hold."""
    note = parse_note(stored.note)
    checkpoint = parse_checkpoint(note.text)
    genesis = store.entry(0)
    rotation = _rotation_before(store, checkpoint.size)
    keys = _keys(genesis, rotation)
    if checkpoint.origin != genesis.data.get("origin") or checkpoint.size != stored.size:
        raise Malformed(
            f"the note of size {stored.size} speaks of {checkpoint.origin[:80]!r} at size {checkpoint.size} instead"
        )
    opened = open_note(note, keys, _check())
    for key in keys:
        if key not in opened.verified:
            raise Malformed(f"[C6] {key.name} has not signed the checkpoint of size {checkpoint.size}")
    return Signed(note=stored.note, checkpoint=checkpoint, rotation=rotation)


def _rotation_before(store: Store, size: int) -> Entry | None:
    """The key.rotated entry whose key is in force at this size; the entry's own checkpoint is still the retiring key's ([C5])."""
    newest = store.select(Query(kind="key.rotated", before=size - 1, newest_first=True, limit=1))
    return next(iter(newest), None)


def _check() -> Check:
    return signing.verify if signing.available() else ed25519.verify


def _keys(genesis: Entry, rotation: Entry | None) -> tuple[VerifierKey, VerifierKey]:
    epoch_key = rotation.data.get("key") if rotation else genesis.data.get("epoch_key")
    try:
        return VerifierKey.parse(str(genesis.data.get("identity"))), VerifierKey.parse(str(epoch_key))
    except Malformed as error:
        raise StoreError(
            f"this log does not name its keys: {error}; `hansard verify` tells what is left of it"
        ) from error
