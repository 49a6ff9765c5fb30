"""One look for all runs that are driven here: keeps their claims, and notices when somebody asks to cancel one.

Whoever asks may be another process, so the record is where it is seen.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from hansard.errors import Fenced, HansardError, StoreError
from hansard.providers.programs.process import to_the_end
from hansard.store.base import Claim, Query, Store

LEASE_S = 15.0
LOOK_S = 0.5


@dataclass(slots=True, kw_only=True)
class _Watched:
    claim: Claim
    since: int
    cancel: Callable[[], None]
    renewed: float


class Watch:
    """Watches runs over one store, as long as there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, _Watched] = {}
        self._seen = -1
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, claim: Claim, since: int, cancel: Callable[[], None]) -> Iterator[None]:
        """Watch a run while the block runs; `since` is the last entry of it that is known."""
        # Behind what was folded, and not behind the claim: somebody may have asked in between.
        self._seen = min(self._seen, since) if self._watched else since
        now = asyncio.get_running_loop().time()
        self._watched[claim.name] = _Watched(claim=claim, since=since, cancel=cancel, renewed=now)
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="hansard-watch")
        try:
            yield
        finally:
            del self._watched[claim.name]
            if not self._watched:
                self._task.cancel()
                self._task = None

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now, since = asyncio.get_running_loop().time(), self._seen
            due = [each for each in self._watched.values() if now - each.renewed > LEASE_S / 3]
            for each in due:
                each.renewed = now
            with suppress(StoreError):
                asked, newest = await asyncio.to_thread(self._look, since, [each.claim for each in due])
                for run, seq in asked.items():
                    # Another run may have made the look begin earlier: what this one knows already was dealt with.
                    if (found := self._watched.get(run)) is not None and seq > found.since:
                        found.cancel()
                if self._seen == since:
                    self._seen = newest

    def _look(self, since: int, due: Sequence[Claim]) -> tuple[dict[str, int], int]:
        """Which runs somebody asks to cancel behind this entry, and where; and up to where that is known, so that no look
        costs more.
        """
        for claim in due:
            # Fenced off: its driver hears of it as soon as it records something.
            with suppress(Fenced):
                self._store.renew(claim, LEASE_S)
        newest = self._store.head().size - 1
        asked = self._store.select(Query(kind="run.cancel_asked", after=since))
        return {entry.run: entry.seq for entry in asked}, newest


async def take(store: Store, name: str) -> Claim:
    """Take the claim of a run, or another one. Whoever is cancelled meanwhile holds nothing. Fenced when somebody else does."""
    taking = asyncio.ensure_future(asyncio.to_thread(store.claim, name, LEASE_S))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await to_the_end(_not_wanted(store, taking))
        raise


async def _not_wanted(store: Store, taking: "asyncio.Future[Claim]") -> None:
    """The store cannot be called back: what it gives nobody waits for any more."""
    with suppress(HansardError):
        await asyncio.to_thread(release, store, await taking)


async def give_back(store: Store, claim: Claim) -> None:
    """Give a claim back beside the loop, however often whoever does so is cancelled meanwhile."""
    await to_the_end(asyncio.to_thread(release, store, claim))


def release(store: Store, claim: Claim) -> None:
    """Give a claim back."""
    # Fenced, or the store is gone: then nothing is ours to give back, and the first error says more.
    with suppress(HansardError):
        store.release(claim)
