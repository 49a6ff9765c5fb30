"""Whether the entries of a run can have been recorded in this order. What contradicts those before it is named, and refused.

A re-run goes by what entries name and by how they follow each other. Whoever can write to a ledger can put there what no driver ever
wrote, and a re-run that passes over it would call a run the same that nobody has driven. Of bodies it reads plan and configuration.
"""

import json
from collections.abc import Sequence
from typing import Any

from hansard.domain.gate import SAID
from hansard.domain.kinds import KINDS
from hansard.domain.work import RunRequested
from hansard.errors import Tampered
from hansard.ledger.entry import Entry
from hansard.orchestration.config import RunConfig
from hansard.orchestration.gates import Rule
from hansard.orchestration.working import MAX_SHOWN
from hansard.record.codec import shape_of
from hansard.record.reading import strange
from hansard.record.replaying import Reader
from hansard.store.base import verify_of

QUESTIONS = {"task.returned": "task.attempted", "role.answered": "role.asked"}
"""By answer: what it answers."""
ONCE = ("run.requested", "run.configured")
"""What a run has one of."""
ENDS = {"cancelled": "cancelled", "deadline": "stopped", "budget": "stopped", "answered": "answered"}
"""How a run ends, by the reason."""
REASONS = {
    "upstream": ("task.judged", "task.skipped", "gate.closed", "budget.breached"),
    "gate": ("gate.closed",),
    "budget": ("budget.breached",),
    "cancelled": ("run.cancel_asked",),
}
"""What a task is skipped for, by the reason."""
OF_TASKS = ("task.attempted", "task.skipped", "run.retry_asked", "gate.opened", "context.given", "role.asked")


def refuse_contradictions(reader: Reader, entries: Sequence[Entry]) -> None:
    """Tampered where an entry of a run contradicts those before it."""
    before = _Before(reader)
    for entry in entries:
        if why := before.against(entry):
            raise Tampered(
                f"entry {entry.seq} ({entry.kind}) contradicts the entries before it: {why}. No driver records that, so the run "
                f"is not run again; `hansard ledger causes {entry.seq}` shows what it names. Whether the log was changed is told "
                f"by its verifier; {verify_of(reader.place, deep=True)}"
            )
        before.take(entry)


