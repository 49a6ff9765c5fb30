"""The right to drive a run, kept as long as the work lasts, with an ear for whoever asks to cancel it; and to begin one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hansard.app.ids import new_run_id
from hansard.errors import Fenced, Taken
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


@asynccontextmanager
async def beginning(store: Store, run: str | None) -> AsyncIterator[str]:
    """The id of a run that is put on the record in here: a new one, or the caller's, whom Taken tells that it is not new.

    Whoever does not know whether his request arrived can send it again under the same id.
    """
    if run is None:
        yield new_run_id()
        return
    await asyncio.to_thread(_refuse_taken, store, run)
    try:
        claim = await take(store, run)
    except Fenced as error:
        raise Taken(run) from error
    try:
        await asyncio.to_thread(_refuse_taken, store, run)
        yield run
    finally:
        await give_back(store, claim)


def _refuse_taken(store: Store, run: str) -> None:
    if any(store.select(Query(run=run, limit=1))):
        raise Taken(run)
