"""Runs that wait for people: each is told when something was decided, whoever wrote it down; one look at the log is for all."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hansard.orchestration.news import News
from hansard.orchestration.progress import Progress, progress_of
from hansard.record.reading import read_entries
from hansard.store.base import Query, Store

LOOK_S = 0.5
MOVES = ("gate.decided", "run.cancel_asked", "run.ended", "run.retry_asked")
"""What lets a run go on, or ends its waiting."""


class Waiting:
    """The runs over one store that wait here."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # A gate that another driver opens meanwhile may have a deadline.
        self._news = News(store, *MOVES, "gate.opened")
        self._ears = 0
        self._deadlines: dict[asyncio.Future[None], int] = {}
        self._looking: asyncio.Task[None] | None = None

    async def decided(self, run: str) -> None:
        """Wait until something was decided at a gate of this run, a deadline or the run is over, or somebody wants it cancelled
        or a task of it done again."""
        progress, seen, moved = await asyncio.to_thread(self._read, run)
        if moved:
            return
        gates = progress.gates.values()
        until_us = min(
            (gate.deadline_us for gate in gates if gate.closed is None and gate.deadline_us is not None), default=None
        )
        if _is_over(until_us):
            return
        with self._ear(run, seen, until_us) as (told, looking):
            await asyncio.wait([told, looking], return_when=asyncio.FIRST_COMPLETED)
            if looking.done():
                looking.result()

    async def may_go_on(self, run: str) -> bool:
        """Whether there is something that the last driver of a run may not have seen."""
        return (await asyncio.to_thread(self._read, run))[2]

    def _read(self, run: str) -> tuple[Progress, int, bool]:
        """How far a run has come, the entry up to which that is known, and whether it may go on already.

        Whatever came after the last driver took the run may have escaped it: he looks again, and once too often does no harm.
        """
        # The log's end and not the run's: a run may have waited for days, and nobody wants to read what others did meanwhile.
        newest = self._store.head().size - 1
        entries = list(read_entries(self._store, Query(run=run)))
        progress = progress_of(run, entries)
        after = progress.claims[-1] if progress.claims else -1
        return progress, max(newest, progress.seen), any(entry.seq > after and entry.kind in MOVES for entry in entries)

    @contextmanager
    def _ear(
        self, run: str, since: int, until_us: int | None
    ) -> "Iterator[tuple[asyncio.Future[None], asyncio.Task[None]]]":
        """What is done when there is news of a run or its time is over, and what is done, with its error, when there can be none."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def tell() -> None:
            if not told.done():
                told.set_result(None)

        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="hansard-waiting")
        looking = self._looking
        self._ears += 1
        if until_us is not None:
            self._deadlines[told] = until_us
        try:
            with self._news.of(run, since, tell):
                yield told, looking
        finally:
            self._ears -= 1
            self._deadlines.pop(told, None)
            if not self._ears:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        while True:
            await self._news.look()
            # By the clock on the wall, which may be set, so all are looked at now and then, and none has a timer of its own.
            for told, until_us in self._deadlines.items():
                if _is_over(until_us) and not told.done():
                    told.set_result(None)
            await asyncio.sleep(LOOK_S)


def _is_over(until_us: int | None) -> bool:
    return until_us is not None and time.time_ns() // 1_000 >= until_us
