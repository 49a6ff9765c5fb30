"""Where things stand in a drawing: tasks by waves, calls along time, causes and effects. Coordinates only; templates draw."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hansard.app.telling.leaves import Leaves
from hansard.app.telling.waves import levels
from hansard.app.views import View

WIDTH, HEIGHT, ACROSS, DOWN = 150, 44, 44, 14
MOST_DRAWN = 400
MOST_BESIDE = 8
SCALE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box: what it leads to, two lines of text, and its place."""

    name: str
    link: str
    title: str
    line: str
    state: str
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Boxes and the curves between them."""

    nodes: tuple[Node, ...]
    edges: tuple[str, ...]
    width: int
    height: int
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One call along the time of a run, in thousandths of its length."""

    name: str
    took_us: int
    x: int
    width: int
    answered: bool
    awaited: bool
    failed: bool
    seq: int


def waves(tasks: Sequence[View]) -> Drawing:
    """Tasks by waves: each stands one column behind the last one that it needs."""
    known = {task["task"] for task in tasks[:MOST_DRAWN]}
    level = levels({task["task"]: [need for need in task["needs"] if need in known] for task in tasks[:MOST_DRAWN]})
    columns: dict[int, list[Node]] = {}
    for task in tasks:
        name = task["task"]
        if name in level:
            column = columns.setdefault(level[name], [])
            x, y = _place(level[name], len(column))
            line = f"{task['state']} · {task['lane'] or ''}"
            column.append(Node(name=name, link=f"#task-{name}", title=name, line=line, state=task["state"], x=x, y=y))
    pairs = [(need, task["task"]) for task in tasks for need in task["needs"]]
    return _drawn(columns, pairs, len(tasks) - len(level))


def causal(entry: View, look: Callable[[int], View | None]) -> Drawing:
    """An entry between what caused it and what it caused, two steps each way."""
    beside: dict[int, list[View]] = {0: [entry]}
    pairs: dict[tuple[str, str], None] = {}
    left_out = 0
    for step, member in ((-1, "causes"), (1, "effects")):
        for at in (step, 2 * step):
            known = {view["seq"] for column in beside.values() for view in column}
            before = beside.get(at - step, [])
            wanted = dict.fromkeys(seq for view in before for seq in view[member] if seq not in known)
            chosen = list(wanted)[:MOST_BESIDE]
            left_out += len(wanted) - len(chosen)
            beside[at] = [view for seq in chosen if (view := look(seq)) is not None]
            pairs |= {
                (str(min(seq, view["seq"])), str(max(seq, view["seq"]))): None
                for view in before
                for seq in view[member]
            }
    columns = {at: [_entry_node(view, at, row) for row, view in enumerate(column)] for at, column in beside.items()}
    return _drawn(columns, list(pairs), left_out)


def _entry_node(view: View, at: int, row: int) -> Node:
    x, y = _place(at, row)
    seq, state = str(view["seq"]), "" if at else "self"
    return Node(name=seq, link=f"/dashboard/ledger/{seq}", title=f"#{seq}", line=view["kind"], state=state, x=x, y=y)


def timeline(entries: Sequence[View]) -> tuple[Bar, ...]:
    """Every call of a model or program, from when it was asked until it answered."""
    asked = {entry["seq"]: entry for entry in entries if entry["kind"] in ("task.attempted", "role.asked")}
    answered: dict[int, View] = {}
    for entry in entries:
        if entry["kind"] in ("task.returned", "role.answered"):
            answered |= dict.fromkeys((seq for seq in entry["causes"] if seq in asked), entry)
    if not asked:
        return ()
    first, last = entries[0]["ts"], entries[-1]["ts"]
    length = max(1, last - first)
    # Whoever takes a run over asks anew: nothing comes of what was asked before.
    leaves = Leaves((entry["seq"], entry["kind"], entry["ts"]) for entry in entries)
    return tuple(_bar(seq, each, answered.get(seq), first, last, length, leaves) for seq, each in asked.items())


def _bar(seq: int, asked: View, answered: View | None, first: int, last: int, length: int, leaves: Leaves) -> Bar:
    data: Mapping[str, Any] = asked["data"]
    left_us = leaves.until_us(seq, answered["seq"] if answered else None)
    end = left_us or (answered["ts"] if answered else last)
    name = f"{data['task']}, attempt {data['attempt']}" if asked["kind"] == "task.attempted" else str(data["role"])
    if asked["kind"] == "role.asked" and data.get("task"):
        name += f" of {data['task']}"
    x = SCALE * (asked["ts"] - first) // length
    return Bar(
        name=name,
        took_us=end - asked["ts"],
        x=x,
        width=max(4, SCALE * (end - asked["ts"]) // length),
        answered=answered is not None,
        awaited=left_us is None and answered is None,
        failed=answered is not None and answered["data"]["ok"] is not True,
        seq=seq,
    )


def _place(column: int, row: int) -> tuple[int, int]:
    return 2 + column * (WIDTH + ACROSS), 2 + row * (HEIGHT + DOWN)


def _drawn(columns: Mapping[int, list[Node]], pairs: Sequence[tuple[str, str]], left_out: int) -> Drawing:
    nodes = tuple(node for column in columns.values() for node in column)
    if not nodes:
        return Drawing(nodes=(), edges=(), width=0, height=0, left_out=left_out)
    shift = min(node.x for node in nodes) - 2
    nodes = tuple(replace(node, x=node.x - shift) for node in nodes)
    places = {node.name: (node.x, node.y) for node in nodes}
    edges = tuple(_edge(places[one], places[other]) for one, other in pairs if one in places and other in places)
    right, bottom = max(x for x, _ in places.values()), max(y for _, y in places.values())
    return Drawing(nodes=nodes, edges=edges, width=right + WIDTH + 2, height=bottom + HEIGHT + 2, left_out=left_out)


def _edge(one: tuple[int, int], other: tuple[int, int]) -> str:
    x1, y1, x2, y2 = one[0] + WIDTH, one[1] + HEIGHT // 2, other[0], other[1] + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}"
