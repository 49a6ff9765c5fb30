"""A worker: drives the runs of one ledger that nobody drives, until it is told to stop. It holds the claim `worker` meanwhile.

What it goes on with and what it starts anew is the same to it: the engine reads where a run stands from the record.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hansard.app.service import Hansard
from hansard.app.serving.seals import tell_of_seals
from hansard.errors import Fenced, HansardError, StoreError, Unavailable, first_of
from hansard.finishing import SHUTDOWN
from hansard.orchestration.ending import Ended
from hansard.orchestration.watching import LEASE_S, release, take
from hansard.store.base import Claim, Query, Store

CLAIM = "worker"
LOOK_S = 0.25
AGAIN_S = 3.0
"""After this time a run that another process holds is tried again: that process may have ended."""
GRACE_S = 1.0
"""A new run is left alone for this long: whoever submits in the foreground drives it himself."""

Tell = Callable[[str], None]


def is_alive(store: Store) -> bool:
    """Whether a worker holds this ledger."""
    try:
        # For no time at all: whoever asks must not be taken for a worker by others, nor keep one from starting.
        store.release(store.claim(CLAIM, 0.0))
    except Fenced:
        return True
    return False


def unfinished(store: Store) -> list[str]:
    """The runs that have not ended, or were asked for again since, the oldest first."""
    size = store.head().size
    left = dict.fromkeys(entry.run for entry in store.select(Query(kind="run.requested", before=size)))
    again = {entry.run: entry.seq for entry in store.select(Query(kind="run.retry_asked", before=size))}
    for entry in store.select(Query(kind="run.ended", before=size)):
        if entry.seq > again.get(entry.run, -1):
            left.pop(entry.run, None)
    return list(left)


@dataclass(slots=True, kw_only=True)
class _Due:
    """Runs that have not ended, with the time before which they are left alone."""

    runs: dict[str, float] = field(default_factory=dict)
    seen: int = -1

    def look(self, store: Store, now: float) -> None:
        """Take in what was recorded since the last look."""
        size = store.head().size
        if self.seen < 0:
            self.runs = dict.fromkeys(unfinished(store), now)
        else:
            for kind in ("run.requested", "run.resume_asked", "run.retry_asked"):
                for entry in store.select(Query(kind=kind, after=self.seen, before=size)):
                    self.runs.setdefault(entry.run, now + GRACE_S)
        self.seen = size - 1

    def take(self, now: float) -> list[str]:
        ready = [run for run, at in self.runs.items() if at <= now]
        for run in ready:
            del self.runs[run]
        return ready


class Worker:
    """Works on one open ledger. `tell` hears what happens, line by line."""

    def __init__(self, hansard: Hansard, *, most: int = 16, tell: Tell = lambda _: None) -> None:
        self._hansard, self._tell = hansard, tell
        self._slots = asyncio.Semaphore(most)
        self._due = _Due()
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._claim: Claim

    async def work(self) -> None:
        """Work until cancelled; then every run that is under way is interrupted in good order. Fenced when a worker is there,
        or has taken over from this one, which was held up or cut off from the ledger for longer than its lease.
        """
        store = self._hansard.store
        self._claim = await take(store, CLAIM)
        self._tell(f"working on {store.place}")
        # Whoever stays seals, and keeps the lease for it, also where nothing is ever recorded here.
        self._hansard.recorder.seal_soon()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep())
                group.create_task(tell_of_seals(self._hansard.recorder, self._tell_of_seal))
                try:
                    await self._look(group)
                finally:
                    for task in self._driving.values():
                        task.cancel(SHUTDOWN)
        except ExceptionGroup as errors:
            raise first_of(errors) from None
        finally:
            release(store, self._claim)

    def _tell_of_seal(self, event: str, why: str) -> None:
        self._tell(f"{event}: {why}" if why else event)

    async def _look(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        away = False
        while True:
            try:
                await asyncio.to_thread(self._due.look, self._hansard.store, loop.time())
            except StoreError as error:
                if not away:
                    self._tell(f"waiting for the ledger: {error}")
                # What could not be recorded meanwhile is left alone, and looked for once the ledger is back.
                away, self._due = True, _Due()
                await asyncio.sleep(AGAIN_S)
                continue
            away = False
            for run in self._due.take(loop.time()):
                if run in self._driving:
                    # It may be over, and whoever drove it not done yet, when it is asked for again.
                    self._due.runs[run] = loop.time() + AGAIN_S
                else:
                    self._driving[run] = group.create_task(self._drive(run))
            await asyncio.sleep(LOOK_S)

    async def _drive(self, run: str) -> None:
        try:
            while (ended := await self._in_turn(run)).state == "waiting":
                # Not in a slot: people take their time.
                await self._hansard.runs.waiting.decided(run)
            self._tell(f"{run} {ended.state} ({ended.reason})")
        except (Fenced, Unavailable) as error:
            if not isinstance(error, Fenced):
                self._tell(f"{run} waits for the ledger: {error}")
            self._due.runs[run] = asyncio.get_running_loop().time() + AGAIN_S
        except Exception as error:  # noqa: BLE001 - what is wrong with one run must not end the others
            # It stays on the record as it is.
            bug = not isinstance(error, HansardError)
            self._tell(f"{run} left alone: {f'{type(error).__name__}: ' if bug else ''}{error}")
        finally:
            self._driving.pop(run, None)

    async def _in_turn(self, run: str) -> Ended:
        async with self._slots:
            return await self._hansard.runs.drive(run)

    async def _keep(self) -> None:
        store = self._hansard.store
        while True:
            await asyncio.sleep(LEASE_S / 3)
            try:
                try:
                    await asyncio.to_thread(store.renew, self._claim, LEASE_S)
                except Fenced:
                    # Whoever only asked for a worker, while this one was held up, has not stayed.
                    self._claim = await take(store, CLAIM)
            except Fenced as error:
                raise Fenced(f"another worker has taken {store.place}, and this one stops: {error}") from None
            except StoreError as error:
                # There is time for two more tries; and whoever takes the claim after that is seen here.
                self._tell(f"the lease was not renewed: {error}")
