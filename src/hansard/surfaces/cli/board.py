"""What a screen shows of a run while it goes on: a fold over what is recorded. Knows no terminal and no clock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hansard.app.telling.waves import levels
from hansard.surfaces.hearing import Event, Text
from hansard.surfaces.narrate import pause, reason

SETTLED = ("passed", "rejected", "skipped")
_OF_PEOPLE = ("gate.decided", "run.cancel_asked", "run.resume_asked", "run.retry_asked")
"""What is said while nobody may be at work."""


@dataclass(slots=True, kw_only=True)
class Row:
    """One task. `since_us` is when its present state began."""

    task: str
    lane: str = ""
    wave: int = 0
    needs: tuple[str, ...] = ()
    state: str = "waiting"
    rung: str = ""
    attempt: int = 0
    climbed: bool = False
    score_ppm: int | None = None
    why: str = ""
    since_us: int = 0
    again_us: int | None = None
    """When it is tried again that failed in passing."""
    took_us: int | None = None


@dataclass(slots=True, kw_only=True)
class Board:
    """A run as a screen shows it."""

    run: str = ""
    request: str = ""
    state: str = "requested"
    reason: str = ""
    doing: str = ""
    waits: str = ""
    """Before whom a pause is made, and why."""
    lane: str = ""
    rows: dict[str, Row] = field(default_factory=dict)
    waves: int = 0
    calls: int = 0
    tokens: int = 0
    cost_usd_nano: int = 0
    is_priced: bool = True
    """Whether the sum is all of it: of models without a price nobody knows what they cost."""
    calling: int = 0
    """Calls that have no answer yet. Those that are under way when a driver ends count, whatever came of them."""
    panels: set[str] = field(default_factory=set)
    """Tasks and roles that a panel answers: what that takes is counted turn by turn."""
    gates: dict[str, str] = field(default_factory=dict)
    """Those that are open, each with its task, if it stands before one."""
    limits: Mapping[str, int] = field(default_factory=dict)
    began_us: int | None = None
    last_us: int = 0
    worked_us: int = 0
    """When the newest entry was written that was not said by people."""

    def take(self, event: Event) -> None:
        """Fold one entry of the run in."""
        self.run, kind, data, text, ts = event
        before, self.last_us = self.worked_us, ts
        self.worked_us = before if kind in _OF_PEOPLE else ts
        match kind:
            case "run.requested":
                self.request = text("request") or ""
            case "run.configured":
                names = ("max_calls", "max_tokens", "max_cost_usd_nano", "max_seconds")
                self.limits = {name: data[name] for name in names if data.get(name) is not None}
            case "run.claimed":
                self.state = self._waiting_or("running")
                self._lose()
                # What lies between two drivers is nobody's work.
                self.began_us = ts if self.began_us is None else self.began_us + ts - before
            case "run.routed":
                self.lane, self.doing = data.get("lane") or self.lane, ""
            case "plan.made":
                self._planned(text("plan"))
            case "role.asked":
                self._asked(data)
            case "role.answered":
                self.doing, self.waits = "", pause(data)
                self._answered(f"role {data['role']}", data)
            case "turn.asked" | "tools.returned":
                self.calling, self.waits = self.calling + 1, ""
            case "ensemble.answered" | "panel.selected" | "tools.called" | "turn.taken" | "turn.failed":
                self._turn(kind, data, text)
                self.waits = pause(data)
            case "run.retry_asked":
                self._again(data["task"])
            case "gate.opened":
                self.gates[data["gate"]] = data.get("task") or ""
                self.state = "waiting"
            case "gate.closed":
                self.gates.pop(data["gate"], None)
                self.state = self._waiting_or("running")
            case "run.interrupted":
                self.state, self.doing, self.waits = "interrupted", "", ""
                self._lose()
            case "run.ended":
                self.state, self.reason, self.doing, self.waits = data["state"], data["reason"], "", ""
                self._lose()
            case _ if kind.startswith("task."):
                self._task(kind, data, text, ts)

    @property
    def is_moving(self) -> bool:
        # Beside a gate whatever does not stand behind it goes on.
        at_work = self.doing or any(row.state not in ("waiting", *SETTLED) for row in self.rows.values())
        return self.state in ("requested", "running") or (self.state == "waiting" and bool(at_work))

    def waits_for(self, row: Row) -> str:
        """What a task waits for that has not begun: people, or the tasks that it needs and that are not settled."""
        if row.task in self.gates.values():
            return "a decision"
        return ", ".join(need for need in row.needs if need not in self.rows or self.rows[need].state not in SETTLED)

    def elapsed_s(self, now_us: int) -> float:
        """How long it has been worked on: what people take is nobody's work, and counts against no limit."""
        until_us = now_us if self.is_moving else self.worked_us
        return max(0, until_us - (self.began_us or until_us)) / 1e6

    def count(self, *states: str) -> int:
        return sum(1 for row in self.rows.values() if row.state in states)

    def _waiting_or(self, state: str) -> str:
        return "waiting" if self.gates else state

    def _planned(self, plan: str | None) -> None:
        for task in json.loads(plan)["tasks"] if plan else []:
            needs = tuple(need["task"] for need in task.get("needs", []))
            row = self.rows.setdefault(task["id"], Row(task=task["id"]))
            row.lane, row.needs = task["lane"], needs
        for id, level in levels({id: row.needs for id, row in self.rows.items()}).items():
            self.rows[id].wave = level
        self.waves = 1 + max((row.wave for row in self.rows.values()), default=0)

    def _asked(self, data: Mapping[str, Any]) -> None:
        self._calls(f"role {data['role']}", data)
        self.waits = ""
        row = self.rows.get(data.get("task") or "")
        if data["role"] == "validator" and row:
            row.state = "judging"
        else:
            self.doing = _DOING.get(data["role"], f"asking the {data['role']}")

    def _again(self, task: str) -> None:
        """A task is to be done again, and with it whatever needs it."""
        self.state, again = "requested", {task}
        for row in sorted(self.rows.values(), key=lambda row: row.wave):
            if row.task in again or not again.isdisjoint(row.needs):
                again.add(row.task)
                row.state = "waiting"

    def _calls(self, who: str, data: Mapping[str, Any]) -> None:
        if data["provider"].startswith("panel:"):
            self.panels.add(who)
        else:
            self.panels.discard(who)
            self.calling += 1

    def _answered(self, who: str, data: Mapping[str, Any]) -> None:
        if who not in self.panels:
            # Where none is under way it was lost, and counted then: this stands on the record in the place of its answer.
            self._spend(min(1, self.calling), data["input_tokens"] + data["output_tokens"], data)

    def _turn(self, kind: str, data: Mapping[str, Any], text: Text) -> None:
        """What a call of a session left behind. None are a panel that no model chose, and a message that nobody was asked for."""
        calls = data.get("calls")
        if data.get("prompt_tokens") is None or (kind == "turn.taken" and text("result") is None):
            return
        tokens = data["prompt_tokens"] + data["completion_tokens"]
        self._spend(1 if calls is None or kind == "tools.called" else calls, tokens, data)

    def _spend(self, calls: int, tokens: int, data: Mapping[str, Any]) -> None:
        self.calling = max(0, self.calling - 1)
        self.calls += calls
        self.tokens += tokens
        self.cost_usd_nano += data.get("cost_usd_nano") or 0
        self.is_priced = self.is_priced and not (tokens and data.get("cost_basis") == "unknown")

    def _lose(self) -> None:
        self.calls, self.calling = self.calls + self.calling, 0

    def _task(self, kind: str, data: Mapping[str, Any], text: Text, ts: int) -> None:
        row = self.rows.setdefault(data["task"], Row(task=data["task"]))
        match kind:
            case "task.attempted":
                row.lane, row.rung, row.attempt = data["lane"], data["rung"], data["attempt"]
                row.state, row.since_us, row.took_us, row.score_ppm = "working", ts, None, None
                row.again_us = None
                self._calls(f"task {row.task}", data)
            case "task.returned":
                self._answered(f"task {row.task}", data)
                row.state = "judging" if data["ok"] else "returned"
                if data.get("pause_us"):
                    row.why, row.again_us = data.get("error") or data["finish"], ts + data["pause_us"]
            case "task.judged":
                row.state, row.score_ppm = "passed" if data["ok"] else "rejected", data.get("score_ppm")
                row.took_us = ts - row.since_us if row.since_us else None
                row.why = "" if data["ok"] else reason(text("reasons"))
            case "task.escalated":
                row.state, row.rung, row.climbed = "climbing", data["to_rung"], True
            case "task.skipped":
                row.state, row.why = "skipped", data.get("upstream") or data["because"]
            case "task.restarted":
                row.state = "restarting"


_DOING = {
    "coordinator": "planning",
    "classifier": "choosing a lane",
    "synthesizer": "writing the answer",
}
