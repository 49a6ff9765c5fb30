"""The schedule over random plans, with random endings in a random order."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.domain.roster import Policy
from hansard.orchestration.plan import Plan, Task, parse_plan
from hansard.orchestration.schedule import Schedule, Skip
from running import plan, roster, task


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    rows = []
    for at in range(draw(st.integers(1, 14))):
        needs = sorted(draw(st.sets(st.integers(0, at - 1), max_size=3))) if at else []
        lane = draw(st.sampled_from(["alpha", "beta", "gamma"]))
        behaviour = draw(st.sampled_from(["skip", "skip", "run"]))
        rows.append(task(f"t{at}", *(f"t{need}" for need in needs), lane=lane, on_upstream_failure=behaviour))
    return parse_plan(plan(*draw(st.permutations(rows))), roster(), Policy(), commands=True)


def keys(each: Task) -> tuple[str, ...]:
    return ("run", f"lane:{each.lane}")


@dataclass
class Told:
    """What became of each task when a plan was played through."""

    started: list[str] = field(default_factory=list)
    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)


def played(made: Plan, limits: dict[str, int], data: st.DataObject) -> Told:
    """Play a plan to its end; every rule that holds at an instant is checked at that instant."""
    schedule, told, running = Schedule(made, limits=limits, keys=keys), Told(), list[str]()

    def settled(id: str) -> bool:
        return id in told.passed or id in told.failed or id in told.skipped

    def skip(skips: list[Skip]) -> None:
        for each in skips:
            assert each.upstream in told.failed or each.upstream in told.skipped
            assert any(need.task == each.upstream for need in made.task(each.task).needs)
            told.skipped[each.task] = each.upstream

    while True:
        for each in schedule.start():
            for need in each.needs:
                assert need.task in told.passed or (each.on_upstream_failure == "run" and settled(need.task))
            told.started.append(each.id)
            running.append(each.id)
            for key, most in limits.items():
                assert sum(key in keys(made.task(id)) for id in running) <= most
        assert schedule.busy == len(running)
        assert schedule.ready == sum(schedule.state(task.id) == "ready" for task in made.tasks)
        if not running:
            break
        ends = running.pop(data.draw(st.integers(0, len(running) - 1)))
        if data.draw(st.booleans()) or data.draw(st.booleans()):
            told.passed.add(ends)
            schedule.passed(ends)
        else:
            told.failed.add(ends)
            skip(schedule.failed(ends))
    assert not schedule.unsettled
    return told


LIMITS = st.fixed_dictionaries(
    {"run": st.integers(1, 5)}, optional={"lane:alpha": st.integers(1, 3), "lane:beta": st.integers(1, 2)}
)


@settings(max_examples=50)
@given(plans(), LIMITS, st.data())
def test_every_task_starts_after_its_inputs_passed_and_settles_once_within_all_limits(
    made: Plan, limits: dict[str, int], data: st.DataObject
) -> None:
    told = played(made, limits, data)
    ids = {each.id for each in made.tasks}
    assert len(told.started) == len(set(told.started))
    assert set(told.started) == told.passed | told.failed
    assert set(told.started) | set(told.skipped) == ids
    assert not set(told.started) & set(told.skipped)


@settings(max_examples=50)
@given(plans(), LIMITS, st.data())
def test_skipped_means_that_an_ancestor_failed_and_that_the_task_did_not_ask_to_run_all_the_same(
    made: Plan, limits: dict[str, int], data: st.DataObject
) -> None:
    told = played(made, limits, data)
    for id in told.skipped:
        assert made.task(id).on_upstream_failure == "skip"
        at = id
        while at in told.skipped:
            at = told.skipped[at]
        assert at in told.failed
    for each in made.tasks:
        if each.on_upstream_failure == "run":
            assert each.id in told.started


@settings(max_examples=50)
@given(plans(), st.data())
def test_of_the_tasks_that_are_ready_the_first_of_the_plan_starts_first(made: Plan, data: st.DataObject) -> None:
    place = {each.id: at for at, each in enumerate(made.tasks)}
    schedule, running, passed = Schedule(made, limits={"run": 2}, keys=keys), list[str](), set[str]()
    while schedule.unsettled:
        for each in schedule.start():
            ready = [
                other.id
                for other in made.tasks
                if other.id not in passed
                and other.id not in running
                and all(need.task in passed for need in other.needs)
            ]
            assert each.id == min(ready, key=place.__getitem__)
            running.append(each.id)
        ends = running.pop(data.draw(st.integers(0, len(running) - 1)))
        passed.add(ends)
        schedule.passed(ends)


def test_a_lane_that_is_full_does_not_hold_up_another() -> None:
    made = parse_plan(plan(task("a"), task("b"), task("c", lane="beta")), roster(), Policy(), commands=True)
    schedule = Schedule(made, limits={"run": 8, "lane:alpha": 1}, keys=keys)
    assert [each.id for each in schedule.start()] == ["a", "c"]


def test_a_halted_schedule_starts_nothing_more() -> None:
    made = parse_plan(plan(task("a"), task("b")), roster(), Policy(), commands=True)
    schedule = Schedule(made, limits={"run": 1}, keys=keys)
    assert [each.id for each in schedule.start()] == ["a"]
    schedule.halted = True
    schedule.passed("a")
    assert list(schedule.start()) == []
    assert schedule.unsettled == ["b"]


def test_a_task_with_one_failed_and_one_open_input_runs_only_when_both_are_settled() -> None:
    rows = [task("a"), task("b"), task("c", "a", "b", on_upstream_failure="run")]
    schedule = Schedule(parse_plan(plan(*rows), roster(), Policy(), commands=True), limits={"run": 8}, keys=keys)
    assert [each.id for each in schedule.start()] == ["a", "b"]
    assert schedule.failed("a") == []
    assert list(schedule.start()) == []
    schedule.passed("b")
    assert [each.id for each in schedule.start()] == ["c"]


def test_a_task_that_is_held_takes_no_place_until_it_is_released_and_what_needs_it_is_skipped_where_it_is_not() -> None:
    rows = [task("a"), task("b", "a"), task("c"), task("d", "c")]
    made = parse_plan(plan(*rows), roster(), Policy(), commands=True)
    schedule = Schedule(made, limits={"run": 1}, keys=keys, held={"b", "c"})
    assert [each.id for each in schedule.start()] == ["a"]
    schedule.passed("a")
    assert [list(schedule.holding), schedule.busy, schedule.ready] == [["c", "b"], 0, 0]
    assert schedule.unsettled == ["b", "c", "d"]
    schedule.release("b")
    schedule.release("b")
    assert [list(schedule.holding), schedule.busy, schedule.ready] == [["c"], 0, 1]
    assert [each.id for each in schedule.start()] == ["b"]
    assert schedule.skipped("c") == [Skip("d", "c")]
    assert not schedule.holding
    assert schedule.unsettled == ["b"]
    with pytest.raises(ValueError, match="'c' is skipped already"):
        schedule.passed("c")
