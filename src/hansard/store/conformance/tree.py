"""What the tree promises: the root of the lines at every size, old or new, and nodes from which proofs can be made."""

from itertools import pairwise

from hansard.errors import HansardError
from hansard.ledger.merkle import (
    block_root,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_at,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from hansard.store.base import Store
from hansard.store.conformance.sample import Bench, draft, fill, put, refused

SIZES = (1, 2, 3, 7, 255, 256, 257, 300, 511, 512, 513, 600)


class Tree(Bench):
    """Tests of head, node and what is made from them."""

    def test_the_root_is_that_of_the_lines_at_every_size(self) -> None:
        with self.opened() as (store, _):
            for size in range(1, 20):
                assert store.head().root == root_of(_leaves(store)), size
                put(store, draft())
            fill(store, 250)
            for size in range(250, 262):
                assert store.head().root == root_of(_leaves(store)), size
                put(store, draft())
            fill(store, 514)
            assert store.head().root == root_of(_leaves(store))

    def test_nodes_of_every_level_are_those_of_the_lines(self) -> None:
        with self.opened() as (store, _):
            fill(store, 600)
            leaves = _leaves(store)
            for level in range(10):
                width = 1 << level
                for index in {0, 1, len(leaves) // width - 1} & set(range(len(leaves) // width)):
                    wanted = block_root(leaves[index * width : (index + 1) * width])
                    assert store.node(level, index) == wanted, (level, index)

    def test_a_node_that_is_not_complete_is_refused(self) -> None:
        with self.opened() as (store, _):
            fill(store, 300)
            for level, index in ((0, 300), (0, -1), (1, 150), (8, 1), (9, 0), (16, 0), (40, 0)):
                with refused(HansardError):
                    store.node(level, index)

    def test_old_roots_and_proofs_can_be_made_at_any_time(self) -> None:
        with self.opened() as (store, _):
            fill(store, max(SIZES))
            self.check_proofs(store, SIZES)

    def check_proofs(self, store: Store, sizes: tuple[int, ...]) -> None:
        """Roots at these sizes, inclusion of a few entries in each, and consistency from each to the next."""
        leaves = _leaves(store)
        roots = {size: root_of(leaves[:size]) for size in sizes}
        for size in sizes:
            assert root_at(size, store) == roots[size], size
            for index in sorted({0, size // 3, size // 2, size - 1}):
                proof = inclusion_proof(index, size, store)
                verify_inclusion(leaves[index], index, size, proof, roots[size])
        for old, new in pairwise(sizes):
            verify_consistency(old, new, consistency_proof(old, new, store), roots[old], roots[new])

    def check_a_long_log(self, size: int = 65_540) -> None:
        """Past 65,536 entries, where level 16 begins. Takes a while: not collected by itself."""
        with self.opened() as (store, _):
            fill(store, size)
            assert store.node(16, 0) == block_root(_leaves(store)[:65_536])
            self.check_proofs(store, (65_535, 65_536, 65_537, size))
            assert store.head().root == root_at(size, store)


def _leaves(store: Store) -> list[bytes]:
    return [leaf_hash(line) for line in store.lines()]
