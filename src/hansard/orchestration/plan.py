"""A plan: which tasks, in which lanes, built on what. Parsed strictly, and refused before anything runs.

Pure. Execution does not follow waves; they are a way to show a plan.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, get_args

from hansard.domain.fields import Fields
from hansard.domain.roster import Policy, Roster
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers.schema import compile as compile_schema

EdgeKind = Literal["data", "order"]
OnFailure = Literal["skip", "run"]
CheckKind = Literal["command", "schema", "regex"]

MAX_TASKS = 20_000
MAX_ID = 100
MAX_INSTRUCTION = 10_000_000
MAX_CHECKS = 20
_EDGES, _ON_FAILURE = get_args(EdgeKind), get_args(OnFailure)
_OPTIONAL = ("needs", "done_when", "checks", "on_upstream_failure")


@value
class Need:
    """What a task waits for. A data edge carries the upstream's output into the prompt; an order edge carries nothing."""

    task: str
    kind: EdgeKind = "data"

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or self.kind not in _EDGES:
            raise UsageError(
                f"a need is the id of a task, and one of data, order; not {self.task!r:.80}, {self.kind!r:.20}"
            )


@value
class Check:
    """A cheap check of a result: a program that must end with 0, a JSON Schema, a regular expression."""

    kind: CheckKind
    value: Any

    def __post_init__(self) -> None:
        match self.kind:
            case "command" if isinstance(self.value, tuple) and self.value and _are_texts(self.value):
                return
            case "schema" if isinstance(self.value, Mapping):
                compile_schema(self.value)
            case "regex" if isinstance(self.value, str):
                _refuse_pattern(self.value)
            case _:
                raise UsageError('a check is a command such as ["python3", "check.py"], a schema, or a regex')

    def as_data(self) -> dict[str, Any]:
        return {self.kind: list(self.value) if self.kind == "command" else self.value}


