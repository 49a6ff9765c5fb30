"""Answers on the record: what they repeat of their message stands there once, and is read back as the model wrote it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deliberating import Room, config, synthesis, turn, verdict
from forging import database
from hansard.deliberation import result
from hansard.deliberation.questions import read_answer, read_questions
from hansard.domain.exchange import Completion, Exchange
from hansard.errors import StoreError
from hansard.ledger.entry import Entry
from hansard.providers.base import Heard, answered
from hansard.record.reading import MARK
from hansard.store.sqlite import SqliteStore
from ledgers import Clock, genesis_draft

LONG = 'What only Ada knows, and why she says "no": café, 😀.\n' * 9
ASKS = {"text": LONG, "direct_requests": [{"target": "ben", "type": "question", "content": "And you?"}]}
IN_OTHER_FORM = json.dumps({"text": LONG})


class Writing:
    """A provider whose first answers a test writes out word for word."""

    id, unmetered = "fake", True

    def __init__(self, *texts: str) -> None:
        self.texts, self.said = iter(texts), list[str]()

    def describe(self) -> Mapping[str, str]:
        return {"name": "fake", "kind": "writing", "model": "m"}

    async def close(self) -> None:
        """There is nothing to close."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        usual = {"turn_structured_output": turn(), "verdict": verdict("finalize"), "synthesis_content": synthesis()}
        text = next(self.texts, None) or json.dumps(usual[exchange.schema_name].content, indent=1)
        self.said.append(text)
        made = json.JSONDecoder().raw_decode(text, text.index("{"))[0]
        return Completion(provider="fake", requested_model="m", returned_model="m", text=text, structured=made)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    store = SqliteStore.create(tmp_path / "l.db", genesis_draft(), clock=Clock())
    yield Room(store)
    store.close()


def said(room: Room, entry: Entry, part: str = "result") -> Any:
    body = room.store.body(entry.seq, part)
    assert body is not None
    return json.loads(body.body)


def answers(room: Room) -> list[str | None]:
    return [each.came and read_answer(room.store, each.came) for each in read_questions(room.store, room.run)]


@pytest.mark.parametrize("shape", ["golden", "reference"])
async def test_an_answer_names_what_its_message_holds(shape: str, room: Room) -> None:
    # Of a turn, of the branch that it opens, and of the turn behind them.
    asks = json.dumps(ASKS, ensure_ascii=False)
    texts = (asks, f"I thought:\n{asks}", f"{asks}\n{asks}", IN_OTHER_FORM)
    provider = Writing(*texts)
    await room.hold(config(), provider, setting={"shape": shape})
    _, *taken = room.facts("turn.taken")
    assert taken[1].data["type"] == "branch_turn"
    behind = f', "direct_requests": {json.dumps(ASKS["direct_requests"])}}}'
    assert [said(room, each)["text"] for each in taken[:4]] == [
        ['{"text": ', {"at": ["text"]}, behind],
        ['I thought:\n{"text": ', {"at": ["text"]}, behind],
        ['{"text": ', {"at": ["text"]}, f"{behind}\n{asks}"],
        IN_OTHER_FORM,
    ]
    assert answers(room) == provider.said


async def test_a_verdict_and_a_synthesis_name_each_of_their_long_texts(room: Room) -> None:
    closing = {**verdict("finalize").content, "focus": LONG, "rationale": f'He said: "{LONG}'}
    last = {**synthesis().content, "integrated_answer": LONG}
    usual = json.dumps(turn().content)
    texts = [json.dumps(each, ensure_ascii=False) for each in (closing, last)]
    provider = Writing(usual, usual, usual, *texts)
    await room.hold(config(), provider)
    pieces = [said(room, each)["text"] for each in room.facts("turn.taken")[-2:]]
    named = [[piece["at"] for piece in each if isinstance(piece, dict)] for each in pieces]
    assert named == [[["rationale"], ["focus"]], [["integrated_answer"]]]
    assert answers(room) == provider.said


async def test_what_came_of_an_attempt_that_failed_is_read_too(room: Room) -> None:
    wrong = json.dumps({"words": LONG}, ensure_ascii=False)
    provider = Writing(wrong)
    await room.hold(config(), provider)
    [failed] = room.facts("turn.failed")
    assert said(room, failed)["text"] == wrong
    assert answers(room) == provider.said


async def test_an_answer_that_was_recorded_whole_is_read_as_before(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "naming", lambda answer, content: answer)
    provider = Writing(json.dumps(ASKS, ensure_ascii=False))
    await room.hold(config(), provider)
    taken = room.facts("turn.taken")[1]
    assert said(room, taken)["text"] == provider.said[0]
    room.store.erase((taken.seq, "message"))
    assert answers(room) == provider.said


@pytest.mark.parametrize("part", ["message", "result"])
async def test_whoever_redacts_a_message_has_redacted_it_in_its_answer(part: str, room: Room) -> None:
    provider = Writing(json.dumps(ASKS, ensure_ascii=False))
    await room.hold(config(), provider)
    taken = room.facts("turn.taken")[1]
    room.store.erase((taken.seq, part))
    assert answers(room) == ["(redacted)", *provider.said[1:]]
    bodies = [room.store.body(taken.seq, name) for name in taken.body if name != part]
    assert part == "result" or not [each for each in bodies if each and b"What only Ada knows" in each.body]


@pytest.mark.parametrize("part", ["message", "result"])
async def test_an_answer_of_which_something_was_tampered_with_is_marked(part: str, room: Room, tmp_path: Path) -> None:
    provider = Writing(json.dumps(ASKS, ensure_ascii=False))
    await room.hold(config(), provider)
    taken = room.facts("turn.taken")[1]
    with database(tmp_path / "l.db") as into:
        forged = json.dumps({**said(room, taken, part), "content": {"text": "Yes."}, "text": "Yes."})
        place = taken.seq << 8 | sorted(taken.body).index(part)
        into.execute("UPDATE bodies SET body = ?, shared = NULL WHERE id = ?", (forged.encode(), place))
    assert answers(room) == [MARK, *provider.said[1:]]


@pytest.mark.parametrize("text", [[{"at": ["nothing"]}], [{"said": 1}], [], None], ids=repr)
async def test_an_answer_that_is_none_is_named_with_its_entry(
    text: Any, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "naming", lambda answer, content: text)
    wrong = json.dumps({"words": LONG})
    await room.hold(config(), Writing(wrong, *([json.dumps(ASKS)] * 2)))
    for kind in ("turn.failed", "turn.taken"):
        entry = room.facts(kind)[-1]
        with pytest.raises(StoreError, match=f"the result of entry {entry.seq} is not as this version"):
            read_answer(room.store, entry)
