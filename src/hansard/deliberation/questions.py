"""The questions of a session as they were asked, and what was answered, from the record: what they name of the transcript is put in
its place again.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, get_args

from hansard.deliberation.documents import Invalid
from hansard.deliberation.minutes import ACTOR
from hansard.deliberation.quoting import answer_of, put_together
from hansard.deliberation.story import entries_of
from hansard.domain.council import TurnAmended, TurnAsked, TurnFailed, TurnTaken
from hansard.domain.exchange import Message, MessageRole
from hansard.domain.fact import Body
from hansard.domain.value import value
from hansard.errors import Tampered
from hansard.ledger.body import JSON
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import Entry
from hansard.record.reading import MARK, read_body, read_entries, strange
from hansard.store.base import Query, Store

GONE = "(redacted)"


@value
class Question:
    """Who was asked, at which entry, and every message that he was given: none where the question was redacted."""

    seq: int
    agent: str
    round: int
    attempt: int
    model: str
    messages: tuple[Message, ...]
    came: Entry | None
    """The message or the failure that it led to; None where nothing came yet, or an answer of another kind."""


def read_questions(store: Store, run: str, session: str | None = None) -> Iterator[Question]:
    """Every question of a session in the order in which they were asked, those for first answers before it among them."""
    entries = entries_of(store, run, session)
    # A chair asks within a session. First answers are gathered before there is one, when its id may be another yet.
    before, failed = (Query(run=run, kind=kind, before=entries[0].seq) for kind in (TurnAsked.KIND, TurnFailed.KIND))
    answers = (each for each in (*read_entries(store, failed), *entries) if "result" in each.body)
    came = {each.causes[0]: each for each in answers if each.causes}
    said: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for entry in (*(each for each in read_entries(store, before) if each.actor != ACTOR), *entries):
        if entry.kind == TurnTaken.KIND:
            numbers[entry.seq] = len(said)
            said.append(_message(store, entry))
        elif entry.kind == TurnAmended.KIND and (number := numbers.get(entry.data["amends"])) is not None:
            # Whoever redacted the message as it was first has not kept it for its annotations.
            said[number] = said[number] if said[number]["content"] == GONE else _message(store, entry)
        elif entry.kind == TurnAsked.KIND:
            yield Question(
                seq=entry.seq,
                **{name: entry.data[name] for name in ("agent", "round", "attempt", "model")},
                messages=_asked(store, entry, said),
                came=came.get(entry.seq),
            )


def read_answer(store: Store, entry: Entry) -> str:
    """What a model answered, word for word, from the message or the failure that it led to."""
    try:
        stored = read_body(store, entry, "result")
    except Tampered:
        return MARK
    if stored is None:
        return GONE
    try:
        text = json.loads(stored.body)["text"]
        if isinstance(text, str):
            return text
        message = _message(store, entry) if entry.kind == TurnTaken.KIND else {}
        content = message["content"]
        return content if content in (GONE, MARK) else answer_of(text, message)
    except (ValueError, LookupError, TypeError, RecursionError, Malformed, Invalid) as error:
        raise strange(entry, "result", f"{type(error).__name__}: {error}") from error


def _message(store: Store, entry: Entry) -> dict[str, Any]:
    instead = {"speaker": entry.data.get("speaker", "?"), "round": entry.data.get("round", 0), "type": "message"}
    try:
        stored = read_body(store, entry, "message")
    except Tampered:
        return {**instead, "content": MARK}
    if stored is None:
        return {**instead, "content": GONE}
    try:
        return dict(json.loads(stored.body))
    except (ValueError, TypeError, RecursionError) as error:
        raise strange(entry, "message", f"{type(error).__name__}: {error}") from error


def _asked(store: Store, entry: Entry, said: Sequence[dict[str, Any]]) -> tuple[Message, ...]:
    try:
        stored = read_body(store, entry, "prompt")
    except Tampered:
        # One that was tampered with hides no other.
        return (Message(role="user", content=MARK),)
    if stored is None:
        return ()
    if stored.media != JSON:
        return (Message(role="user", content=Body(stored.media, stored.body).as_text()),)
    try:
        return tuple(
            Message(role=_role(each["role"]), content=put_together(each["content"], said))
            for each in json.loads(stored.body)["messages"]
        )
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, Malformed, Invalid) as error:
        raise strange(entry, "prompt", f"{type(error).__name__}: {error}") from error


def _role(role: object) -> Any:
    if role not in get_args(MessageRole):
        raise Malformed(f"nobody speaks as {role!r:.40}")
    return role
