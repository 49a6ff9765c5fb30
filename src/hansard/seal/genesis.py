"""How a log begins: its nonce, its origin and its first keys, as the fact that entry 0 records. Knows no store."""

import secrets
from collections.abc import Callable
from pathlib import Path

from hansard.domain.custody import Genesis
from hansard.errors import UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import Checkpoint
from hansard.ledger.entry import VERSION
from hansard.ledger.note import check_name
from hansard.seal.keys import KeyRing
from hansard.seal.signing import available

MAX_ORIGIN = 180
"""So that an epoch key, which is named after the origin, still is a short text of an entry (256 characters)."""
NONCE_BYTES = 16


def found(
    folder_for: Callable[[str], Path],
    origin: str | None,
    software: str,
    adopts: Checkpoint | None = None,
    *,
    signed: bool = True,
) -> tuple[Genesis, KeyRing | None]:
    """A new log's first entry, and its keys in the folder for its nonce; without keys when this installation cannot sign.

    `adopts` is the state of an older log that this one goes on from, after a restore.
    """
    nonce = secrets.token_hex(NONCE_BYTES)
    name = f"hansard.invalid/{nonce}" if origin is None else checked_origin(origin)
    ring = KeyRing.create(folder_for(nonce), name) if signed and available() else None
    identity, first = (ring.identity, ring.epoch(0)) if ring else (None, None)
    return (
        Genesis(
            spec=VERSION,
            origin=name,
            nonce=nonce,
            custody="file" if ring else "none",
            software=software,
            identity=identity.verifier.text() if identity else None,
            epoch_key=first.verifier.text() if first else None,
            adopts_origin=adopts.origin if adopts else None,
            adopts_size=adopts.size if adopts else None,
            adopts_root=adopts.root.hex() if adopts else None,
        ),
        ring,
    )


def checked_origin(origin: str) -> str:
    """An origin that may name a key ([C4]); UsageError says what is wrong with it."""
    try:
        check_name(origin)
    except Malformed as error:
        raise UsageError(f"the origin {origin[:80]!r} cannot name a log: {error}") from error
    if len(origin) > MAX_ORIGIN or "\n" in origin:
        raise UsageError(f"an origin is one line of at most {MAX_ORIGIN} characters; this one has {len(origin)}")
    return origin
