"""Who vouches for a ledger, for every surface: checkpoints, the pin, rotation, receipts. The keys stay in `seal`."""

import shlex
from typing import TYPE_CHECKING

from hansard.app.opened import Opened
from hansard.app.views import View
from hansard.errors import StoreError, Unavailable, UsageError
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.note import parse_note
from hansard.record.cosigned import most_cosigned
from hansard.record.epochs import read_keys
from hansard.record.receipts import make_consistency, make_receipt
from hansard.record.sealed import is_unsigned, newest_sealed, newest_signed
from hansard.store.base import Store, StoredCheckpoint, verify_of

if TYPE_CHECKING:
    from hansard.record.sealer import Sealer


def pin_of(store: Store) -> str | None:
    """The one line to keep outside ([C8]); None for an unsigned log."""
    genesis = store.entry(0)
    identity = genesis.data.get("identity")
    return f"{identity}@{leaf_hash(genesis.line).hex()}" if identity else None


def pin(opened: Opened) -> View:
    found = pin_of(opened.store)
    if found is None:
        raise UsageError(f"{opened.store.place} is unsigned: it has no keys, and so no pin")
    return {"pin": found}


def checkpoint(opened: Opened) -> View:
    """Sign the log as it stands. Where another process signs it at present: the newest state that is signed."""
    _refuse_broken(opened.store)
    signed = newest_signed(opened.store) if opened.is_left_to_others else None
    if signed:
        return checkpoint_view(StoredCheckpoint(size=signed.checkpoint.size, note=signed.note))
    return checkpoint_view(_sealer(opened).checkpoint())


def rotate(opened: Opened) -> View:
    """Retire the epoch key now, destroy its private half, and seal everything up to here with it.

    `sealed_to` is less than the size where a rotation before this one was never sealed ([C7]).
    """
    sealer = _sealer(opened)
    made = sealer.rotate()
    sealed = newest_sealed(opened.store, made.size)
    return checkpoint_view(made) | {"epoch": sealer.epoch, "sealed_to": sealed.checkpoint.size if sealed else 0}


def replace_lost_key(opened: Opened) -> View:
    """Go on with a new epoch key, for an `opened` that was told that the one in force is gone for good ([C7])."""
    before = read_keys(opened.store).epoch.number
    sealer = _sealer(opened)
    if sealer.epoch == before:
        place = opened.store.place
        how = f"hansard ledger seal --ledger {shlex.quote(place)}"
        raise UsageError(f"epoch key {before} of {place} is not lost; to retire it: {how}")
    return checkpoint_view(sealer.checkpoint()) | {"epoch": sealer.epoch}


def sign_anew(opened: Opened) -> str | None:
    """Sign the log as it stands, where this process may, before something of it is handed out.

    Why that was refused, or None. A lost key, a full disk or a broken log must not keep the record from those who ask for it: they get
    what was signed before.
    """
    try:
        _refuse_broken(opened.store)
        if opened.sealer:
            opened.sealer.checkpoint()
    except StoreError as error:
        opened.sign_no_more()
        return str(error)
    return None


def receipt(opened: Opened, seq: int, disclose: tuple[str, ...], *, cosigned: bool = False) -> View:
    """The proof of one entry under a checkpoint that covers it; a new one is signed where this process may.

    `cosigned` takes the one that the most witnesses have seen instead, the newest of these.
    """
    disclose = tuple(dict.fromkeys(disclose))
    under = _cosigned(opened.store, seq) if cosigned else None
    unsigned = None if cosigned else sign_anew(opened)
    made = make_receipt(opened.store, seq, disclose, under)
    return {"seq": seq, "disclosed": list(disclose), "receipt": made, "unsigned_because": unsigned}


def _cosigned(store: Store, seq: int) -> StoredCheckpoint:
    found = most_cosigned(store, seq)
    if found is None:
        how = f"hansard ledger witness --ledger {shlex.quote(store.place)}"
        raise UsageError(f"no witness has seen entry {seq} of {store.place} yet; ask one: {how}")
    return found


def consistency(opened: Opened, old_size: int) -> View:
    """The proof that the newest checkpoint extends the log of an older size."""
    signed, place = newest_signed(opened.store), opened.store.place
    if signed is None and is_unsigned(opened.store.entry(0)):
        raise UsageError(f"{place} is unsigned: it has no keys, and so no checkpoint that anything could be proven to")
    if signed is None:
        how = f"hansard ledger checkpoint --ledger {shlex.quote(place)}"
        raise UsageError(f"{place} has no checkpoint yet; sign one: {how}")
    newest = StoredCheckpoint(size=signed.checkpoint.size, note=signed.note)
    return {"old": old_size, "size": newest.size, "consistency": make_consistency(opened.store, old_size, newest)}


def checkpoint_view(stored: StoredCheckpoint) -> View:
    root = parse_checkpoint(parse_note(stored.note).text).root
    return {"size": stored.size, "root": root.hex(), "checkpoint": stored.note}


def _refuse_broken(store: Store) -> None:
    if store.broken:
        raise StoreError(f"{store.place} may not be extended: {store.broken}; {verify_of(store.place)}")


def _sealer(opened: Opened) -> "Sealer":
    _refuse_broken(opened.store)
    if opened.sealer is None:
        said = f"this process cannot sign {opened.store.place}: {opened.custody}"
        raise Unavailable(said) if opened.is_left_to_others else UsageError(said)
    return opened.sealer
