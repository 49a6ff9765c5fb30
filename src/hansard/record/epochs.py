"""Which keys a log names for itself: its identity key, the epoch key in force, and the one before. Holds no private key."""

from hansard.domain.value import value
from hansard.errors import StoreError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import GENESIS, Entry
from hansard.ledger.events import ROTATED, Genesis, Rotated, epoch_name, read_event
from hansard.ledger.note import VerifierKey
from hansard.store.base import Query, Store, verify_of


@value
class Epoch:
    """An epoch key as the log introduced it: the size that ends with that entry, and the entry's time and reason."""

    number: int
    key: VerifierKey
    size: int
    ts: int
    reason: str


@value
class LogKeys:
    """The keys that the log names: for sizes above `epoch.size` that epoch is in force ([C5])."""

    origin: str
    identity: VerifierKey
    epoch: Epoch
    retired: Epoch | None


def read_keys(store: Store) -> LogKeys:
    """What entry 0 and the newest rotations say; UsageError for an unsigned log, StoreError where they make no sense."""
    first = store.entry(0)
    genesis = _event(store, first, GENESIS)
    assert isinstance(genesis, Genesis)
    if genesis.identity is None or genesis.epoch_key is None:
        raise UsageError(f"{store.place} is an unsigned log: it has no keys, and nothing in it can be sealed")
    newest = [_epoch(store, entry, genesis.origin) for entry in store.select(_ROTATIONS)]
    beginning = Epoch(number=0, key=genesis.epoch_key, size=1, ts=first.ts, reason="")
    epochs = [*newest, beginning]
    if len(newest) < 2 and epochs[0].number != len(newest):
        raise StoreError(f"the newest key of {store.place} is of epoch {epochs[0].number}; {verify_of(store.place)}")
    return LogKeys(
        origin=genesis.origin,
        identity=genesis.identity,
        epoch=epochs[0],
        retired=epochs[1] if len(epochs) > 1 else None,
    )


_ROTATIONS = Query(kind=ROTATED, newest_first=True, limit=2)


def _epoch(store: Store, entry: Entry, origin: str) -> Epoch:
    rotated = _event(store, entry, ROTATED)
    assert isinstance(rotated, Rotated)
    if rotated.key.name != epoch_name(origin, rotated.epoch):
        raise StoreError(
            f"entry {entry.seq} of {store.place} names the key {rotated.key.name}; {verify_of(store.place)}"
        )
    return Epoch(
        number=rotated.epoch,
        key=rotated.key,
        size=entry.seq + 1,
        ts=entry.ts,
        reason=str(entry.data.get("reason")),
    )


def _event(store: Store, entry: Entry, kind: str) -> object:
    try:
        return read_event(kind, entry.seq, "", entry.data)
    except Malformed as error:
        raise StoreError(
            f"entry {entry.seq} of {store.place} names no keys: {error}; {verify_of(store.place)}"
        ) from error
