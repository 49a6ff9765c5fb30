"""What a run has taken so far, of it all and by lane: a fold over its own entries.

A call counts once: when its answer comes, or when whoever made it is gone and no answer can come any more. What a panel answers
is counted turn by turn. Time counts while somebody drives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hansard.domain.budget import Spend
from hansard.domain.exchange import is_priced
from hansard.domain.kinds import DRIVEN
from hansard.domain.work import RunClaimed
from hansard.ledger.entry import Entry
from hansard.orchestration.nested import is_panel
from hansard.record.history import calls_of_turn

_OF_SESSIONS = (
    "session.convened",
    "turn.asked",
    "tools.called",
    "tools.returned",
    "turn.taken",
    "turn.failed",
    "session.ended",
)
_TIMED = ("task.returned", "role.answered", "run.interrupted")


@dataclass(slots=True, kw_only=True)
class Spending:
    """What a run's entries say of its calls: what came of them, and what that took."""

    spent: Spend = field(default_factory=Spend)
    lanes: dict[str, Spend] = field(default_factory=dict)
    panels: set[int] = field(default_factory=set)
    """Attempts and questions that a panel answers."""
    lost: dict[int, str | None] = field(default_factory=dict)
    """Calls that were under way when a driver or the run ended, with their lanes. They were made, whatever came of them, and
    count."""
    calling: set[int] = field(default_factory=set)
    """Calls inside of sessions that have no answer yet."""
    task_of: dict[int | str, str] = field(default_factory=dict)
    """The task of an attempt, of a question to a role, of a session, of a turn inside of one; empty where it is of none."""
    _lane_of: dict[str, str] = field(default_factory=dict)
    _asked_ts: dict[int, int] = field(default_factory=dict)
    """When the calls inside of sessions were made."""
    _epoch_ts: int = 0

    def take(self, entry: Entry) -> None:
        """Fold one entry of the run in."""
        data = entry.data
        if entry.kind == RunClaimed.KIND:
            self._epoch_ts = entry.ts
        elif self._epoch_ts and entry.kind in DRIVEN:
            self.spent = replace(self.spent, elapsed_us=self.spent.elapsed_us + max(0, entry.ts - self._epoch_ts))
            self._epoch_ts = entry.ts
        if entry.kind in _TIMED:
            self.has_taken(data.get("elapsed_us"))
        if entry.kind in _OF_SESSIONS:
            self.calling.difference_update(entry.causes)
        match entry.kind:
            case "task.attempted":
                self._lane_of[str(data["task"])] = str(data["lane"])
                self._asks(entry)
            case "task.returned":
                self._answered(entry, str(data["task"]))
            case "role.asked":
                self._asks(entry)
            case "role.answered":
                self._answered(entry, self._task_behind(entry))
            case "session.convened":
                self.task_of[str(data["session"])] = self._task_behind(entry)
            case "turn.asked":
                self._calls(entry, self.task_of.get(str(data["session"]), ""))
            case "tools.returned":
                # The model is asked again. What the tools took is no time of a call.
                self._calls(entry, self._task_behind(entry))
            case "tools.called":
                self._turned(entry)
            case "turn.taken" | "turn.failed" if "result" in entry.body:
                self._turned(entry)

    def has_taken(self, elapsed_us: object) -> None:
        """What a driver said that it took so far goes before what the times of entries tell: clocks are set, machines sleep."""
        if type(elapsed_us) is int:
            self.spent = replace(self.spent, elapsed_us=elapsed_us)

    def lose(self, under_way: Mapping[int, str]) -> None:
        """These calls, given with their tasks, have no answer any more."""
        self.calling.clear()
        for call in under_way.keys() - self.lost.keys() - self.panels:
            self.lost[call] = self._lane_of.get(under_way[call])
            self._count(under_way[call], 1, 0, 0, 0)

    def _task_behind(self, entry: Entry) -> str:
        return self.task_of.get(entry.causes[0], "") if entry.causes else ""

    def _asks(self, entry: Entry) -> None:
        self.task_of[entry.seq] = str(entry.data.get("task") or "")
        if is_panel(entry.data["provider"]):
            self.panels.add(entry.seq)

    def _answered(self, entry: Entry, task: str) -> None:
        data = entry.data
        if self.panels.isdisjoint(entry.causes):
            tokens, cost = int(data["input_tokens"]) + int(data["output_tokens"]), int(data["cost_usd_nano"])
            calls = 1 if self.lost.keys().isdisjoint(entry.causes) else 0
            self._count(task, calls, tokens, cost, int(data["latency_us"]), is_priced(tokens, data["cost_basis"]))

    def _calls(self, entry: Entry, task: str) -> None:
        """A model is asked inside of a session."""
        self.task_of[entry.seq], self._asked_ts[entry.seq] = task, entry.ts
        self.calling.add(entry.seq)

    def _turned(self, entry: Entry) -> None:
        """A model that was asked inside of a session has answered, whatever becomes of the session."""
        data = entry.data
        asked = max((seq for seq in entry.causes if seq in self._asked_ts), default=None)
        # Older records do not say it: what went by between the entries is about as much.
        took_us = data.get("latency_us", max(0, entry.ts - self._asked_ts[asked]) if asked is not None else 0)
        task = self.task_of[entry.seq] = self.task_of.get(asked, "") if asked is not None else ""
        tokens = int(data["prompt_tokens"]) + int(data["completion_tokens"])
        priced = is_priced(tokens, data.get("cost_basis"))
        self._count(task, calls_of_turn(entry), tokens, int(data.get("cost_usd_nano", 0)), took_us, priced)

    def _count(self, task: str, calls: int, tokens: int, cost_usd_nano: int, took_us: int, priced: bool = True) -> None:
        self.spent = self.spent.more(calls, tokens, cost_usd_nano, priced=priced)
        lane = self._lane_of.get(task)
        if lane is not None:
            self.lanes[lane] = self.lanes.get(lane, Spend()).more(calls, tokens, cost_usd_nano, took_us)
