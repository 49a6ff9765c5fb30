"""The right to drive a run, kept as long as the work lasts, with an ear for whoever asks to cancel it; and to begin one."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.app.ids import is_run_id, new_run_id
from hansard.errors import Fenced, RunTaken, Unavailable, UsageError
from hansard.orchestration.progress import Progress, progress_of
from hansard.orchestration.watching import Ask, Watch, give_back, take
from hansard.record.reading import read_entries
from hansard.record.tree import check_held, lies_back
from hansard.store.base import Claim, Query, Store

PATIENCE_S = 20.0
"""Longer than the claim of somebody who died."""
LOOK_S = 0.1


@asynccontextmanager
async def claimed(
    store: Store, watch: Watch, run: str, cancel: asyncio.Event, ask: Ask | None = None
) -> AsyncIterator[tuple[Progress, Claim]]:
    """Hold the claim of a run, kept by `watch`, and how far it has come; `cancel` is set when somebody asks for it.

    Fenced when another process holds it. It is read behind the claim: whoever had it before may just have ended the run.
    `ask` records what is asked of it, once it is ours.
    """
    claim = await take(store, run)
    try:
        if ask is not None:
            await ask()
        progress = await asyncio.to_thread(_progress, store, run)
        if progress.cancel_asked is not None:
            cancel.set()
        with watch.over(claim, progress.seen, cancel.set):
            yield progress, claim
    finally:
        await give_back(store, claim)


def _progress(store: Store, run: str) -> Progress:
    entries = list(read_entries(store, Query(run=run)))
    progress = progress_of(run, entries)
    # What an earlier driver left may have lain there for long. To end a run nothing of it has to be believed.
    waited = progress.claims or (progress.requested is not None and lies_back(store, progress.requested))
    if waited and progress.cancel_asked is None:
        check_held(store, entries)
    return progress


@asynccontextmanager
async def beginning(store: Store, run: str | None) -> AsyncIterator[str]:
    """The id of a run that is put on the record in here: a new one, or the caller's, whom RunTaken tells that it is not new.

    Whoever does not know whether his request arrived can send it again under the same id. Where somebody is about to record
    that run, it is waited for: whoever has its claim may have died before he did.
    """
    if run is None:
        yield new_run_id()
        return
    if not is_run_id(run):
        raise UsageError(f"{run!r:.80} cannot be a run's id; it is a UUID, written in small letters")
    claim = await _to_begin(store, run)
    try:
        await asyncio.to_thread(_refuse_taken, store, run)
        yield run
    finally:
        await give_back(store, claim)


async def _to_begin(store: Store, run: str) -> Claim:
    """The claim of a run that is not on the record."""
    until = time.monotonic() + PATIENCE_S
    while True:
        await asyncio.to_thread(_refuse_taken, store, run)
        try:
            return await take(store, run)
        except Fenced as error:
            if time.monotonic() > until:
                said = f"somebody else has begun run {run} and not recorded it yet, or died before he did; send it again in a moment"
                raise Unavailable(said) from error
        await asyncio.sleep(LOOK_S)


def _refuse_taken(store: Store, run: str) -> None:
    if any(store.select(Query(run=run, limit=1))):
        raise RunTaken(run)
