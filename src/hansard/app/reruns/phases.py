"""A recorded run in its phases: each goes to its end, or to where somebody wanted a task done again.

A phase that was cut (cancelled, out of time, interrupted and not gone on with) stopped at a moment that no clock hits again. What
tells that moment is the record: which questions were asked and never answered, and what had been done by then.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from hansard.domain.value import value
from hansard.ledger.entry import Entry
from hansard.providers.recording import Call
from hansard.record.replaying import CUT_SHORT, NEVER_CAME, SWALLOWED, WORKER, Reader, call_asked

Deed = tuple[object, ...]


class Refused(NamedTuple):
    """A budget said no: that of a lane, to a task of it, or the run's, to whoever came."""

    lane: str | None
    task: str | None

    def concerns(self, call: Call, lane: str | None) -> bool:
        return self.lane in (None, lane) and self.task in (None, call.task)


_DEEDS = frozenset(
    {
        *("run.routed", "context.given", "plan.made", "gate.opened", "gate.closed", "task.returned", "task.judged"),
        *("task.escalated", "task.skipped", "role.answered", "run.answered", "answer.checked", "answer.revised"),
        *("budget.breached", "run.ended"),
    }
)
_NAMES = ("task", "attempt", "role", "turn", "gate", "check", "source", "lane", "unit")
SAID_AT_THE_END = ("answer.checked", "run.ended")
"""What is said of a run whose seconds are over: no re-run comes to that."""


@value
class Phase:
    """One phase of a run."""

    retry: Entry | None
    """What began it: somebody wants a task done again. None for the first."""
    ended: Entry | None
    cut: bool
    """Whether it stopped at a moment that no re-run can hit again."""
    first: int
    last: int
    """Its first entry, and its last."""
    claimed: int
    """Where the last driver took it: what was under way before was lost then."""
    asked: frozenset[Call]
    open: frozenset[tuple[Call, str]]
    """The questions that it left without an answer, each with the SHA-256 of its prompt."""
    left: frozenset[int]
    """The entries of those at which it stood in the end."""
    attempts: Mapping[str, Sequence[int]]
    """By task: attempts that were answered, or at which it stood in the end. What a crash cut short is not among them."""
    swallowed: Mapping[Call, int]
    """Attempts and questions, with their entries, of which a verdict, or what stands in place of an answer, says that the
    engine ended too often while they were made; attempts may have been made in a phase before."""
    unjudged: Sequence[Entry]
    """Results by its end that a verdict could have come of, and none did."""
    restarted: frozenset[tuple[str, int]]
    """The attempts, by task and number, of which a driver had said by its end that they are made once more."""
    done: Counter[Deed]
    """What had been done by its end, since the run began."""
    order: Sequence[tuple[int, Call | Refused]]
    """Whom it asked, one after another, and where a budget said no, each with its place; what a crash cut short is not among
    them."""
    answered: Mapping[Call, int]
    """The places of the answers."""

    def stands_at(self, call: Call, digest: str) -> bool:
        """Whether the recorded run came no further than this question."""
        return self.cut and (call not in self.asked or (call, digest) in self.open)

    def number(self, task: str, previous: int) -> int:
        """The number of the next attempt at a task; that of the previous one where the engine had ended too often by then."""
        if Call(WORKER, task, previous, 1) in self.swallowed:
            return previous
        return next((each for each in self.attempts.get(task, ()) if each > previous), previous + 1)


def phases_of(reader: Reader, entries: Sequence[Entry]) -> list[Phase]:
    """The phases of a run, in their order."""
    claimed = max((entry.seq for entry in entries if entry.kind == "run.claimed"), default=-1)
    # What nobody has taken up yet has changed nothing.
    retries = [at for at, entry in enumerate(entries) if entry.kind == "run.retry_asked" and entry.seq < claimed]
    bounds = zip([0, *retries], [*retries, len(entries)], strict=True)
    return [_phase(reader, entries[begin:end], entries[:end]) for begin, end in bounds]


