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
