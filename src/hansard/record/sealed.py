"""Which kept checkpoint speaks for which entries: the keys in force at a size, and the newest note that both of them signed.

Reads a store and checks signatures; it signs nothing and never sees a private key.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from hansard.domain.value import value
from hansard.errors import StoreError
from hansard.ledger import ed25519
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint
from hansard.ledger.entry import GENESIS, Entry
from hansard.ledger.events import ROTATED, UNSIGNED, Genesis, Rotated, read_event, read_note
from hansard.ledger.merkle import leaf_hash, root_at
from hansard.ledger.note import Check, VerifierKey, open_note
from hansard.ledger.report import Findings
from hansard.ledger.seals import Seals
from hansard.seal import signing
from hansard.store.base import Query, Store, StoredCheckpoint

Kept = Callable[[], Iterable[StoredCheckpoint]]
"""Gives checkpoints in the order in which they were written, each time that it is asked."""


@value
class Signed:
    """A checkpoint whose two signatures hold; `rotation` introduced its epoch key, unless that is the first."""

    note: str
    checkpoint: Checkpoint
    rotation: Entry | None


def is_unsigned(genesis: Entry) -> bool:
    """Whether this log has no keys, and so never any checkpoint ([C10])."""
    return genesis.data.get("custody") == UNSIGNED


def newest_signed(store: Store, *, covering: int = -1) -> Signed | None:
    """The newest kept checkpoint that covers entry `covering`."""
    for stored in store.checkpoints(newest_first=True):
        if covering < stored.size:
            with suppress(Malformed):
                return check_signed(store, stored)
    return None


def check_signed(store: Store, stored: StoredCheckpoint) -> Signed:
    """The stored checkpoint with its signatures checked; Malformed says what does not hold."""
    noted = read_note(stored.note)
    checkpoint = noted.checkpoint
    genesis = store.entry(0)
    rotation = _rotation_before(store, checkpoint.size)
    if checkpoint.origin != genesis.data.get("origin") or checkpoint.size != stored.size:
        raise Malformed(
            f"the note of size {stored.size} speaks of {checkpoint.origin[:80]!r} at size {checkpoint.size} instead"
        )
    keys = _keys(genesis, rotation)
    opened = open_note(noted.note, {*keys, *_retired(store, genesis, checkpoint.size)}, _check())
    for key in keys:
        if key not in opened.verified:
            raise Malformed(f"[C6] {key.name} has not signed the checkpoint of size {checkpoint.size}")
    return Signed(note=stored.note, checkpoint=checkpoint, rotation=rotation)


def newest_sealed(store: Store, upto: int, kept: Kept | None = None) -> Signed | None:
    """The checkpoint of the largest sealed size up to `upto` ([C6]), as the verifier judges it; None when there is none.

    It differs from the newest signed one where a rotation was never sealed: nothing behind that is sealed either ([C7]).
    `kept` gives the checkpoints to judge by; otherwise they are those of the store as it stands.
    """
    checkpoints = kept or store.checkpoints
    seals = Seals(Findings(), pin=None, all_signatures=False, check=_check())
    genesis = store.entry(0)
    rotations = deque(store.select(Query(kind=ROTATED, before=upto)))
    with suppress(Malformed):
        first = read_event(GENESIS, 0, leaf_hash(genesis.line).hex(), genesis.data)
        assert isinstance(first, Genesis)
        seals.begin(first)
    for stored in checkpoints():
        if 0 < stored.size <= upto:
            while rotations and rotations[0].seq < stored.size:
                _tell_rotation(seals, rotations.popleft())
            with suppress(Malformed):
                noted = read_note(stored.note)
                seals.noted(replace(noted, agrees=root_at(stored.size, store) == noted.checkpoint.root))
    size = seals.finish(upto, 0).sealed_to
    for stored in reversed([each for each in checkpoints() if 0 < each.size == size]):
        with suppress(Malformed):
            return check_signed(store, stored)
    return None


def _tell_rotation(seals: Seals, entry: Entry) -> None:
    with suppress(Malformed):
        event = read_event(ROTATED, entry.seq, "", entry.data)
        assert isinstance(event, Rotated)
        seals.rotated(event)


def _rotation_before(store: Store, size: int) -> Entry | None:
    """The key.rotated entry whose key is in force at this size; the entry's own checkpoint is still the retiring key's ([C5])."""
    newest = store.select(Query(kind=ROTATED, before=size - 1, newest_first=True, limit=1))
    return next(iter(newest), None)


def _keys(genesis: Entry, rotation: Entry | None) -> tuple[VerifierKey, VerifierKey]:
    epoch_key = rotation.data.get("key") if rotation else genesis.data.get("epoch_key")
    try:
        return VerifierKey.parse(str(genesis.data.get("identity"))), VerifierKey.parse(str(epoch_key))
    except Malformed as error:
        raise StoreError(
            f"this log does not name its keys: {error}; `hansard verify` tells what is left of it"
        ) from error


def _retired(store: Store, genesis: Entry, size: int) -> Iterator[VerifierKey]:
    """The epoch keys that are known at this size, in force or not: a bad signature by any of them rejects a note ([C3])."""
    rotations = store.select(Query(kind=ROTATED, before=size))
    for named in (genesis.data.get("epoch_key"), *(each.data.get("key") for each in rotations)):
        with suppress(Malformed):
            yield VerifierKey.parse(str(named))


def _check() -> Check:
    return signing.verify if signing.available() else ed25519.verify
