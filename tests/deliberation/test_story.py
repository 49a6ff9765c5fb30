"""Sessions read back from the record: the artifact, which names its messages there, and what is left where some are gone."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deliberating import Heard, Room, config, fails, synthesis, turn, verdict
from forging import database
from hansard.deliberation.documents import jcs
from hansard.deliberation.story import read_answer, read_artifact, read_ending, read_story
from hansard.domain.council import SessionEnded, TurnAmended, TurnTaken
from hansard.domain.fact import Body, Fact
from hansard.errors import StoreError, Tampered
from hansard.ledger.entry import Entry
from hansard.record.codec import decode
from hansard.record.recorder import Recorder
from hansard.store.base import Store
from hansard.store.jsonl import JsonlStore
from hansard.store.sqlite import SqliteStore
from ledgers import genesis_draft, memory

KNOBS: dict[str, Any] = {"on_agent_failure": "continue_without", "max_deferred_queue_length": 1}
DEBATE: list[Heard] = [
    *(turn("ben", "cyd", "ben", "nobody"), turn("cyd"), fails("network"), turn(), fails("malformed_response")),
    *(turn("ada"), turn(), verdict(), turn("ada"), turn(), fails("internal"), turn(), verdict(), turn(), turn()),
]
AGREED = [*DEBATE, verdict("finalize"), synthesis()]
ASKED = [*DEBATE, verdict("request_user_input")]


def stores(folder: Path) -> Iterable[Store]:
    yield SqliteStore.create(folder / "l.db", genesis_draft())
    yield JsonlStore.create(folder / "l.jsonl", genesis_draft())
    yield memory()


async def held(store: Store | None = None, heard: list[Heard] = AGREED, **more: Any) -> Room:
    room = Room(store)
    await room.hold(config(**KNOBS), heard, **more)
    return room


def body_of(room: Room, entry: Entry, part: str) -> bytes:
    stored = room.store.body(entry.seq, part)
    assert stored is not None
    return stored.body


@pytest.mark.parametrize(("heard", "kind"), [(AGREED, "synthesis"), (ASKED, "termination")])
async def test_an_artifact_on_the_record_names_its_messages(heard: list[Heard], kind: str, tmp_path: Path) -> None:
    """And is put together again from them, byte for byte."""
    for number, store in enumerate(stores(tmp_path)):
        room = await held(store, heard, runs=tmp_path / str(number))
        [ended] = room.facts("session.ended")
        written = (tmp_path / str(number) / "s-1" / "artifact.json").read_bytes()
        artifact = json.loads(written)
        types = [message["type"] for message in artifact["canonical_transcript"]]
        assert (artifact["outcome"]["kind"], "panel_contraction" in types) == (kind, True)
        assert {entry.data["what"] for entry in room.facts("turn.amended")} == {"schema_failure", "dropped_deferred"}
        recorded = body_of(room, ended, "artifact")
        assert recorded == jcs({**artifact, "canonical_transcript": {"said": [0, len(types)]}})
        assert jcs(read_artifact(store, ended)) == written
        assert jcs(read_story(store, room.run).artifact) == written
        store.close()


async def test_a_directory_that_is_made_again_from_the_record_has_the_same_artifact(tmp_path: Path) -> None:
    room = await held(runs=tmp_path)
    path = tmp_path / "s-1" / "artifact.json"
    written = path.read_bytes()
    path.unlink()
    await room.resume(AGREED, runs=tmp_path)
    assert path.read_bytes() == written


async def test_an_artifact_has_the_messages_of_its_own_session() -> None:
    """Also where another one of the run had the same id."""
    room, artifacts = Room(), []
    for text in ("first", "second", "third"):
        sitting = await room.hold(config(), [turn(text=text), turn(), turn(), verdict("finalize"), synthesis()])
        artifacts.append(sitting.artifact)
    assert [read_artifact(room.store, ended) for ended in room.facts("session.ended")] == artifacts


async def test_whoever_redacts_a_message_leaves_the_outcome_and_the_sums(tmp_path: Path) -> None:
    for store in stores(tmp_path):
        room = await held(store)
        [ended] = room.facts("session.ended")
        recorded = read_ending(store, ended)
        assert recorded is not None
        [taken] = [entry for entry in room.facts("turn.taken") if entry.data["speaker"] == "ben"][:1]
        store.erase((taken.seq, "message"))
        assert read_artifact(store, ended) is None
        assert read_ending(store, ended) == recorded
        assert read_answer(store, ended, recorded) == "Yes."
        with pytest.raises(StoreError, match="the message of this session was redacted"):
            read_story(store, room.run)
        store.erase((room.facts("turn.taken")[-1].seq, "message"))
        assert read_answer(store, ended, recorded) is None
        store.erase((ended.seq, "artifact"))
        assert read_ending(store, ended) is None
        assert read_artifact(store, ended) is None
        store.close()


async def test_a_message_is_gone_with_any_of_its_versions() -> None:
    for kind in ("turn.taken", "turn.amended"):
        room = await held()
        [ended], amended = room.facts("session.ended"), room.facts("turn.amended")[0]
        seq = amended.seq if kind == "turn.amended" else amended.data["amends"]
        room.store.erase((seq, "message"))
        assert read_artifact(room.store, ended) is None


async def test_a_message_that_was_tampered_with_is_in_no_artifact(tmp_path: Path) -> None:
    room = await held(SqliteStore.create(tmp_path / "l.db", genesis_draft()))
    [ended], taken = room.facts("session.ended"), room.facts("turn.taken")[-1]
    with database(tmp_path / "l.db") as into:
        place = taken.seq << 8 | sorted(taken.body).index("message")
        told = body_of(room, taken, "message").replace(b"Yes.", b"No..")
        into.execute("UPDATE bodies SET body = ?, shared = NULL WHERE id = ?", (told, place))
    recorded = read_ending(room.store, ended)
    assert recorded is not None
    for read in (lambda: read_artifact(room.store, ended), lambda: read_answer(room.store, ended, recorded)):
        with pytest.raises(Tampered, match=rf"the message of entry {taken.seq} .* is not what was recorded"):
            read()


async def copied(room: Room, change: Callable[[Entry, Fact], Fact]) -> tuple[Store, Entry]:
    """The same run on another ledger, entry for entry, as somebody else would have recorded it, and the end of its session."""
    store = memory()
    recorder, claim = Recorder(store), store.claim(room.run, 60.0)
    for entry in room.facts():
        bodies = {name: Body.json(body_of(room, entry, name)) for name in entry.body}
        fact = change(entry, decode(entry, bodies))
        driven = claim if fact.DRIVEN else None
        await recorder.record(fact, actor=entry.actor, run=room.run, causes=entry.causes, claim=driven)
    await recorder.close()
    return store, store.entry(room.facts("session.ended")[0].seq)


def with_artifact(body: bytes) -> Callable[[Entry, Fact], Fact]:
    def change(entry: Entry, fact: Fact) -> Fact:
        return replace(fact, artifact=Body.json(body)) if isinstance(fact, SessionEnded) else fact

    return change


async def test_an_artifact_of_earlier_records_holds_its_messages_and_is_read_as_before() -> None:
    room = await held()
    [ended] = room.facts("session.ended")
    artifact = read_artifact(room.store, ended)
    assert artifact is not None
    store, ended = await copied(room, with_artifact(jcs(artifact)))
    assert jcs(read_artifact(store, ended)) == jcs(read_story(store, room.run).artifact) == jcs(artifact)
    for entry in room.facts("turn.taken"):
        store.erase((entry.seq, "message"))
    assert read_ending(store, ended) == read_artifact(store, ended) == artifact
    assert read_answer(store, ended, artifact) == "Yes."


@pytest.mark.parametrize(
    "named",
    [
        *({"said": span} for span in ([0, 99], [0, 3], [1, 16], [0, 0], [0], [False, 16], [0.5, 16], "0", None)),
        *({"said": [0, 16], "more": 1}, {"recalled": [0, 16]}, {}, [], None, 7, "x", [{"said": 1}]),
    ],
    ids=repr,
)
async def test_an_artifact_that_names_other_messages_is_told(named: Any) -> None:
    room = await held()
    [ended] = room.facts("session.ended")
    recorded = json.loads(body_of(room, ended, "artifact"))
    assert recorded["canonical_transcript"] == {"said": [0, 16]}
    store, ended = await copied(room, with_artifact(jcs({**recorded, "canonical_transcript": named})))
    for read in (lambda: read_artifact(store, ended), lambda: read_story(store, room.run)):
        with pytest.raises(Tampered, match=f"the artifact of entry {ended.seq} is not as this version writes it"):
            read()


@pytest.mark.parametrize("body", [b"null", b"{", b"[" * 100_000, b'{"usage":1}'])
@pytest.mark.parametrize("kind", [TurnTaken, TurnAmended, SessionEnded])
async def test_what_is_no_message_and_no_artifact_is_told(kind: type[Fact], body: bytes) -> None:
    room, part = await held(), "artifact" if kind is SessionEnded else "message"

    def change(entry: Entry, fact: Fact) -> Fact:
        return replace(fact, **{part: Body.json(body)}) if isinstance(fact, kind) else fact

    store, ended = await copied(room, change)
    with pytest.raises(Tampered, match=rf"the {part} of entry \d+ is not as this version writes it"):
        read_artifact(store, ended)


async def test_an_annotation_of_another_sessions_message_is_told() -> None:
    room = await held()
    convened = room.facts("session.convened")[0].seq

    def change(entry: Entry, fact: Fact) -> Fact:
        return replace(fact, amends=convened) if isinstance(fact, TurnAmended) else fact

    store, ended = await copied(room, change)
    for read in (lambda: read_artifact(store, ended), lambda: read_story(store, room.run)):
        with pytest.raises(Tampered, match=r"the message of entry \d+ is not as this version writes it"):
            read()


async def test_a_synthesis_that_nobody_gave_is_told() -> None:
    room, other = await held(), await held(heard=ASKED)
    [ended], [stopped] = room.facts("session.ended"), other.facts("session.ended")
    recorded = read_ending(room.store, ended)
    assert recorded is not None
    with pytest.raises(Tampered, match="it tells of a synthesis, and none led to it"):
        read_answer(other.store, stopped, recorded)