class _Before:
    """What a record says before an entry."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[int, Entry] = {}
        self._once: set[object] = set()
        """What can be said but once, and was."""
        self._attempts: dict[object, Any] = {}
        """By task: the number of its newest attempt."""
        self._opened: dict[object, int] = {}
        """By gate: the entry that opened it."""
        self._tasks: set[object] = set()
        self._rules: dict[object, Rule] = {}
        """The gates of the configuration."""
        self._committed: set[object] = set()
        """The commitments of all bodies so far."""
        self._claimed = self._ended = False

    def against(self, entry: Entry) -> str | None:
        """What speaks against an entry, None where nothing does."""
        fact = KINDS.get(entry.kind)
        if fact is None:
            return None
        if not self._known and entry.kind != RunRequested.KIND:
            return "nobody has requested the run yet"
        if fact.DRIVEN and not self._once.issuperset(ONCE):
            return "the run has no configuration yet"
        if fact.DRIVEN and not self._claimed and entry.kind != "run.claimed":
            return "nobody has claimed the run yet"
        if fact.DRIVEN and self._ended:
            return "the run has ended, and nobody has asked for a task of it to be done again"
        if (only := _only(entry)) is not None and only in self._once:
            return "that was said before"
        missing = next(
            (name for name, optional in shape_of(fact).parts if not optional and name not in entry.body), None
        )
        if missing is not None:
            return f"it has no {missing}"
        return self._against_causes(entry, fact.CAUSES) or self._against_words(entry) or self._against_names(entry)

    def _against_causes(self, entry: Entry, allowed: Sequence[str]) -> str | None:
        if entry.kind == RunRequested.KIND or "*" in allowed:
            # A request may come of another run, and a tombstone of whatever it stands for.
            return None
        if allowed and not entry.causes:
            return "it names no cause"
        for seq in entry.causes:
            cause = self._known.get(seq)
            if cause is None:
                return f"it names entry {seq} as its cause, which is none of this run before it"
            if cause.kind not in allowed and cause.kind in KINDS:
                return f"it does not come of entry {seq} ({cause.kind})"
        return None

    def _against_words(self, entry: Entry) -> str | None:
        """Where an entry contradicts itself."""
        data: Any = entry.data
        match entry.kind:
            case "task.returned" | "role.answered" if data["ok"] is not (data.get("error") is None):
                return (
                    "it says that all went well, and an error" if data["ok"] else "it says that it failed, and no error"
                )
            case "run.configured":
                limits = self._configuration(entry).budget.recorded()
                other = next((name for name, limit in limits.items() if data.get(name) != limit), None)
                return f"its {other} is {data.get(other)}, and {limits[other]} in its configuration" if other else None
            case "run.requested" if "plan" in entry.body and data["mode"] not in ("plan", "single"):
                return f"a run whose mode is {data['mode']} brings no plan"
            case "run.requested" if "plan" not in entry.body and data["mode"] == "plan":
                return "it brings no plan, and its mode says that it does"
            case "gate.decided" if (data["decision"] == "edit") is not ("edit" in entry.body):
                return (
                    "it edits, and has no edit" if data["decision"] == "edit" else "it has an edit, and does not edit"
                )
            case "task.skipped" if (why := REASONS.get(data["because"])) and self._known[
                entry.causes[0]
            ].kind not in why:
                return f"it comes of no {' or '.join(why)}, and was skipped because of {data['because']}"
            case "task.judged" if not data["ok"] and "reasons" not in entry.body:
                return "it was rejected, and has no reasons"
            case "run.ended" if ENDS.get(data["reason"], data["state"]) != data["state"]:
                return f"a run that ended with {data['reason']} is not {data['state']}"
        return None

    def _against_names(self, entry: Entry) -> str | None:
        data: Any = entry.data
        first = self._known.get(entry.causes[0]) if entry.causes else None
        match entry.kind:
            case "task.attempted" if data["attempt"] != self._attempts.get(data["task"], 0) + 1:
                return f"the next attempt at task {data['task']!r} is {self._attempts.get(data['task'], 0) + 1}"
            case "task.returned" if first and not _agree(entry, first, "task", "attempt"):
                return f"entry {first.seq}, of which it comes, is another attempt"
            case "role.answered" if first and not _agree(entry, first, "role"):
                return f"entry {first.seq}, of which it comes, asks another role"
            case "task.judged" | "task.restarted":
                return self._against_attempt(entry, first)
            case "task.escalated" if first and not _agree(entry, first, "task"):
                return f"entry {first.seq}, of which it comes, is about another task"
            case "gate.opened" if (why := self._against_opening(data)) is not None:
                return why
            case "gate.decided" | "gate.closed":
                return self._against_gate(entry)
            case "session.convened" if first and first.kind not in QUESTIONS.values():
                return f"entry {first.seq}, of which it comes, asks no panel"
        named = (data.get("task"), data.get("upstream")) if entry.kind in OF_TASKS else ()
        missing = next((task for task in named if task is not None and task not in self._tasks), None)
        return None if missing is None else f"no plan of this run has a task {missing!r}"

    def _against_attempt(self, entry: Entry, first: Entry | None) -> str | None:
        data: Any = entry.data
        if (data["task"], data["attempt"]) not in self._once:
            return f"task {data['task']!r} has had no attempt {data['attempt']}"
        if first and not _agree(entry, self._question(first), "task", "attempt"):
            return f"entry {first.seq}, of which it comes, is about another attempt"
        return None

    def _question(self, entry: Entry) -> Entry:
        """What an entry answers, itself where that is nothing."""
        return self._known.get(entry.causes[0], entry) if entry.kind in QUESTIONS and entry.causes else entry

    def _against_opening(self, data: Any) -> str | None:
        rule = self._rules.get(data["rule"])
        if data["gate"] in self._opened:
            return f"gate {data['gate']} was opened before"
        if rule is None:
            return f"the configuration has no gate {data['rule']!r}"
        # Where somebody edited, the others' word is needed alone.
        asked = (data["before"], data["on_expiry"], 1 <= data["needed"] <= rule.needed)
        if asked != ("task" if data.get("task") is not None else "plan", rule.on_expiry, True):
            return f"the configuration has another gate {data['rule']!r}"
        if not data["shown"] or not self._committed.issuperset(data["shown"][:MAX_SHOWN]):
            return "it shows what this run does not have"
        return None

    def _against_gate(self, entry: Entry) -> str | None:
        data: Any = entry.data
        gate, opened = data["gate"], self._opened.get(data["gate"])
        if opened is None:
            return f"no gate {gate} was opened"
        if opened not in entry.causes:
            return f"it does not come of entry {opened}, which opened gate {gate}"
        words = [self._known[seq] for seq in entry.causes if seq != opened]
        if any(each.data["gate"] != gate for each in words):
            return f"it comes of what was said at another gate than {gate}"
        return self._against_closing(data, words) if entry.kind == "gate.closed" else None

    def _against_closing(self, data: Any, words: Sequence[Entry]) -> str | None:
        if words and data["expired"] is True:
            return "it has expired, and comes of what people decided"
        # Where another gate takes its place, it is rejected without a word.
        silent = not words and data["expired"] is False and data["outcome"] != "rejected"
        if silent or any(each.data["decision"] != SAID.get(data["outcome"]) for each in words):
            return f"it was {data['outcome']}, and nobody had decided that"
        return None

    def take(self, entry: Entry) -> None:
        """An entry against which nothing speaks."""
        self._known[entry.seq] = entry
        self._committed.update(entry.body.values())
        if (only := _only(entry)) is not None:
            self._once.add(only)
        match entry.kind:
            case "run.configured":
                self._rules = {rule.name: rule for rule in self._configuration(entry).gates}
            case "run.claimed":
                self._claimed = True
            case "run.ended":
                self._ended = True
            case "run.retry_asked":
                self._ended = False
                self._once.discard("run.answered")
            case "task.attempted":
                self._attempts[entry.data["task"]] = entry.data["attempt"]
            case "gate.opened":
                self._opened[entry.data["gate"]] = entry.seq
            case "plan.made":
                self._tasks |= self._planned(entry)

    def _configuration(self, entry: Entry) -> RunConfig:
        return RunConfig.from_json(self._reader.data(entry, "config"), f"entry {entry.seq}")

    def _planned(self, entry: Entry) -> set[object]:
        """The tasks of a plan."""
        try:
            return {task["id"] for task in json.loads(self._reader.data(entry, "plan"))["tasks"]}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise strange(entry, "plan", error) from error


def _only(entry: Entry) -> object:
    """What an entry says that can be said but once, None where it may be said again."""
    data = entry.data
    match entry.kind:
        case kind if kind in (*ONCE, "run.answered"):
            return kind
        case "task.attempted":
            return data["task"], data["attempt"]
        case "task.returned" | "role.answered":
            return "answer", entry.causes[0] if entry.causes else None
        case "task.judged":
            return "verdict", data["task"], data["attempt"]
        case "gate.closed":
            return "closed", data["gate"]
        case "context.given":
            return "context", data["source"], data.get("task")
        case "plan.made" if data["by"] != "edit":
            return "plan"
    return None


def _agree(entry: Entry, other: Entry, *names: str) -> bool:
    return all(entry.data.get(name) == other.data.get(name) for name in names)
