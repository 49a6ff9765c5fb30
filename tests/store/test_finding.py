"""What is looked for among the entries of one run costs what that run is long, however long the ledger is."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hansard.store.base import Draft, Query, Store
from hansard.store.conformance.sample import draft, genesis, put
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore

Make = Callable[[Path, Draft], Store]
KINDS = ("run.requested", "run.claimed", "run.ended")


class Steps:
    """Counts, in hundreds, the steps that SQLite takes for whoever connects from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken, connect = 0, sqlite3.connect

        def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_progress_handler(self._take, 100)
            return connection

        monkeypatch.setattr(sqlite3, "connect", counted)

    def _take(self) -> None:
        self.taken += 1

    def of(self, store: Store, query: Query) -> int:
        before = self.taken
        list(store.select(query))
        return self.taken - before


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("make", "name"), [(SqliteStore.create, "log.db"), (JsonlStore.create, "log.jsonl")])
@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("run", ["r7", "r2990", "nobody"])
def test_the_entries_of_other_runs_are_not_looked_through(
    quick_folder: Path, monkeypatch: pytest.MonkeyPatch, make: Make, name: str, newest_first: bool, run: str
) -> None:
    steps = Steps(monkeypatch)
    with closing(make(quick_folder / name, genesis())) as store:
        put(store, *(draft(run=f"r{number}", kind=kind) for number in range(3_000) for kind in KINDS))
        for kind in (*KINDS, "gate.opened"):
            for actor in (None, "coordinator"):
                query = Query(run=run, kind=kind, actor=actor, newest_first=newest_first, limit=1)
                assert steps.of(store, query) <= 3, (kind, actor)
        assert steps.of(store, Query(kind="run.ended")) > 100
