"""What a run came to, in figures, and what changed between two runs. Counted from the record alone."""

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from hashlib import sha256
from typing import Any

from hansard.app.views import View
from hansard.domain.exchange import is_priced
from hansard.domain.fact import Body
from hansard.ledger.entry import Entry
from hansard.orchestration.nested import is_panel
from hansard.record.history import ASKS, TURNS, calls_of_turn, fold
from hansard.record.reading import read_body
from hansard.store.base import Store

DIFF_LINES = 200
MOST_COMPARED = 2_000
"""Lines of an answer. Comparing takes the square of them and more, and who answers may choose them so."""

_INPUT, _OUTPUT = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")
_SAID = ("output", "message", "answer", "calls", "selection", "result")
"""The parts in which what came of a call may stand, each before those that repeat it."""


def figures(store: Store, entries: Sequence[Entry]) -> View:
    """The figures of one run."""
    kinds = Counter(entry.kind for entry in entries)
    calls, state = _calls(entries), fold(entries)
    spent = state.runs[entries[0].run]
    lost = _lost(entries, calls, spent.lost)
    verdicts = [entry.data for entry in entries if entry.kind == "task.judged"]
    checks = [entry.data for entry in entries if entry.kind == "answer.checked"]
    ended = end_of(entries)
    text = answer_of(store, entries)
    return {
        "state": spent.state,
        "entries": len(entries),
        "calls": spent.calls,
        "calls_by_role": _by_role(calls, lost),
        "calls_by_model": dict(sorted(state.models.items())),
        "failed_calls": len(lost)
        + sum(entry.kind == "turn.failed" or entry.data.get("ok") is False for entry in calls),
        "input_tokens": _sum(calls, *_INPUT),
        "output_tokens": _sum(calls, *_OUTPUT),
        "cost_usd_nano": spent.cost_usd_nano,
        "calls_without_price": sum(map(is_unpriced, calls)),
        "model_us": _waited(entries, calls),
        "elapsed_us": ended.data["elapsed_us"] if ended else None,
        "tasks": next((entry.data["tasks"] for entry in reversed(entries) if entry.kind == "plan.made"), 0),
        "attempts": kinds["task.attempted"],
        "passed": sum(1 for each in verdicts if each["ok"] is True),
        "rejected": sum(1 for each in verdicts if each["ok"] is not True),
        "judged_by_own_model": sum(1 for each in verdicts if each["same_model"] is True),
        "escalations": kinds["task.escalated"],
        "skipped": kinds["task.skipped"],
        "restarts": kinds["task.restarted"],
        "retries": kinds["run.retry_asked"],
        "gates": kinds["gate.opened"],
        "breaches": kinds["budget.breached"],
        "contexts": kinds["context.given"],
        "checks_flagged": sum(1 for each in checks if each["outcome"] in ("flagged", "refused")),
        "prompt_bytes": _bytes(store, entries, ("prompt",)),
        "output_bytes": _bytes(store, calls, _SAID),
        "answer_bytes": len(text.encode("utf-8", "surrogatepass")) if text is not None else None,
        "answer_sha256": sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text is not None else None,
    }


def compared(a: View, b: View, answers: tuple[str | None, str | None], tasks: tuple[View, View]) -> View:
    """Two runs beside each other: the figures of both, what B has more than A, the verdicts that differ, the answers."""
    more = {key: b[key] - a[key] for key in a if _is_number(a[key]) and _is_number(b[key])}
    changed = {
        task: {"a": tasks[0].get(task), "b": tasks[1].get(task)}
        for task in dict.fromkeys((*tasks[0], *tasks[1]))
        if tasks[0].get(task) != tasks[1].get(task)
    }
    return {
        "a": a,
        "b": b,
        "more_in_b": more,
        "tasks_that_differ": changed,
        "same_answer": answers[0] is not None and answers[0] == answers[1],
        "answer_diff": _diff(*answers),
    }


def last_verdicts(entries: Sequence[Entry]) -> dict[str, str]:
    """How each task stood at the end."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "task.judged":
            found[str(entry.data["task"])] = "passed" if entry.data["ok"] is True else "rejected"
        elif entry.kind == "task.skipped":
            found[str(entry.data["task"])] = f"skipped: {entry.data['because']}"
        elif entry.kind == "run.retry_asked":
            found.pop(str(entry.data["task"]), None)
            found = {task: said for task, said in found.items() if not said.startswith("skipped")}
    return found


def answer_of(store: Store, entries: Sequence[Entry]) -> str | None:
    """The answer as text."""
    found = answer_body(store, entries)
    return found.as_text() if found else None


def answer_body(store: Store, entries: Sequence[Entry]) -> Body | None:
    """The answer as it was given."""
    found = answer_entry(entries)
    stored = read_body(store, found, "answer") if found else None
    return Body(stored.media, stored.body) if stored else None


def answer_entry(entries: Sequence[Entry]) -> Entry | None:
    """The entry that holds the answer: a revision that was accepted goes before what it revises."""
    for entry in reversed(since_retry(entries)):
        if entry.kind == "run.answered" or (entry.kind == "answer.revised" and entry.data["accepted"] is True):
            return entry
    return None


def end_of(entries: Sequence[Entry]) -> Entry | None:
    """The entry with which a run ended; None while it goes on."""
    return next((entry for entry in reversed(since_retry(entries)) if entry.kind == "run.ended"), None)


def is_unpriced(call: Entry) -> bool:
    """Whether nobody knows what a call cost, so that the sum lacks it."""
    return not is_priced(_sum([call], *_INPUT, *_OUTPUT), call.data.get("cost_basis"))


def since_retry(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries behind the last wish to do a task again: what was said before of the answer and of the end no longer counts."""
    asked = next((at for at in range(len(entries) - 1, -1, -1) if entries[at].kind == "run.retry_asked"), -1)
    return entries[asked + 1 :]


