"""The tree against its recursive definition in the RFCs and against trees and proofs that others published."""

from base64 import b64decode
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.ledger import merkle
from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import Frontier, leaf_hash, node_hash
from vectors import load

CT_LEAVES = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
CT_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(bytes([number])) for number in range(130)]
SIZES = st.integers(min_value=1, max_value=len(LEAVES))
ANY_COUNT = st.integers(min_value=-2, max_value=2**70)


def split(count: int) -> int:
    k = 1
    while 2 * k < count:
        k *= 2
    return k


@cache
def mth(start: int, end: int) -> bytes:
    """MTH(D[start:end]) as RFC 6962 section 2.1 writes it."""
    if start == end:
        return sha256(b"").digest()
    if end - start == 1:
        return LEAVES[start]
    middle = start + split(end - start)
    return node_hash(mth(start, middle), mth(middle, end))


def path(index: int, start: int, end: int) -> list[bytes]:
    """PATH(m, D_n) as RFC 6962 section 2.1.1 writes it."""
    if end - start == 1:
        return []
    middle = start + split(end - start)
    if index < middle:
        return [*path(index, start, middle), mth(middle, end)]
    return [*path(index, middle, end), mth(start, middle)]


def subproof(old: int, start: int, end: int, known: bool) -> list[bytes]:
    """SUBPROOF(m, D_n, b) as RFC 6962 section 2.1.2 writes it, over absolute positions."""
    if old == end:
        return [] if known else [mth(start, end)]
    middle = start + split(end - start)
    if old <= middle:
        return [*subproof(old, start, middle, known), mth(middle, end)]
    return [*subproof(old, middle, end, False), mth(start, middle)]


class Nodes:
    """A reader over LEAVES from an offset on, which counts what is asked of it."""

    def __init__(self, offset: int = 0) -> None:
        self.offset = offset
        self.reads = 0

    def node(self, level: int, index: int) -> bytes:
        self.reads += 1
        start = self.offset + (index << level)
        assert start + (1 << level) <= len(LEAVES), "asked for a subtree that is not complete"
        return mth(start, start + (1 << level))


class Endless:
    """A reader of a tree too large to exist, for counting reads."""

    def __init__(self) -> None:
        self.reads = 0

    def node(self, level: int, index: int) -> bytes:
        self.reads += 1
        return sha256(f"{level} {index}".encode()).digest()


def test_the_roots_of_the_eight_leaf_tree_are_the_published_ones() -> None:
    hashes = [leaf_hash(bytes.fromhex(leaf)) for leaf in CT_LEAVES]
    frontier = Frontier()
    for size, root in enumerate(CT_ROOTS):
        assert merkle.root_of(hashes[:size]).hex() == root == frontier.root().hex()
        if size < len(hashes):
            frontier.push(hashes[size])


