"""Sessions inside of a run: which question each of them answers, and what its calls took. From entries alone."""

from collections.abc import Sequence

from hansard.domain.exchange import Completion, Cost, Usage
from hansard.ledger.entry import Entry
from hansard.providers.recording import Call
from hansard.record.history import TURNS, calls_of_turn
from hansard.record.replaying import WORKER, call_asked

_ASKING = ("task.attempted", "role.asked")
_OVER = ("task.returned", "task.judged")
_FOLLOWING = (*TURNS, "turn.asked", "tools.returned", "turn.amended")


def sessions_by_question(entries: Sequence[Entry]) -> dict[int, str]:
    """By attempt, or question to a role: the session that answers it. What repeats a question after a crash goes on with
    the session that it had convened, also where that has ended.
    """
    found: dict[int, str] = {}
    held: dict[int, str] = {}
    first: dict[int, int] = {}
    """By attempt, question or answer: the first of which it is a repetition."""
    provider_of: dict[int, object] = {}
    given_up: dict[int, Sequence[int]] = {}
    known: dict[object, int] = {}
    for entry in entries:
        match entry.kind:
            case "session.convened" if entry.causes:
                asked = entry.causes[0]
                found[asked] = held[first.get(asked, asked)] = str(entry.data["session"])
            case "task.restarted":
                given_up[entry.seq] = entry.causes
            case "task.attempted":
                provider = provider_of[entry.seq] = entry.data["provider"]
                before = [seq for cause in entry.causes for seq in given_up.get(cause, ())]
                same = next((seq for seq in before if provider_of.get(seq) == provider), entry.seq)
                first[entry.seq] = first.get(same, same)
            case "role.asked":
                came_of = tuple(first.get(seq, seq) for seq in entry.causes)
                asks = (repr(sorted(entry.data.items())), came_of)
                first[entry.seq] = known.setdefault(asks, entry.seq)
            case "role.answered" if entry.causes:
                # What is asked after the answers of one question came of the same.
                answers = first.get(entry.causes[0], entry.causes[0])
                first[entry.seq] = known.setdefault(answers, entry.seq)
            case "run.retry_asked":
                known.clear()
        if entry.kind in _ASKING and first[entry.seq] in held:
            found[entry.seq] = held[first[entry.seq]]
    return found


def is_gone_on_with(entries: Sequence[Entry], call: Call) -> bool:
    """Whether a session was convened on this question, and whoever puts the question again goes on with it. An attempt that
    was cut short is repeated under the next number.
    """
    since = max((entry.seq for entry in entries if entry.kind == "run.retry_asked"), default=-1)
    sessions = sessions_by_question(entries)
    put = [entry for entry in entries if entry.kind in _ASKING and entry.seq > since]
    if call.role != WORKER:
        return any(call_asked(entry) == call and entry.seq in sessions for entry in put)
    attempts = [entry.seq for entry in put if entry.kind == "task.attempted" and entry.data["task"] == call.task]
    over = {seq for entry in entries if entry.kind in _OVER for seq in entry.causes}
    return bool(attempts) and attempts[-1] in sessions and attempts[-1] not in over


def calls_by_question(entries: Sequence[Entry]) -> dict[int, list[tuple[int, Completion]]]:
    """By attempt, or question to a role, that a session answers: the entries of the calls that were made until the session was
    gone on with for another one, and what each of them took, in the order in which they came back.
    """
    found: dict[int, list[tuple[int, Completion]]] = {}
    asked: dict[str, int] = {}
    sessions = sessions_by_question(entries)
    session_of: dict[int, str] = {}
    asked_ts: dict[int, int] = {}
    for entry in entries:
        if entry.seq in sessions:
            asked[sessions[entry.seq]] = entry.seq
            found[entry.seq] = []
        if entry.kind == "session.convened":
            session_of[entry.seq] = str(entry.data["session"])
        elif entry.kind in _FOLLOWING and (known := [session_of[seq] for seq in entry.causes if seq in session_of]):
            session = session_of[entry.seq] = known[0]
            # Behind the results of tools the model is asked again.
            if entry.kind in ("turn.asked", "tools.returned"):
                asked_ts[entry.seq] = entry.ts
            elif entry.kind in TURNS and session in asked:
                calls = ((entry.seq, _took(entry, asked_ts)) for _ in range(calls_of_turn(entry)))
                found[asked[session]].extend(calls)
    return found


def _took(entry: Entry, asked_ts: dict[int, int]) -> Completion:
    data = entry.data
    began = max((asked_ts[seq] for seq in entry.causes if seq in asked_ts), default=entry.ts)
    return Completion(
        provider="",
        requested_model="",
        returned_model="",
        usage=Usage(input_tokens=int(data["prompt_tokens"]), output_tokens=int(data["completion_tokens"])),
        cost=Cost(usd_nano=int(data.get("cost_usd_nano") or 0)),
        latency_us=data.get("latency_us", max(0, entry.ts - began)),
    )
