"""The RFC 6962 tree: hashes, roots, and the proofs of RFC 9162 section 2.1, made and checked.

Works on hashes alone. It knows nothing of entries, signatures or files; whoever makes a proof lends it a NodeReader.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Protocol, Self

from .canonical import Malformed

HASH = 32
MAX_SIZE = 2**63 - 1
MAX_PROOF = 64
EMPTY_ROOT = sha256(b"").digest()

Completed = list[tuple[int, int, bytes]]
"""Subtrees as (level, index, hash): the leaves from index << level up to (index + 1) << level."""


class NodeReader(Protocol):
    """Gives the hashes of complete aligned subtrees of one tree."""

    def node(self, level: int, index: int) -> bytes:
        """The hash over the leaves from index << level up to (index + 1) << level."""
        ...


def leaf_hash(data: bytes) -> bytes:
    """The hash of one entry."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node over two subtrees."""
    return sha256(b"\x01" + left + right).digest()


def root_of(leaf_hashes: Sequence[bytes]) -> bytes:
    """The root over these leaf hashes, computed level by level."""
    if not leaf_hashes:
        return EMPTY_ROOT
    level = list(leaf_hashes)
    while len(level) > 1:
        # A last node without a sibling rises unhashed: that is the split at the largest power of two, seen from below.
        alone = level[-1:] if len(level) & 1 else []
        level = _parents(level) + alone
    return level[0]


def block_root(leaves: Sequence[bytes]) -> bytes:
    """The root over a complete block, whose length must be a power of two."""
    count = len(leaves)
    if count & (count - 1) or not count:
        raise Malformed(f"a block of {count} hashes is not complete: its length must be a power of two")
    return root_of(leaves)


class Frontier:
    """The compact range of the first `size` leaves: what appending and the root need, and no more."""

    __slots__ = ("_stack", "size")

    def __init__(self, size: int = 0, hashes: Iterable[bytes] = ()) -> None:
        stack = list(hashes)
        if not 0 <= size <= MAX_SIZE:
            raise Malformed(f"a tree cannot have {size} leaves")
        if len(stack) != size.bit_count() or any(len(each) != HASH for each in stack):
            raise Malformed(f"a tree of {size} leaves has {size.bit_count()} frontier hashes of {HASH} bytes each")
        self.size = size
        self._stack = stack

    @classmethod
    def from_bytes(cls, size: int, raw: bytes) -> Self:
        """The inverse of to_bytes."""
        return cls(size, [raw[at : at + HASH] for at in range(0, len(raw), HASH)])

    def to_bytes(self) -> bytes:
        """The hashes, largest subtree first, joined."""
        return b"".join(self._stack)

    def hashes(self) -> tuple[bytes, ...]:
        """The hashes of the complete subtrees, largest first."""
        return tuple(self._stack)

    def copy(self) -> Self:
        """A frontier that can grow on its own."""
        twin = object.__new__(type(self))
        twin.size, twin._stack = self.size, self._stack[:]
        return twin

    def push(self, leaf: bytes) -> Completed:
        """Append a leaf hash; what comes back are the completed subtrees of level 8, 16, 24 and so on."""
        size = self.size
        if size & 255 == 255:
            return self._settle(0, leaf)
        stack = self._stack
        rest = size
        while rest & 1:
            leaf = sha256(b"\x01" + stack.pop() + leaf).digest()
            rest >>= 1
        stack.append(leaf)
        self.size = size + 1
        return []

    def push_all(self, leaves: Sequence[bytes]) -> Completed:
        """Append leaf hashes level by level, which is quicker; comes back what their pushes would give, the lower levels first."""
        nodes, at, level = list(leaves), self.size, 0
        edge: list[bytes] = []
        done: Completed = []
        while nodes:
            if at & 1:
                nodes.insert(0, self._stack.pop())
            if len(nodes) & 1:
                edge.append(nodes.pop())
            nodes, at, level = _parents(nodes), at >> 1, level + 1
            if level % 8 == 0:
                done += [(level, index, node) for index, node in enumerate(nodes, at)]
        self._stack += reversed(edge)
        self.size += len(leaves)
        return done

    def push_subtree(self, level: int, root: bytes) -> Completed:
        """Append a complete subtree by its root; comes back what is complete at its own level and above."""
        if level < 0 or self.size & ((1 << level) - 1):
            raise Malformed(f"a subtree of level {level} does not fit at size {self.size}: not a multiple of its width")
        _check_hashes((), root)
        done: Completed = [(level, self.size >> level, root)] if level and level % 8 == 0 else []
        return done + self._settle(level, root)

    def root(self) -> bytes:
        """The root of the tree of this size."""
        return _fold(self._stack)

    def _settle(self, level: int, node: bytes) -> Completed:
        width, rest = 1 << level, self.size >> level
        done: Completed = []
        while rest & 1:
            node = node_hash(self._stack.pop(), node)
            rest >>= 1
            level += 1
            if level % 8 == 0:
                done.append((level, rest, node))
        self._stack.append(node)
        self.size += width
        return done


