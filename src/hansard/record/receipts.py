"""Receipts and consistency files: what a log hands out so that one entry, or its growth, can be checked elsewhere ([P1]-[P4]).

Makes them and checks its own work before it lets go of it. How a stranger reads them is the ledger floor's.
"""

import shlex

from hansard.errors import StoreError, Unknown, UsageError
from hansard.ledger.canonical import Json, Malformed, encode
from hansard.ledger.entry import Entry
from hansard.ledger.merkle import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_at,
    verify_consistency,
    verify_inclusion,
)
from hansard.ledger.note import to_base64
from hansard.ledger.receipt import MAX_RECEIPT, Proof, format_proof
from hansard.record.reading import read_body
from hansard.record.sealed import Signed, check_signed, is_unsigned, newest_signed
from hansard.store.base import Query, Store, StoredCheckpoint, verify_of

VERSION = 1


def make_receipt(
    store: Store, seq: int, disclose: tuple[str, ...] = (), checkpoint: StoredCheckpoint | None = None
) -> str:
    """The .tlog-proof of one entry, with the named parts opened.

    Without a checkpoint it takes the newest that covers the entry. A part that was redacted, even if its body is still
    there, is not disclosed.
    """
    entry = store.entry(seq)
    genesis = store.entry(0)
    signed = _signed(store, genesis, seq, checkpoint)
    extra: dict[str, Json] = {
        "genesis": {"line": genesis.line.decode(), "path": _texts(_path(store, genesis, signed))},
        "line": entry.line.decode(),
        "open": {part: _opened(store, entry, part) for part in disclose},
        "v": VERSION,
    }
    if signed.rotation:
        extra["epoch"] = {
            "index": signed.rotation.seq,
            "line": signed.rotation.line.decode(),
            "path": _texts(_path(store, signed.rotation, signed)),
        }
    path = tuple(_path(store, entry, signed))
    made = format_proof(Proof(extra=encode(extra), index=seq, path=path, checkpoint=signed.note))
    if len(made.encode()) > MAX_RECEIPT:
        raise UsageError(
            f"with {', '.join(disclose)} opened, the receipt of entry {seq} has more than {MAX_RECEIPT:,} bytes, which no "
            f"verifier reads; disclose less, or hand out an export"
        )
    return made


def make_consistency(store: Store, old_size: int, checkpoint: StoredCheckpoint) -> str:
    """The proof that the log at the checkpoint extends the log of `old_size`, as a tlog-witness add-checkpoint body ([P4]).

    From size 0 the proof is empty, as a witness asks for at first contact.
    """
    try:
        signed = check_signed(store, checkpoint)
    except Malformed as error:
        raise UsageError(f"this checkpoint cannot be shown to others: {error}") from error
    size, root = signed.checkpoint.size, signed.checkpoint.root
    if not 0 <= old_size <= size:
        raise UsageError(
            f"no consistency from size {old_size} to the checkpoint of size {size}; name a size up to {size}"
        )
    proof: list[bytes] = []
    if old_size:
        try:
            proof = consistency_proof(old_size, size, store)
            verify_consistency(old_size, size, proof, root_at(old_size, store), root)
        except Malformed as error:
            raise _contradiction(store, size, error) from error
    return "\n".join([f"old {old_size}", *_texts(proof), "", signed.note])


def _signed(store: Store, genesis: Entry, seq: int, checkpoint: StoredCheckpoint | None) -> Signed:
    if is_unsigned(genesis):
        raise UsageError(f"{store.place} has no keys (custody none), so nothing in it can be receipted")
    if checkpoint is None:
        newest = newest_signed(store, covering=seq)
        if newest is None:
            how = f"hansard ledger checkpoint --ledger {shlex.quote(store.place)}"
            raise UsageError(
                f"no checkpoint of {store.place} covers entry {seq} yet; sign one: {how} "
                f"(where another process seals the log, it signs within some ten seconds)"
            )
        return newest
    if checkpoint.size <= seq:
        raise UsageError(f"the checkpoint of size {checkpoint.size} does not cover entry {seq}; take a newer one")
    try:
        return check_signed(store, checkpoint)
    except Malformed as error:
        raise UsageError(f"this checkpoint cannot carry a receipt: {error}") from error


def _path(store: Store, entry: Entry, signed: Signed) -> list[bytes]:
    size, root = signed.checkpoint.size, signed.checkpoint.root
    path = inclusion_proof(entry.seq, size, store)
    try:
        verify_inclusion(leaf_hash(entry.line), entry.seq, size, path, root)
    except Malformed as error:
        raise _contradiction(store, size, error) from error
    return path


def _opened(store: Store, entry: Entry, part: str) -> Json:
    if part not in entry.body:
        raise Unknown(f"entry {entry.seq} has no part {part!r}; it has {', '.join(sorted(entry.body)) or 'none'}")
    tombstone = _tombstone(store, entry, part)
    if tombstone is not None:
        raise UsageError(
            f"the part {part} of entry {entry.seq} was redacted by entry {tombstone} and cannot be disclosed"
        )
    found = read_body(store, entry, part)
    if found is None:
        raise UsageError(
            f"the part {part} of entry {entry.seq} is missing, so it cannot be disclosed; "
            f"{verify_of(store.place, deep=True)}"
        )
    return {"body": to_base64(found.body), "media": found.media, "salt": found.salt.hex()}


def _tombstone(store: Store, entry: Entry, part: str) -> int | None:
    named = {"commitment": entry.body[part], "part": part, "seq": entry.seq}
    for redaction in store.select(Query(kind="body.redacted", after=entry.seq)):
        if named.items() <= redaction.data.items():
            return redaction.seq
    return None


def _contradiction(store: Store, size: int, error: Malformed) -> StoreError:
    return StoreError(
        f"{store.place} does not give the root that was signed for size {size}: {error}; {verify_of(store.place)}"
    )


def _texts(hashes: list[bytes]) -> list[str]:
    return [to_base64(each) for each in hashes]
