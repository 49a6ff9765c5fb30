"""A session as the record tells it: its facts, sent through the rules again until the machine stands where it stood.

The machine is the judge: where a recorded message is not what the rules make of the recorded results, the record was not
written by this session, and nothing is resumed.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from hansard.deliberation.documents import Artifact, Config, Invalid, Message, RecordedArtifact, SelectorOutput
from hansard.deliberation.outcome import TRANSCRIPT, messages_of, whole
from hansard.deliberation.protocol.moves import Answered, Failed, Reading, Spent, Used
from hansard.deliberation.result import from_body
from hansard.deliberation.turn import heard, spent_of
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.council import (
    PanelSelected,
    SessionArchived,
    SessionConvened,
    SessionEnded,
    ToolsCalled,
    ToolsReturned,
    TurnAmended,
    TurnAsked,
    TurnFailed,
    TurnTaken,
)
from hansard.domain.exchange import Completion, is_priced
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value
from hansard.errors import StoreError, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.record import codec
from hansard.record.reading import formed, read_body, read_entries, strange
from hansard.store.base import Query, Store

_NEEDED: Mapping[str, tuple[str, ...]] = {
    SessionConvened.KIND: ("config",),
    PanelSelected.KIND: ("selection",),
    TurnAsked.KIND: (),
    ToolsCalled.KIND: (),
    ToolsReturned.KIND: (),
    TurnFailed.KIND: ("result",),
    TurnTaken.KIND: ("message",),
    TurnAmended.KIND: ("message",),
    SessionEnded.KIND: ("artifact",),
    SessionArchived.KIND: ("manifest",),
}


_FOLLOW = _NEEDED.keys() - {SessionConvened.KIND}
"""What a session leads to. Another session that goes on from its end is another story."""


@value
class Told:
    """A fact at its place."""

    seq: int
    fact: Fact


@dataclass(slots=True, kw_only=True)
class Result:
    """What a call of the record led to: an answer that became a message, a failure, or calls for tools."""

    event: Answered | Failed | Used
    completion: Completion | None


@dataclass(slots=True, kw_only=True)
class Story:
    """One session of a run, as far as it was written down."""

    config: Config
    convened: int
    told: list[Told] = field(default_factory=list)
    selection: SelectorOutput | None = None
    selecting: Spent = field(default_factory=lambda: Spent(calls=0))
    """What models took who chose the panel, or failed to."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """With the annotations that they have by now."""
    lines: list[bytes] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    asked: int = 0
    """How many results there were when the newest question was asked."""
    is_calling: bool = False
    """Whether the newest call has no answer."""
    lost: int = 0
    """Calls before it of which nothing came back: they were under way when a driver ended, and count."""
    seed: int | None = None
    """None where nobody was asked yet, and it is not on the record."""
    elapsed_us: int = 0
    timed: int | None = None
    """The newest answer, which says how long the session had taken. What nobody was asked for, as its problem, does not."""
    ended: Told | None = None
    archived: Told | None = None
    last: int = -1

    @property
    def artifact(self) -> dict[str, Any] | None:
        """The artifact, where the session has ended."""
        if self.ended is None:
            return None
        return whole(json.loads(_bytes(cast(SessionEnded, self.ended.fact).artifact, "artifact")), self.messages)

    @property
    def priced(self) -> bool:
        """Whether it is known what each of its calls cost."""
        facts = (each.fact for each in self.told)
        calls = (fact for fact in facts if isinstance(fact, PanelSelected | ToolsCalled | TurnFailed | TurnTaken))
        return all(
            is_priced((each.prompt_tokens or 0) + (each.completion_tokens or 0), each.cost_basis) for each in calls
        )

    @property
    def calls(self) -> int:
        """How many questions were answered: where a script goes on."""
        return sum(not isinstance(result.event, Used) for result in self.results)


def read_story(store: Store, run: str, session: str | None = None) -> Story:
    """The session of this run, or the one of this id where a run has several."""
    convened, *rest = entries_of(store, run, session)
    began = cast(SessionConvened, _fact(store, convened))
    with _as_written(convened):
        config = Config.parse(json.loads(_bytes(began.config, "configuration")))
    found = Story(config=config, convened=convened.seq, last=convened.seq)
    for entry in rest:
        if found.ended is None or entry.kind == SessionArchived.KIND:
            fact = _fact(store, entry)
            with _as_written(entry):
                _take(found, Told(seq=entry.seq, fact=fact))
    return found


@contextmanager
def _as_written(entry: Entry) -> Iterator[None]:
    """Tampered where a body opens its commitment, and holds something else than a session writes there."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, Invalid) as error:
        part = (*_NEEDED.get(entry.kind, ()), "result")[0]
        raise strange(entry, part, f"{type(error).__name__}: {error}") from error


