"""One look at the log for all who wait for something of a run. Whoever writes it may be another process, so the record is
where it is seen."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hansard.record.reading import newly
from hansard.store.base import Store


class News:
    """Who waits for entries of these kinds, and for which run's."""

    def __init__(self, store: Store, *kinds: str) -> None:
        self._store, self._kinds = store, kinds
        self._waiting: dict[str, list[tuple[int, Callable[[], None]]]] = {}
        self._seen = -1

    @contextmanager
    def of(self, run: str, since: int, tell: Callable[[], None]) -> Iterator[None]:
        """While the block runs, `tell` is called at each look that finds something of the run behind `since`, the last entry
        that the caller knows."""
        self._seen = min(self._seen, since) if self._waiting else since
        here, mine = self._waiting.setdefault(run, []), (since, tell)
        here.append(mine)
        try:
            yield
        finally:
            here.remove(mine)
            if not here:
                del self._waiting[run]

    async def look(self) -> None:
        """Read what is new, however many wait for it; a log that has not grown is not searched."""
        since = self._seen
        found, newest = await asyncio.to_thread(self._read, since)
        for run, seq in found.items():
            for known, tell in tuple(self._waiting.get(run, ())):
                # Somebody else may have made the look begin earlier: what this one knows already was dealt with.
                if seq > known:
                    tell()
        if self._seen == since:
            self._seen = newest

    def _read(self, since: int) -> tuple[dict[str, int], int]:
        """The newest entry of each run, and up to where that is known, so that no look costs more."""
        newest = self._store.head().size - 1
        found: dict[str, int] = {}
        for entry in newly(self._store, self._kinds, since, newest + 1) if newest > since else ():
            found[entry.run] = max(entry.seq, found.get(entry.run, -1))
        return found, newest