def _phase(reader: Reader, own: Sequence[Entry], so_far: Sequence[Entry]) -> Phase:
    asked = {entry.seq: entry for entry in own if entry.kind in ("task.attempted", "role.asked")}
    swallowed = _swallowed(own, so_far)
    answers = {seq for entry in own if is_answer(entry) for seq in entry.causes}
    answered = asked.keys() & (swallowed.keys() | answers)
    calls = {seq: (call_asked(entry), sha256(reader.data(entry, "prompt")).hexdigest()) for seq, entry in asked.items()}
    given = {calls[seq] for seq in answered}
    refused = _refused_behind_a_crash(own, {seq: call.task for seq, (call, _) in calls.items()})
    left = {seq for seq in asked if seq not in answered and calls[seq] not in given and seq not in refused}
    last = {_followed_by(call): seq for seq, (call, _) in calls.items()}
    # An attempt that another one followed was given up, and so was a question that was put once more.
    stood = {seq for seq in left if last[_followed_by(calls[seq][0])] == seq}
    attempts: dict[str, list[int]] = {}
    for call in (calls[seq][0] for seq in asked if seq in answered or seq in stood):
        if call.role == WORKER:
            attempts.setdefault(call.task, []).append(call.attempt)
    ended = next((entry for entry in reversed(own) if entry.kind == "run.ended"), None)
    # The seconds of a run may end behind its answer, while that is looked at.
    cut = ended is None or ended.data["reason"] in CUT_SHORT or any(map(is_out_of_time, own))
    waits = stood if cut else set[int]()
    order = _order(own, {seq: call for seq, (call, _) in calls.items() if seq in answered or seq in waits})
    return Phase(
        retry=own[0] if own[0].kind == "run.retry_asked" else None,
        ended=ended,
        cut=cut,
        first=own[0].seq,
        last=own[-1].seq,
        claimed=max((entry.seq for entry in own if entry.kind == "run.claimed"), default=-1),
        asked=frozenset(call for call, _ in calls.values()),
        open=frozenset(calls[seq] for seq in left),
        left=frozenset(stood),
        attempts=attempts,
        swallowed={call: seq for seq, call in swallowed.items()},
        unjudged=_unjudged(so_far),
        restarted=frozenset(
            (each.data["task"], each.data["attempt"]) for each in so_far if each.kind == "task.restarted"
        ),
        done=deeds(so_far),
        order=order,
        answered=_answered(own, {seq: call for seq, (call, _) in calls.items()}),
    )


def _followed_by(call: Call) -> object:
    """What two calls have in common of which the second takes the place of the first: the task of an attempt, all of a question."""
    return call.task if call.role == WORKER else call


def _swallowed(own: Sequence[Entry], so_far: Sequence[Entry]) -> dict[int, Call]:
    """The attempts and questions of which this phase says that the engine ended too often while they were made."""
    asked = {entry.seq: entry for entry in so_far if entry.kind in ("task.attempted", "role.asked")}
    said = (entry for entry in own if entry.kind == "task.judged" or entry.data.get("error") == SWALLOWED)
    return {seq: call_asked(asked[seq]) for entry in said for seq in entry.causes if seq in asked}


def _refused_behind_a_crash(entries: Sequence[Entry], asked: Mapping[int, str]) -> set[int]:
    """The questions, of those that were `asked` about these tasks, that a crash cut short and for which the next driver found
    that the budget has nothing left. Where the seconds of the run were over, it stood at them when it was cut.
    """
    under_way, lost, found = dict[int, str](), dict[int, str](), set[int]()
    late = {entry.seq for entry in entries if is_out_of_time(entry)}
    for entry in entries:
        data = entry.data
        if entry.seq in asked:
            under_way[entry.seq] = asked[entry.seq]
        elif entry.kind == "run.claimed":
            lost |= under_way
        elif entry.kind == "task.skipped" and data["because"] == "budget" and late.isdisjoint(entry.causes):
            found.update(seq for seq, task in lost.items() if task == data["task"])
        elif entry.kind == "budget.breached" and not data.get("lane") and not is_of_the_cut(entry):
            found.update(lost)
    return found


def _unjudged(entries: Sequence[Entry]) -> list[Entry]:
    """What failed in passing, or never came, has no verdict either, and nothing of it to check."""
    judged = {(entry.data["task"], entry.data["attempt"]) for entry in entries if entry.kind == "task.judged"}
    came = (entry for entry in entries if entry.kind == "task.returned" and entry.data["ok"] is True)
    return [entry for entry in came if (entry.data["task"], entry.data["attempt"]) not in judged]


def _answered(entries: Sequence[Entry], calls: Mapping[int, Call]) -> Mapping[Call, int]:
    answers = filter(is_answer, entries)
    return {calls[seq]: entry.seq for entry in answers for seq in entry.causes if seq in calls}


def _order(entries: Sequence[Entry], calls: Mapping[int, Call]) -> list[tuple[int, Call | Refused]]:
    """Each with its place. A question that was repeated stands where it was put last."""
    newest = {call: seq for seq, call in calls.items()}
    placed: list[tuple[int, Call | Refused]] = [(seq, call) for call, seq in newest.items()]
    skipped = {seq: entry.data["task"] for entry in entries if entry.kind == "task.skipped" for seq in entry.causes}
    for entry in (entry for entry in entries if entry.kind == "budget.breached" and not is_of_the_cut(entry)):
        lane = entry.data.get("lane")
        placed.append((entry.seq, Refused(lane, skipped.get(entry.seq) if lane else None)))
    return sorted(placed, key=lambda place: place[0])


def given_up(entries: Sequence[Entry]) -> frozenset[int]:
    """What led to nothing, because a driver ended behind it."""
    return frozenset(_turns_given_up(entries) | _breaches_given_up(entries))


