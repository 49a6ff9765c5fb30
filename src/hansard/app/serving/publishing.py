"""What a daemon shows of its ledger to auditors and monitors: pages of runs, the signed state, tiles, how it stands.

Reads only. Everything here costs the same on a ledger of a million entries, unless it says otherwise.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from hansard.app.finding import is_requested, requests
from hansard.app.ids import as_recorded, is_run_id
from hansard.app.ledgers.custody import checkpoint_view
from hansard.app.service import Hansard
from hansard.app.telling.deliberationviews import MODE
from hansard.app.telling.nested_view import run_within
from hansard.app.telling.runviews import ended_otherwise, listed_view
from hansard.app.views import View
from hansard.app.wiring import SOFTWARE
from hansard.deliberation.metrics import metrics_of
from hansard.errors import UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.tiles import WIDTH, encode_bundle, parse_tile_path
from hansard.record.cosigned import most_cosigned
from hansard.record.reading import read_body
from hansard.record.receipts import make_consistency, make_receipt
from hansard.record.sealed import check_signed, newest_signed
from hansard.store.base import Query, Store, StoredCheckpoint

MOST_LOOKED_AT = 2_000
SIGNED_WITHIN_S = 20.0
"""The sealer signs every ten seconds where something is unsigned, and looks every four."""
_HELD: WeakKeyDictionary[Store, StoredCheckpoint] = WeakKeyDictionary()


def exact_run(store: Store, run: str) -> str:
    """A run by its whole id, or `last`; looking for the beginning of an id would read every run."""
    if run == "last":
        for entry in requests(store):
            return entry.run
        raise UsageError("there are no runs yet")
    whole = as_recorded(run)
    if not is_run_id(whole):
        raise UsageError(f"there is no run {run!r:.60}; a run's id is a UUID, or `last`")
    if not is_requested(store, whole):
        raise UsageError(f"there is no run {run!r:.60}")
    return whole


def exact_deliberation(store: Store, run: str) -> str:
    """A run by its id that is a deliberation; `last` is the newest of those, and not of all runs."""
    if run == "last":
        for entry in store.select(Query(kind="run.requested", newest_first=True, limit=MOST_LOOKED_AT)):
            if entry.data.get("mode") == MODE:
                return entry.run
        raise UsageError(f"there is no deliberation among the newest {MOST_LOOKED_AT:,} runs")
    found = exact_run(store, run)
    if not is_deliberation(store, found):
        raise UsageError(f"run {found} is no deliberation")
    return found


def exact_session(store: Store, name: str) -> tuple[str, str | None]:
    """The deliberation of this id; or the run in which the session of this id met, and that id."""
    session = as_recorded(name)
    run = run_within(session)
    if run is None:
        return exact_deliberation(store, name), None
    convened = store.select(Query(run=exact_run(store, run), kind="session.convened"))
    if not any(entry.data.get("session") == session for entry in convened):
        raise UsageError(f"run {run} has no session {session}")
    return run, session


def is_deliberation(store: Store, run: str) -> bool:
    return any(entry.data.get("mode") == MODE for entry in store.select(Query(run=run, kind="run.requested", limit=1)))


def runs_page(
    store: Store, *, before: int | None, limit: int, state: str | None, mode: str | None = None
) -> tuple[list[View], int | None]:
    """Runs, the newest first, and where the next page begins; None where nothing is left.

    With a state or mode a page may hold fewer runs than asked for: it looks at so many runs, and no further.
    """
    found: list[View] = []
    looked = 0
    for entry in requests(store, before):
        if len(found) >= limit or looked >= MOST_LOOKED_AT:
            return found, before
        before, looked = entry.seq, looked + 1
        if mode is not None and entry.data.get("mode") != mode:
            continue
        if state is not None and ended_otherwise(store, entry.run, state):
            continue
        view = listed_view(store, entry.run)
        if state is None or view["state"] == state:
            found.append(view)
    return found, None


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


def artifact(store: Store, run: str) -> dict[str, Any]:
    """The artifact of a deliberation that is over."""
    query = Query(run=run, kind="session.ended", newest_first=True, limit=1)
    ended = next(iter(store.select(query)), None)
    stored = read_body(store, ended, "artifact") if ended else None
    if stored is None:
        raise UsageError(f"deliberation {run} has no artifact: it is not over, or it was redacted")
    return dict(json.loads(stored.body))


def deliberation_metrics(store: Store, run: str) -> View:
    """The figures of a deliberation that is over."""
    return metrics_of(artifact(store, run))
