"""Tile paths and bundles against the C2SP and Go examples and against a log that Tessera wrote."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger import merkle, tiles
from hansard.ledger.canonical import Malformed
from hansard.ledger.checkpoint import parse_checkpoint
from hansard.ledger.note import parse_note
from vectors import file, load

PATHS = {
    "tile/0/000": (0, 0, 256),
    "tile/0/x001/x234/067": (0, 1234067, 256),
    "tile/0/x001/234.p/5": (0, 1234, 5),
    "tile/63/999.p/255": (63, 999, 255),
    "tile/entries/x003/x057/500": (None, 3057500, 256),
    "tile/entries/000.p/1": (None, 0, 1),
}
INDICES = st.integers(min_value=0, max_value=2**63 - 1)
TESSERA = "tessera-tiles-log/testdata/log"


def written(level: int | None, index: int, width: int) -> str:
    return tiles.bundle_path(index, width) if level is None else tiles.tile_path(level, index, width)


def test_paths_are_written_and_read_as_the_specification_has_them() -> None:
    for path, place in PATHS.items():
        assert written(*place) == path
        assert tiles.parse_tile_path(path) == place


@given(st.none() | st.integers(min_value=0, max_value=63), INDICES, st.integers(min_value=1, max_value=256))
def test_every_path_is_read_back(level: int | None, index: int, width: int) -> None:
    assert tiles.parse_tile_path(written(level, index, width)) == (level, index, width)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "tile/0/0",
        "tile/00/000",
        "tile/64/000",
        "tile/-1/000",
        "tile/0/123/456/078",
        "tile/0/x000/001",
        "tile/0/x123",
        "tile/0/0001",
        "tile/0/000.p/0",
        "tile/0/000.p/05",
        "tile/0/000.p/256",
        "tile/0/000.p/",
        "tile/0/000\n",
        "tile/0/٠٠٠",
        "tile/entries/x999/x999/x999/x999/x999/x999/999",
        "/tile/0/000",
        "tile/0/../000",
        "tile/data/000",
    ],
)
def test_other_spellings_of_a_path_are_refused(path: str) -> None:
    with pytest.raises(Malformed):
        tiles.parse_tile_path(path)


@given(st.text(alphabet="tile/xp.0123456789enrs", max_size=30) | st.text())
def test_a_path_that_reads_is_the_path_that_is_written(text: str) -> None:
    try:
        place = tiles.parse_tile_path(text)
    except Malformed:
        return
    assert written(*place) == text


def test_places_outside_the_tree_have_no_path() -> None:
    for level, index, width in ((-1, 0, 256), (64, 0, 256), (0, -1, 256), (0, 2**63, 256), (0, 0, 0), (0, 0, 257)):
        with pytest.raises(Malformed):
            tiles.tile_path(level, index, width)
    with pytest.raises(Malformed):
        tiles.bundle_path(-1)


def test_go_paths_without_their_height_are_ours() -> None:
    bad = {"tile/3/5/123/456/078", "tile/3/-1/123/456/078"}
    for path in load("go-sumdb/note_and_tlog.json")["tile_paths_fuzz_seeds"]:
        tile, _height, rest = path.split("/", 2)
        ours = f"{tile}/{rest}".replace("tile/data/", "tile/entries/")
        if path in bad:
            with pytest.raises(Malformed):
                tiles.parse_tile_path(ours)
        else:
            assert written(*tiles.parse_tile_path(ours)) == ours


def test_go_counts_the_same_new_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "WIDTH", 1 << 10)
    cases = load("go-sumdb/note_and_tlog.json")["new_tiles_height10"]
    # The last case has some 48,000 tiles and is the reason for the set, not a list.
    for old, new, count in cases:
        assert len(set(tiles.tiles_for(new)) - set(tiles.tiles_for(old))) == count


def test_a_tree_of_70000_has_the_tiles_of_the_specification() -> None:
    found = list(tiles.tiles_for(70_000))
    assert [each for each in found if each[2] != 256] == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert [each for each in found if each[2] == 256] == [*((0, index, 256) for index in range(273)), (1, 0, 256)]
    assert list(tiles.tiles_for(256)) == [(0, 0, 256), (1, 0, 1)]
    assert list(tiles.tiles_for(0)) == list(tiles.tiles_for(-1)) == []


def test_a_bundle_is_the_entries_with_two_byte_lengths() -> None:
    entries = [b"one", b"two", b"three"]
    assert tiles.encode_bundle(entries) == b"\x00\x03one\x00\x03two\x00\x05three"
    assert tiles.decode_bundle(b"\x00\x03one\x00\x03two\x00\x05three") == entries
    assert tiles.decode_bundle(tiles.encode_bundle([b"x" * 65_535])) == [b"x" * 65_535]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_bundles_round_trip_and_a_cut_one_loses_the_last_entry_or_is_refused(entries: list[bytes]) -> None:
    data = tiles.encode_bundle(entries)
    assert tiles.decode_bundle(data) == entries
    whole = {len(tiles.encode_bundle(entries[:count])) for count in range(1, len(entries))}
    for end in range(len(data)):
        if end not in whole:
            with pytest.raises(Malformed):
                tiles.decode_bundle(data[:end])


@given(st.binary(max_size=64))
def test_any_bytes_are_a_bundle_or_refused(data: bytes) -> None:
    try:
        entries = tiles.decode_bundle(data)
    except Malformed:
        return
    assert tiles.encode_bundle(entries) == data


def test_bundles_that_cannot_be_are_refused() -> None:
    for entries in ([], [b""] * 257, [b"x" * 65_536]):
        with pytest.raises(Malformed):
            tiles.encode_bundle(entries)
    with pytest.raises(Malformed):
        tiles.decode_bundle(b"\x00\x00" * 257)


class TileFiles:
    """Reads the tree of `size` from a folder of tiles."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.widths = {(level, index): width for level, index, width in tiles.tiles_for(size)}
        self.tile = cache(self._tile)

    def _tile(self, level: int, index: int) -> list[bytes]:
        raw = (self.folder / tiles.tile_path(level, index, self.widths[level, index])).read_bytes()
        return [raw[at : at + 32] for at in range(0, len(raw), 32)]

    def node(self, level: int, index: int) -> bytes:
        tile_level, inner = divmod(level, 8)
        tile_index, first = divmod(index << inner, 256)
        return merkle.block_root(self.tile(tile_level, tile_index)[first : first + (1 << inner)])


