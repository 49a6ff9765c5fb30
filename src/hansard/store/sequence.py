"""The rules by which drafts get their places: seq, prev, ts, fences, the tree. Pure: no clock, no I/O.

Every store reads its head into a Sequence, places what it was given, and writes what comes out, in its own way.
"""

from binascii import hexlify
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Items
from hashlib import sha256

from hansard.errors import Fenced, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import FIRST_PREV, MAX_CAUSES, checked_sketch, new
from hansard.ledger.form import read
from hansard.ledger.merkle import Completed, Frontier, leaf_hash
from hansard.store.base import Draft, Group, Head, Outcome, Placed

CLOCK_SLACK_US = 1_000_000
EpochOf = Callable[[str], int]
Nodes = Callable[[int, int, int], Iterable[bytes]]
"""The nodes of a level that a store keeps, from an index up to another."""
HIGHEST_LEVEL = 48


class Sequence:
    """The head of a log while entries are being placed after it."""

    __slots__ = ("behind", "frontier", "leaf", "ts")

    def __init__(
        self, *, leaf: bytes = bytes.fromhex(FIRST_PREV), ts: int = 0, frontier: Frontier | None = None
    ) -> None:
        self.leaf = leaf
        self.ts = ts
        self.frontier = frontier or Frontier()
        self.behind = False

    @property
    def size(self) -> int:
        return self.frontier.size

    def head(self) -> Head:
        return Head(size=self.size, leaf=self.leaf, ts=self.ts, root=self.frontier.root())

    def copy(self) -> "Sequence":
        twin = Sequence(leaf=self.leaf, ts=self.ts, frontier=self.frontier.copy())
        twin.behind = self.behind
        return twin

    def place(self, group: Group, now_us: int, epoch_of: EpochOf) -> list[Placed]:
        """Give each draft of the group its place, or raise and change nothing.

        Nothing is pushed to the tree until the whole group is known to fit, so a refusal leaves no trace.
        """
        if not group:
            return []
        ts, drafts, lead = now_us, group, 0
        if now_us < self.ts:
            ts, drafts = self.ts, self._with_clock(group, now_us)
            lead = len(drafts) - len(group)
        size, leaf, position = self.size, self.leaf, -lead
        first, seq = size + lead, size
        rows: list[Placed] = []
        for draft in drafts:
            row = _row(draft, first, position, size, leaf, seq, ts, epoch_of)
            leaf = row[2]
            rows.append(row)
            seq += 1
            position += 1
        self.behind = now_us < self.ts - CLOCK_SLACK_US
        self.leaf, self.ts = leaf, ts
        return rows

    def place_one(self, draft: Draft, now_us: int, epoch_of: EpochOf) -> tuple[Placed, list[tuple[int, int, bytes]]]:
        """Place and push a draft that stands alone, at a time that is not before the head's: by far the most common way."""
        size = self.size
        row = _row(draft, size, 0, size, self.leaf, size, now_us, epoch_of)
        self.behind, self.leaf, self.ts = False, row.leaf, now_us
        return row, self.push(row.leaf)

    def push(self, leaf: bytes) -> Completed:
        """Push one leaf to the tree; comes back the nodes that a store keeps ([H6])."""
        return self.frontier.push(leaf)

    def grow(self, rows: Items[Placed]) -> list[tuple[int, int, bytes]]:
        """Push placed rows to the tree; comes back the nodes that a store keeps ([H6])."""
        nodes: list[tuple[int, int, bytes]] = []
        for row in rows:
            done = self.push(row.leaf)
            if done:
                nodes += done
        return nodes

    def _with_clock(self, group: Group, now_us: int) -> Group:
        if self.behind or now_us >= self.ts - CLOCK_SLACK_US or not self.size:
            return group
        data = {"behind_us": self.ts - now_us, "wall_us": max(now_us, 0)}
        note = checked_sketch(kind="log.clock", actor="log", run="", data=data, body={})
        return (Draft("", note, (), (), None), *group)