def _turns_given_up(entries: Sequence[Entry]) -> set[int]:
    """Questions to roles, with their answers: the next driver begins with the first turn again, or finds that the budget has
    nothing left for it.
    """
    turns: dict[tuple[object, ...], list[int]] = {}
    about: dict[int, tuple[object, ...]] = {}
    cut: dict[tuple[object, ...], list[int]] = {}
    found: set[int] = set()
    for entry in entries:
        data = entry.data
        match entry.kind:
            case "run.ended" | "run.retry_asked":
                turns.clear()
            case "run.claimed":
                answered = [key for key, seqs in turns.items() if len(seqs) > 1]
                cut |= {key: turns.pop(key) for key in answered}
                found.update(seq for key in answered for seq in cut[key])
            case "role.asked":
                about[entry.seq] = (data["role"], data.get("task"), data["attempt"])
                turns.setdefault(about[entry.seq], []).append(entry.seq)
            case "role.answered" if data.get("error") == SWALLOWED:
                # It is not asked again: what was asked last has led to this.
                asked = about[entry.causes[0]]
                found.difference_update(() if turns.pop(asked, None) else cut.get(asked, ()))
            case "role.answered" if is_answer(entry) and (key := about.get(entry.causes[0])) in turns:
                about[entry.seq] = key
                turns[key].append(entry.seq)
                if data["ok"] is True and key[0] != "reviser":
                    del turns[key]
            case "task.judged":
                turns.pop(about.get(entry.causes[0], ()), None)
            case "answer.checked" if data["check"] == "intent_judge":
                turns.pop(("intent_judge", None, 1), None)
            case "answer.checked" | "answer.revised" if _is_revised(entry):
                turns.pop(("reviser", None, 1), None)
    return found


def _is_revised(entry: Entry) -> bool:
    """Whether nobody is asked for a revision any more: there is one, or the reviser ended the engine too often."""
    said = entry.data
    return entry.kind == "answer.revised" or (said["check"] == "delivery" and said["outcome"] == "crashed")


def _breaches_given_up(entries: Sequence[Entry]) -> set[int]:
    """The end of the run's budget, with what was skipped for it: the next driver looks for himself whether anything is left."""
    breaches, found = set[int](), set[int]()
    for entry in entries:
        match entry.kind:
            case "run.ended":
                breaches.clear()
            case "run.retry_asked" | "run.claimed":
                found |= breaches
                breaches.clear()
            case "budget.breached" if not entry.data.get("lane") and not is_of_the_cut(entry):
                breaches.add(entry.seq)
            case "task.skipped" if not breaches.isdisjoint(entry.causes):
                breaches.add(entry.seq)
    return found


def deeds(entries: Iterable[Entry]) -> Counter[Deed]:
    """What was done in a run, each by a name that a re-run gives it too. What was said when it was cut is not among it."""
    asked: dict[int, Any] = {}
    late: set[int] = set()
    out_of_time = False
    found: Counter[Deed] = Counter()
    for entry in entries:
        out_of_time = is_out_of_time(entry) or (out_of_time and entry.kind != "run.retry_asked")
        if entry.kind == "role.asked":
            asked[entry.seq] = entry.data
        elif is_of_the_cut(entry) or (entry.kind == "task.skipped" and not late.isdisjoint(entry.causes)):
            late.add(entry.seq)
        elif entry.kind in SAID_AT_THE_END and out_of_time:
            continue
        else:
            data = {**(asked.get(entry.causes[0], {}) if entry.causes else {}), **entry.data}
            if (name := deed(entry.kind, data.get)) is not None:
                found[name] += 1
    return found


def deed(kind: str, said: Callable[[str], object]) -> Deed | None:
    """The name of something that was done, from what is `said` in its fields; None for what only leads to it, as what sources
    give for a task does.
    """
    leads = kind not in _DEEDS or (kind == "context.given" and said("task") is not None)
    return None if leads else (kind, *map(said, _NAMES))


def is_of_the_cut(entry: Entry) -> bool:
    """Whether this was said because the run was cut: a re-run cuts by itself."""
    return is_said_of_the_cut(entry.kind, entry.data.get)


def is_out_of_time(entry: Entry) -> bool:
    """Whether this says that the run had no seconds left, which is told by the clock. A lane's are those of its answers."""
    return entry.kind == "budget.breached" and is_of_the_cut(entry)


def is_said_of_the_cut(kind: str, said: Callable[[str], object]) -> bool:
    """The same of something with these fields."""
    match kind:
        case "task.returned" | "role.answered":
            return said("error") in CUT_SHORT
        case "task.skipped":
            return said("because") == "cancelled"
        case "run.ended":
            return said("reason") in CUT_SHORT
        case "budget.breached":
            return said("unit") == "seconds" and not said("lane")
    return False


def is_decided(closed: Entry) -> bool:
    """Whether a gate was closed by people or by its deadline, and not because another took its place."""
    return len(closed.causes) > 1 or closed.data["expired"] is True


def is_answer(entry: Entry) -> bool:
    """Whether this is what somebody answered, and not the word in place of an answer that did not come any more."""
    return entry.kind in ("task.returned", "role.answered") and entry.data.get("error") not in NEVER_CAME
