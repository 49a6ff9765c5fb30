"""Gates: where people decide before the machine goes on. Pure: times and entries are passed in.

A decision counts when it was made on exactly what the gate shows, by somebody who may decide. An edit voids what others had
approved before it, at this gate or at another: they approved something else.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.domain.work import PlanMade
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.plan import Task

OnExpiry = Literal["approve", "reject"]
Outcome = Literal["approved", "edited", "rejected"]
PLAN = PlanMade.KIND


@value
class Rule:
    """One gate of a configuration: before the plan runs, or before named tasks or lanes."""

    name: str
    plan: bool = False
    tasks: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    needed: int = 1
    approvers: tuple[str, ...] = ()
    deadline_s: float | None = None
    on_expiry: OnExpiry = "reject"
    question: str = ""
    asked: bool = False
    """Asked for in this run: a plan without such a task waits as a whole. A standing rule is about tasks that may never come."""
    editor: str = ""
    """Who wrote what is shown now: he has had his say."""

    def holds(self, task: Task) -> bool:
        return task.id in self.tasks or task.lane in self.lanes

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "needed": self.needed, "on_expiry": self.on_expiry}
        data |= {"before": "plan"} if self.plan else {"tasks": list(self.tasks), "lanes": list(self.lanes)}
        data |= {"approvers": list(self.approvers), "question": self.question}
        data |= {"asked": True} if self.asked else {}
        return data if self.deadline_s is None else data | {"deadline_s": self.deadline_s}


@dataclass(slots=True, kw_only=True)
class Gate:
    """A gate as the record tells it."""

    id: str
    rule: str
    opened: Entry
    decisions: list[Entry] = field(default_factory=list)
    closed: Entry | None = None

    @property
    def task(self) -> str | None:
        task: str | None = self.opened.data.get("task")
        return task

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(self.opened.data["shown"])

    @property
    def deadline_us(self) -> int | None:
        deadline: int | None = self.opened.data.get("deadline_us")
        return deadline


class Closing(NamedTuple):
    """How a gate closes, and the decisions that made it."""

    outcome: Outcome
    because: tuple[int, ...]
    expired: bool = False


def read_rules(rows: Sequence[object], where: str, *, recorded: bool = False) -> tuple[Rule, ...]:
    """The gates of a configuration, as somebody wrote them or as they were `recorded`. UsageError says what is wrong."""
    rules: list[Rule] = []
    for number, row in enumerate(rows, 1):
        rule = _rule(Fields(row, f"{where}, gate {number}"), number, recorded)
        if rule.name in [each.name for each in rules]:
            raise UsageError(f"{where}: gate {rule.name!r} stands there twice")
        rules.append(rule)
    return tuple(rules)


def _rule(fields: Fields, number: int, recorded: bool) -> Rule:
    before = fields.choice("before", ("plan", "tasks"), "tasks")
    approvers = _texts(fields, "approvers")
    rule = Rule(
        name=fields.text("name", f"gate-{number}"),
        plan=before == "plan",
        tasks=_texts(fields, "tasks"),
        lanes=_texts(fields, "lanes"),
        needed=fields.count("needed", 1, least=1),
        approvers=approvers,
        deadline_s=fields.number("deadline_s"),
        on_expiry=fields.choice("on_expiry", ("approve", "reject"), "reject"),
        question=fields.text("question"),
        asked=recorded and fields.flag("asked"),
    )
    fields.done()
    if not rule.plan and not rule.tasks and not rule.lanes:
        raise UsageError(f'{fields.where}: say where it stands: before = "plan", or tasks = [...], or lanes = [...]')
    if approvers and len(set(approvers)) < rule.needed:
        raise UsageError(
            f"{fields.where}: {rule.needed} approvals are needed and only {len(set(approvers))} may give one"
        )
    return rule


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    found = fields.texts(name)
    if "" in found:
        raise fields.wrong(name, "a list of texts", fields.any(name))
    return found


def gate_id(nonce: str, rule: str, task: str | None, number: int) -> str:
    """A gate's short name: the same in a re-run, and unlike any other in the ledger."""
    about = f"gate|{rule}|{task or ''}|{number}"
    return f"g-{hmac.new(nonce.encode(), about.encode('utf-8', 'surrogatepass'), sha256).hexdigest()[:12]}"


def closing(gate: Gate, rule: Rule, now_us: int) -> Closing | None:
    """Whether a gate can be closed now, and how."""
    if end := _settled(counting(gate, rule), rule):
        return end
    if gate.deadline_us is not None and now_us >= gate.deadline_us:
        return Closing("approved" if rule.on_expiry == "approve" else "rejected", (), expired=True)
    return None


def _settled(standing: Mapping[str, Entry], rule: Rule) -> Closing | None:
    """How these words close a gate; None while they do not suffice."""
    edit = next((each for each in standing.values() if each.data["decision"] == "edit"), None)
    if edit is not None:
        return Closing("edited", (edit.seq,))
    approvals = [each.seq for each in standing.values() if each.data["decision"] == "approve"]
    if len(approvals) >= rule.needed:
        return Closing("approved", tuple(sorted(approvals)))
    rejections = [each.seq for each in standing.values() if each.data["decision"] == "reject"]
    # Where anybody may decide nobody is left over: one rejection is enough.
    left = len({*rule.approvers} - {rule.editor}) - len(rejections)
    return Closing("rejected", tuple(sorted(rejections))) if rejections and left < rule.needed else None


def counting(gate: Gate, rule: Rule) -> Mapping[str, Entry]:
    """The newest decision of each who may decide, of those made on exactly what is shown, before the deadline.

    A gate that has got the words it needs is decided: whoever spoke at the same moment and came behind them came too late.
    """
    standing: dict[str, Entry] = {}
    for each in gate.decisions:
        if not is_bound(gate, each):
            continue
        if each.actor == rule.editor or (rule.approvers and each.actor not in rule.approvers):
            continue
        standing[each.actor] = each
        if _settled(standing, rule):
            break
    return standing


def is_bound(gate: Gate, decision: Entry) -> bool:
    """Whether a decision was made on exactly what is shown, before the deadline."""
    # A log that was once written by a clock ahead of this one stands still until that is past ([E5]), and tells no time meanwhile.
    last = None if gate.deadline_us is None else max(gate.deadline_us, gate.opened.ts)
    return (last is None or decision.ts <= last) and tuple(decision.data["shown"]) == gate.shown


def after_edit(rule: Rule, editor: str) -> Rule | None:
    """What is still needed once somebody edited: the others' word on the new text. None where his was enough."""
    return None if rule.needed <= 1 else replace(rule, needed=rule.needed - 1, editor=editor)
