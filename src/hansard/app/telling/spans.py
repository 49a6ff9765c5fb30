"""A run as spans: what the record says, in the words of OpenTelemetry. Pure; who exports them, and whether, is not known here.

Every span names the entry that it stands on, so that a trace points into a record that can be proven. Bodies stay in the ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from hansard.app.telling import span_names as names
from hansard.app.telling.compare import is_unpriced
from hansard.app.telling.leaves import LEAVES, Leaves
from hansard.app.telling.nested_sessions import sessions_by_question
from hansard.ledger.entry import Entry
from hansard.ledger.merkle import leaf_hash
from hansard.orchestration.nested import is_panel
from hansard.record.history import TURNS, calls_of_turn, fold
from hansard.record.reading import read_entries
from hansard.store.base import Query, Store

ASKS = ("task.attempted", "role.asked", "turn.asked")
ANSWERS = ("task.returned", "role.answered", "panel.selected", "ensemble.answered", "turn.taken", "turn.failed")
TOOLS = ("tools.called", "tools.returned")
LOST = "interrupted"
USED = ("prompt_tokens", "completion_tokens", "cost_usd_nano")

Attempt = tuple[str, int]
Attributes = dict[str, str | int | float | bool | Sequence[str]]


class Heard(NamedTuple):
    """What came of a question: in which entry, with what figures, until when it was waited for, whether a call was made for it at
    all, and whether it is known what it cost.
    """

    entry: Entry
    got: Mapping[str, Any]
    until_us: int
    made: bool = True
    priced: bool = True


@dataclass(slots=True, kw_only=True)
class Span:
    """One span. `parent` is its place in the list, None for the run itself."""

    name: str
    kind: Literal["internal", "client"]
    start_us: int
    end_us: int
    parent: int | None
    attributes: Attributes
    events: list[tuple[str, int, Attributes]] = field(default_factory=list)
    failed: bool = False


def run_spans(store: Store, run: str, end: int | None = None) -> list[Span]:
    """The spans of a run that is over: the run first, then who was asked, each with the call that was made; the turns of a
    panel within the attempt, or the question, that it answers.

    `end` is the entry that ended it. What an earlier end was told of, before a task was done again, is not told twice.
    """
    entries = list(read_entries(store, Query(run=run, before=None if end is None else end + 1)))
    mode = str(entries[0].data.get("mode", "request"))
    ends = [at for at, entry in enumerate(entries) if entry.kind == "run.ended"]
    # A run's end tells what it cost since it began.
    told = _number(entries[ends[-2]].data.get("cost_usd_nano")) if len(ends) > 1 else 0
    entries = entries[ends[-2] + 1 if len(ends) > 1 else 0 :]
    spans = [_whole(run, mode, entries, told)]
    asked = {entry.seq: entry for entry in entries if entry.kind in ASKS}
    came = _came(entries, asked)
    sessions = sessions_by_question(entries)
    held: dict[object, int] = {}
    """By session: the place of the span within which it is held."""
    attempts: dict[Attempt, Span] = {}
    for question in asked.values():
        heard = came[question.seq]
        place, within = len(spans), held.get(question.data.get("session"), 0)
        spans += _call(run, question, heard, within, place)
        if question.seq in sessions:
            held[sessions[question.seq]] = place
        if heard.entry.kind == "task.returned":
            attempts[_attempt(heard.entry)] = spans[place]
    for entry in entries:
        if entry.kind == "task.judged" and (about := attempts.get(_attempt(entry))):
            _judge(about, entry)
    return spans


def _whole(run: str, mode: str, entries: Sequence[Entry], told_usd_nano: int) -> Span:
    """The run itself, from these entries on; what it cost before them was told."""
    first, last = entries[0], entries[-1]
    ended = next((entry for entry in reversed(entries) if entry.kind == "run.ended"), last)
    attributes: Attributes = {
        names.OPERATION: names.WORKFLOW,
        names.WORKFLOW_NAME: mode,
        names.CONVERSATION: run,
        names.STATE: str(ended.data.get("state", "")),
        **_place(ended),
    }
    if fold(entries).runs[run].priced:
        attributes[names.COST] = max(0, _number(ended.data.get("cost_usd_nano")) - told_usd_nano)
    return Span(
        name=f"{names.WORKFLOW} {mode}",
        kind="internal",
        start_us=first.ts,
        end_us=last.ts,
        parent=None,
        attributes=attributes,
        failed=ended.data.get("state") == "failed",
    )


def _came(entries: Sequence[Entry], asked: Mapping[int, Entry]) -> dict[int, Heard]:
    """What came of each question."""
    found: dict[int, Heard] = {}
    turns: dict[int, int] = {}
    used: defaultdict[int, Counter[str]] = defaultdict(Counter)
    unpriced: set[int] = set()
    leaves = Leaves((entry.seq, entry.kind, entry.ts) for entry in entries)
    for entry in entries:
        if entry.kind in TOOLS:
            turn = turns[entry.seq] = turns.get(entry.causes[0], entry.causes[0])
            used[turn].update({name: _number(entry.data.get(name)) for name in USED})
            if is_unpriced(entry):
                unpriced.add(turn)
        elif entry.kind in ANSWERS:
            for seq in (seq for seq in entry.causes if seq in asked and seq not in found):
                made = entry.kind not in TURNS or bool(calls_of_turn(entry) or used[seq])
                until_us = leaves.until_us(seq, entry.seq) or entry.ts
                priced = seq not in unpriced and not is_unpriced(entry)
                found[seq] = Heard(entry, _got(entry, used[seq]), until_us, made, priced)
    for seq in asked.keys() - found.keys():
        # Its driver died, or was cut off: what the record counts of it is told all the same.
        left = next((entry for entry in entries if entry.seq > seq and entry.kind in LEAVES), entries[-1])
        got, until_us = {"ok": False, "error": LOST, **used[seq]}, leaves.until_us(seq) or left.ts
        found[seq] = Heard(left, got, until_us, priced=seq not in unpriced)
    return found


def _got(answered: Entry, used: Counter[str]) -> Mapping[str, Any]:
    """What came of a question, with what was used for tools before the answer."""
    data: Any = answered.data
    return {**data, **{name: data[name] + before for name, before in used.items()}}


def _call(run: str, asked: Entry, heard: Heard, within: int, place: int) -> list[Span]:
    """Who was asked, and inside of it the call with what came of it, where one was made."""
    answered, got = heard.entry, heard.got
    said: Any = asked.data
    who = str(said.get("lane") or said.get("role") or said.get("agent") or "")
    operation = names.PLAN if said.get("role") == "coordinator" else names.AGENT
    failed = answered.kind == "turn.failed" or got.get("ok") is False
    about = {names.TASK: said.get("task"), names.ATTEMPT: said.get("attempt"), names.ROUND: said.get("round")}
    provider = str(said.get("provider", ""))
    shared: Attributes = {names.CONVERSATION: run, names.AGENT_NAME: who, names.PROVIDER: _named(provider)}
    if failed:
        shared[names.ERROR] = str(got.get("error") or got.get("kind") or "other")
    agent = Span(
        name=f"{operation} {who}",
        kind="internal",
        start_us=asked.ts,
        end_us=heard.until_us,
        parent=within,
        attributes={names.OPERATION: operation, **shared, **_place(asked), **_given(about)},
        failed=failed,
    )
    if not heard.made or is_panel(provider):
        # What a panel takes stands in its turns; its answer repeats the sum for the reader.
        return [agent]
    model = str(said.get("model", ""))
    usage = {
        names.RESPONSE_MODEL: got.get("model"),
        names.FINISH_REASONS: [str(got["finish"])] if got.get("finish") else None,
        names.INPUT_TOKENS: got.get("input_tokens", got.get("prompt_tokens")),
        names.OUTPUT_TOKENS: got.get("output_tokens", got.get("completion_tokens")),
        names.CACHED_TOKENS: got.get("cached_tokens"),
        names.COST: got.get("cost_usd_nano") if heard.priced else None,
    }
    call: Attributes = {names.OPERATION: names.CHAT, names.REQUEST_MODEL: model, **shared, **_place(answered)}
    took = Span(
        name=f"{names.CHAT} {model}",
        kind="client",
        start_us=asked.ts,
        end_us=heard.until_us,
        parent=place,
        attributes={**call, **_given(usage)},
        failed=failed,
    )
    return [agent, took]


def _named(target: str) -> str:
    """The provider of a target that is PROVIDER:MODEL; a panel is one by its whole name."""
    return target if is_panel(target) else target.partition(":")[0]


def _judge(attempt: Span, judged: Entry) -> None:
    """A verdict, as an event of the attempt that it is about."""
    data: Any = judged.data
    said: Attributes = {
        names.EVALUATION_NAME: str(data.get("by", "")),
        names.EVALUATION_LABEL: "passed" if data.get("ok") else "rejected",
        **_place(judged),
    }
    if data.get("score_ppm") is not None:
        said[names.EVALUATION_SCORE] = data["score_ppm"] / 1_000_000
    attempt.events.append((names.EVALUATION, judged.ts, said))
    attempt.end_us = max(attempt.end_us, judged.ts)


def _attempt(entry: Entry) -> Attempt:
    return str(entry.data.get("task")), _number(entry.data.get("attempt"))


def _place(entry: Entry) -> Attributes:
    return {names.SEQ: entry.seq, names.ENTRY_HASH: leaf_hash(entry.line).hex()}


def _given(values: Mapping[str, Any]) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}


def _number(value: object) -> int:
    return value if type(value) is int else 0
