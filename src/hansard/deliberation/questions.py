"""The questions of a session as they were asked, from the record: what they name of the transcript is put in its place again."""

import json
from collections.abc import Iterator
from typing import Any

from hansard.deliberation.quoting import put_together
from hansard.deliberation.story import entries_of
from hansard.domain.council import TurnAmended, TurnAsked, TurnTaken
from hansard.domain.exchange import Message
from hansard.domain.value import value
from hansard.ledger.entry import Entry
from hansard.record.reading import read_body
from hansard.store.base import Store

GONE = {"speaker": "(redacted)", "round": 0, "type": "redacted", "content": "(redacted)"}
"""Stands for a message that is not on the record any more."""


@value
class Question:
    """Who was asked, at which entry, and every message that he was given: none where the question was redacted."""

    seq: int
    agent: str
    round: int
    attempt: int
    model: str
    messages: tuple[Message, ...]


def read_questions(store: Store, run: str, session: str | None = None) -> Iterator[Question]:
    """Every question of a session, in the order in which they were asked."""
    said: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}
    for entry in entries_of(store, run, session):
        if entry.kind == TurnTaken.KIND:
            numbers[entry.seq] = len(said)
            said.append(_read(store, entry, "message") or GONE)
        elif entry.kind == TurnAmended.KIND:
            said[numbers[entry.data["amends"]]] = _read(store, entry, "message") or GONE
        elif entry.kind == TurnAsked.KIND:
            asked = _read(store, entry, "prompt") or {"messages": ()}
            given = [(each["role"], put_together(each["content"], said)) for each in asked["messages"]]
            yield Question(
                seq=entry.seq,
                **{name: entry.data[name] for name in ("agent", "round", "attempt", "model")},
                messages=tuple(Message(role=role, content=content) for role, content in given),
            )


def _read(store: Store, entry: Entry, part: str) -> dict[str, Any] | None:
    stored = read_body(store, entry, part)
    return None if stored is None else dict(json.loads(stored.body))
