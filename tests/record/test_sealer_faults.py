"""A sealer over stores that fail it in the one moment that matters."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from hansard.errors import Fenced, OutcomeUnknown
from hansard.record.sealer import Sealer
from hansard.seal import anchors
from hansard.seal.genesis import found
from hansard.seal.keys import KeyRing
from hansard.store.base import Claim, Group, Outcome, Seal
from hansard.store.memory import MemoryStore
from ledgers import Clock, draft
from sealing import ORIGIN, say, sealed_to, sizes


class Contested(MemoryStore):
    """A store whose seal somebody else claims in the moment before a signed commit."""

    contested = False

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        if seal and self.contested:
            self.release(Claim(name="seal", epoch=self.epoch("seal"), because="new"))
            self.claim("seal", 15)
        return super().append(groups, seal)


def test_one_that_is_replaced_in_the_middle_of_a_rotation_takes_its_new_key_back(tmp_path: Path) -> None:
    clock = Clock()
    genesis, ring = found(lambda _: tmp_path / "keys", ORIGIN, "test")
    assert ring is not None
    store = Contested(draft(genesis, actor="log"), clock=clock)
    sealer = Sealer.take(store, ring, ring.folder, clock=clock)
    store.contested = True
    with pytest.raises(Fenced):
        sealer.rotate()
    assert ring.epochs() == [0]
    assert (store.head().size, sizes(store)) == (1, [])
    assert not sealer.holds


class Faulty(MemoryStore):
    """A store whose next commit with a seal ends without an answer, before or after it was done, or half done."""

    fault: str | None = None

    def append(self, groups: Sequence[Group], seal: Seal | None = None) -> list[Outcome]:
        fault, self.fault = (self.fault, None) if seal else (None, self.fault)
        if fault == "before":
            raise OutcomeUnknown("the commit failed")
        outcomes = super().append(groups, None if fault == "without its checkpoint" else seal)
        if fault:
            raise OutcomeUnknown("the commit failed")
        return outcomes


@pytest.fixture
def faulty(tmp_path: Path) -> tuple[Faulty, Sealer, KeyRing, Path]:
    clock = Clock()
    genesis, ring = found(lambda _: tmp_path / "keys", ORIGIN, "test")
    assert ring is not None
    store = Faulty(draft(genesis, actor="log"), clock=clock)
    return store, Sealer.take(store, ring, ring.folder, clock=clock), ring, ring.folder


@pytest.mark.parametrize(("fault", "epoch"), [("before", 0), ("after", 1), ("without its checkpoint", 1)])
def test_after_a_rotation_without_an_answer_the_log_decides_which_key_is_in_force(
    faulty: tuple[Faulty, Sealer, KeyRing, Path], fault: str, epoch: int
) -> None:
    store, sealer, ring, _ = faulty
    say(store, 2, sealer=sealer)
    store.fault = fault
    with pytest.raises(OutcomeUnknown):
        sealer.rotate()
    assert ring.epochs() == [0, 1]
    assert sealer.seal() is None
    say(store, 1, sealer=sealer)
    assert (sealer.epoch, ring.epochs()) == (epoch, [epoch])
    assert sealer.trouble is None
    made = sealer.checkpoint()
    assert sealed_to(store) == (made.size, [])
    assert made.size == store.head().size


@pytest.mark.parametrize("fault", ["before", "after", "without its checkpoint"])
def test_after_an_append_without_an_answer_the_anchor_waits_and_sealing_goes_on(
    faulty: tuple[Faulty, Sealer, KeyRing, Path], fault: str
) -> None:
    store, sealer, _, folder = faulty
    store.fault = fault
    with pytest.raises(OutcomeUnknown):
        say(store, 2, sealer=sealer)
    assert anchors.read(folder) is None
    assert sealer.newest is None
    say(store, 1, sealer=sealer)
    sealer.checkpoint()
    assert sealed_to(store) == (store.head().size, [])
