"""Leases run by a clock, and clocks go wrong: no claim is held for years because one was. Before its lease ends only the dead lose one."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hansard.domain.value import replace
from hansard.errors import Fenced
from hansard.store.base import Draft, Store
from hansard.store.conformance.sample import Clock, genesis
from hansard.store.holder import Holder, why_free
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


def test_claims_of_runs_that_are_over_are_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.store.sqlite.writer.MOST_EPOCHS", 4)
    store = SqliteStore.create(tmp_path / "l.db", genesis())
    held = [store.claim(f"r{number}", 15.0) for number in range(20)]
    assert len(store._writer._epochs) <= 4
    store.release(held[0])
    assert store.claim("r0", 15.0).epoch == 2
    with pytest.raises(Fenced):
        store.renew(held[0], 15.0)
    for claim in held[1:]:
        store.renew(claim, 15.0)
    store.close()


def test_a_process_that_is_gone_loses_its_claim_and_one_that_lives_does_not() -> None:
    gone = replace(Holder.here(), started="0")
    assert why_free("r1", 1, gone.text(), 1_000_000) == "dead"
    with pytest.raises(Fenced):
        why_free("r1", 1, Holder.here().text(), 1_000_000)


def test_whoever_meets_a_process_that_lives_is_not_told_that_its_seconds_run_out() -> None:
    """It renews its lease: who waits for those seconds is refused again."""
    with pytest.raises(Fenced, match="which is alive and keeps it; wait until it is done with it") as said:
        why_free("r1", 1, Holder.here().text(), 12_000_000)
    assert " s more" not in str(said.value)
    with pytest.raises(Fenced, match="for 12 s more, and on from there while that lives"):
        why_free("r1", 1, replace(Holder.here(), host="another").text(), 12_000_000)


@pytest.mark.parametrize("name", ["host", "boot", "pids"])
def test_a_process_that_cannot_be_seen_from_here_is_not_called_dead(name: str) -> None:
    """Another machine may have our name, and another container our boot."""
    there = replace(Holder.here(), started="0", **{name: "another"})
    with pytest.raises(Fenced, match="is held by process"):
        why_free("r1", 1, there.text(), 1_000_000)


@pytest.mark.parametrize("name", ["host", "boot", "pids"])
def test_a_clock_that_was_ahead_before_a_reboot_keeps_no_claim_from_anybody_for_hours(name: str) -> None:
    """Nobody can tell by its process whether that claim is free, and its lease was of seconds."""
    two_hours_us = 7_200 * 1_000_000
    there = replace(Holder.here(), **{name: "another"})
    assert why_free("r1", 1, there.text(), two_hours_us) == "expired"
    with pytest.raises(Fenced, match="is held by process"):
        why_free("r1", 1, Holder.here().text(), two_hours_us)


@contextmanager
def no_more_files() -> Iterator[None]:
    """A process that may open nothing more; what it has open works."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_can_open_no_more_files_calls_nobody_dead() -> None:
    here = Holder.here().text()
    with no_more_files(), pytest.raises(Fenced, match="is held by process"):
        why_free("r1", 1, here, 1_000_000)


def test_who_took_a_claim_while_he_could_open_no_more_files_is_not_dead() -> None:
    with no_more_files():
        here = Holder.here().text()
    with pytest.raises(Fenced, match="is held by process"):
        why_free("r1", 1, here, 1_000_000)


def test_a_process_is_the_same_whatever_it_does() -> None:
    before = Holder.here()
    grown = bytes(64 << 20)
    assert Holder.here() == before
    assert len(grown) > 0


ODD = [f'{{"boot":"b","host":"h","pids":"p","started":"0","pid":{pid}}}' for pid in ("1e999", '"x"', "null", "[]")]


@pytest.mark.parametrize("odd", [*ODD, "{}", "[]", "7", "somebody"])
def test_a_holder_that_is_none_holds_until_its_lease_ends(odd: str) -> None:
    with pytest.raises(Fenced, match="is held by somebody for 1 s more"):
        why_free("r1", 1, odd, 1_000_000)
