"""A recorded run in its phases: each goes to its end, or to where somebody wanted a task done again.

A phase that was cut (cancelled, out of time, interrupted and not gone on with) stopped at a moment that no clock hits again. What
tells that moment is the record: which questions were asked and never answered, and what had been done by then.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hansard.ledger.entry import Entry
from hansard.providers.recording import Call
from hansard.record.replaying import CUT_SHORT, WORKER, Reader, call_asked

Deed = tuple[object, ...]
_DEEDS = (
    *("run.routed", "context.given", "plan.made", "gate.opened", "gate.closed", "task.returned", "task.judged"),
    *("task.escalated", "role.answered", "run.answered", "answer.checked", "answer.revised"),
)
_NAMES = ("task", "attempt", "role", "turn", "gate", "check", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a run."""

    retry: Entry | None
    """What began it: somebody wants a task done again. None for the first."""
    ended: Entry | None
    last: int
    """Its last entry."""
    asked: frozenset[Call]
    open: frozenset[tuple[Call, str]]
    """The questions that it left without an answer, each with the SHA-256 of its prompt."""
    left: frozenset[int]
    """The entries of those at which it stood in the end."""
    attempts: Mapping[str, Sequence[int]]
    """By task: attempts that were answered, or at which it stood in the end. What a crash cut short is not among them."""
    done: frozenset[Deed]
    """What had been done by its end, since the run began."""

    @property
    def cut(self) -> bool:
        return self.ended is None or self.ended.data["reason"] in CUT_SHORT

    def stands_at(self, call: Call, digest: str) -> bool:
        """Whether the recorded run came no further than this question."""
        return self.cut and (call not in self.asked or (call, digest) in self.open)

    def number(self, task: str, previous: int) -> int:
        """The number of the next attempt at a task."""
        return next((each for each in self.attempts.get(task, ()) if each > previous), previous + 1)


def phases_of(reader: Reader, entries: Sequence[Entry]) -> list[Phase]:
    """The phases of a run, in their order."""
    claimed = max((entry.seq for entry in entries if entry.kind == "run.claimed"), default=-1)
    # What nobody has taken up yet has changed nothing.
    retries = [at for at, entry in enumerate(entries) if entry.kind == "run.retry_asked" and entry.seq < claimed]
    bounds = zip([0, *retries], [*retries, len(entries)], strict=True)
    return [_phase(reader, entries[first:last], entries[:last]) for first, last in bounds]


def _phase(reader: Reader, own: Sequence[Entry], so_far: Sequence[Entry]) -> Phase:
    asked = {entry.seq: entry for entry in own if entry.kind in ("task.attempted", "role.asked")}
    answered = {seq for entry in own if is_answer(entry) for seq in entry.causes if seq in asked}
    calls = {seq: (call_asked(entry), sha256(reader.data(entry, "prompt")).hexdigest()) for seq, entry in asked.items()}
    given = {calls[seq] for seq in answered}
    left = {seq for seq in asked if seq not in answered and calls[seq] not in given}
    last = {call.task: seq for seq, (call, _) in calls.items() if call.role == WORKER}
    # An attempt that another one followed was given up.
    stood = {seq for seq in left if calls[seq][0].role != WORKER or last[calls[seq][0].task] == seq}
    attempts: dict[str, list[int]] = {}
    for call in (calls[seq][0] for seq in asked if seq in answered or seq in stood):
        if call.role == WORKER:
            attempts.setdefault(call.task, []).append(call.attempt)
    return Phase(
        retry=own[0] if own[0].kind == "run.retry_asked" else None,
        ended=next((entry for entry in reversed(own) if entry.kind == "run.ended"), None),
        last=own[-1].seq,
        asked=frozenset(call for call, _ in calls.values()),
        open=frozenset(calls[seq] for seq in left),
        left=frozenset(stood),
        attempts=attempts,
        done=deeds(so_far),
    )


def given_up(entries: Iterable[Entry]) -> frozenset[int]:
    """Questions to roles, with their answers, that led to nothing: a driver ended between the turns of a role, and the next one
    began with its first turn again.
    """
    turns: dict[tuple[object, ...], list[int]] = {}
    about: dict[int, tuple[object, ...]] = {}
    found: set[int] = set()
    for entry in entries:
        data = entry.data
        if entry.kind == "run.retry_asked":
            turns.clear()
        elif entry.kind == "role.asked":
            key = about[entry.seq] = (data["role"], data.get("task"), data["attempt"])
            if data["turn"] == 1:
                found.update(turns.pop(key, ()))
            turns.setdefault(key, []).append(entry.seq)
        elif entry.kind == "role.answered" and (asked := about.get(entry.causes[0])) in turns:
            turns[asked].append(entry.seq)
    return frozenset(found)


def deeds(entries: Iterable[Entry]) -> frozenset[Deed]:
    """What was done in a run, each by a name that a re-run gives it too."""
    asked: dict[int, Any] = {}
    found: set[Deed] = set()
    for entry in entries:
        if entry.kind == "role.asked":
            asked[entry.seq] = entry.data
        elif entry.kind in _DEEDS and (is_answer(entry) or entry.kind not in ("task.returned", "role.answered")):
            data = {**(asked.get(entry.causes[0], {}) if entry.causes else {}), **entry.data}
            found.add((entry.kind, *(data.get(name) for name in _NAMES)))
    return frozenset(found)


def is_answer(entry: Entry) -> bool:
    """Whether this is what somebody answered, and not the word in place of an answer that did not come any more."""
    return entry.kind in ("task.returned", "role.answered") and entry.data.get("error") not in CUT_SHORT