def place_all(
    sequence: Sequence, groups: Items[Group], now_us: int, epoch_of: EpochOf
) -> tuple[list[Outcome], list[Placed], list[tuple[int, int, bytes]]]:
    """Place many groups one after the other; a refused group is answered with its error and the others go on.

    Comes back what each caller is told, all entries to write (a `log.clock` may go before somebody's), and the nodes.
    """
    told: list[Outcome] = []
    rows: list[Placed] = []
    nodes: list[tuple[int, int, bytes]] = []
    for group in groups:
        try:
            if len(group) == 1 and now_us >= sequence.ts:
                row, done = sequence.place_one(group[0], now_us, epoch_of)
                rows.append(row)
                told.append([row])
            else:
                placed = sequence.place(group, now_us, epoch_of)
                done = sequence.grow(placed)
                rows += placed
                told.append(placed if len(placed) == len(group) else placed[len(placed) - len(group) :])
        except (UsageError, Fenced) as refusal:
            told.append(refusal)
            continue
        if done:
            nodes += done
    return told, rows, nodes


def tree_of_blocks(size: int, nodes: Nodes) -> Frontier:
    """The tree of the whole blocks of a log of this size, out of the nodes that its store keeps ([H6]): few, at any size."""
    tree = Frontier()
    for level in range(HIGHEST_LEVEL, 0, -8):
        start, stop = size >> level + 8 << 8, size >> level
        for node in nodes(level, start, stop) if start < stop else ():
            tree.push_subtree(level, node)
    return tree


def tail_start(size: int) -> int:
    """Where a look at the end of a log begins: with the block that is not whole, or else with the last entry."""
    return size & ~255 if size & 255 else size - 1


def tail_fault(head: Sequence, lines: Items[bytes], blocks: Callable[[], Frontier]) -> str | None:
    """What is wrong at the end of a log, by its head, its lines from `tail_start` on and the tree of its whole blocks, as far as
    these can tell: verification looks at everything. Malformed where the last line is no entry."""
    size, last, start = head.size, head.size - 1, tail_start(head.size)
    leaves = [leaf_hash(line) for line in lines]
    if leaves[-1] != head.leaf:
        return f"entry {last} is not the one that the head row names"
    if read(lines[-1]).ts != head.ts:
        return f"the head row names another time than entry {last}"
    kept, tail = head.frontier.hashes(), Frontier()
    for leaf in leaves if size & 255 else ():
        tail.push(leaf)
    # Counted first: the hashes that lines give, of which the first are gone, may be the last ones of all.
    if len(leaves) != size - start or kept[len(kept) - tail.size.bit_count() :] != tail.hashes():
        return f"entries {start} to {last} do not give the tree that the head row names"
    whole = blocks()
    if whole.size != size & ~255 or whole.hashes() + tail.hashes() != kept:
        return "the nodes do not give the tree that the head row names"
    return None


def _row(
    draft: Draft, first: int, position: int, size: int, leaf: bytes, seq: int, ts: int, epoch_of: EpochOf
) -> Placed:
    _, sketch, causes, _, fence = draft
    if fence is not None and epoch_of(fence[0]) != fence[1]:
        raise _fenced(fence, epoch_of)
    if causes and (len(causes) > 1 or not 0 <= causes[0] < size):
        causes = _resolve(causes, first, position, size)
    try:
        line = sketch.line(causes, hexlify(leaf), seq, ts)
    except Malformed as error:
        raise UsageError(f"{error}") from error
    return new(Placed, (seq, ts, sha256(b"\x00" + line).digest(), line, causes, draft))


def _fenced(fence: tuple[str, int], epoch_of: EpochOf) -> Fenced:
    name, epoch = fence
    return Fenced(
        f"{name}: this process holds epoch {epoch}, the claim is at {epoch_of(name)}; another process has taken over"
    )


def _resolve(causes: tuple[int, ...], first: int, position: int, size: int) -> tuple[int, ...]:
    """Turn `~i` into the seq of the group's i-th draft, and sort ([E4])."""
    if len(causes) == 1 and 0 <= ~causes[0] < position:
        return (first + ~causes[0],)
    found = set()
    for cause in causes:
        if cause < 0:
            if ~cause >= position:
                raise UsageError(
                    f"a draft names draft {~cause} of its group as a cause, but stands at {position} itself"
                )
            found.add(first + ~cause)
        elif cause >= size:
            raise UsageError(f"entry {cause} is named as a cause, but the log ends at {size - 1}")
        else:
            found.add(cause)
    if len(found) > MAX_CAUSES:
        raise UsageError(f"{len(found)} causes, more than {MAX_CAUSES}; gather them in results.joined entries first")
    return tuple(sorted(found))
