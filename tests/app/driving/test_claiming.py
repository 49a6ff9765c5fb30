"""Runs that bear the name that their caller gave them."""

import asyncio
import time

import pytest

from hansard.app.driving.claiming import beginning
from hansard.errors import RunTaken, Unavailable, UsageError
from hansard.store.base import Claim, Query
from ledgers import draft, memory, request
from running import Answers, desk

RUN = "0190a6f1-2222-4333-8444-555566667777"


async def test_a_run_whose_submitter_died_before_it_was_recorded_can_be_sent_again() -> None:
    """It is not called taken, which would be believed: nobody would ever do it."""
    store = memory(time.time)
    store.claim(RUN, 0.3)
    async with beginning(store, RUN) as run:
        store.append([[draft(request(), run=run)]])
    assert [entry.run for entry in store.select(Query(run=RUN))] == [RUN]
    with pytest.raises(RunTaken):
        async with beginning(store, RUN):
            raise AssertionError("there is such a run")


async def test_whoever_is_overtaken_before_he_has_the_claim_of_a_run_does_not_begin_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other may have recorded it, and given its claim back, since he looked."""
    store = memory()
    claim = store.claim

    def overtaken(name: str, lease_s: float) -> Claim:
        store.append([[draft(request(), run=name)]])
        return claim(name, lease_s)

    monkeypatch.setattr(store, "claim", overtaken)
    with pytest.raises(RunTaken):
        async with beginning(store, RUN):
            raise AssertionError("there is such a run")
    # Nor does he keep it from whoever is to drive it.
    claim(RUN, 60)


async def test_whoever_waits_in_vain_is_told_to_send_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.driving.claiming.PATIENCE_S", 0.2)
    store = memory()
    store.claim(RUN, 60)
    with pytest.raises(Unavailable, match="send it again"):
        async with beginning(store, RUN):
            raise AssertionError("somebody else has it")


@pytest.mark.parametrize("run", ["seal", "worker", "", RUN.upper().replace("0", "A"), f"{RUN}\n", RUN[:-1]])
async def test_what_is_no_uuid_names_no_run(run: str) -> None:
    """The claims of whoever seals and of whoever works have names, too."""
    store = memory()
    with pytest.raises(UsageError, match="cannot be a run's id"):
        async with beginning(store, run):
            raise AssertionError("it has begun")
    assert store.epoch(run) == 0


async def test_of_several_at_once_one_begins_and_the_others_hear_of_it() -> None:
    store = memory()

    async def begin() -> bool:
        try:
            async with beginning(store, RUN) as run:
                await asyncio.sleep(0.05)
                store.append([[draft(request(), run=run)]])
        except RunTaken:
            return False
        return True

    assert sorted(await asyncio.gather(*(begin() for _ in range(5)))) == [False] * 4 + [True]


@pytest.mark.parametrize("run", [None, RUN, "ffffffff-ffff-7fff-bfff-ffffffffffff"])
async def test_a_run_that_nobody_has_driven_begins_as_new_whoever_named_it(run: str | None) -> None:
    """Its name is claimed before it is on the record; whoever drove it first was told to go on with it."""
    at = desk(Answers())
    ended = await at.run(run=run)
    assert [each.data["because"] for each in at.entries(ended.run, "run.claimed")] == ["new"]
