import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from hansard.domain.work import CancelAsked
from hansard.errors import Fenced
from hansard.orchestration import watching
from hansard.orchestration.watching import Watch
from hansard.store.base import Claim
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft
from running import Answers, Desk, desk


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.01)


async def asks_to_cancel(at: Desk, run: str) -> int:
    return (await at.recorder.record(CancelAsked(surface="cli"), actor="human:ann", run=run)).seq


class Heard:
    """Who was told to stop, and a way to wait for somebody to be."""

    def __init__(self) -> None:
        self.who: list[str] = []
        self._changed = asyncio.Event()

    def by(self, name: str) -> Callable[[], None]:
        def cancel() -> None:
            self.who.append(name)
            self._changed.set()

        return cancel

    async def wait(self) -> None:
        async with asyncio.timeout(30):
            await self._changed.wait()


async def test_each_run_hears_its_own_cancellation_and_no_other() -> None:
    at = desk(Answers())
    watch, told = Watch(at.store), Heard()
    one, two = (at.store.claim(name, 60.0) for name in ("one", "two"))
    newest = at.store.head().size - 1
    with watch.over(one, newest, told.by("one")), watch.over(two, newest, told.by("two")):
        await asks_to_cancel(at, "two")
        await told.wait()
    assert set(told.who) == {"two"}


async def test_a_run_whose_look_begins_earlier_wakes_no_cancellation_that_another_has_behind_it() -> None:
    at = desk(Answers())
    watch, told = Watch(at.store), Heard()
    early = at.store.head().size - 1
    known = await asks_to_cancel(at, "again")
    again, late = (at.store.claim(name, 60.0) for name in ("again", "late"))
    with (
        watch.over(again, known, told.by("again")),
        watch.over(late, early, told.by("late")),
    ):
        await asks_to_cancel(at, "late")
        await told.wait()
    assert set(told.who) == {"late"}


async def test_a_claim_that_was_lost_ends_no_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LEASE_S", 0.001)
    at = desk(Answers())
    watch, told = Watch(at.store), Heard()
    mine = at.store.claim("one", 0.0)
    at.store.claim("one", 60.0)
    with watch.over(mine, at.store.head().size - 1, told.by("one")):
        await asyncio.sleep(0.05)
        await asks_to_cancel(at, "one")
        await told.wait()


async def test_the_claims_of_many_runs_are_renewed_with_one_commit(tmp_path: Path) -> None:
    store = SqliteStore.create(tmp_path / "ledger.db", genesis_draft())
    at, told, done = desk(Answers(), store=store), Heard(), list[str]()
    watch, claims = Watch(store), [store.claim(f"r{number}", 60.0) for number in range(20)]
    store._writer.connection.set_trace_callback(done.append)
    newest = store.head().size - 1
    with ExitStack() as watched:
        for claim in claims:
            watched.enter_context(watch.over(claim, newest, told.by(claim.name)))
        await asks_to_cancel(at, "r1")
        await told.wait()
    renewed = [said for said in done if said.startswith("UPDATE claims")]
    assert len(renewed) == len(claims)
    # One is that of the cancellation.
    assert done.count("COMMIT") <= 2
    store.close()


async def test_claims_that_were_taken_one_after_the_other_are_renewed_together_before_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "LEASE_S", 0.6)
    at, together = desk(Answers()), list[set[str]]()
    watch, renew_all, newest = Watch(at.store), at.store.renew_all, at.store.head().size - 1

    def noted(claims: Sequence[Claim], lease_s: float) -> None:
        together.append({claim.name for claim in claims})
        renew_all(claims, lease_s)

    monkeypatch.setattr(at.store, "renew_all", noted)
    with ExitStack() as watched:
        for name in ("one", "two", "three"):
            watched.enter_context(watch.over(at.store.claim(name, 60.0), newest, lambda: None))
            await asyncio.sleep(0.07)
        first = len(together)
        async with asyncio.timeout(30):
            while len(together) < first + 4:  # noqa: ASYNC110 - renewing a lease rings no bell
                await asyncio.sleep(0.01)
    assert together[-1] == together[-2] == {"one", "two", "three"}


async def test_a_claim_that_was_nearly_over_when_its_run_was_read_is_renewed_at_once() -> None:
    # To read the record of a long run takes its time, and the claim was taken before.
    at = desk(Answers())
    claim = at.store.claim("one", 0.2)
    with Watch(at.store).over(claim, at.store.head().size - 1, lambda: None):
        await asyncio.sleep(0.4)
        with pytest.raises(Fenced):
            at.store.claim("one", 60.0)
