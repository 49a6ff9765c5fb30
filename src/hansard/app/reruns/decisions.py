"""What was decided in a run, each decision by a name that a re-run gives it too: what two runs are held against each other by."""

from collections.abc import Iterator, Mapping, Sequence, Set
from hashlib import sha256
from typing import Any

from hansard.app.reruns.phases import SAID_AT_THE_END, is_answer, is_out_of_time
from hansard.ledger.entry import Entry
from hansard.record.replaying import CUT_SHORT, Reader

Key = tuple[str, ...]


def decisions(
    reader: Reader, entries: Sequence[Entry], given_up: Set[int] = frozenset()
) -> Iterator[tuple[Key, tuple[str, int]]]:
    """The decisions of these entries but those that led to nothing, each with the entry that says so."""
    counts: dict[str, int] = {}
    unanswered = _unanswered(entries)
    out_of_time = {entry.seq for entry in entries if is_out_of_time(entry)}
    at_the_end = _at_the_end_of_a_budget([entry for entry in entries if entry.seq not in given_up])
    passed_over = {seq for seq, kind in at_the_end.items() if kind == "gate.closed"}
    not_done = at_the_end.keys() - passed_over
    passed_over |= given_up | _for_nobody(entries) | _ends_out_of_time(entries)
    for entry in entries:
        if entry.seq in passed_over:
            continue
        if (entry.data.get("task"), entry.data.get("attempt")) in unanswered and entry.kind == "task.attempted":
            continue
        if entry.seq in out_of_time or (entry.kind == "task.skipped" and not out_of_time.isdisjoint(entry.causes)):
            continue
        for key, value in _decision(reader, entry, counts):
            yield key, ("not done" if entry.seq in not_done else value, entry.seq)


def _decision(reader: Reader, entry: Entry, counts: dict[str, int]) -> Iterator[tuple[Key, str]]:
    data: Any = entry.data

    def number(name: str) -> str:
        counts[name] = counts.get(name, 0) + 1
        return str(counts[name])

    # What was decided before a retry and what behind it are two decisions.
    retry = (f"retry {counts['retry']}",) if counts.get("retry") else ()
    match entry.kind:
        case "run.retry_asked":
            number("retry")
        case "run.routed":
            yield ("route", f"tier {data['tier']}"), f"{data.get('lane')} (runner-up {data.get('runner_up')})"
        case "plan.made":
            yield ("plan", number("plan")), f"by {data['by']}, {_short(reader.data(entry, 'plan'))}"
        case "context.given":
            # Asked once in a run, before or behind a retry.
            yield ("context", data["source"], str(data.get("task") or "")), f"{data['admitted_tokens']} tokens"
        case "task.attempted":
            yield (
                ("attempt", data["task"], str(data["attempt"])),
                f"in lane {data['lane']}, on {data['rung']}: {data['provider']}, {_short(reader.data(entry, 'prompt'))}",
            )
        case "task.judged":
            yield ("verdict", data["task"], str(data["attempt"])), _verdict(data)
        case "task.escalated":
            yield ("escalation", data["task"], data["from_rung"], *retry), f"to {data['to_rung']}"
        case "task.skipped" if data["because"] not in ("cancelled",):
            # Which of several lost inputs was lost first is told by the clock.
            yield ("skip", data["task"], *retry), str(data["because"])
        case "gate.closed":
            yield ("gate", data["gate"]), f"{data['outcome']}{' by expiry' if data['expired'] else ''}"
        case "budget.breached":
            yield ("budget", data["unit"], str(data.get("lane") or ""), *retry), f"limit {data['limit']}"
        case "run.answered":
            whole = "complete" if data["complete"] else f"without {', '.join(data.get('missing', []))}"
            yield ("answer", number("answer")), f"{whole}, {_short(reader.data(entry, 'answer'))}"
        case "answer.checked" if data["check"] == "delivery" and data["outcome"] in ("abstained", "crashed"):
            # Why there is no revision. Not every version said so, and that there is none is compared.
            return
        case "answer.checked":
            yield ("check", data["check"], number(f"check {data['check']}")), str(data["outcome"])
        case "answer.revised":
            # One that was accepted is the answer from then on.
            taken = f"accepted, {_short(reader.data(entry, 'answer'))}" if data["accepted"] else "refused"
            yield ("revision", number("revision")), taken
        case "run.ended" if data["reason"] not in CUT_SHORT:
            yield ("end", number("end")), f"{data['state']}: {data['reason']}"


def _at_the_end_of_a_budget(entries: Sequence[Entry]) -> dict[int, str]:
    """Gates that were closed, and tasks that were skipped, in a phase which ran out of its budget: whether anybody looked at a
    gate before is told by the clock, and so is why a task was not done. What was done behind a gate is compared.
    """
    found: dict[int, str] = {}
    here: dict[int, str] = {}
    ended = False
    for entry in entries:
        if entry.kind == "run.retry_asked":
            here, ended = {}, False
        elif entry.kind in ("gate.closed", "task.skipped"):
            here[entry.seq] = entry.kind
        is_breach = entry.kind == "budget.breached" and not entry.data.get("lane")
        ended = ended or (is_breach and not is_out_of_time(entry))
        if ended:
            found |= here
    return found


def _ends_out_of_time(entries: Sequence[Entry]) -> set[int]:
    """How phases ended whose seconds were over, and what was said of their answers then."""
    found: set[int] = set()
    over = False
    for entry in entries:
        over = is_out_of_time(entry) or (over and entry.kind != "run.retry_asked")
        if over and entry.kind in SAID_AT_THE_END:
            found.add(entry.seq)
    return found


def _for_nobody(entries: Sequence[Entry]) -> set[int]:
    """What sources gave for tasks that nobody tried to an end: who had a place, and asked them, before a budget ended or the run
    was cut is told by the clock.
    """
    tried = {entry.data["task"] for entry in entries if entry.kind == "task.returned" and is_answer(entry)}
    given = (entry for entry in entries if entry.kind == "context.given")
    return {entry.seq for entry in given if entry.data.get("task") not in (None, *tried)}


def _verdict(data: Mapping[str, Any]) -> str:
    score = f", score {data['score_ppm']}" if data.get("score_ppm") is not None else ""
    return f"{'passed' if data['ok'] else 'rejected'} by {data['by']}{score}"


def _short(data: bytes) -> str:
    return f"sha256 {sha256(data).hexdigest()[:16]}"


def _unanswered(entries: Sequence[Entry]) -> set[tuple[Any, Any]]:
    """Attempts that nobody answered: the engine ended, or was stopped, while they were made."""
    asked = {(e.data["task"], e.data["attempt"]) for e in entries if e.kind == "task.attempted"}
    answered = {(e.data["task"], e.data["attempt"]) for e in entries if e.kind == "task.returned" and is_answer(e)}
    return asked - answered
