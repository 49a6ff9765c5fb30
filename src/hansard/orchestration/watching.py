"""One look for all runs that are driven here: keeps their claims, and notices when somebody asks to cancel one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from hansard.errors import HansardError, StoreError
from hansard.finishing import to_the_end
from hansard.orchestration.news import News
from hansard.record.threads import begun
from hansard.store.base import Claim, Store

LEASE_S = 15.0
LOOK_S = 0.5
AT_ONCE = 2

P = ParamSpec("P")
T = TypeVar("T")
Ask = Callable[[], Awaitable[None]]
"""Puts it on the record what somebody asks of a run."""


@dataclass(slots=True, kw_only=True)
class _Watched:
    claim: Claim
    renewed: float


class Watch:
    """Watches runs over one store, as long as there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watched: dict[str, _Watched] = {}
        self._asked = News(store, "run.cancel_asked")
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def over(self, claim: Claim, since: int, cancel: Callable[[], None]) -> Iterator[None]:
        """Watch a run while the block runs; `since` is the last entry of it that is known."""
        # The first look renews it: between the claim and this the whole record of the run was read.
        mine = self._watched[claim.name] = _Watched(claim=claim, renewed=-LEASE_S)
        if self._task is None:
            self._task = asyncio.create_task(self._work(), name="hansard-watch")
        try:
            # Behind what was folded, and not behind the claim: somebody may have asked in between.
            with self._asked.of(claim.name, since, cancel):
                yield
        finally:
            if self._watched.get(claim.name) is mine:
                del self._watched[claim.name]
            if not self._watched and self._task:
                self._task.cancel()
                self._task = None

    async def _work(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            now = asyncio.get_running_loop().time()
            due = [each for each in self._watched.values() if now - each.renewed > LEASE_S / 3]
            if due:
                # A commit is made anyway: those that would be due soon go with it, so that all come to one.
                due = [each for each in self._watched.values() if now - each.renewed > LEASE_S / 6]
            for each in due:
                each.renewed = now
            with suppress(StoreError):
                if due:
                    # Whoever is fenced off hears of it as soon as it records something.
                    await behind_writers(self._store.renew_all, [each.claim for each in due], LEASE_S)
                await self._asked.look()


_APART: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()


@contextmanager
def apart() -> Iterator[None]:
    """As long as this lasts, claims are taken, kept and given back in threads that nobody reads with: whoever writes in
    another process may take minutes (a redaction does), and reading goes on meanwhile."""
    loop, threads = asyncio.get_running_loop(), begun(AT_ONCE, "hansard-claims")
    _APART[loop] = threads
    try:
        yield
    finally:
        if _APART.get(loop) is threads:
            del _APART[loop]
        threads.shutdown(wait=False)


async def behind_writers(act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do what a claim needs of a store, beside the loop."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_APART.get(loop), partial(act, *args, **kwargs))


async def take(store: Store, name: str) -> Claim:
    """Take the claim of a run, or another one. Whoever is cancelled meanwhile holds nothing. Fenced when somebody else does."""
    taking = asyncio.ensure_future(behind_writers(store.claim, name, LEASE_S))
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        await to_the_end(_not_wanted(store, taking))
        raise


async def _not_wanted(store: Store, taking: "asyncio.Future[Claim]") -> None:
    """The store cannot be called back: what it gives nobody waits for any more."""
    with suppress(HansardError):
        await behind_writers(release, store, await taking)


async def give_back(store: Store, claim: Claim) -> None:
    """Give a claim back beside the loop, however often whoever does so is cancelled meanwhile."""
    await to_the_end(behind_writers(release, store, claim))


def release(store: Store, claim: Claim) -> None:
    """Give a claim back."""
    # Fenced, or the store is gone: then nothing is ours to give back, and the first error says more.
    with suppress(HansardError):
        store.release(claim)
