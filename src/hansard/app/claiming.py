"""The right to drive a run, kept as long as the work lasts, with an ear for whoever asks to cancel it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.orchestration.progress import Progress, progress_of
from hansard.orchestration.watching import Watch, give_back, take
from hansard.record.reading import read_entries
from hansard.store.base import Claim, Query, Store


@asynccontextmanager
async def claimed(store: Store, run: str, cancel: asyncio.Event) -> AsyncIterator[tuple[Progress, Claim]]:
    """Hold the claim of a run, and how far it has come; `cancel` is set when somebody asks for it.

    Fenced when another process holds it. It is read behind the claim: whoever had it before may just have ended the run.
    """
    claim = await take(store, run)
    try:
        progress = await asyncio.to_thread(lambda: progress_of(run, read_entries(store, Query(run=run))))
        if progress.cancel_asked is not None:
            cancel.set()
        with Watch(store).over(claim, progress.seen, cancel.set):
            yield progress, claim
    finally:
        await give_back(store, claim)