@value
class Task:
    """One piece of work."""

    id: str
    lane: str
    instruction: str
    needs: tuple[Need, ...] = ()
    done_when: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    on_upstream_failure: OnFailure = "skip"

    def __post_init__(self) -> None:
        id, instruction = self.id, self.instruction
        if not isinstance(id, str) or not id or len(id) > MAX_ID or not id.isprintable():
            raise UsageError(f"id must be a printable text of 1 to {MAX_ID} characters, not {id!r:.120}")
        if not isinstance(instruction, str) or not instruction.strip() or len(instruction) > MAX_INSTRUCTION:
            raise UsageError(f"({id}) instruction must be a text of 1 to {MAX_INSTRUCTION:,} characters")
        if not isinstance(self.lane, str) or self.on_upstream_failure not in _ON_FAILURE:
            raise UsageError(f"({id}) a task has a lane, and on_upstream_failure is one of skip, run")
        if self.done_when and not _are_texts(self.done_when):
            raise UsageError(f"({id}) done_when must be texts")
        if not all(type(each) is Need for each in self.needs) or not all(type(each) is Check for each in self.checks):
            raise UsageError(f"({id}) needs are Needs, and checks are Checks")

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"id": self.id, "lane": self.lane, "instruction": self.instruction}
        if self.needs:
            data["needs"] = [{"task": need.task, "kind": need.kind} for need in self.needs]
        if self.done_when:
            data["done_when"] = list(self.done_when)
        if self.checks:
            data["checks"] = [check.as_data() for check in self.checks]
        if self.on_upstream_failure != "skip":
            data["on_upstream_failure"] = self.on_upstream_failure
        return data


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Tasks in the order in which they were written. Every need names a task of the plan, and nothing goes in circles."""

    tasks: tuple[Task, ...]
    _by_id: Mapping[str, Task] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id: dict[str, Task] = {}
        for task in self.tasks:
            if task.id in by_id:
                raise UsageError(f"task id {task.id!r} stands in the plan twice; give one of them another id")
            by_id[task.id] = task
        for task in self.tasks:
            if task.needs:
                _check_needs(task, by_id)
        object.__setattr__(self, "_by_id", by_id)
        if not by_id:
            raise UsageError("the plan has no tasks; write at least one")
        if len(self.order) < len(by_id):
            raise UsageError(f"the plan goes in a circle: {' needs '.join(self._circle())}; remove one of these needs")

    def task(self, id: str) -> Task:
        """The task of this id; UsageError names those that there are."""
        found = self._by_id.get(id)
        if found is None:
            known = ", ".join(list(self._by_id)[:20])
            raise UsageError(f"the plan has no task {id!r}; its tasks are {known}")
        return found

    def has(self, id: str) -> bool:
        return id in self._by_id

    @cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Which tasks wait for a task."""
        found: dict[str, list[str]] = {task.id: [] for task in self.tasks}
        for task in self.tasks:
            for need in task.needs:
                found[need.task].append(task.id)
        return {id: tuple(each) for id, each in found.items()}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The ids so that each comes after what it needs; shorter than the plan when it goes in a circle."""
        return tuple(self._levels)

    @cached_property
    def waves(self) -> tuple[tuple[str, ...], ...]:
        """The ids by how many steps lie before them: a way to show the plan."""
        rows: list[list[str]] = []
        for id, level in self._levels.items():
            if level == len(rows):
                rows.append([])
            rows[level].append(id)
        return tuple(tuple(row) for row in rows)

    @property
    def edges(self) -> int:
        return sum(len(task.needs) for task in self.tasks)

    @cached_property
    def _levels(self) -> dict[str, int]:
        left = {task.id: len(task.needs) for task in self.tasks}
        level = {id: 0 for id, count in left.items() if not count}
        ready, found = deque(level), dict[str, int]()
        while ready:
            id = ready.popleft()
            found[id] = level[id]
            for consumer in self.consumers[id]:
                left[consumer] -= 1
                level[consumer] = max(level.get(consumer, 0), level[id] + 1)
                if not left[consumer]:
                    ready.append(consumer)
        return found

    def _circle(self) -> list[str]:
        """One circle among the tasks that no order reaches."""
        stuck = {task.id for task in self.tasks} - set(self._levels)
        at, path, seen = next(task.id for task in self.tasks if task.id in stuck), list[str](), dict[str, int]()
        while at not in seen:
            seen[at] = len(path)
            path.append(at)
            at = next(need.task for need in self._by_id[at].needs if need.task in stuck)
        return [*path[seen[at] :], at]

    def as_data(self) -> dict[str, Any]:
        """The plan as a file that `parse_plan` reads back."""
        return {"tasks": [task.as_data() for task in self.tasks]}

    @classmethod
    def single(cls, lane: str, instruction: str) -> Self:
        """The plan of a run with one task."""
        return cls(tasks=(Task(id="task", lane=lane, instruction=instruction),))


def _check_needs(task: Task, by_id: Mapping[str, Task]) -> None:
    seen: set[str] = set()
    for need in task.needs:
        if need.task not in by_id:
            raise UsageError(f"task {task.id!r} needs {need.task!r}, which is not in the plan")
        if need.task == task.id:
            raise UsageError(f"task {task.id!r} needs itself; remove that need")
        if need.task in seen:
            raise UsageError(f"task {task.id!r} needs {need.task!r} twice; write it once")
        seen.add(need.task)


def parse_plan(
    data: object, roster: Roster, policy: Policy, *, where: str = "plan", commands: bool, most: int = MAX_TASKS
) -> Plan:
    """A plan out of plain data, or a UsageError that names the culprit. A plan that is one already is held against the roster.

    `commands` says whether checks may run programs: a person's plan may, a model's may not.
    """
    plan = data if isinstance(data, Plan) else _read(data, where, most)
    if len(plan.tasks) > most:
        raise UsageError(f"{where}: {len(plan.tasks):,} tasks; at most {most:,} are allowed")
    allowed: set[str] = set()
    for task in plan.tasks:
        if task.lane not in allowed:
            refuse_lane(task.lane, roster, policy, f"{where}: task {task.id!r}")
            allowed.add(task.lane)
        if not commands and any(check.kind == "command" for check in task.checks):
            raise UsageError(f"{where}: task {task.id!r}: only a plan that a person wrote may run a program as a check")
    return plan


def _read(data: object, where: str, most: int) -> Plan:
    fields = Fields(data, where)
    rows = fields.tables("tasks")
    fields.done()
    if len(rows) > most:
        raise UsageError(f"{where}: {len(rows):,} tasks; at most {most:,} are allowed")
    try:
        return Plan(tasks=tuple(_task(row) for row in rows))
    except UsageError as error:
        raise UsageError(_placed(error, where)) from error


def refuse_lane(name: str, roster: Roster, policy: Policy, where: str) -> None:
    """UsageError when there is no such lane, or policy forbids it."""
    lane = roster.lane(name)
    if lane is None:
        raise UsageError(f"{where}: there is no lane {name!r}; roster {roster.name!r} has {', '.join(roster.names)}")
    if (why := policy.refuses(lane)) is not None:
        raise UsageError(f"{where}: lane {name!r} is not allowed: {why}")


def _task(fields: Fields) -> Task:
    has = fields.has
    try:
        task = Task(
            id=fields.text("id"),
            lane=fields.text("lane"),
            instruction=fields.text("instruction"),
            needs=_needs(fields) if has("needs") else (),
            done_when=_texts(fields, "done_when") if has("done_when") else (),
            checks=_checks(fields) if has("checks") else (),
            on_upstream_failure=_on_failure(fields) if has("on_upstream_failure") else "skip",
        )
    except UsageError as error:
        raise UsageError(_placed(error, fields.where)) from error
    fields.done(_OPTIONAL)
    return task


def _on_failure(fields: Fields) -> OnFailure:
    return fields.choice("on_upstream_failure", ("skip", "run"), "skip")


def _needs(fields: Fields) -> tuple[Need, ...]:
    needs: list[Need] = []
    for number, each in enumerate(_list(fields, "needs"), 1):
        if isinstance(each, str):
            needs.append(Need(task=each))
            continue
        need = Fields(each, f"{fields.where}, needs {number}")
        needs.append(Need(task=need.text("task"), kind=need.choice("kind", ("data", "order"), "data")))
        need.done()
    return tuple(needs)


def _checks(fields: Fields) -> tuple[Check, ...]:
    rows = fields.tables("checks")
    if len(rows) > MAX_CHECKS:
        raise UsageError(f"{fields.where}: {len(rows)} checks; at most {MAX_CHECKS} are allowed")
    return tuple(_check(row) for row in rows)


def _check(fields: Fields) -> Check:
    given = [kind for kind in ("command", "schema", "regex") if fields.has(kind)]
    if len(given) != 1:
        raise UsageError(f"{fields.where}: a check has one of command, schema, regex")
    value: Any
    match given[0]:
        case "command":
            value = _texts(fields, "command")
        case "schema":
            value = fields.table("schema")
        case _:
            value = fields.text("regex")
    fields.done()
    try:
        return Check(kind=given[0], value=value)  # type: ignore[arg-type]
    except UsageError as error:
        raise UsageError(_placed(error, fields.where)) from error


def _refuse_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"regex {pattern!r:.200} is no regular expression: {error}") from error


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.any(name)
    return (value,) if isinstance(value, str) else fields.texts(name)


def _list(fields: Fields, name: str) -> list[Any]:
    value = fields.any(name, [])
    if not isinstance(value, list | tuple):
        raise fields.wrong(name, "a list", value)
    return list(value)


def _placed(error: UsageError, where: str) -> str:
    message = str(error)
    return message if message.startswith(where) else f"{where}: {message}"
