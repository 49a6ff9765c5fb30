"""The lines of one file, read through their index. Knows entries, no bodies and no writer's duties.

The index only says where to look: every line is read again from the file, and asked again whether it matches.
"""

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from hansard.errors import StoreError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.form import read
from hansard.ledger.merkle import block_root, leaf_hash
from hansard.store.base import Head, Placed, Query, repair_of
from hansard.store.jsonl.files import CHUNK, LF
from hansard.store.jsonl.files import lines_from as read_lines
from hansard.store.jsonl.index import Index, Mark
from hansard.store.jsonl.scan import agrees, scan
from hansard.store.sequence import Sequence

PAGE = 512
MOST_NEW = 4096
"""How many lines the index may be behind while nobody reads through it."""
# The end of a line of our own: [E2] and [E4] fix everything behind `data`, and how long it can be.
_NAMES = re.compile(rb'"kind":"([a-z_.]+)","prev":"[0-9a-f]{64}","run":"[A-Za-z0-9_-]*","seq":\d+,"ts":\d+,"v":1}\Z')
_LONGEST_END = 400

_New = tuple[int, int, bytes, str, tuple[int, ...]]
"""A line that the index does not know yet: its seq, where it lies, itself, its run, its causes."""


class LineLog:
    """The log as far as it was read; safe between threads. `fault` says where it stops holding together, if it does."""

    _index: Index

    def __init__(self, fd: int, index: Path, place: str, *, writing: bool) -> None:
        self._fd = fd
        self._index_path = index
        self._place = place
        self._writing = writing
        self._lock = threading.RLock()
        self._closed = False
        self._new: list[_New] = []
        self._nodes: list[tuple[int, int, bytes]] = []
        self._bytes = self._at = 0
        self.fault: str | None = None
        try:
            self._load()
        except sqlite3.Error as error:
            raise StoreError(f"no index can be made for {place}: {error}; make space and open it again") from error

    @property
    def at(self) -> int:
        """The byte behind the last line."""
        return self._at

    @property
    def sequence(self) -> Sequence:
        return self._sequence

    def head(self) -> Head:
        with self._reading(through_index=False):
            return self._sequence.head()

    def size(self) -> int:
        with self._reading(through_index=False):
            return self._sequence.size

    def take(self, rows: Items[Placed], nodes: list[tuple[int, int, bytes]], sequence: Sequence) -> None:
        """Go on to what was just written behind the last line."""
        with self._lock:
            at = self._at
            for seq, _, _, line, causes, draft in rows:
                self._new.append((seq, at, line, draft[0], causes))
                at += len(line) + 1
            self._nodes += nodes
            # The place comes last: an interruption before it is noticed by whoever compares it with the file.
            self._sequence = sequence
            self._at = at
            if len(self._new) >= MOST_NEW:
                # The lines are written, the index is derived: what ails it is told to whoever reads through it.
                with suppress(sqlite3.Error, OSError):
                    self._flush()

    def lines(self, start: int, stop: int | None) -> Iterator[bytes]:
        at = max(start, 0)
        while True:
            with self._reading():
                end = self._sequence.size if stop is None else min(stop, self._sequence.size)
                if at >= end:
                    return
                start, length = self._place_of(at)
                self._check_seq(at, self._line(start, length))
                # Whatever the index knows is shorter: the reader of a whole log stops before such a line.
                found = read_lines(self._fd, start, self._at, 2 * CHUNK)
                page = [line for _, line in islice(found, min(PAGE, end - at))]
            yield from page
            at += len(page)

    def entry(self, seq: int) -> Entry:
        with self._reading():
            if not 0 <= seq < self._sequence.size:
                raise UsageError(f"no entry {seq} in {self._place}; the log ends at {self._sequence.size - 1}")
            line = self._line(*self._place_of(seq))
        return self._parsed(seq, line)

    def select(self, query: Query) -> Iterator[Entry]:
        size = self.size()
        low = max(query.after + 1, 0 if query.from_ts is None else self._first_at(query.from_ts, size), 0)
        high = size if query.before is None else min(query.before, size)
        if query.to_ts is not None:
            high = min(high, self._first_at(query.to_ts, size))
        names, left = query.names, size if query.limit is None else min(query.limit, size)
        while left > 0 and low < high:
            with self._reading():
                limit = min(PAGE, left)
                places = self._index.places(low, high, names, newest_first=query.newest_first, limit=limit)
                page = [(seq, self._line(at, length)) for seq, at, length in places]
            for entry in (self._parsed(seq, line) for seq, line in page):
                if all(getattr(entry, name) == value for name, value in names.items()):
                    yield entry
                    left -= 1
            if len(page) < limit:
                return
            low, high = (low, page[-1][0]) if query.newest_first else (page[-1][0] + 1, high)

    def count(self, run: str) -> int:
        with self._reading():
            return self._index.count(run)

    def effects(self, seq: int) -> list[int]:
        with self._reading():
            return self._index.effects(seq) if 0 <= seq < self._sequence.size else []

    def node(self, level: int, index: int) -> bytes:
        size = self.size()
        # The first comparison keeps absurd levels from being shifted.
        if index < 0 or level >= size.bit_length() or (index + 1) << level > size:
            raise StoreError(f"{self._place} has {size} entries and no complete node of level {level} at {index}")
        base = level - level % 8
        start, stop = index << (level - base), (index + 1) << (level - base)
        if base:
            with self._reading():
                hashes = self._index.nodes(base, start, stop)
        else:
            hashes = [leaf_hash(line) for line in self.lines(start, stop)]
        if len(hashes) != stop - start:
            raise StoreError(f"the index of {self._place} lacks the nodes of level {level} at {index}; {self._mend}")
        return block_root(hashes)

    def mend(self) -> int:
        """Build the index anew when it is not what the lines give; in how many rows it was not."""
        with self._reading():
            fresh = Index.private()
            try:
                scan(self._fd, fresh)
                changed = fresh.differences(self._index_path) if self._index.keeping else 1
            finally:
                fresh.close()
            if changed:
                self._index.close()
                self._index = Index.new(self._index_path)
                scan(self._fd, self._index)
            return changed

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            with suppress(sqlite3.Error):
                if self._new:
                    self._keep()
            self._index.close()

    def _load(self) -> None:
        """Take the index where it can be trusted, and read on from where it ends."""
        index = self._believed(Index.kept(self._index_path) if self._writing else Index.over(self._index_path))
        self._index = index or self._fresh()
        self._new, self._nodes = [], []
        self._bytes = os.fstat(self._fd).st_size
        try:
            self.fault = scan(self._fd, self._index)
        except sqlite3.Error:
            if not self._index.keeping:
                raise
            self.fault = self._lay_over()
        if self.fault:
            self._lay_over(past_faults=True)
        self._sequence, self._at = self._index.reach

    def _fresh(self) -> Index:
        # Without space for a kept index a private one serves until the next opening.
        with suppress(sqlite3.Error, OSError):
            if self._writing:
                return Index.new(self._index_path)
        return Index.private()

    def _believed(self, index: Index | None) -> Index | None:
        if index and not agrees(self._fd, index):
            index.close()
            return None
        return index

    def _lay_over(self, *, past_faults: bool = False, end: int | None = None) -> str | None:
        """Go on with a private index over the kept one: behind a fault nothing is kept, and on a full disk nothing can be."""
        self._index.close()
        self._index = self._believed(Index.over(self._index_path)) or Index.private()
        return scan(self._fd, self._index, past_faults=past_faults, end=end)

    @contextmanager
    def _reading(self, *, through_index: bool = True) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise StoreError(f"{self._place} is closed")
            try:
                if self._new and through_index:
                    self._flush()
                if not self._writing:
                    if through_index and not self._index.is_readable():
                        self._index.close()
                        self._load()
                    self._follow()
                yield
            except sqlite3.Error as error:
                raise StoreError(f"the index of {self._place} cannot be used ({error}); {self._mend}") from error
            except OSError as error:
                raise StoreError(f"cannot read {self._place}: {error.strerror}") from error

    def _follow(self) -> None:
        """See what the writer did since the last look; what it took back after a failed write is read anew."""
        now = os.fstat(self._fd).st_size
        if now == self._bytes:
            return
        if self.fault or now < self._at:
            self._index.close()
            self._load()
            return
        self._bytes = now
        fault = scan(self._fd, self._index)
        self._sequence, self._at = self._index.reach
        if fault:
            self._index.close()
            self._load()

    def _flush(self) -> None:
        try:
            self._keep()
        except sqlite3.Error:
            if not self._index.keeping:
                raise
            # Not a byte past what is known to be written: another thread may be in the middle of an append.
            self._lay_over(end=self._at)
            self._new, self._nodes = [], []

    def _keep(self) -> None:
        self._index.add([_mark(*each) for each in self._new], self._nodes, self._sequence, self._at)
        self._new, self._nodes = [], []

    @property
    def _mend(self) -> str:
        return f"delete the index, or {repair_of(self._place)}"

    def _place_of(self, seq: int) -> tuple[int, int]:
        place = self._index.place(seq)
        if place is None:
            raise StoreError(f"entry {seq} of {self._place} is not in its index; {self._mend}")
        return place

    def _line(self, at: int, length: int) -> bytes:
        sane = type(at) is type(length) is int and at >= 0 and 0 <= length <= CHUNK
        data = os.pread(self._fd, length + 1, at) if sane else b""
        if not sane or len(data) != length + 1 or data.find(LF) != length:
            raise StoreError(
                f"no line of {length} bytes lies at byte {at} of {self._place}, where the index says; {self._mend}"
            )
        return data[:-1]

    def _parsed(self, seq: int, line: bytes) -> Entry:
        try:
            entry = read(line)
        except Malformed as error:
            raise StoreError(f"entry {seq} of {self._place} is broken: {error}") from error
        self._check_seq(seq, line)
        return entry

    def _check_seq(self, seq: int, line: bytes) -> None:
        # In a log that is broken the lines may say anything, and are shown as they stand.
        if b'"seq":%d,"ts":' % seq not in line[-_LONGEST_END:] and not self.fault:
            raise StoreError(f"the index of {self._place} gives another entry for {seq}; {self._mend}")

    def _first_at(self, ts: int, size: int) -> int:
        """The first seq at or after a time; ts never falls, so this is a binary search and needs no index."""
        low, high = 0, size
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle).ts < ts:
                low = middle + 1
            else:
                high = middle
        return low


def _mark(seq: int, at: int, line: bytes, run: str, causes: tuple[int, ...]) -> Mark:
    end = _NAMES.search(line, max(len(line) - _LONGEST_END, 0))
    kind = end[1].decode() if end else None
    actor = line[10 : line.index(b'"', 10)].decode()
    return Mark(seq, at, len(line), run, kind, actor, causes)
