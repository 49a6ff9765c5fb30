"""The PostgreSQL store against a real server: the suite for all stores, and what only a server can do to a ledger."""

import pytest

from hansard.store.base import Draft, Store
from hansard.store.conformance import Clock, SharedConformance
from hansard.store.postgres import PostgresStore
from postgres import Server, shared


@pytest.fixture(scope="session")
def server() -> Server:
    return shared()


class TestPostgres(SharedConformance):
    @pytest.fixture(autouse=True)
    def _place(self, server: Server) -> None:
        self.url = server.url(server.database())

    def make(self, genesis: Draft, clock: Clock) -> Store:
        return PostgresStore.create(self.url, genesis, clock=clock)

    def reopen(self, store: Store, clock: Clock) -> Store:
        store.close()
        return PostgresStore.open(self.url, clock=clock)

    def join(self, store: Store, clock: Clock) -> Store:
        return PostgresStore.open(self.url, clock=clock)

    @pytest.mark.long
    def test_past_65536_entries_roots_and_proofs_hold(self) -> None:
        self.check_a_long_log()
