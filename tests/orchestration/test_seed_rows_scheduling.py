"""The failures of scheduling that the seed engine was made to show (section 3.4): not here. Events instead of clocks."""

import asyncio

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from running import FINE, POOR, Answers, Said, blocks, desk, one, plan, task, user_text, who

CHECKS = Wishes(judge="checks", answer="join")


async def test_a_task_starts_as_soon_as_its_own_input_passed_whatever_else_is_slow() -> None:
    """3.4, wave barrier."""
    begun = asyncio.Event()

    async def says(exchange: Exchange) -> Said:
        id = who(exchange)[1]
        if id == "after":
            begun.set()
        if id == "slow":
            # Stands in the same wave as `quick`, and ends only when what follows `quick` has begun.
            await begun.wait()
        return "done"

    ended = await asyncio.wait_for(
        desk(Answers(says)).run(plan=plan(task("slow"), task("quick"), task("after", "quick")), wishes=CHECKS), 60
    )
    assert ended.state == "answered"


async def test_a_failed_upstream_stops_its_dependents() -> None:
    """3.4 B."""
    provider = Answers(lambda exchange: "" if who(exchange)[1] == "a" else "fine")
    made = desk(provider)
    ended = await made.run(plan=plan(task("a"), task("b", "a"), task("c", "b"), task("d")), wishes=CHECKS)
    assert ended.state == "partial"
    assert {who(each)[1] for each in provider.calls} == {"a", "d"}
    assert made.runs.show(ended.run)["missing"] == ["a", "b", "c"]


async def test_validators_judge_side_by_side_and_before_anybody_consumes() -> None:
    """3.4 H."""
    everybody = asyncio.Barrier(12)

    async def says(exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        if role == "validator" and id != "last":
            await everybody.wait()
            return FINE
        return FINE if role == "validator" else "done"

    provider = Answers(says)
    fan = [task(f"t{each}") for each in range(12)]
    rows = plan(*fan, task("last", *(each["id"] for each in fan)))
    ended = await asyncio.wait_for(desk(provider).run(plan=rows, wishes=Wishes(max_parallel=12)), 60)
    assert ended.state == "answered"
    order = [who(each)[:2] for each in provider.calls]
    assert order.index(("worker", "last")) > max(order.index(("validator", each["id"])) for each in fan)


async def test_what_is_built_on_a_repaired_result_is_built_on_the_repaired_one() -> None:
    """3.4 I."""

    def says(exchange: Exchange) -> Said:
        role, id, _ = who(exchange)
        if role == "validator":
            return POOR if "BAD" in user_text(exchange) else FINE
        if id == "t1":
            return "BAD" if exchange.metadata["rung"] == "cheap" else "GOOD"
        return f"built from: {dict(blocks(user_text(exchange))).get('result-t1', user_text(exchange))}"

    provider = Answers(says, id="cheap")
    better = Answers(says, id="capable")
    made = desk(provider, better, settings={"tiers": {"cheap": "cheap", "capable": "capable"}})
    ended = await made.run(plan=plan(task("t1"), task("t2", "t1")))
    assert ended.state == "answered"
    consumer = one([each for each in made.entries(ended.run, "task.returned") if each.data["task"] == "t2"])
    assert made.text(consumer, "output") == "built from: GOOD"
    assert all("BAD" not in user_text(each) for each in better.asked("synthesizer"))


@pytest.mark.parametrize("count", [24, 64])
async def test_as_many_tasks_run_at_once_as_are_allowed_and_there_is_no_hidden_cap(count: int) -> None:
    """3.4, hidden cap: all of them wait for each other, so fewer at once would never end."""
    everybody = asyncio.Barrier(count)

    async def says(_: Exchange) -> Said:
        await everybody.wait()
        return "done"

    provider = Answers(says)
    rows = plan(*(task(f"t{each}") for each in range(count)))
    wishes = Wishes(judge="checks", answer="join", max_parallel=count)
    ended = await asyncio.wait_for(desk(provider).run(plan=rows, wishes=wishes), 60)
    assert ended.state == "answered"
    assert provider.peak["worker"] == count


async def test_fifty_runs_go_on_side_by_side() -> None:
    """3.4, hidden cap, shared by a whole process."""
    everybody = asyncio.Barrier(50)

    async def says(_: Exchange) -> Said:
        await everybody.wait()
        return "done"

    made = desk(Answers(says))
    runs = await asyncio.wait_for(
        asyncio.gather(*(made.run(plan=plan(task("a")), wishes=CHECKS) for _ in range(50))), 60
    )
    assert {each.state for each in runs} == {"answered"}


async def test_a_limit_of_seconds_stops_a_task_that_takes_longer() -> None:
    """3.4, --max-seconds."""

    async def says(_: Exchange) -> Said:
        await asyncio.Event().wait()
        return "never"

    ended = await desk(Answers(says)).run(plan=plan(task("a")), wishes=Wishes(max_seconds=0.2))
    assert (ended.state, ended.reason) == ("stopped", "deadline")


async def test_limits_of_run_lane_and_provider_hold_at_every_instant() -> None:
    """3.4 and the design: the provider's own limit counts across roles."""
    from hansard.providers.limits import Limited
    from running import roster

    lanes = roster(alpha={"max_parallel": 2}, beta={"max_parallel": 3})
    provider = Answers(pause_s=0.002)
    made = desk(Limited(provider, max_concurrent=4))
    rows = plan(*(task(f"t{each}", lane=("alpha", "beta", "gamma")[each % 3]) for each in range(24)))
    ended = await made.run(plan=rows, wishes=Wishes(roster=lanes, max_parallel=6))
    assert ended.state == "answered"
    assert provider.peak["lane:alpha"] <= 2
    assert provider.peak["lane:beta"] <= 3
    assert provider.peak["worker"] <= 6
    assert provider.peak["all"] == 4


async def test_a_limit_in_a_providers_table_holds_over_all_its_runs() -> None:
    """3.4 and the design: limits per provider."""
    from hansard.providers.scripted import Scripted

    entries = [{"match": {"role": "worker"}, "text": "done", "latency_s": 0.002}]
    table = {"kind": "scripted", "on_exhaustion": "loop", "entries": entries, "max_concurrent": 3}
    made = desk(settings={"providers": {"script": table}})
    rows = plan(*(task(f"t{each}") for each in range(10)))
    runs = await asyncio.gather(*(made.run(plan=rows, wishes=CHECKS) for _ in range(3)))
    assert {each.state for each in runs} == {"answered"}
    provider: object = made.pool.means_of(made.config()).providers["script"]
    while not isinstance(provider, Scripted):
        provider = getattr(provider, "inner")  # noqa: B009 - a wrapper of any kind
    assert provider.report().calls == 30
    assert provider.report().peak == 3
