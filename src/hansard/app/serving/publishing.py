"""What a daemon shows of its ledger to auditors and monitors: the signed state, proofs, tiles, how it stands.

Reads only. Everything here costs the same on a ledger of a million entries, unless it says otherwise.
"""

import asyncio
from contextlib import suppress
from weakref import WeakKeyDictionary

from hansard.app.ledgers.custody import checkpoint_view
from hansard.app.service import Hansard
from hansard.app.views import View
from hansard.app.wiring import SOFTWARE
from hansard.errors import UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.tiles import WIDTH, encode_bundle, parse_tile_path
from hansard.record.cosigned import most_cosigned
from hansard.record.receipts import make_consistency, make_receipt
from hansard.record.sealed import check_signed, newest_signed
from hansard.store.base import Store, StoredCheckpoint

SIGNED_WITHIN_S = 20.0
"""The sealer signs every ten seconds where something is unsigned, and looks every four."""
_HELD: WeakKeyDictionary[Store, StoredCheckpoint] = WeakKeyDictionary()


def status(hansard: Hansard) -> View:
    """How the ledger stands."""
    store = hansard.store
    head, genesis = store.head(), store.entry(0)
    newest = _newest(store)
    return {
        "software": SOFTWARE,
        "origin": str(genesis.data.get("origin", "")),
        "entries": head.size,
        "root": head.root.hex(),
        "broken": store.broken,
        "signed": newest.size if newest else 0,
        "custody": "none" if genesis.data.get("custody") != "file" else "file",
    }


def newest_checkpoint(store: Store) -> View:
    """The newest checkpoint that was kept and whose signatures hold; nothing is signed for it."""
    newest = _newest(store)
    if newest is None:
        raise UsageError("this ledger has no checkpoint yet")
    return checkpoint_view(newest)


def consistency(store: Store, old: int, size: int | None) -> View:
    """The proof that a checkpoint, the newest or that of a size, extends the log of an older size."""
    newest = _newest(store)
    if newest is None:
        raise UsageError("there is no checkpoint yet")
    kept = (newest,) if size is None else store.checkpoints(newest_first=True)
    stored = next((each for each in kept if size is None or each.size <= size), None)
    if stored is None or size not in (None, stored.size):
        raise UsageError(
            f"there is no checkpoint of size {size}; the newest is of size {newest.size}, which needs no naming"
        )
    return {"old": old, "size": stored.size, "consistency": make_consistency(store, old, stored)}


async def receipt(hansard: Hansard, seq: int, disclose: tuple[str, ...], *, cosigned: bool = False) -> View:
    """The proof of one entry, under a checkpoint that covers it; one is signed soon where there is none yet.

    `cosigned` takes the one that the most witnesses have seen instead.
    """
    store, disclose = hansard.store, tuple(dict.fromkeys(disclose))
    await asyncio.to_thread(store.entry, seq)
    under = await asyncio.to_thread(most_cosigned, store, seq) if cosigned else None
    if cosigned and under is None:
        raise UsageError(f"no witness has seen entry {seq} yet")
    if under is None:
        await _signed(hansard, seq)
    made = await asyncio.to_thread(make_receipt, store, seq, disclose, under)
    return {"seq": seq, "disclosed": list(disclose), "receipt": made, "unsigned_because": None}


async def _signed(hansard: Hansard, seq: int) -> None:
    """Wait until a checkpoint covers an entry, where one can be signed."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SIGNED_WITHIN_S
    while (newest := await asyncio.to_thread(_newest, hansard.store)) is None or newest.size <= seq:
        # Keys belong to the recorder's writer: it is asked, and signs when nothing is left to write.
        if not hansard.recorder.seal_soon() or loop.time() > until:
            break
        await asyncio.sleep(0.1)


def signed_note(store: Store) -> tuple[int, str]:
    """The newest checkpoint whose signatures hold, for auditors: its size and its text."""
    signed = newest_signed(store, covering=-1)
    if signed is None:
        raise UsageError("this ledger has no signed checkpoint yet")
    return signed.checkpoint.size, signed.note


def tile(store: Store, path: str) -> bytes:
    """A tile or an entry bundle of what is signed (C2SP tlog-tiles). UsageError where there is none."""
    try:
        level, index, width = parse_tile_path(path)
    except Malformed as error:
        raise UsageError(str(error)) from error
    size = _newest_size(store)
    first, height = index * WIDTH, 8 * (level or 0)
    if (first + width) << height > size:
        raise UsageError(f"there is no such tile: {size} entries are signed")
    if level:
        return b"".join(store.node(height, at) for at in range(first, first + width))
    lines = list(store.lines(first, first + width))
    return encode_bundle(lines) if level is None else b"".join(map(leaf_hash, lines))


def _newest(store: Store) -> StoredCheckpoint | None:
    """The newest checkpoint whose signatures hold; they are checked once, and tiles are asked for by the thousand."""
    for stored in store.checkpoints(newest_first=True):
        if _HELD.get(store) == stored:
            return stored
        with suppress(Malformed):
            check_signed(store, stored)
            _HELD[store] = stored
            return stored
    return None


def _newest_size(store: Store) -> int:
    newest = _newest(store)
    return newest.size if newest else 0
