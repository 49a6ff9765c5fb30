"""A plan is refused before anything runs, and the refusal names the culprit."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.app.setup.wishes import Wishes
from hansard.domain.roster import Policy
from hansard.errors import UsageError
from hansard.orchestration.plan import MAX_TASKS, Check, Need, Plan, Task, parse_plan
from running import Answers, Ledger, desk, plan, roster, task

ALL = Policy()


def parsed(*tasks: dict[str, Any], policy: Policy = ALL, commands: bool = True, most: int = MAX_TASKS) -> Plan:
    return parse_plan(plan(*tasks), roster(), policy, commands=commands, most=most)


@pytest.mark.parametrize(
    ("tasks", "culprits"),
    [
        ([task("a"), task("a")], ["'a'", "twice"]),
        ([task("a", "z")], ["'a'", "'z'", "not in the plan"]),
        ([task("a", "a")], ["'a'", "itself"]),
        ([task("a"), task("b", "a", "a")], ["'b'", "'a'", "twice"]),
        ([task("a", "c"), task("b", "a"), task("c", "b"), task("d")], ["a needs c needs b needs a"]),
        ([task("x", "a"), task("a", "b"), task("b", "a")], ["a needs b needs a"]),
        ([task("a", lane="nowhere")], ["'a'", "'nowhere'", "alpha"]),
        ([], ["no tasks"]),
        ([{"id": "a", "lane": "alpha"}], ["(a)", "instruction"]),
        ([{**task("a"), "instruction": "  "}], ["(a)", "instruction"]),
        ([{**task("a"), "id": ""}], ["tasks 1", "id"]),
        ([{**task("a"), "id": "x" * 101}], ["id", "100"]),
        ([{**task("a"), "id": "a\nb"}], ["id", "printable"]),
        ([{**task("a"), "id": 5}], ["id"]),
        ([{**task("a"), "wishes": "more"}], ["wishes"]),
        ([{**task("a"), "needs": "b"}], ["needs", "list"]),
        ([{**task("a"), "needs": [7]}], ["needs 1"]),
        ([task("a"), task("b", {"task": "a", "kind": "maybe"})], ["kind", "maybe"]),
        ([task("a", on_upstream_failure="panic")], ["on_upstream_failure", "panic"]),
        ([task("a", checks=[{"regex": "x", "schema": {}}])], ["one of command, schema, regex"]),
        ([task("a", checks=[{}])], ["one of command, schema, regex"]),
        ([task("a", checks=[{"regex": "x", "flags": "i"}])], ["flags"]),
        ([task("a", checks=[{"regex": "("}])], ["regex", "'('"]),
        ([task("a", checks=[{"schema": {"type": "banana"}}])], ["banana"]),
        ([task("a", checks=[{"command": []}])], ["command"]),
        ([task("a", checks=[{"regex": "x"}] * 21)], ["21 checks"]),
        ([task("a", done_when={"not": "a list"})], ["done_when"]),
    ],
)
def test_a_refused_plan_names_the_culprit(tasks: list[dict[str, Any]], culprits: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(*tasks)
    for culprit in culprits:
        assert culprit in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        (Policy(deny_lanes=("alpha",)), "deny_lanes"),
        (Policy(allow_lanes=("beta",)), "allow_lanes"),
        (Policy(deny_categories=("test",)), "deny_categories"),
        (Policy(allow_categories=("other",)), "allow_categories"),
    ],
)
def test_a_lane_that_policy_forbids_is_refused_with_the_task_and_the_rule(policy: Policy, rule: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(task("a"), policy=policy)
    assert "'a'" in str(refused.value)
    assert "'alpha'" in str(refused.value)
    assert rule in str(refused.value)


def test_a_model_may_not_write_a_check_that_runs_a_program() -> None:
    row = task("a", checks=[{"command": ["true"]}])
    assert parsed(row).tasks[0].checks[0].kind == "command"
    with pytest.raises(UsageError, match="only a plan that a person wrote"):
        parsed(row, commands=False)


def test_a_plan_of_more_tasks_than_allowed_is_refused_by_their_number() -> None:
    with pytest.raises(UsageError, match="51 tasks; at most 50"):
        parsed(*(task(f"t{each}") for each in range(51)), most=50)


async def test_a_request_of_any_size_that_is_taken_can_be_the_instruction_of_its_one_task() -> None:
    store = Ledger()
    run = await desk(Answers(), store=store).submit("x" * 1_500_000, lane="alpha", wishes=Wishes(judge="checks"))
    ended = await desk(Answers(), store=store).runs.drive(run)
    assert ended.state == "answered"


@pytest.mark.parametrize("data", [None, 3, "plan", [], {}, {"tasks": None}, {"tasks": "a"}, {"tasks": ["a"]}])
def test_what_is_no_plan_at_all_is_refused_with_a_usage_error(data: object) -> None:
    with pytest.raises(UsageError):
        parse_plan(data, roster(), ALL, commands=True)


@st.composite
def dags(draw: st.DrawFn, most: int = 12) -> Plan:
    """A random plan, written in an order that need not follow its edges."""
    size = draw(st.integers(1, most))
    rows = []
    for at in range(size):
        needs = draw(st.sets(st.integers(0, at - 1), max_size=3)) if at else set()
        kinds = draw(st.lists(st.sampled_from(["data", "order"]), min_size=3, max_size=3))
        edges = [{"task": f"t{need}", "kind": kind} for need, kind in zip(sorted(needs), kinds, strict=False)]
        behaviour = draw(st.sampled_from(["skip", "skip", "run"]))
        lane = draw(st.sampled_from(["alpha", "beta", "gamma"]))
        rows.append(task(f"t{at}", *edges, lane=lane, on_upstream_failure=behaviour))
    return parsed(*draw(st.permutations(rows)))


@settings(max_examples=50)
@given(dags())
def test_a_plan_survives_the_way_through_plain_data(made: Plan) -> None:
    assert parse_plan(made.as_data(), roster(), ALL, commands=True) == made


@settings(max_examples=50)
@given(dags())
def test_the_order_keeps_every_edge_and_waves_hold_every_task_once(made: Plan) -> None:
    place = {id: at for at, id in enumerate(made.order)}
    level = {id: at for at, wave in enumerate(made.waves) for id in wave}
    assert sorted(place) == sorted(level) == sorted(each.id for each in made.tasks)
    for each in made.tasks:
        assert all(place[need.task] < place[each.id] for need in each.needs)
        assert level[each.id] == max((level[need.task] + 1 for need in each.needs), default=0)


@settings(max_examples=50)
@given(dags(), st.data())
def test_closing_a_circle_anywhere_is_refused_and_the_circle_is_real(made: Plan, data: st.DataObject) -> None:
    edges = [(each.id, need.task) for each in made.tasks for need in each.needs]
    if not edges:
        return
    consumer, need = data.draw(st.sampled_from(edges))
    rows = made.as_data()["tasks"]
    for row in rows:
        if row["id"] == need:
            row["needs"] = [*row.get("needs", []), {"task": consumer, "kind": "data"}]
    with pytest.raises(UsageError, match="circle: ") as refused:
        parsed(*rows)
    path = str(refused.value).partition("circle: ")[2].partition(";")[0].split(" needs ")
    needs = {row["id"]: {each["task"] for each in row.get("needs", [])} for row in rows}
    assert path[0] == path[-1]
    assert all(after in needs[before] for before, after in pairwise(path))


def test_a_plan_that_is_one_already_is_held_against_the_roster() -> None:
    made = Plan(tasks=(Task(id="a", lane="alpha", instruction="x"),))
    assert parse_plan(made, roster(), ALL, commands=True) is made
    with pytest.raises(UsageError, match="no lane 'nowhere'"):
        parse_plan(Plan(tasks=(Task(id="a", lane="nowhere", instruction="x"),)), roster(), ALL, commands=True)
    two = Plan(tasks=tuple(Task(id=id, lane="alpha", instruction="x") for id in "ab"))
    with pytest.raises(UsageError, match="at most 1"):
        parse_plan(two, roster(), ALL, commands=True, most=1)


def test_a_plan_with_a_program_is_refused_from_a_model_whatever_way_it_comes() -> None:
    check = Check(kind="command", value=("true",))
    made = Plan(tasks=(Task(id="a", lane="alpha", instruction="x", checks=(check,)),))
    assert parse_plan(made, roster(), ALL, commands=True) is made
    with pytest.raises(UsageError, match=r"'a'.*person"):
        parse_plan(made, roster(), ALL, commands=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Task(id="", lane="alpha", instruction="x"),
        lambda: Task(id="a\nb", lane="alpha", instruction="x"),
        lambda: Task(id=7, lane="alpha", instruction="x"),  # type: ignore[arg-type]
        lambda: Task(id="a", lane=None, instruction="x"),  # type: ignore[arg-type]
        lambda: Task(id="a", lane="alpha", instruction=" "),
        lambda: Task(id="a", lane="alpha", instruction="x", on_upstream_failure="stop"),  # type: ignore[arg-type]
        lambda: Task(id="a", lane="alpha", instruction="x", done_when=(1,)),  # type: ignore[arg-type]
        lambda: Task(id="a", lane="alpha", instruction="x", needs=("b",)),  # type: ignore[arg-type]
        lambda: Task(id="a", lane="alpha", instruction="x", checks=("true",)),  # type: ignore[arg-type]
        lambda: Need(task=1),  # type: ignore[arg-type]
        lambda: Need(task="a", kind="odd"),  # type: ignore[arg-type]
        lambda: Check(kind="regex", value="("),
        lambda: Check(kind="command", value=()),
        lambda: Check(kind="command", value="rm"),
        lambda: Check(kind="schema", value="{}"),
        lambda: Check(kind="odd", value=1),  # type: ignore[arg-type]
    ],
)
def test_a_piece_of_a_plan_that_makes_no_sense_cannot_be_made(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError):
        make()
