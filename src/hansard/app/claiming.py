"""The right to drive a run, kept as long as the work lasts, with an ear for whoever asks to cancel it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.orchestration.progress import Progress
from hansard.orchestration.watching import Watch, release, take
from hansard.store.base import Claim, Store


@asynccontextmanager
async def claimed(store: Store, progress: Progress, cancel: asyncio.Event) -> AsyncIterator[Claim]:
    """Hold the claim of a run; `cancel` is set when somebody asks for it. Fenced when another process holds it."""
    claim = await take(store, progress.run)
    if progress.cancel_asked is not None:
        cancel.set()
    try:
        with Watch(store).over(claim, progress.seen, cancel.set):
            yield claim
    finally:
        await asyncio.to_thread(release, store, claim)
