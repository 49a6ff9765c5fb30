"""One look at the store for everybody who follows: a single thread waits for new entries and wakes whoever asked for their run.

A follower that reads too slowly loses nothing: its queue is dropped, and it reads on from the record.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

from hansard.app.views import View, entry_view
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.record.reading import newly
from hansard.record.threads import begun
from hansard.store.base import Query, Store

WAIT_S = 0.25
GATHER_S = 0.02
MOST_QUEUED = 256
PAGE = 1_000
A_TURN = 50
OVER, GOES_ON = "run.ended", "run.retry_asked"


class Frame(NamedTuple):
    """One entry as it goes to every follower of its run, made once."""

    seq: int
    kind: str
    data: bytes


class Subscription:
    """What one follower has yet to read."""

    def __init__(self, followers: "dict[str, set[Subscription]]", run: str) -> None:
        self._followers, self._run = followers, run
        self._queue: deque[Frame] = deque()
        self._woken = asyncio.Event()
        self.behind = False
        """Frames were dropped: read the record from the last one that was seen."""
        self.closed = False

    def __enter__(self) -> Self:
        self._followers.setdefault(self._run, set()).add(self)
        return self

    def __exit__(self, *_: object) -> None:
        here = self._followers.get(self._run, set())
        here.discard(self)
        if not here:
            self._followers.pop(self._run, None)

    def put(self, frame: Frame) -> None:
        if len(self._queue) >= MOST_QUEUED:
            self._queue.clear()
            self.behind = True
        else:
            self._queue.append(frame)
        self._woken.set()

    def close(self) -> None:
        self.closed = True
        self._woken.set()

    async def wait(self, timeout_s: float) -> list[Frame]:
        """What has come; nothing when the time is over, or somebody closed this."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        except TimeoutError:
            return []
        self._woken.clear()
        frames = list(self._queue)
        self._queue.clear()
        return frames


class Follower:
    """Follows one store. `work` runs until it is cancelled."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._followers: dict[str, set[Subscription]] = {}
        self._listeners: dict[bytes, list[Callable[[Entry], None]]] = {}
        self._seen = self._told = store.head().size - 1
        self._moved = asyncio.Event()
        self.closed = False

    @property
    def count(self) -> int:
        """How many follow."""
        return sum(map(len, self._followers.values()))

    def listen(self, listener: Callable[[Entry], None], *kinds: str) -> None:
        """Hear of every entry of these kinds that is written from now on, whoever writes it."""
        for kind in kinds:
            self._listeners.setdefault(kind.encode(), []).append(listener)

    def follow(self, run: str) -> Subscription:
        """A subscription to the entries of a run; use it as a context manager."""
        made = Subscription(self._followers, run)
        if self.closed:
            made.close()
        return made

    def close(self) -> None:
        """Send everybody home."""
        self.closed = True
        for here in self._followers.values():
            for each in here:
                each.close()

    async def caught_up(self, within_s: float) -> None:
        """Return when everything that is recorded was told, or the time is over."""
        size = await asyncio.to_thread(lambda: self._store.head().size)
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._told < size - 1:
                    self._moved.clear()
                    await self._moved.wait()

    async def work(self) -> None:
        loop = asyncio.get_running_loop()
        # A thread of its own: waiting must not use up those that everybody else reads with.
        with begun(1, "hansard-follow") as thread:
            while True:
                for number, entry in enumerate(await loop.run_in_executor(thread, self._news), 1):
                    self._tell(entry)
                    if number % A_TURN == 0:
                        await asyncio.sleep(0)
                self._told = self._seen
                self._moved.set()

    def _news(self) -> list[Entry]:
        """What is new and somebody waits for."""
        if not self._followers:
            # Nobody watches: what listens can wait until a few commits have come together.
            time.sleep(GATHER_S)
        size = self._store.wait(self._seen + 1, WAIT_S)
        if size <= self._seen + 1:
            return []
        size = min(size, self._seen + 1 + PAGE)
        # Asked now and not before the wait: who begins to follow from here on reads the record up to this size himself.
        found = self._watched(size) if self._followers else self._listened(size)
        self._seen = size - 1
        return found

    def _listened(self, size: int) -> list[Entry]:
        """The new entries of the kinds that are listened for, in their order."""
        kinds = map(bytes.decode, tuple(self._listeners))
        return sorted(newly(self._store, kinds, self._seen, size), key=lambda each: each.seq)

    def _watched(self, size: int) -> list[Entry]:
        """The new entries that somebody follows or listens for. One that cannot be read is the verifier's to tell of."""
        found = []
        for line in self._store.lines(self._seen + 1, size):
            if (
                _member(line, b'"run":"').decode("utf-8", "replace") in self._followers
                or _member(line, b'"kind":"') in self._listeners
            ):
                with suppress(Malformed):
                    found.append(read(line))
        return found

    def _tell(self, entry: Entry) -> None:
        if here := self._followers.get(entry.run):
            frame = frame_of(entry_view(entry))
            for each in tuple(here):
                each.put(frame)
        for listener in self._listeners.get(entry.kind.encode(), ()):
            listener(entry)


def _member(line: bytes, name: bytes) -> bytes:
    """A text member of an entry, without reading the whole: in canonical form kind and run stand behind everything that is free."""
    at = line.rfind(name) + len(name)
    return line[at : line.find(b'"', at)]


def frame_of(view: View) -> Frame:
    """An entry as a server-sent event (WHATWG HTML, 9.2): its id is the seq, so that a reader can come back to it."""
    data = json.dumps(view, ensure_ascii=False, separators=(",", ":"))
    return Frame(view["seq"], view["kind"], f"id: {view['seq']}\nevent: {view['kind']}\ndata: {data}\n\n".encode())


def frames_after(store: Store, run: str, after: int, limit: int) -> list[Frame]:
    """The next entries of a run from the record."""
    return [frame_of(entry_view(entry)) for entry in store.select(Query(run=run, after=after, limit=limit))]


async def until_over(store: Store, run: str, within_s: float) -> None:
    """Return when a run is over, whoever drives it, or the time is."""
    ends = time.monotonic() + within_s
    while time.monotonic() < ends:
        if await asyncio.to_thread(over_at, store, run) is not None:
            return
        await asyncio.sleep(WAIT_S)


def over_at(store: Store, run: str) -> int | None:
    """The entry that ended a run; None where it goes on, or was taken up again."""
    ended = next(iter(store.select(Query(run=run, kind=OVER, newest_first=True, limit=1))), None)
    # Behind the end alone: a run is long, and most were never taken up again.
    again = ended and next(iter(store.select(Query(run=run, kind=GOES_ON, after=ended.seq, limit=1))), None)
    return ended.seq if ended and not again else None
