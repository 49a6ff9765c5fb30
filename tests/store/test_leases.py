"""Leases run by a clock, and clocks go wrong: no claim is held for years because one was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hansard.errors import Fenced
from hansard.store.base import Draft, Store
from hansard.store.conformance.sample import Clock, genesis
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore

Make = Callable[[Path, Draft, Clock], Store]
MAKERS: dict[str, Make] = {
    "jsonl": lambda folder, first, clock: JsonlStore.create(folder / "l.jsonl", first, clock=clock),
    "sqlite": lambda folder, first, clock: SqliteStore.create(folder / "l.db", first, clock=clock),
}
YEAR_S = 365 * 86_400


@pytest.mark.parametrize("form", MAKERS)
def test_a_clock_that_was_years_ahead_gives_nobody_a_claim_for_years(tmp_path: Path, form: str) -> None:
    clock = Clock()
    store = MAKERS[form](tmp_path, genesis(), clock)
    clock.advance(YEAR_S)
    store.claim("seal", 15.0)
    clock.advance(-60.0)
    with pytest.raises(Fenced):
        store.claim("seal", 15.0)
    clock.advance(-YEAR_S)
    assert (store.claim("seal", 15.0).epoch, store.claim("r1", 15.0).epoch) == (2, 1)
    store.close()
