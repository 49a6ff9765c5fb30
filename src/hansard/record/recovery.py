"""What the log and the key folder say about each other when a sealer begins: the log decides.

A crash may have stopped a rotation at any step. Here it is finished, or its traces are removed, before anything is signed.
"""

import shlex
from contextlib import suppress
from pathlib import Path

from hansard.errors import StoreError
from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import Frontier, leaf_hash, root_at
from hansard.ledger.note import VerifierKey, open_note, parse_note
from hansard.record.epochs import Epoch, LogKeys, read_keys
from hansard.seal import anchors
from hansard.seal.keys import KeyRing
from hansard.seal.signing import SigningKey, sign_checkpoint, verify
from hansard.store.base import Store, StoredCheckpoint


def refuse_rollback(store: Store, anchors_folder: Path) -> None:
    """StoreError when the log is older than, or another than, the one whose last checkpoint is kept in this folder, and when
    another one goes on from it.

    Every process that opens a signed log to extend it asks this first, whether it seals or not.
    """
    anchors.refuse_ended(anchors_folder, store.place)
    # The anchor is read first: it is never ahead of the log, so a log read after it must contain it.
    anchor = anchors.read(anchors_folder)
    if anchor:
        check_anchor(anchor, store)


def refuse_other_lines(store: Store, anchors_folder: Path) -> None:
    """StoreError unless the lines are those of every checkpoint that is kept, here and in the log, and no other log goes on from it.

    Whoever repairs asks this first. It reads lines alone: what is derived from them may be what is wrong.
    """
    anchors.refuse_ended(anchors_folder, store.place)
    own = [anchors.Anchor.of(each.note, f"its own checkpoint {each.size}") for each in store.checkpoints()]
    kept = [each for each in (anchors.read(anchors_folder), *own) if each]
    sizes, frontier = {each.checkpoint.size for each in kept}, Frontier()
    roots = {0: frontier.root()}
    for line in store.lines():
        frontier.push(leaf_hash(line))
        if frontier.size in sizes:
            roots[frontier.size] = frontier.root()
    origin = str(store.entry(0).data.get("origin"))
    for each in kept:
        anchors.check(each, origin=origin, size=frontier.size, root_at=roots.__getitem__, place=store.place)


def check_anchor(anchor: anchors.Anchor, store: Store) -> None:
    """StoreError unless the log extends what the anchor saw."""
    anchors.check(
        anchor,
        origin=str(store.entry(0).data.get("origin")),
        size=store.head().size,
        root_at=lambda size: root_at(size, store),
        place=store.place,
    )


def newest_checkpoint(store: Store) -> StoredCheckpoint | None:
    """The log's own newest checkpoint; StoreError when the log is not the one that it speaks of."""
    newest = next(store.checkpoints(newest_first=True), None)
    if newest:
        check_anchor(anchors.Anchor.of(newest.note, f"its own checkpoint {newest.size}"), store)
    return newest


def check_keys(store: Store, ring: KeyRing, anchors_folder: Path) -> None:
    """StoreError where a sealer would refuse to begin: the log was rolled back, or keys are wrong. Changes nothing."""
    refuse_rollback(store, anchors_folder)
    with ring.locked():
        keys = read_keys(store)
        own_identity(store, ring, keys)
        newest_checkpoint(store)
        refuse_older_copy(store, ring, keys.epoch, lost=False)
        if _matching(ring, keys.epoch) is None:
            raise no_epoch_key(store, ring, keys)


def own_identity(store: Store, ring: KeyRing, keys: LogKeys) -> SigningKey:
    """The private half of the identity key that the log names."""
    identity = ring.identity
    if identity.verifier != keys.identity:
        raise StoreError(f"the identity key in {ring.folder} is not the one that {store.place} names: another log's")
    return identity


def no_epoch_key(store: Store, ring: KeyRing, keys: LogKeys) -> StoreError:
    """What to say when the epoch key in force is gone."""
    return StoreError(
        f"epoch key {keys.epoch.number} of {keys.origin}, which is in force in {store.place}, is not in "
        f"{ring.folder}; bring its file back. If it is gone for good, only a rotation without it goes on, "
        f"and every verification will report that: hansard ledger seal --lost-key --ledger {shlex.quote(store.place)}"
    )


def seal_rotation(store: Store, ring: KeyRing, keys: LogKeys, identity: SigningKey, claim_epoch: int) -> None:
    """A store without transactions may have kept a rotation and not its checkpoint: sign it while the key is here.

    A rotation whose key was called lost stays as it is, even when the key turns up again ([C7]).
    """
    retired, size = keys.retired, keys.epoch.size
    if retired is None or keys.epoch.reason == "lost" or _is_signed(store, size, (keys.identity, retired.key)):
        return
    key = _matching(ring, retired)
    if key is None:
        return
    note = sign_checkpoint(keys.origin, size, root_at(size, store), (identity, key))
    store.add_checkpoint(StoredCheckpoint(size=size, note=note), claim_epoch)
    store.sync()


def settle_keys(store: Store, ring: KeyRing, in_force: Epoch, *, lost: bool) -> SigningKey | None:
    """Destroy every epoch key but the one in force, and load that one; None when it is not there.

    Older keys have retired; the next one, not named by the log, was made by a rotation that never happened. Any other
    picture is that of an older copy of the log, and then nothing is destroyed.
    """
    for number in refuse_older_copy(store, ring, in_force, lost=lost):
        if number != in_force.number:
            ring.destroy_epoch(number)
    return _matching(ring, in_force)


def refuse_older_copy(store: Store, ring: KeyRing, in_force: Epoch, *, lost: bool) -> list[int]:
    """The epochs whose keys are here; StoreError when one of them is newer than the log knows."""
    files = ring.epochs()
    beyond = [number for number in files if number > in_force.number + (in_force.number in files or lost)]
    if beyond:
        raise StoreError(
            f"ROLLED BACK: {store.place} ends in epoch {in_force.number}, but {ring.folder} holds a key of epoch "
            f"{beyond[-1]}. This is an older copy, or its end was cut off. {anchors.what_now(store.place)}"
        )
    return files


def _matching(ring: KeyRing, epoch: Epoch) -> SigningKey | None:
    key = ring.epoch(epoch.number)
    return key if key and key.verifier == epoch.key else None


def _is_signed(store: Store, size: int, by: tuple[VerifierKey, ...]) -> bool:
    for each in store.checkpoints(newest_first=True):
        if each.size < size:
            return False
        if each.size == size:
            with suppress(Malformed):
                if set(open_note(parse_note(each.note), by, verify).verified) >= set(by):
                    return True
    return False