def test_the_published_nodes_of_the_eight_leaf_tree() -> None:
    known = load("rfc6962-known-roots/known_roots.json")
    level = [leaf_hash(bytes.fromhex(leaf)) for leaf in known["leaf_inputs_hex"]]
    nodes = list(level)
    while len(level) > 1:
        level = [node_hash(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
        nodes += level
    assert [node.hex() for node in nodes] == known["node_hashes_hex_levels_flat"]
    roots = [merkle.root_of(nodes[:size]).hex() for size in range(9)]
    assert roots == [known["empty_root_hex"], *known["roots_hex_by_size_1_to_8"]] == CT_ROOTS


def subtrees(limit: int = len(LEAVES)) -> Iterator[tuple[int, int]]:
    """Every subtree [start, end) of draft-ietf-plants-merkle-tree-certs, the empty ones included."""
    for end in range(limit + 1):
        for start in range(end + 1):
            if start % (1 << max(end - start - 1, 0).bit_length()) == 0:
                yield start, end


def accumulated(lines: Iterator[str]) -> str:
    return sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def spelled(head: str, proof: list[bytes]) -> str:
    return " ".join([head, *(each.hex() for each in proof)])


def want() -> Any:
    return load("rfc6962-known-roots/subtree_accumulated.json")["want"]


def test_subtree_hashes_accumulate_to_the_published_value() -> None:
    lines = (f"[{start}, {end}) {merkle.root_at(end - start, Nodes(start)).hex()}" for start, end in subtrees())
    assert accumulated(lines) == want()["subtree_hash"]


def test_subtree_inclusion_proofs_accumulate_to_the_published_value() -> None:
    lines = (
        spelled(f"{index} [{start}, {end})", merkle.inclusion_proof(index - start, end - start, Nodes(start)))
        for start, end in subtrees()
        for index in range(start, end)
    )
    assert accumulated(lines) == want()["subtree_inclusion"]


def subtree_consistency(start: int, end: int, low: int, high: int) -> list[bytes]:
    """Descends to the node that begins where the subtree does; from there it is an ordinary consistency proof."""
    if start == end:
        return []
    if start == low:
        return merkle.consistency_proof(end - start, high - low, Nodes(low))
    middle = low + split(high - low)
    if end <= middle:
        return [*subtree_consistency(start, end, low, middle), merkle.root_at(high - middle, Nodes(middle))]
    return [*subtree_consistency(start, end, middle, high), merkle.root_at(middle - low, Nodes(low))]


@pytest.mark.untraced
def test_subtree_consistency_proofs_accumulate_to_the_published_value() -> None:
    lines = (
        spelled(f"[{start}, {end}) {size}", subtree_consistency(start, end, 0, size))
        for size in range(len(LEAVES) + 1)
        for start, end in subtrees(size)
    )
    assert accumulated(lines) == want()["subtree_consistency"]


NO_HASH = "additional/sizes-are-equal-one-and-proof-is-empty.json"
"""Accepted upstream although its roots are short words; we let nothing pass for a root that is not 32 bytes."""


@pytest.mark.parametrize(("kind", "count"), [("inclusion", 98), ("consistency", 98)])
def test_published_proofs_verify_and_their_broken_twins_do_not(kind: str, count: int) -> None:
    cases = load(f"merkle-transparency-dev/{kind}.json")
    assert len(cases) == count
    check = verify_published_inclusion if kind == "inclusion" else verify_published_consistency
    for case in cases:
        good = not case["wantErr"] and case["file"] != NO_HASH
        assert accepts(partial(check, case)) == good, case["file"]


def verify_published_inclusion(case: Any) -> None:
    leaf, root, *proof = (b64decode(each or "") for each in (case["leafHash"], case["root"], *(case["proof"] or ())))
    merkle.verify_inclusion(leaf, case["leafIdx"], case["treeSize"], proof, root)


def verify_published_consistency(case: Any) -> None:
    old, new, *proof = (b64decode(each or "") for each in (case["root1"], case["root2"], *(case["proof"] or ())))
    merkle.verify_consistency(case["size1"], case["size2"], proof, old, new)


def accepts(check: Callable[[], None]) -> bool:
    try:
        check()
    except Malformed:
        return False
    return True


REKOR_REFUSED = {
    "bundle-empty-certificate-chain_fail",
    "bundle-invalid-base64-signature_fail",
    "incorrect-public-key_fail",
    "inclusion-proof-corrupted-hash_fail",
    "invalid-inclusion-proof_fail",
}
"""The bundles whose entry or path was altered; the other failing ones are at fault elsewhere."""


def test_rekor_entries_are_in_the_trees_that_rekor_says() -> None:
    refused = set()
    for case in load("rekor/inclusion_proofs.json"):
        leaf = leaf_hash(b64decode(case["body_base64"]))
        proof = [b64decode(each) for each in case["hashes_base64"]]
        index, size, root = int(case["log_index"]), int(case["tree_size"]), b64decode(case["root_base64"])
        try:
            merkle.verify_inclusion(leaf, index, size, proof, root)
        except Malformed:
            refused.add(case["case"])
    assert refused == REKOR_REFUSED


def test_the_frontier_follows_the_definition_at_every_size() -> None:
    frontier = Frontier()
    for size, leaf in enumerate(LEAVES):
        assert frontier.size == size
        assert frontier.root() == mth(0, size) == merkle.root_at(size, Nodes()) == merkle.root_of(LEAVES[:size])
        assert frontier.push(leaf) == []


@given(SIZES)
def test_a_frontier_survives_bytes_and_grows_on(size: int) -> None:
    frontier = Frontier()
    for leaf in LEAVES[: size - 1]:
        frontier.push(leaf)
    again = Frontier.from_bytes(frontier.size, frontier.to_bytes())
    assert again.hashes() == frontier.hashes()
    assert Frontier(frontier.size, frontier.hashes()).root() == frontier.root()
    again.push(LEAVES[size - 1])
    assert again.root() == mth(0, size)


@given(st.integers(min_value=-1, max_value=2**64), st.binary(max_size=200))
def test_a_frontier_refuses_bytes_that_do_not_fit_its_size(size: int, raw: bytes) -> None:
    fits = 0 <= size < 2**63 and len(raw) == 32 * size.bit_count()
    try:
        assert Frontier.from_bytes(size, raw).to_bytes() == raw
        assert fits
    except Malformed:
        assert not fits


def test_a_copy_of_a_frontier_grows_alone() -> None:
    frontier = Frontier(3, [mth(0, 2), mth(2, 3)])
    grown = frontier.copy()
    grown.push(LEAVES[3])
    assert (frontier.size, frontier.root()) == (3, mth(0, 3))
    assert (grown.size, grown.root()) == (4, mth(0, 4))


def test_pushing_reports_exactly_the_subtrees_of_every_eighth_level() -> None:
    leaves = [leaf_hash(number.to_bytes(4, "big")) for number in range(65_536 + 3)]
    frontier, told = Frontier(), []
    for leaf in leaves:
        told += frontier.push(leaf)
    blocks = [merkle.block_root(leaves[at : at + 256]) for at in range(0, 65_536, 256)]
    assert told == [*((8, index, root) for index, root in enumerate(blocks)), (16, 0, merkle.block_root(blocks))]
    assert frontier.root() == merkle.root_of(leaves)


@given(st.lists(st.integers(min_value=0, max_value=700), max_size=8))
def test_pushing_many_leaves_from_any_size_is_pushing_each(counts: list[int]) -> None:
    one_by_one, at_once = Frontier(), Frontier()
    for count in counts:
        leaves = [leaf_hash((at_once.size + number).to_bytes(4, "big")) for number in range(count)]
        told = [each for leaf in leaves for each in one_by_one.push(leaf)]
        assert at_once.push_all(leaves) == sorted(told)
        assert (at_once.size, at_once.hashes()) == (one_by_one.size, one_by_one.hashes())


def test_pushing_many_leaves_completes_every_eighth_level_above_them() -> None:
    below = Frontier()
    below.push_all([leaf_hash(b"%d" % number) for number in range(65_535)])
    one_by_one, at_once = below.copy(), below.copy()
    last, behind = leaf_hash(b"the last of a tile of tiles"), leaf_hash(b"the first behind it")
    told = one_by_one.push(last) + one_by_one.push(behind)
    assert [each[:2] for each in told] == [(8, 255), (16, 0)]
    assert at_once.push_all([last, behind]) == told
    assert at_once.hashes() == one_by_one.hashes()


@given(st.lists(st.integers(min_value=0, max_value=5), max_size=12))
def test_a_subtree_is_appended_where_it_fits_and_refused_elsewhere(levels: list[int]) -> None:
    frontier = Frontier()
    for level in levels:
        size, width = frontier.size, 1 << level
        if size + width > len(LEAVES):
            return
        if size % width:
            with pytest.raises(Malformed, match="does not fit"):
                frontier.push_subtree(level, mth(0, width))
        else:
            assert frontier.push_subtree(level, mth(size, size + width)) == []
        assert frontier.root() == mth(0, frontier.size)


def test_a_level_16_subtree_completes_the_level_above() -> None:
    frontier = Frontier(255 << 16, [sha256(bytes([number])).digest() for number in range(8)])
    top = sha256(b"top").digest()
    told = frontier.push_subtree(16, top)
    assert told == [(16, 255, top), (24, 0, frontier.root())]
    assert frontier.size == 1 << 24


def test_incomplete_blocks_are_refused() -> None:
    for count in (0, 3, 255):
        with pytest.raises(Malformed, match="power of two"):
            merkle.block_root(LEAVES[:1] * count)
    with pytest.raises(Malformed, match="32 bytes"):
        Frontier().push_subtree(8, b"short")
    with pytest.raises(Malformed, match="does not fit"):
        Frontier().push_subtree(-1, LEAVES[0])


def test_every_inclusion_proof_up_to_70_leaves_is_the_defined_one_and_verifies() -> None:
    for size in range(1, 71):
        for index in range(size):
            proof = merkle.inclusion_proof(index, size, Nodes())
            assert proof == path(index, 0, size)
            merkle.verify_inclusion(LEAVES[index], index, size, proof, mth(0, size))


def test_every_consistency_proof_up_to_70_leaves_is_the_defined_one_and_verifies() -> None:
    for new in range(1, 71):
        for old in range(1, new + 1):
            proof = merkle.consistency_proof(old, new, Nodes())
            assert proof == subproof(old, 0, new, True)
            merkle.verify_consistency(old, new, proof, mth(0, old), mth(0, new))


@given(st.data())
def test_an_inclusion_proof_altered_in_any_way_is_refused(data: st.DataObject) -> None:
    size = data.draw(SIZES)
    index = data.draw(st.integers(min_value=0, max_value=size - 1))
    proof = merkle.inclusion_proof(index, size, Nodes())
    good = [LEAVES[index], mth(0, size), *proof]
    bad = data.draw(altered(good))
    with pytest.raises(Malformed):
        merkle.verify_inclusion(bad[0], index, size, bad[2:], bad[1])
    for other in range(size):
        if other != index:
            with pytest.raises(Malformed):
                merkle.verify_inclusion(LEAVES[index], other, size, proof, mth(0, size))


@given(st.data())
def test_a_consistency_proof_altered_in_any_way_is_refused(data: st.DataObject) -> None:
    new = data.draw(SIZES)
    old = data.draw(st.integers(min_value=1, max_value=new))
    good = [mth(0, old), mth(0, new), *merkle.consistency_proof(old, new, Nodes())]
    bad = data.draw(altered(good))
    with pytest.raises(Malformed):
        merkle.verify_consistency(old, new, bad[2:], bad[0], bad[1])


@st.composite
def altered(draw: st.DrawFn, good: list[bytes]) -> list[bytes]:
    """One byte changed, or a proof hash dropped, added, moved or cut (the first two are not part of the proof)."""
    bad = list(good)
    at = draw(st.integers(min_value=0, max_value=len(bad) - 1))
    how = draw(st.sampled_from(["flip", "add", "cut"] if at < 2 else ["flip", "add", "cut", "drop", "swap"]))
    if how == "flip":
        place, bit = draw(st.integers(0, 31)), draw(st.integers(0, 7))
        bad[at] = bad[at][:place] + bytes([bad[at][place] ^ 1 << bit]) + bad[at][place + 1 :]
    elif how == "add":
        bad.insert(max(at, 2), draw(st.sampled_from([*good, bytes(32), b""])))
    elif how == "cut":
        bad[at] = bad[at][:-1]
    elif how == "drop":
        del bad[at]
    else:
        bad[at], bad[-1] = bad[-1], bad[at]
        if bad == good:
            bad.pop()
    return bad


@settings(max_examples=300)
@given(
    st.lists(st.binary(max_size=33) | st.sampled_from(LEAVES), max_size=70),
    ANY_COUNT,
    ANY_COUNT,
    st.sampled_from([mth(0, 1), mth(0, 2), b"", b"\x00" * 32]),
)
def test_the_verifiers_answer_whatever_they_are_given(proof: list[bytes], a: int, b: int, root: bytes) -> None:
    # Over these few roots the only true statements are about one leaf, with nothing to prove.
    true = root == LEAVES[0] and not proof
    assert accepts(lambda: merkle.verify_inclusion(LEAVES[0], a, b, proof, root)) <= (true and (a, b) == (0, 1))
    assert accepts(lambda: merkle.verify_consistency(a, b, proof, LEAVES[0], root)) <= (true and a == b)


def test_proofs_that_cannot_be_are_refused() -> None:
    for index, size in ((0, 0), (5, 5), (-1, 5), (0, 2**63)):
        with pytest.raises(Malformed, match="no leaf"):
            merkle.inclusion_proof(index, size, Nodes())
        with pytest.raises(Malformed, match="no leaf"):
            merkle.verify_inclusion(LEAVES[0], index, size, [], LEAVES[0])
    for old, new in ((0, 5), (6, 5), (-1, 5), (1, 2**63)):
        with pytest.raises(Malformed, match="consistency"):
            merkle.consistency_proof(old, new, Nodes())
        with pytest.raises(Malformed, match="consistency"):
            merkle.verify_consistency(old, new, [], merkle.EMPTY_ROOT, LEAVES[0])
    for size in (-1, 2**63):
        with pytest.raises(Malformed, match="cannot have"):
            merkle.root_at(size, Nodes())
    with pytest.raises(Malformed, match="no tree needs more"):
        merkle.verify_inclusion(LEAVES[0], 0, 2**62, [LEAVES[0]] * 65, LEAVES[0])


class Alike:
    """A reader of a tree all leaves of which are the same, so that its nodes are known at any size."""

    def __init__(self) -> None:
        self.levels = [LEAVES[0]]
        for _ in range(63):
            self.levels.append(node_hash(self.levels[-1], self.levels[-1]))

    def node(self, level: int, index: int) -> bytes:
        assert (index + 1) << level <= merkle.MAX_SIZE
        return self.levels[level]


def test_the_largest_tree_has_a_frontier_a_root_and_proofs_and_none_is_larger() -> None:
    size, reader = merkle.MAX_SIZE, Alike()
    root = merkle.root_at(size, reader)
    assert Frontier(size, reversed(reader.levels[:63])).root() == root
    with pytest.raises(Malformed, match="cannot have"):
        Frontier(size + 1, [reader.levels[63]])
    for index in (0, size // 3, size - 1):
        proof = merkle.inclusion_proof(index, size, reader)
        merkle.verify_inclusion(LEAVES[0], index, size, proof, root)
    for old in (1, size // 3, size - 1, size):
        proof = merkle.consistency_proof(old, size, reader)
        merkle.verify_consistency(old, size, proof, merkle.root_at(old, reader), root)


def test_a_proof_too_long_is_refused_though_its_hashes_lead_to_the_root() -> None:
    more = sha256(b"more").digest()
    proof = merkle.inclusion_proof(2, 4, Nodes())
    with pytest.raises(Malformed, match="too long"):
        merkle.verify_inclusion(LEAVES[2], 2, 4, [*proof, more], node_hash(more, mth(0, 4)))
    proof = merkle.consistency_proof(3, 4, Nodes())
    with pytest.raises(Malformed, match="too long"):
        merkle.verify_consistency(3, 4, [*proof, more], node_hash(more, mth(0, 3)), node_hash(more, mth(0, 4)))


def test_hashes_that_share_their_bytes_otherwise_are_refused_though_they_lead_to_the_root() -> None:
    left, right, root = LEAVES[0], LEAVES[1], mth(0, 2)
    for first, second in ((left + right[:1], right[1:]), (left[:-1], left[-1:] + right)):
        with pytest.raises(Malformed, match="32 bytes"):
            merkle.verify_inclusion(first, 0, 2, [second], root)
        with pytest.raises(Malformed, match="32 bytes"):
            merkle.verify_consistency(1, 2, [second], first, root)


@given(st.integers(min_value=1, max_value=2**63 - 1), st.data())
def test_roots_and_proofs_read_a_logarithmic_number_of_nodes(size: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(min_value=0, max_value=size - 1))
    for make in (
        lambda reader: merkle.root_at(size, reader),
        lambda reader: merkle.inclusion_proof(at, size, reader),
        lambda reader: merkle.consistency_proof(at + 1, size, reader),
    ):
        reader = Endless()
        make(reader)
        assert reader.reads <= 2 * size.bit_length()
