"""A ledger in memory, for tests, rehearsals and re-runs. It forgets everything when the process ends."""

import threading
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Items
from contextlib import suppress
from functools import lru_cache
from itertools import islice

from hansard.errors import Fenced, HansardError, StoreError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.events import tombstone_of
from hansard.ledger.form import read
from hansard.ledger.merkle import Completed, node_hash
from hansard.store.base import (
    Claim,
    Draft,
    Group,
    Head,
    Outcome,
    Part,
    Placed,
    Query,
    Seal,
    StoredBody,
    StoredCheckpoint,
)
from hansard.store.holder import Holder
from hansard.store.sequence import Sequence, place_all


class MemoryStore:
    """All entries in lists; one lock makes it safe between threads."""

    place = "memory:"
    broken: str | None = None

    def __init__(self, genesis: Draft, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._sequence = _Unhurried()
        self._lines: list[bytes] = []
        # Drivers read the entries of their run over and over, and a line is what it was.
        self._parsed = lru_cache(maxsize=4096)(read)
        self._leaves: list[bytes] = []
        self._runs: dict[str, list[int]] = defaultdict(list)
        self._effects: dict[int, list[int]] = defaultdict(list)
        self._parts: list[tuple[Part, ...]] = []
        self._nodes: dict[tuple[int, int], bytes] = {}
        self._checkpoints: list[StoredCheckpoint] = []
        self._claims: dict[str, tuple[int, str, float]] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self.busy = False
        self.inline: Callable[[Draft], Placed] | None = self._put
        self._put(genesis)

    def append(self, groups: Items[Group], seal: Seal | None = None) -> list[Outcome]:
        with self._lock:
            now_us = int(self._clock() * 1_000_000)
            sealing = seal if seal and seal.epoch == self.epoch("seal") else None
            # Only a signer can fail after the places are given; without one there is nothing to go back to.
            before = self._sequence.copy() if sealing else self._sequence
            told, rows, _ = place_all(self._sequence, groups, now_us, self.epoch)
            if sealing and rows:
                self._seal(sealing, before)
            for row in rows:
                self._keep(row)
            if self._waiting:
                self._changed.notify_all()
            return told

    def _put(self, draft: Draft) -> Placed:
        with self._lock:
            now_us = int(self._clock() * 1_000_000)
            if now_us < self._sequence.ts:
                [outcome] = self.append(((draft,),))
                if isinstance(outcome, HansardError):
                    raise outcome
                return outcome[0]
            row, _ = self._sequence.place_one(draft, now_us, self.epoch)
            self._keep(row)
            if self._waiting:
                self._changed.notify_all()
            return row

    def head(self) -> Head:
        with self._lock:
            self._settle()
            return self._sequence.head()

    def node(self, level: int, index: int) -> bytes:
        if index < 0 or (index + 1) << level > len(self._lines):
            raise StoreError(f"no complete node of level {level} at {index} in a log of {len(self._lines)}")
        with self._lock:
            self._settle()
            return self._node(level, index)

    def lines(self, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        yield from self._lines[start:stop]

    def entry(self, seq: int) -> Entry:
        if not 0 <= seq < len(self._lines):
            raise UsageError(f"no entry {seq}; the log ends at {len(self._lines) - 1}")
        return self._parsed(self._lines[seq])

    def select(self, query: Query) -> Iterator[Entry]:
        stop = len(self._lines) if query.before is None else min(query.before, len(self._lines))
        if query.run is not None:
            own = self._runs.get(query.run, [])
            seqs: Items[int] = own[bisect_right(own, query.after) : bisect_left(own, stop)]
        else:
            seqs = range(max(query.after + 1, 0), stop)
        # A line that does not hold these bytes is of another kind, and need not be parsed.
        mark = b"" if query.kind is None else b'"kind":"%b"' % query.kind.encode("utf-8", "surrogatepass")
        ordered = reversed(seqs) if query.newest_first else seqs
        found = (self.entry(seq) for seq in ordered if mark in self._lines[seq])
        limit = len(self._lines) if query.limit is None else min(query.limit, len(self._lines))
        return islice((entry for entry in found if _matches(entry, query)), limit)

    def count(self, run: str) -> int:
        return len(self._runs.get(run, ()))

    def effects(self, seq: int) -> list[int]:
        return list(self._effects.get(seq, ()))

    def wait(self, size: int, timeout_s: float) -> int:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._sequence.size > size, timeout_s)
            finally:
                self._waiting -= 1
            return self._sequence.size

    def body(self, seq: int, part: str) -> StoredBody | None:
        self._check_part(seq, part)
        for name, media, salt, body, _ in self._parts[seq]:
            if name == part:
                return StoredBody(seq=seq, part=part, media=media, salt=salt, body=body)
        return None

    def erase(self, *parts: tuple[int, str]) -> None:
        for seq, part in parts:
            self._check_part(seq, part)
        for seq, part in parts:
            self._parts[seq] = tuple(each for each in self._parts[seq] if each.name != part)

    def checkpoints(self, *, newest_first: bool = False) -> Iterator[StoredCheckpoint]:
        return iter(self._checkpoints[::-1] if newest_first else self._checkpoints[:])

    def add_checkpoint(self, checkpoint: StoredCheckpoint, epoch: int) -> None:
        with self._changed:
            if self.epoch("seal") != epoch:
                raise Fenced(
                    f"another process seals {self.place} now (epoch {self.epoch('seal')}, this one holds {epoch})"
                )
            self._checkpoints.append(checkpoint)

    def claim(self, name: str, lease_s: float) -> Claim:
        with self._changed:
            epoch, holder, until = self._claims.get(name, (0, "", 0.0))
            if holder and self._clock() < until:
                raise Fenced(f"{name} is held, epoch {epoch}, for {until - self._clock():.0f} s more")
            self._claims[name] = (epoch + 1, Holder.here().text(), self._clock() + lease_s)
            return Claim(name=name, epoch=epoch + 1, because="expired" if holder else "resumed" if epoch else "new")

    def renew(self, claim: Claim, lease_s: float) -> None:
        with self._changed:
            epoch, holder, _ = self._claims.get(claim.name, (0, "", 0.0))
            if epoch != claim.epoch:
                raise Fenced(f"{claim.name}: epoch {claim.epoch} is over, {epoch} holds it now")
            self._claims[claim.name] = (epoch, holder, self._clock() + lease_s)

    def renew_all(self, claims: Items[Claim], lease_s: float) -> None:
        for claim in claims:
            with suppress(Fenced):
                self.renew(claim, lease_s)

    def release(self, claim: Claim) -> None:
        with self._changed:
            epoch, _, _ = self._claims.get(claim.name, (0, "", 0.0))
            if epoch == claim.epoch:
                self._claims[claim.name] = (epoch, "", 0.0)

    def epoch(self, name: str) -> int:
        return self._claims[name][0] if name in self._claims else 0

    def repair(self) -> list[tuple[str, int]]:
        """Finish redactions ([B3]); nothing else can be torn here."""
        erased = 0
        for redaction in self.select(Query(kind="body.redacted")):
            stone = tombstone_of(redaction)
            if stone is None or stone.seq >= redaction.seq:
                continue
            if self.entry(stone.seq).body.get(stone.part) == stone.commitment and self.body(stone.seq, stone.part):
                self.erase((stone.seq, stone.part))
                erased += 1
        return [("redaction", erased)] if erased else []

    def sync(self) -> None:
        return

    def close(self) -> None:
        return

    def _settle(self) -> None:
        self._nodes.update(((level, index), node) for level, index, node in self._sequence.settle())

    def _seal(self, seal: Seal, before: "_Unhurried") -> None:
        try:
            if not seal.due(self._sequence.size):
                return
            self._settle()
            note = seal.sign(self._sequence.size, self._sequence.frontier.root())
        except BaseException:
            self._sequence = before
            raise
        if note:
            self._checkpoints.append(StoredCheckpoint(size=self._sequence.size, note=note))

    def _node(self, level: int, index: int) -> bytes:
        if level == 0:
            return self._leaves[index]
        kept = self._nodes.get((level, index))
        return kept or node_hash(self._node(level - 1, 2 * index), self._node(level - 1, 2 * index + 1))

    def _check_part(self, seq: int, part: str) -> None:
        try:
            self.entry(seq).part_position(part)
        except Malformed as error:
            raise UsageError(str(error)) from error

    def _keep(self, row: Placed) -> None:
        seq, _, leaf, line, causes, draft = row
        self._lines.append(line)
        self._leaves.append(leaf)
        self._runs[draft.run].append(seq)
        self._parts.append(draft.parts)
        for cause in causes:
            self._effects[cause].append(seq)


class _Unhurried(Sequence):
    """A sequence whose tree is worked out when somebody asks: whole blocks are cheaper, and perhaps nobody does."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[bytes] = []

    @property
    def size(self) -> int:
        return self.frontier.size + len(self._waiting)

    def copy(self) -> "_Unhurried":
        twin = _Unhurried()
        twin.leaf, twin.ts, twin.behind = self.leaf, self.ts, self.behind
        twin.frontier, twin._waiting = self.frontier.copy(), self._waiting[:]
        return twin

    def push(self, leaf: bytes) -> Completed:
        self._waiting.append(leaf)
        return []

    def settle(self) -> Completed:
        """Bring the tree up to the last entry; comes back the nodes that a store keeps ([H6])."""
        nodes = self.frontier.push_all(self._waiting)
        self._waiting.clear()
        return nodes


def _matches(entry: Entry, query: Query) -> bool:
    return (
        query.kind in (None, entry.kind)
        and query.actor in (None, entry.actor)
        and (query.from_ts is None or entry.ts >= query.from_ts)
        and (query.to_ts is None or entry.ts < query.to_ts)
    )
