"""Whether a log's own tree holds an entry exactly as it was read. What somebody edited in a store proves nothing."""

from collections.abc import Iterable
from functools import lru_cache
from threading import Lock

from hansard.errors import StoreError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.ledger.merkle import inclusion_proof, leaf_hash, node_hash, verify_inclusion
from hansard.store.base import Store, verify_of

BLOCK_LEVEL = 8
"""Stores keep the nodes from here on ([H6]); those below are made of the lines themselves."""
BLOCK = 1 << BLOCK_LEVEL
BLOCKS = 8
MOST_KNOWN = 256
"""Blocks of 8 KiB of hashes each."""


class Known:
    """The leaves of whole blocks that a log's tree was found to hold. They never change, so whoever checks one run after the
    other reads no block twice: what comes from there again is hashed, and compared with them.
    """

    def __init__(self) -> None:
        self._leaves: dict[int, list[bytes]] = {}
        self._mutex = Lock()

    def leaf(self, seq: int) -> bytes | None:
        leaves = self._leaves.get(seq >> BLOCK_LEVEL)
        return leaves[seq & BLOCK - 1] if leaves else None

    def keep(self, block: int, leaves: list[bytes]) -> None:
        if len(leaves) < BLOCK:
            return
        # Each driver checks in a thread of its own.
        with self._mutex:
            self._leaves[block] = leaves
            while len(self._leaves) > MOST_KNOWN:
                del self._leaves[next(iter(self._leaves))]


def check_held(store: Store, entries: Iterable[Entry], known: Known | None = None) -> None:
    """StoreError unless the log's own tree holds each of these entries as it was read: nobody goes on with what was edited."""
    tree = None
    for entry in entries:
        if known is None or known.leaf(entry.seq) != leaf_hash(entry.line):
            tree = tree or Tree(store, known)
            tree.check(entry)


def lies_back(store: Store, seq: int) -> bool:
    """Whether an entry stands further back than the block at the log's end, which is looked at whenever a ledger is opened."""
    return seq >> BLOCK_LEVEL < store.head().size >> BLOCK_LEVEL


class Tree:
    """The tree of a log as its head names it. Each block of lines is read once, and all entries in it are checked by one proof."""

    def __init__(self, store: Store, known: Known | None = None) -> None:
        self._store, self._head, self._known = store, store.head(), known or Known()
        self._above = lru_cache(None)(store.node)
        self._below = lru_cache(BLOCKS)(self._levels)
        self._sound: set[int] = set()

    def node(self, level: int, index: int) -> bytes:
        """For proofs: the hash over the leaves from index << level up to (index + 1) << level."""
        if level >= BLOCK_LEVEL:
            return self._above(level, index)
        block = index << level >> BLOCK_LEVEL
        hashes, at = self._below(block)[level], index - (block << BLOCK_LEVEL - level)
        if at >= len(hashes):
            raise Malformed(f"lines of block {block} are missing")
        return hashes[at]

    def check(self, entry: Entry) -> None:
        """StoreError unless the tree holds exactly this line in its place."""
        seq, size, leaf = entry.seq, self._head.size, leaf_hash(entry.line)
        block = seq >> BLOCK_LEVEL
        try:
            if self.node(0, seq) != leaf:
                raise Malformed("another line stands there")
            if block not in self._sound:
                # The other lines of its block stand in this proof, each as it was read.
                verify_inclusion(leaf, seq, size, inclusion_proof(seq, size, self), self._head.root)
                self._sound.add(block)
                self._known.keep(block, self._below(block)[0])
        except Malformed as error:
            place = self._store.place
            raise StoreError(
                f"entry {seq} of {place}, or one near it, is not what the log's tree says it is ({error}); "
                f"{verify_of(place)}"
            ) from error

    def _levels(self, block: int) -> list[list[bytes]]:
        """The nodes of a block from its lines up, of the last block those that are complete."""
        first = block << BLOCK_LEVEL
        last = min(first + (1 << BLOCK_LEVEL), self._head.size)
        levels = [[leaf_hash(line) for line in self._store.lines(first, last)]]
        while len(levels) < BLOCK_LEVEL:
            below = levels[-1]
            levels.append([node_hash(left, right) for left, right in zip(below[::2], below[1::2], strict=False)])
        return levels
