import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from hansard.app.telling.following import MOST_QUEUED, Follower, frames_after, over_at
from hansard.ledger.entry import Entry
from hansard.record.history import fold
from hansard.store.base import Query
from running import Answers, Desk, desk, plan, task


@contextlib.asynccontextmanager
async def followed(here: Desk):  # type: ignore[no-untyped-def]
    follower = Follower(here.store)
    work = asyncio.create_task(follower.work())
    try:
        yield follower
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_a_follower_hears_of_its_own_run_only() -> None:
    here = desk(Answers())
    async with followed(here) as follower:
        mine, other = await here.submit(), await here.submit()
        with follower.follow(mine) as heard:
            assert follower.count == 1
            await here.runs.drive(other)
            await here.runs.drive(mine)
            await follower.caught_up(10)
            frames = await heard.wait(1)
        assert follower.count == 0
    assert frames[-1].kind == "run.ended"
    assert {here.store.entry(frame.seq).run for frame in frames} == {mine}


async def test_a_follower_that_is_slow_reads_on_from_the_record() -> None:
    here = desk(Answers())
    follower = Follower(here.store)
    run = await here.submit()
    [first, *_] = frames_after(here.store, run, -1, 10)
    with follower.follow(run) as heard:
        for _ in range(MOST_QUEUED + 1):
            heard.put(first)
        assert await heard.wait(1) == []
        assert heard.behind


async def test_everybody_is_sent_home_at_the_end() -> None:
    here = desk(Answers())
    follower = Follower(here.store)
    with follower.follow("r") as heard:
        follower.close()
        assert await heard.wait(10) == []
        assert heard.closed
    with follower.follow("r") as late:
        assert late.closed


async def test_a_run_that_is_taken_up_again_is_not_over() -> None:
    here = desk(Answers())
    run = await here.submit()
    assert over_at(here.store, run) is None
    await here.runs.drive(run)
    assert over_at(here.store, run) == here.entries(run)[-1].seq
    [task] = [entry.data["task"] for entry in here.entries(run, "task.attempted")]
    await here.runs.retry(run, str(task))
    assert over_at(here.store, run) == here.entries(run)[-1].seq
    assert [entry.kind for entry in here.entries(run)].count("run.ended") == 2


async def test_whoever_begins_to_follow_while_nobody_did_misses_nothing() -> None:
    here = desk(Answers())
    run = await here.submit()
    async with followed(here) as follower:
        await follower.caught_up(10)
        # The follower's thread waits for news now, and nobody watches yet.
        await asyncio.sleep(0.05)
        with follower.follow(run) as heard:
            known = frames_after(here.store, run, -1, 100)
            await here.runs.drive(run)
            await follower.caught_up(10)
            told = await heard.wait(1)
    seqs = [frame.seq for frame in (*known, *told)]
    assert sorted(set(seqs)) == [frame.seq for frame in frames_after(here.store, run, -1, 1000)]


def counted(monkeypatch: pytest.MonkeyPatch, at: Desk) -> list[int]:
    """How many entries each question to the store gives from now on."""
    select, given = at.store.select, list[int]()

    def noted(query: Query) -> Iterator[Entry]:
        found = list(select(query))
        given.append(len(found))
        return iter(found)

    monkeypatch.setattr(at.store, "select", noted)
    return given


async def test_a_run_that_is_followed_page_by_page_is_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    run = (await at.run(plan=plan(*(task(f"t{number}") for number in range(30))))).run
    entries = at.entries(run)
    told = [(folded.state, folded.over) for folded in (fold(entries[:end]).runs[run] for end in range(1, len(entries)))]
    read = counted(monkeypatch, at)
    assert [at.runs.state(run, entry.seq) for entry in entries[:-1]] == told
    assert at.runs.state(run) == ("answered", True)
    assert sum(read) == len(entries)
    # Whoever goes back is told what it was then.
    assert at.runs.state(run, entries[3].seq) == told[3]


async def test_whoever_keeps_a_run_does_not_read_it_anew_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hansard.app.driving.runs.KEEP_S", 0.001)
    at = desk(Answers())
    run = await at.submit()
    read = counted(monkeypatch, at)
    keeping = asyncio.ensure_future(at.runs.keep(run))
    await asyncio.sleep(0.2)
    keeping.cancel()
    assert len(read) > 2
    assert sum(read) == len(["run.requested", "run.configured"])