def tessera_roots(folder: Path) -> list[bytes]:
    notes = [parse_note((folder / f"checkpoint.{size}").read_bytes()) for size in range(16)]
    return [parse_checkpoint(note.text).root for note in notes]


def test_tessera_tiles_are_the_leaf_hashes_of_its_bundles() -> None:
    folder = file(TESSERA)
    for size in range(1, 16):
        ((level, index, width),) = tiles.tiles_for(size)
        entries = tiles.decode_bundle((folder / tiles.bundle_path(index, width)).read_bytes())
        tile = (folder / tiles.tile_path(level, index, width)).read_bytes()
        assert len(entries) == size
        assert tile == b"".join(map(merkle.leaf_hash, entries))
        assert tiles.encode_bundle(entries) == (folder / f"tile/entries/000.p/{size}").read_bytes()


def test_tessera_roots_follow_from_its_bundles_and_from_its_tiles() -> None:
    folder = file(TESSERA)
    frontier = merkle.Frontier()
    for size, root in enumerate(tessera_roots(folder)):
        if size:
            bundle = (folder / tiles.bundle_path(0, size)).read_bytes()
            frontier.push(merkle.leaf_hash(tiles.decode_bundle(bundle)[-1]))
        assert frontier.root() == root == merkle.root_at(size, TileFiles(folder, size))


def test_tessera_trees_extend_each_other_and_hold_their_entries() -> None:
    folder = file(TESSERA)
    roots = tessera_roots(folder)
    entries = tiles.decode_bundle((folder / "tile/entries/000.p/15").read_bytes())
    for new in range(1, 16):
        reader = TileFiles(folder, new)
        for old in range(1, new + 1):
            proof = merkle.consistency_proof(old, new, reader)
            merkle.verify_consistency(old, new, proof, roots[old], roots[new])
            with pytest.raises(Malformed):
                merkle.verify_consistency(old, new, proof, roots[old - 1], roots[new])
        for index in range(new):
            leaf, proof = merkle.leaf_hash(entries[index]), merkle.inclusion_proof(index, new, reader)
            merkle.verify_inclusion(leaf, index, new, proof, roots[new])
