"""Runs whose answers, commits and people come in any order: nothing begins before the record has what it is built on, and wherever
the record ends, a re-run comes out the same until then.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from hansard.app.driving.gates import Gates
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import Budget
from hansard.domain.exchange import Exchange
from hansard.errors import UsageError
from hansard.orchestration.gates import read_rules
from hansard.orchestration.journal import Journal
from running import POOR, Answers, Desk, Ledger, Said, audit, completion, desk, fails, obliging, plan, roster, task, who

TELLING = (1048, 1191)
"""Those that have found something."""
MANY = [pytest.param(seed, marks=pytest.mark.long) for seed in range(1000, 1200) if seed not in TELLING]
TELLING_OF_TIME = (156, 159, 249, 409, 412, 423, 646, 663, 727, 781, 832)
"""The same, of lanes with seconds."""
TIMED = [pytest.param(seed, marks=pytest.mark.long) for seed in range(1000) if seed not in TELLING_OF_TIME]


class Chance:
    """A plan, limits, gates, answers and delays that follow from one number."""

    def __init__(self, seed: int) -> None:
        self._seed, self._random, self.hurried = seed, random.Random(seed), False
        self.rows = [self._row(number) for number in range(self._random.randrange(3, 8))]
        self.wishes = self._random.choice(self._limits())
        self.gates: list[dict[str, Any]] = []
        if self._random.random() < 0.4:
            self.gates = [{"tasks": [self._random.choice(self.rows)["id"]]}, {"before": "plan"}]
            self.gates = self.gates[: self._random.randrange(1, 3)]

    def _row(self, number: int) -> dict[str, Any]:
        needs = [f"t{before}" for before in range(number) if self._random.random() < 0.35]
        lane, behaviour = self._random.choice(["alpha", "beta"]), self._random.choice(["skip", "run"])
        return task(f"t{number}", *needs, lane=lane, on_upstream_failure=behaviour)

    def _limits(self) -> list[Wishes]:
        few, some = Budget(max_calls=self._random.randrange(1, 6)), self._random.randrange(2, 2 * len(self.rows) + 2)
        ladder = ("told", "told:better")
        return [
            Wishes(),
            Wishes(max_calls=some),
            Wishes(roster=roster(alpha={"budget": few})),
            Wishes(ladder=ladder),
            Wishes(judge="checks", answer="join"),
            Wishes(roster=roster(alpha={"budget": few}, beta={"max_parallel": 1}), ladder=ladder),
        ]

    @property
    def is_limited(self) -> bool:
        return self.wishes.max_calls is not None or self.wishes.roster is not None

    async def wait(self) -> None:
        """As long as it takes: no time at all, some turns of the loop, or a while."""
        chance = 0.0 if self.hurried else self._random.random()
        if chance > 0.85:
            await asyncio.sleep(self._random.random() * 0.003)
        elif chance > 0.3:
            for _ in range(self._random.randrange(1, 8)):
                await asyncio.sleep(0)

    async def says(self, exchange: Exchange) -> Said:
        role, about, attempt = who(exchange)
        told = random.Random(f"{self._seed} {role} {about} {attempt} {exchange.metadata.get('turn')}").random()
        await self.wait()
        if role == "worker" and told < 0.2:
            return fails("auth_failure" if told < 0.12 else "invalid_request", "it did not work")
        if role == "validator" and told < 0.25:
            return POOR if told < 0.2 else "I would rather not say"
        said = obliging(exchange)
        assert isinstance(said, str | dict)
        return said

    @asynccontextmanager
    async def people(self, at: Desk, *, rejecting: bool = True) -> Any:
        """Somebody who decides at every gate."""

        async def decide() -> None:
            gates = Gates(at.recorder, at.store)
            while True:
                for gate in gates.listed():
                    rejects = rejecting and gate["task"] is not None and self._random.random() < 0.3
                    with suppress(UsageError):
                        await gates.decide(gate["gate"], "reject" if rejects else "approve")
                await asyncio.sleep(0.002)

        deciding = asyncio.ensure_future(decide())
        try:
            yield
        finally:
            deciding.cancel()

    def some(self, commits: range) -> list[int]:
        return self._random.sample(commits, min(4, len(commits)))


class Timed(Chance):
    """The same in lanes that have seconds, of which each answer says how many it took."""

    def _limits(self) -> list[Wishes]:
        seconds = {"budget": Budget(max_seconds=self._random.choice([0.5, 1, 2, 3]))}
        both = roster(alpha=seconds, beta=seconds)
        return [
            Wishes(roster=roster(alpha=seconds)),
            Wishes(roster=both),
            Wishes(roster=roster(alpha=seconds, beta={"max_parallel": 1}), ladder=("told", "told:better")),
            Wishes(roster=both, judge="checks", answer="join"),
        ]

    async def says(self, exchange: Exchange) -> Said:
        said = await super().says(exchange)
        if not isinstance(said, str) or who(exchange)[0] != "worker":
            return said
        took = random.Random(f"{self._seed} took {who(exchange)}").random()
        return completion(said, latency_us=round(took * 1_500_000))


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[Chance], None]:
    """Commits that take their time."""

    def make(chance: Chance) -> None:
        for name in ("record", "record_all"):
            monkeypatch.setattr(Journal, name, _late(getattr(Journal, name), chance))

    return make


def _late(record: Callable[..., Coroutine[Any, Any, Any]], chance: Chance) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def late(*given: Any) -> Any:
        recorded = await record(*given)
        await chance.wait()
        return recorded

    return late


def check(at: Desk, run: str, rows: list[dict[str, Any]]) -> None:
    """Causes are as they must be, and whatever a task needs was settled on the record before it began."""
    audit(at.store, run)
    needs, settled = {row["id"]: row["needs"] for row in rows}, set[object]()
    for entry in at.entries(run, "task.attempted", "task.judged", "task.skipped"):
        if entry.kind != "task.attempted":
            settled.add(entry.data["task"])
        else:
            assert settled.issuperset(needs[entry.data["task"]]), f"entry {entry.seq}"


async def identical(at: Desk, run: str, *where: object) -> None:
    report = await at.runs.rerun(run, {})
    assert report["identical"] is True, (*where, report)


@pytest.mark.parametrize("seed", [*TELLING, *MANY])
async def test_in_any_order(seed: int, slowly: Callable[[Chance], None]) -> None:
    chance, ledger = Chance(seed), Ledger()
    slowly(chance)
    at = desk(Answers(chance.says), store=ledger)
    config = replace(at.config(chance.wishes), gates=read_rules(chance.gates, "test"))
    run = await at.runs.submit("please", config, plan=plan(*chance.rows))
    async with chance.people(at):
        await at.runs.drive(run, wait=True)
    check(at, run, chance.rows)
    chance.hurried = True
    await identical(at, run)
    # Whether somebody came to a gate before the budget ended is not told by a record that ends between the two.
    for commits in range(3, len(ledger.commits)) if not (chance.gates and chance.is_limited) else ():
        await identical(desk(store=ledger.until(commits)), run, commits)
    for commits in chance.some(range(3, len(ledger.commits))):
        later, chance.hurried = desk(Answers(), store=ledger.until(commits)), False
        async with chance.people(later, rejecting=False):
            await later.runs.drive(run, wait=True)
        check(later, run, chance.rows)
        chance.hurried = True
        await identical(later, run, commits)


@pytest.mark.parametrize("seed", [*TELLING_OF_TIME, *TIMED])
async def test_lanes_run_out_of_seconds_in_any_order(seed: int, slowly: Callable[[Chance], None]) -> None:
    chance = Timed(seed)
    if seed % 2 == 0:
        slowly(chance)
    ledger = Ledger()
    at = desk(Answers(chance.says), store=ledger)
    run = await at.runs.submit("please", at.config(chance.wishes), plan=plan(*chance.rows))
    await at.runs.drive(run, wait=True)
    check(at, run, chance.rows)
    chance.hurried = True
    await identical(at, run)
    for commits in range(3, len(ledger.commits)):
        await identical(desk(store=ledger.until(commits)), run, commits)


@pytest.mark.parametrize("seed", MANY)
async def test_interrupted_cancelled_and_retried_at_any_moment(seed: int, slowly: Callable[[Chance], None]) -> None:
    chance, moment = Chance(seed), random.Random(seed)
    slowly(chance)
    at = desk(Answers(chance.says), store=Ledger())
    config = replace(at.config(chance.wishes), gates=read_rules(chance.gates, "test"))
    run = await at.runs.submit("please", config, plan=plan(*chance.rows))
    for end in (*moment.choices(["end", "interrupt", "cancel"], k=2), "end"):
        async with chance.people(at):
            driving = asyncio.ensure_future(at.runs.drive(run, wait=True))
            if end != "end":
                await asyncio.sleep(moment.random() * 0.02)
            if end == "interrupt":
                driving.cancel()
            elif end == "cancel":
                with suppress(UsageError):
                    await at.runs.cancel(run)
            await asyncio.wait([driving])
        with suppress(UsageError):
            await at.runs.ask_to_retry(run, moment.choice(chance.rows)["id"])
    audit(at.store, run)
    chance.hurried = True
    await identical(at, run)
