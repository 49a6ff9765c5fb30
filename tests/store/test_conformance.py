from pathlib import Path

import pytest

from hansard.store.base import Draft, Store
from hansard.store.conformance import Clock, DurableConformance, SharedConformance, StoreConformance
from hansard.store.jsonl import Durability, JsonlStore
from hansard.store.memory import MemoryStore
from hansard.store.sqlite import SqliteStore


class TestMemory(StoreConformance):
    def make(self, genesis: Draft, clock: Clock) -> Store:
        return MemoryStore(genesis, clock=clock)

    @pytest.mark.long
    def test_past_65536_entries_roots_and_proofs_hold(self) -> None:
        self.check_a_long_log()


class TestJsonl(DurableConformance):
    durability: Durability = "each"

    @pytest.fixture(autouse=True)
    def _place(self, quick_folder: Path) -> None:
        self.path = quick_folder / "log.jsonl"

    def make(self, genesis: Draft, clock: Clock) -> Store:
        return JsonlStore.create(self.path, genesis, clock=clock, durability=self.durability)

    def reopen(self, store: Store, clock: Clock) -> Store:
        store.close()
        return JsonlStore.open(self.path, clock=clock, durability=self.durability)

    @pytest.mark.long
    def test_past_65536_entries_roots_and_proofs_hold(self) -> None:
        self.check_a_long_log()


class TestJsonlBatched(TestJsonl):
    durability: Durability = "batched"


class TestSqlite(SharedConformance):
    @pytest.fixture(autouse=True)
    def _place(self, quick_folder: Path) -> None:
        self.path = quick_folder / "log.db"

    def make(self, genesis: Draft, clock: Clock) -> Store:
        return SqliteStore.create(self.path, genesis, clock=clock)

    def reopen(self, store: Store, clock: Clock) -> Store:
        store.close()
        return SqliteStore.open(self.path, clock=clock)

    def join(self, store: Store, clock: Clock) -> Store:
        return SqliteStore.open(self.path, clock=clock)

    @pytest.mark.long
    def test_past_65536_entries_roots_and_proofs_hold(self) -> None:
        self.check_a_long_log()

    @pytest.mark.xfail(reason="sqlite.py: numbers past 64 bits reach SQLite unbounded")
    def test_bounds_far_beyond_the_log_are_bounds_like_others(self) -> None:
        super().test_bounds_far_beyond_the_log_are_bounds_like_others()

    @pytest.mark.xfail(reason="sqlite.py: _begin keeps `behind` of an append that was rolled back")
    def test_a_late_clock_is_recorded_even_when_the_append_before_it_failed(self) -> None:
        super().test_a_late_clock_is_recorded_even_when_the_append_before_it_failed()

    @pytest.mark.xfail(reason="sqlite.py: _finish_redactions does not compare the commitment")
    def test_repair_leaves_a_body_whose_commitment_the_tombstone_does_not_name(self) -> None:
        super().test_repair_leaves_a_body_whose_commitment_the_tombstone_does_not_name()