def _calls(entries: Sequence[Entry]) -> list[Entry]:
    """What calls of models and programs left behind. A panel's answer is none: the calls of its session are."""
    panels = {entry.seq for entry in entries if is_panel(entry.data.get("provider"))}
    answers = [entry for entry in entries if entry.kind in ("task.returned", "role.answered")]
    turns = [entry for entry in entries if entry.kind in TURNS and calls_of_turn(entry)]
    return [*turns, *(entry for entry in answers if panels.isdisjoint(entry.causes))]


def _lost(entries: Sequence[Entry], calls: Sequence[Entry], lost: Set[int]) -> list[Entry]:
    """The questions whose calls died with their driver, and left nothing behind."""
    answered = {seq for entry in calls for seq in entry.causes}
    return [entry for entry in entries if entry.seq in lost and entry.seq not in answered]


def _by_role(calls: Sequence[Entry], lost: Sequence[Entry]) -> dict[str, int]:
    """Whom the calls went to; those of sessions, whoever sat in them, to the panel."""
    roles = Counter("panel" if entry.kind in ASKS else str(entry.data.get("role", "worker")) for entry in lost)
    for entry in calls:
        if entry.kind in TURNS:
            roles["panel"] += calls_of_turn(entry)
        else:
            roles[str(entry.data.get("role", "worker"))] += 1
    return dict(sorted(roles.items()))


def _waited(entries: Sequence[Entry], calls: Sequence[Entry]) -> int:
    """How long calls took, in all. Those of sessions took from the question, or the results of tools, to what came of it."""
    asked = {entry.seq: entry.ts for entry in entries if entry.kind in ASKS}
    began = (max((asked[seq] for seq in entry.causes if seq in asked), default=entry.ts) for entry in calls)
    return sum(entry.data.get("latency_us", entry.ts - since) for entry, since in zip(calls, began, strict=True))


def _sum(entries: Sequence[Entry], *names: str) -> int:
    return sum(value for entry in entries for name in names if type(value := entry.data.get(name)) is int)


def _bytes(store: Store, entries: Sequence[Entry], parts: Sequence[str]) -> int:
    """The bytes of the first of these parts that each entry has."""
    named = ((entry, next((part for part in parts if part in entry.body), None)) for entry in entries)
    stored = [read_body(store, entry, part) for entry, part in named if part is not None]
    return sum(len(each.body) for each in stored if each is not None)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _diff(a: str | None, b: str | None) -> list[str]:
    # By line feeds alone: answers that differ in nothing but other line ends differ here, too.
    one, other = ([] if each is None else each.split("\n") for each in (a, b))
    if max(len(one), len(other)) > MOST_COMPARED:
        return _parting(one, other)
    lines = list(difflib.unified_diff(one, other, "a", "b", lineterm=""))
    left = len(lines) - DIFF_LINES
    return [*lines[:DIFF_LINES], *([f"@@ {left:,} more lines of this comparison @@"] if left > 0 else [])]


def _parting(one: list[str], other: list[str]) -> list[str]:
    """Where two long answers part; nothing where they do not."""
    if one == other:
        return []
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    said = f"@@ -{at + 1} +{at + 1} @@ of {len(one):,} and {len(other):,} lines, too many to compare; they part here"
    return [
        "--- a",
        "+++ b",
        said,
        *(f"-{line}" for line in one[at : at + 1]),
        *(f"+{line}" for line in other[at : at + 1]),
    ]


def has_answers(view: Mapping[str, Any]) -> bool:
    """Whether there is an answer to compare: two that are not there are not the same one."""
    return any(view[side]["answer_sha256"] is not None for side in ("a", "b"))


def shown(view: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """A comparison as rows for people: what, A, B, and how much more."""
    rows = []
    for key, value in view["a"].items():
        other = view["b"][key]
        if isinstance(value, dict) or key == "answer_sha256":
            continue
        more = view["more_in_b"].get(key)
        rows.append((key, _said(value), _said(other), "" if not more else f"{more:+,}"))
    return rows


def _said(value: Any) -> str:
    return "–" if value is None else f"{value:,}" if _is_number(value) else str(value)
