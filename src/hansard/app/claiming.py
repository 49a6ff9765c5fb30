"""The right to drive a run, kept as long as the work lasts, with an ear for whoever asks to cancel it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.errors import HansardError
from hansard.orchestration.progress import Progress
from hansard.store.base import Claim, Query, Store

LEASE_S, LOOK_S = 15.0, 0.5


@asynccontextmanager
async def claimed(store: Store, progress: Progress, cancel: asyncio.Event) -> AsyncIterator[Claim]:
    """Hold the claim of a run; `cancel` is set when somebody asks for it. Fenced when another process holds it."""
    claim = await asyncio.to_thread(store.claim, progress.run, LEASE_S)
    keeping = asyncio.ensure_future(_keep(store, claim, progress, cancel))
    try:
        yield claim
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await asyncio.to_thread(_release, store, claim)


async def _keep(store: Store, claim: Claim, progress: Progress, cancel: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    renewed = loop.time()
    if progress.cancel_asked is not None:
        cancel.set()
    asked = Query(run=progress.run, kind="run.cancel_asked", after=progress.seen, limit=1)
    while True:
        await asyncio.sleep(LOOK_S)
        if await asyncio.to_thread(lambda: list(store.select(asked))):
            cancel.set()
        if loop.time() - renewed > LEASE_S / 3:
            renewed = loop.time()
            await asyncio.to_thread(store.renew, claim, LEASE_S)


def _release(store: Store, claim: Claim) -> None:
    try:
        store.release(claim)
    except HansardError:
        # Fenced, or the store is gone: then nothing is ours to give back, and the first error says more.
        return