def root_at(size: int, reader: NodeReader) -> bytes:
    """The root that the tree had at this size."""
    if not 0 <= size <= MAX_SIZE:
        raise Malformed(f"a tree cannot have {size} leaves")
    return _range_root(0, size, reader)


def inclusion_proof(index: int, size: int, reader: NodeReader) -> list[bytes]:
    """The path from leaf `index` to the root at `size`, the leaf's sibling first (RFC 9162, 2.1.3.1)."""
    if not 0 <= index < size <= MAX_SIZE:
        raise Malformed(f"no leaf {index} in a tree of {size}")
    low, high = 0, size
    path: list[tuple[int, int]] = []
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append((middle, high))
            high = middle
        else:
            path.append((low, middle))
            low = middle
    return [_range_root(start, end, reader) for start, end in reversed(path)]


def consistency_proof(old: int, new: int, reader: NodeReader) -> list[bytes]:
    """The proof that the tree at `new` extends the tree at `old` (RFC 9162, 2.1.4.1); empty when they are one."""
    if not 1 <= old <= new <= MAX_SIZE:
        raise Malformed(f"no consistency proof from size {old} to size {new}: the older must be at least 1")
    low, high = 0, new
    path: list[tuple[int, int]] = []
    while high != old:
        middle = low + _split(high - low)
        if old <= middle:
            path.append((middle, high))
            high = middle
        else:
            path.append((low, middle))
            low = middle
    if low:
        # Otherwise the walk ended on the old tree itself, whose root the verifier holds.
        path.append((low, high))
    return [_range_root(start, end, reader) for start, end in reversed(path)]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Raise Malformed unless the proof leads from the leaf hash at `index` to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size <= MAX_SIZE:
        raise Malformed(f"no leaf {index} in a tree of {size}")
    _check_hashes(proof, leaf, root)
    at, last, found = index, size - 1, leaf
    for each in proof:
        if last == 0:
            raise Malformed(f"the inclusion proof is too long for leaf {index} of {size}")
        if at & 1 or at == last:
            found = node_hash(each, found)
            at, last = _climb(at, last)
        else:
            found = node_hash(found, each)
        at, last = at >> 1, last >> 1
    if last:
        raise Malformed(f"the inclusion proof is too short for leaf {index} of {size}")
    if found != root:
        raise Malformed(f"the inclusion proof of leaf {index} of {size} leads to another root")


def verify_consistency(old: int, new: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> None:
    """Raise Malformed unless the proof shows that the newer tree extends the older one (RFC 9162, 2.1.4.2)."""
    if not 1 <= old <= new <= MAX_SIZE:
        raise Malformed(f"consistency from size {old} to size {new} cannot be shown")
    _check_hashes(proof, old_root, new_root)
    if old == new:
        if proof or old_root != new_root:
            raise Malformed(f"two trees of {old} leaves need equal roots and an empty proof")
        return
    if not proof:
        raise Malformed(f"the consistency proof from {old} to {new} is empty")
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    at, last = old - 1, new - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    found_old = found_new = path[0]
    for each in path[1:]:
        if last == 0:
            raise Malformed(f"the consistency proof from {old} to {new} is too long")
        if at & 1 or at == last:
            found_old, found_new = node_hash(each, found_old), node_hash(each, found_new)
            at, last = _climb(at, last)
        else:
            found_new = node_hash(found_new, each)
        at, last = at >> 1, last >> 1
    if last:
        raise Malformed(f"the consistency proof from {old} to {new} is too short")
    if found_old != old_root or found_new != new_root:
        raise Malformed(f"the tree of {new} leaves does not extend the tree of {old}: the proof leads to another root")


def _climb(at: int, last: int) -> tuple[int, int]:
    # On the right edge a node may have risen past levels where it had no sibling.
    while at and not at & 1:
        at, last = at >> 1, last >> 1
    return at, last


def _check_hashes(proof: Sequence[bytes], *others: bytes) -> None:
    if len(proof) > MAX_PROOF:
        raise Malformed(f"a proof of {len(proof)} hashes; no tree needs more than {MAX_PROOF}")
    if any(len(each) != HASH for each in (*proof, *others)):
        raise Malformed(f"a hash is not {HASH} bytes long")


def _parents(nodes: Sequence[bytes]) -> list[bytes]:
    """The nodes over each pair; a last one without a sibling is left out."""
    return [sha256(b"\x01" + a + b).digest() for a, b in zip(nodes[::2], nodes[1::2], strict=False)]


def _split(count: int) -> int:
    """The largest power of two below the count."""
    return 1 << (count - 1).bit_length() - 1


def _range_root(start: int, end: int, reader: NodeReader) -> bytes:
    nodes: list[bytes] = []
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append(reader.node(level, start >> level))
        start += 1 << level
    return _fold(nodes)


def _fold(hashes: Sequence[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    root = hashes[-1]
    for left in reversed(hashes[:-1]):
        root = node_hash(left, root)
    return root