def read_artifact(store: Store, ended: Entry) -> dict[str, Any] | None:
    """The artifact of a session that has ended, whole; None where it, or a message of it, is not in the ledger any more."""
    recorded = read_ending(store, ended)
    if recorded is None or isinstance(recorded[TRANSCRIPT], list):
        return recorded
    said = _said(store, ended)
    try:
        return whole(recorded, said)
    except Malformed as error:
        raise strange(ended, "artifact", error) from error


def read_ending(store: Store, ended: Entry) -> dict[str, Any] | None:
    """The same as it stands on the record, where it only names its messages: for whoever wants the outcome, the sums or the
    configuration. None where it is not in the ledger any more.
    """
    stored = read_body(store, ended, "artifact")
    if stored is None:
        return None
    try:
        data: dict[str, Any] = json.loads(stored.body)
        RecordedArtifact.parse(data)
        messages_of(data)
    except (ValueError, RecursionError, Invalid) as error:
        raise strange(ended, "artifact", error) from error
    return data


def read_answer(store: Store, ended: Entry, recorded: Mapping[str, Any]) -> str | None:
    """What a session has come to whose artifact this is, and which ended with a synthesis; None where that is not in the ledger
    any more.
    """
    if isinstance(recorded[TRANSCRIPT], list):
        last = recorded[TRANSCRIPT][-1]
    else:
        # A synthesis is the last message, and nothing else leads to such an end.
        taken = next((formed(store, store.entry(seq)) for seq in ended.causes), ended)
        last = _message(store, taken) if taken.kind == TurnTaken.KIND else {}
    if last is None:
        return None
    if last.get("type") != "synthesis":
        raise strange(ended, "artifact", "it tells of a synthesis, and none led to it")
    return str(last["content"]["integrated_answer"])


def _said(store: Store, ended: Entry) -> list[dict[str, Any] | None]:
    """Every message of a session up to its end, with its annotations; None in the place of what is not in the ledger any more."""
    said: list[dict[str, Any] | None] = []
    numbers: dict[int, int] = {}
    for entry in _before(store, ended):
        if entry.kind == TurnTaken.KIND:
            numbers[entry.seq] = len(said)
            said.append(_message(store, entry))
        elif entry.kind == TurnAmended.KIND:
            if (number := numbers.get(entry.data["amends"])) is None:
                raise strange(entry, "message", f"entry {entry.data['amends']} is no message of its session")
            # Whoever redacted the message as it was first has not kept it for its annotations.
            said[number] = said[number] and _message(store, entry)
    return said


def _message(store: Store, entry: Entry) -> dict[str, Any] | None:
    stored = read_body(store, entry, "message")
    if stored is None:
        return None
    try:
        data: dict[str, Any] = json.loads(stored.body)
        Message.parse(data)
    except (ValueError, RecursionError, Invalid) as error:
        raise strange(entry, "message", error) from error
    return data


def _before(store: Store, ended: Entry) -> list[Entry]:
    """The entries of the session that has ended so. Its causes tell which it is: two of a run may have one id."""
    convened = read_entries(store, Query(run=ended.run, kind=SessionConvened.KIND, before=ended.seq))
    first = next((each.seq for each in convened if each.data["session"] == ended.data["session"]), ended.seq)
    found: dict[int, list[Entry]] = {}
    for entry in read_entries(store, Query(run=ended.run, after=first - 1, before=ended.seq)):
        if entry.kind == SessionConvened.KIND:
            found[entry.seq] = [entry]
        elif entry.kind in _FOLLOW and (own := next((found[seq] for seq in entry.causes if seq in found), None)):
            own.append(entry)
            found[entry.seq] = own
    return next((found[seq] for seq in ended.causes if seq in found), [])


def entries_of(store: Store, run: str, session: str | None = None) -> list[Entry]:
    """The entries of a session, in their order: that it was convened, and whatever follows from there.

    Several sessions of a run may be held at the same time. What belongs to which is told by causes alone.
    """
    found: list[Entry] = []
    known: set[int] = set()
    for entry in read_entries(store, Query(run=run)):
        if entry.kind == SessionConvened.KIND and session in (None, entry.data["session"]):
            found, known = [entry], {entry.seq}
        elif entry.kind in _FOLLOW and not known.isdisjoint(entry.causes):
            found.append(entry)
            known.add(entry.seq)
    if not found:
        raise UsageError(f"run {run} has no session{f' {session}' if session else ''} on the record")
    return found


def _fact(store: Store, entry: Entry) -> Fact:
    return codec.decode(entry, _bodies(store, entry))


def _bodies(store: Store, entry: Entry) -> dict[str, Body]:
    """The bodies that the story needs: prompts and good results stay where they are, unless tools have a part in them."""
    found = {}
    needed = _NEEDED.get(entry.kind, ())
    with_tools = entry.kind == TurnTaken.KIND and "tools" in entry.data
    for name in (*needed, "result") if with_tools else needed:
        stored = read_body(store, entry, name)
        if stored is not None:
            found[name] = Body(stored.media, stored.body)
    return found


def _take(story: Story, told: Told) -> None:
    story.told.append(told)
    match told.fact:
        case PanelSelected() as fact:
            story.selection = SelectorOutput.parse(json.loads(_bytes(fact.selection, "selection"))["output"])
            story.is_calling = False
            if fact.prompt_tokens is not None:
                tokens = fact.prompt_tokens + (fact.completion_tokens or 0)
                story.selecting = story.selecting.plus(Spent(tokens=tokens, cost_usd_nano=fact.cost_usd_nano or 0))
        case TurnAsked() as fact:
            story.seed = fact.jitter_seed
            story.asked = len(story.results)
            story.lost += story.is_calling
            story.is_calling = True
            # A question that was never answered is nobody's cause: it will be asked again.
            return
        case ToolsCalled() as fact:
            # It counts, even where nothing else came of it and the question will be asked again.
            spent = Spent(tokens=fact.prompt_tokens + fact.completion_tokens, cost_usd_nano=fact.cost_usd_nano or 0)
            event = Used(reading=Reading(elapsed_us=story.elapsed_us), spent=spent)
            story.results.append(Result(event=event, completion=None))
            story.is_calling = False
            return
        case ToolsReturned():
            # The model is asked again.
            story.is_calling = True
            return
        case TurnFailed() as fact:
            story.is_calling = False
            if story.selection is None:
                story.selecting = story.selecting.plus(_failed(fact).event.spent)
            else:
                story.results.append(_failed(fact))
            story.elapsed_us, story.timed = max(story.elapsed_us, fact.elapsed_us), told.seq
        case TurnTaken() as fact:
            _take_message(story, fact, told.seq)
        case TurnAmended() as fact:
            line = _bytes(fact.message, "message")
            story.messages[story.seqs.index(fact.amends)] = json.loads(line)
            if line != story.lines[-1]:
                story.lines.append(line)
        case SessionEnded() as fact:
            story.ended = told
            if fact.artifact.data is not None:
                Artifact.parse(story.artifact)
        case SessionArchived():
            story.archived = told
    story.last = told.seq


def _take_message(story: Story, fact: TurnTaken, seq: int) -> None:
    line = _bytes(fact.message, "message")
    message = json.loads(line)
    story.messages.append(message)
    story.lines.append(line)
    story.seqs.append(seq)
    story.elapsed_us = max(story.elapsed_us, fact.elapsed_us)
    if fact.result is not None:
        story.timed = seq
        story.is_calling = False
        usage = message["usage"]
        before = [result.event.spent for result in story.results[story.asked :]]
        spent = Spent(
            tokens=usage["total_tokens"] - sum(each.tokens for each in before),
            cost_usd_nano=round(usage["cost_usd"] * NANO_PER_USD) - sum(each.cost_usd_nano for each in before),
        )
        reading = Reading(elapsed_us=fact.elapsed_us)
        event = Answered(reading=reading, content=_content(message), usage=usage, spent=spent)
        story.results.append(Result(event=event, completion=None))


def _content(message: dict[str, Any]) -> Any:
    """What was answered. The reference's shape leaves out of a branch what it asks for, and keeps it as an annotation [A-1]."""
    wanted = message.get("suggested_followups")
    return {**message["content"], "direct_requests": wanted} if wanted else message["content"]


def _failed(fact: TurnFailed) -> Result:
    completion, usage = from_body(Body.json(_bytes(fact.result, "result")), fact.error)
    spent = spent_of(usage, calls=1 if fact.calls is None else fact.calls)
    event = heard(completion, usage, spent, Reading(elapsed_us=fact.elapsed_us))
    return Result(event=event, completion=completion)


def _bytes(body: Body, what: str) -> bytes:
    if body.data is None:
        raise StoreError(
            f"the {what} of this session was redacted; what is missing can neither be shown nor gone on with"
        )
    return body.data
