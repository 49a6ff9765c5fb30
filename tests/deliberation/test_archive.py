"""The directory of a session: complete or visibly not, never overwritten, and nothing in it can be changed unseen."""

import json
import os
import re
import resource
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deliberating import Heard, Room, config, fails, scripted, synthesis, turn, verdict
from hansard.deliberation.afterwards.replay import execution_replay, read_original
from hansard.deliberation.afterwards.validate import directory_breaches
from hansard.deliberation.archive import Archive, Beginning, is_crashed, read_journal, read_manifest
from hansard.deliberation.documents import Artifact, Config, RunManifest, transcript_digest
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.inventory import listing, seal_breaches
from hansard.deliberation.pins import pinned
from hansard.deliberation.session import PRODUCER, resume_session
from hansard.deliberation.setting import Setting
from hansard.deliberation.story import read_story
from hansard.domain.council import SessionArchived
from hansard.domain.exchange import Completion, Exchange
from hansard.errors import StoreError, UsageError
from hansard.providers.base import Wrapper
from hansard.providers.secrets import Secrets
from running import audit

requirement = pytest.mark.requirement
BEGUN: Any = {"config": {}, "pins": {}, "producer": PRODUCER, "now": "2026-01-01T00:00:00Z"}
LONG: list[Heard] = [
    turn("ben", "cyd", "ben", "nobody"),
    turn("cyd"),
    fails("network", tokens=3),
    turn(),
    fails("malformed_response", tokens=3),
    turn("ada"),
    turn(),
    verdict(),
    turn("ada"),
    turn(),
    fails("internal"),
    turn(),
    verdict(),
    turn(),
    turn(),
    verdict("finalize"),
    synthesis(),
]
KNOBS: dict[str, Any] = {"on_agent_failure": "continue_without", "max_deferred_queue_length": 1}


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@requirement("R-7.1-2", "R-4.1-8", "R-7.2-1", "R-7.7-2", "R-2.7-2", "R-5.1-1")
async def test_a_session_leaves_a_whole_directory_that_agrees_with_itself(tmp_path: Path) -> None:
    sitting = await Room().hold(config(**KNOBS), LONG, runs=tmp_path)
    folder = tmp_path / "s-1"
    assert sitting.directory == folder
    assert names(folder) == {
        *("artifact.json", "config.json", "manifest.json", "transcript.jsonl", "observability.jsonl"),
        *("metrics.json", "pins.json", "selector_output.json", "seal.json", ".lock"),
    }
    artifact, manifest, written = (
        json.loads((folder / f"{n}.json").read_bytes()) for n in ("artifact", "manifest", "config")
    )
    assert artifact == sitting.artifact
    assert semantic_breaches(artifact, manifest=manifest, config=written) == []
    assert RunManifest.parse(manifest).status == "complete"
    assert read_journal(folder) == artifact["canonical_transcript"]
    assert {stat.S_IMODE(os.stat(folder / name).st_mode) for name in names(folder)} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@requirement("R-7.1-1")
@pytest.mark.parametrize("session", ["", "a/b", "..", "abc\n", "ä", "x" * 65, "a b"])
def test_an_id_that_cannot_name_a_directory_is_refused(session: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        Archive.create(tmp_path, Beginning(session=session, **BEGUN))
    assert names(tmp_path) == set()


@contextmanager
def at_most(what: int, limit: int) -> Iterator[None]:
    """The system gives this process no more of something."""
    limits = resource.getrlimit(what)
    resource.setrlimit(what, (limit, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, limits)


def test_of_a_directory_that_cannot_be_begun_nothing_stays(tmp_path: Path) -> None:
    free = os.dup(0)
    os.close(free)
    with (
        at_most(resource.RLIMIT_NOFILE, free + 1),
        pytest.raises(StoreError, match=r"cannot begin in .*s-1: .*Too many open files"),
    ):
        Archive.create(tmp_path, Beginning(session="s-1", **BEGUN))
    for size in (0, len(b"{}\n"), 200):
        with at_most(resource.RLIMIT_FSIZE, size), pytest.raises(StoreError, match=r"cannot write .*File too large"):
            Archive.create(tmp_path, Beginning(session="s-1", **BEGUN | {"pins": {"adapters": "x" * 100}}))
        assert names(tmp_path) == set()
    with pytest.raises(UsageError):
        Archive.create(tmp_path, Beginning(session="s-1", **BEGUN | {"producer": {}}))
    Archive.create(tmp_path, Beginning(session="s-1", **BEGUN)).close()
    assert os.dup(0) == free
    os.close(free)


@requirement("R-7.3-2")
async def test_a_session_never_overwrites_another_one(tmp_path: Path) -> None:
    await Room().hold(config(), LONG, runs=tmp_path)
    before, provider, room = listing(tmp_path / "s-1"), scripted(LONG), Room()
    with pytest.raises(UsageError, match="never overwritten"):
        await room.hold(config(), provider, runs=tmp_path)
    assert listing(tmp_path / "s-1") == before
    assert not provider.calls
    assert room.facts("session.convened") == []


@requirement("R-7.4-1", "R-7.4-2", "R-7.3-1")
async def test_the_artifact_is_whole_before_the_manifest_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[str, str]]()
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        if target.name in {"artifact.json", "manifest.json"}:
            json.loads(self.read_bytes())
            seen.append((target.name, json.loads(self.read_bytes()).get("status", "")))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    await Room().hold(config(), LONG[:1] + LONG[-2:], runs=tmp_path)
    assert [name for name, _ in seen] == ["manifest.json", "artifact.json", "manifest.json"]
    assert seen[0][1] == "in_progress"


class PowerCut(GeneratorExit):
    """What no code of ours can catch by mistake, nor takes for an error of whoever was asked."""


class Dies(Wrapper):
    """A provider that takes the whole session with it at one of its calls."""

    def __init__(self, answers: list[Heard], at: int) -> None:
        super().__init__(scripted(answers))
        self._left = at

    async def complete(self, exchange: Exchange) -> Completion:
        self._left -= 1
        if self._left < 0:
            raise PowerCut
        return await super().complete(exchange)


async def interrupted(room: Room, at: int, tmp_path: Path) -> Path:
    with pytest.raises(PowerCut):
        await room.hold(config(**KNOBS), Dies(LONG, at), runs=tmp_path)
    return tmp_path / "s-1"


async def uninterrupted() -> dict[str, Any]:
    return (await Room().hold(config(**KNOBS), LONG)).artifact


@requirement("R-7.3-3", "R-7.2-1", "R-7.3-1")
async def test_an_interrupted_session_says_that_it_is_running_until_somebody_looks(tmp_path: Path) -> None:
    folder = await interrupted(Room(), 4, tmp_path)
    manifest = read_manifest(folder)
    assert (manifest.status, manifest.transcript_digest) == ("in_progress", None)
    assert not (folder / "artifact.json").exists()
    assert is_crashed(folder)


async def test_looking_at_a_copy_without_a_lock_writes_nothing_into_it(tmp_path: Path) -> None:
    folder = await interrupted(Room(), 4, tmp_path)
    (folder / ".lock").unlink()
    before = sorted(path.name for path in folder.iterdir())
    assert is_crashed(folder)
    assert sorted(path.name for path in folder.iterdir()) == before
    os.mkfifo(folder / ".lock")
    assert is_crashed(folder)
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to("elsewhere")
    assert not is_crashed(folder)
    with pytest.raises(UsageError, match=r"cannot lock .*s-1/\.lock"):
        Archive.reopen(folder, [])


class Meddles(Wrapper):
    """A provider in whose second call somebody changes a file of the session."""

    def __init__(self, path: Path, data: bytes | None) -> None:
        super().__init__(scripted(LONG))
        self._path, self._data, self._calls = path, data, 0

    async def complete(self, exchange: Exchange) -> Completion:
        self._calls += 1
        if self._calls == 2:
            if self._data is None:
                self._path.unlink()
            else:
                self._path.write_bytes(self._data)
        return await super().complete(exchange)


@requirement("R-7.1-2", "R-4.1-8")
@pytest.mark.parametrize("name", ["transcript.jsonl", "config.json", "pins.json"])
@pytest.mark.parametrize("data", [None, b"", b'{"a": 1}\n'])
async def test_a_file_that_is_changed_while_the_session_is_held_is_told_and_not_sealed(
    name: str, data: bytes | None, tmp_path: Path
) -> None:
    room, path = Room(), tmp_path / "s-1" / name
    sitting = await room.hold(config(**KNOBS), Meddles(path, data), runs=tmp_path)
    assert sitting.reason == "synthesis"
    assert sitting.fault == f"{path} was changed while the session was held; move it away, and resume then"
    assert room.facts("session.archived") == []
    path.unlink(missing_ok=True)
    again = await room.resume(LONG, runs=tmp_path)
    assert (again.fault, again.artifact) == (None, sitting.artifact)
    assert directory_breaches(path.parent, recorded=archived(room)) == []


class WhileItIsWritten(dict[str, bytes]):
    """The files of a session's end; somebody changes one and adds another before the last of them is written."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self._folder = folder

    def items(self) -> Any:
        for name, data in super().items():
            if name == "manifest.json":
                (self._folder / "artifact.json").write_bytes(b"{}")
                (self._folder / "tool_events.jsonl").write_bytes(b"{}\n")
            yield name, data


def test_what_is_sealed_is_what_the_session_wrote_and_not_what_lay_there_then(tmp_path: Path) -> None:
    archive = Archive.create(tmp_path, Beginning(session="s-1", **BEGUN))
    files = {"artifact.json": b'{"a": 1}', "manifest.json": b"{}"}
    listed = archive.finish(WhileItIsWritten(archive.folder, files))
    archive.seal(0, json.dumps(listed).encode())
    archive.close()
    assert {breach.document for breach in seal_breaches(archive.folder)} == {"artifact.json", "tool_events.jsonl"}


@requirement("R-7.3-3", "R-4.3-4")
@pytest.mark.parametrize("at", range(len(LONG)))
async def test_a_resumed_session_ends_with_the_transcript_of_one_that_was_never_interrupted(
    at: int, tmp_path: Path
) -> None:
    room = Room()
    folder = await interrupted(room, at, tmp_path)
    sitting = await room.resume(LONG, runs=tmp_path)
    assert sitting.artifact == await uninterrupted()
    assert read_journal(folder) == sitting.artifact["canonical_transcript"]
    assert read_manifest(folder).status == "complete"
    assert seal_breaches(folder, archived(room)) == []


async def test_a_session_that_is_interrupted_again_and_again_comes_to_the_same_end(tmp_path: Path) -> None:
    room = Room()
    await interrupted(room, 0, tmp_path)
    for at in range(1, len(LONG)):
        done = read_story(room.store, room.run).calls
        with pytest.raises(PowerCut):
            await room.resume(Dies(LONG[done:], at - done), runs=tmp_path)
    assert (await room.resume(LONG, runs=tmp_path)).artifact == await uninterrupted()


@requirement("R-6.7-5")
async def test_a_session_that_is_resumed_in_a_pause_waits_as_long_as_the_server_asked(tmp_path: Path) -> None:
    room, slept = Room(), list[float]()
    busy = replace(fails("rate_limit"), details={"retry_after_seconds": 7.5})
    answers: list[Heard] = [turn(), busy, turn(), turn(), verdict("finalize"), synthesis()]

    async def cut(_: float) -> None:
        raise PowerCut

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(PowerCut):
        await room.hold(config(), answers, runs=tmp_path, pins=replace(pinned(), sleep=cut))
    sitting = await room.resume(answers, runs=tmp_path, pins=replace(pinned(), sleep=sleep))
    assert (sitting.reason, slept) == ("synthesis", [7.5])


@requirement("R-7.4-3")
@pytest.mark.parametrize("lost", [1, 40, 10**6])
async def test_a_journal_that_was_torn_is_completed_from_the_record(lost: int, tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 9, tmp_path)
    journal = folder / "transcript.jsonl"
    journal.write_bytes(journal.read_bytes()[: -min(lost, journal.stat().st_size)])
    read_journal(folder)
    sitting = await room.resume(LONG, runs=tmp_path)
    assert read_journal(folder) == sitting.artifact["canonical_transcript"]


async def test_a_journal_that_says_something_else_than_the_record_is_refused(tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 9, tmp_path)
    journal = folder / "transcript.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"I think so", b"I know so"))
    with pytest.raises(StoreError, match="changed; keep it elsewhere, and resume then"):
        await room.resume(LONG, runs=tmp_path)
    journal.rename(tmp_path / "kept.jsonl")
    sitting = await room.resume(LONG, runs=tmp_path)
    assert read_journal(folder) == sitting.artifact["canonical_transcript"]


class Quoting(Wrapper):
    """A program that is asked with its key on the command line, which its description quotes."""

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), "argv": '["ask", "--key", "sk-very-secret-1234"]'}


@requirement("R-8.9-2")
async def test_no_file_holds_a_secret_that_a_provider_tells_of_itself(tmp_path: Path) -> None:
    room, secrets = Room(), Secrets({"KEY": "sk-very-secret-1234"})
    await room.hold(config(**KNOBS), Quoting(scripted(LONG)), runs=tmp_path, setting={"secrets": secrets})
    for path in (tmp_path / "s-1").iterdir():
        assert b"very-secret" not in path.read_bytes()
    given = read_original(tmp_path / "s-1")
    # One of before this was so has it, and is the same session all the same.
    told = {"fake": Quoting(scripted(LONG)).describe()}
    for pins in (given.pins, {**(given.pins or {}), "adapters": told}):
        async with Room() as pen:
            done = await execution_replay(
                replace(given, pins=pins),
                lambda wanted: Setting.of(wanted, providers={"fake": Quoting(scripted(LONG))}, secrets=secrets),
                pen,
            )
        assert done.matches


async def test_a_session_goes_on_whose_pins_were_written_before_the_secret_in_them_was_known(tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 9, tmp_path)
    pins = json.loads((folder / "pins.json").read_bytes())
    pins["adapters"]["fake"] = dict(Quoting(scripted(LONG)).describe())
    (folder / "pins.json").write_text(json.dumps(pins))
    hidden = {"secrets": Secrets({"KEY": "sk-very-secret-1234"})}
    answers = scripted(LONG[read_story(room.store, room.run).calls :])
    assert (await room.resume(Quoting(answers), runs=tmp_path, setting=hidden)).fault is None


async def test_of_what_somebody_wrote_into_a_file_only_a_little_is_told(tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 9, tmp_path)
    file = folder / "config.json"
    changed = {f"{number}{'x' * 100_000}": 1 for number in range(9)}
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    with pytest.raises(UsageError, match="is not as this session would write it") as refused:
        await room.resume(LONG, runs=tmp_path)
    assert len(str(refused.value)) < 1_000


async def test_a_lost_directory_is_made_again_from_the_record(tmp_path: Path) -> None:
    room = Room()
    shutil.rmtree(await interrupted(room, 9, tmp_path))
    sitting = await room.resume(LONG, runs=tmp_path)
    assert seal_breaches(tmp_path / "s-1", archived(room)) == []
    assert read_journal(tmp_path / "s-1") == sitting.artifact["canonical_transcript"]


@pytest.mark.parametrize("step", ["artifact.json", "manifest.json", "seal.json"])
async def test_a_directory_that_was_not_completed_is_completed_later(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Room()

    def refuse(self: Archive, name: str, data: bytes) -> None:
        if name == step and (name != "manifest.json" or b"in_progress" not in data):
            raise StoreError(f"the disk is full at {name}")
        put(self, name, data)

    put = Archive._put
    with monkeypatch.context() as patch:
        patch.setattr(Archive, "_put", refuse)
        sitting = await room.hold(config(**KNOBS), LONG, runs=tmp_path)
    assert sitting.reason == "synthesis"
    assert "disk is full" in str(sitting.fault)
    done = await room.resume(scripted([turn()]), runs=tmp_path)
    assert done.fault is None
    assert done.artifact == sitting.artifact
    assert seal_breaches(tmp_path / "s-1", archived(room)) == []
    assert len(room.facts("session.ended")) == len(room.facts("session.archived")) == 1


async def test_a_live_session_cannot_be_resumed_by_another_process(tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 3, tmp_path)
    archive = Archive.reopen(folder, read_story(room.store, room.run).lines)
    try:
        assert not is_crashed(folder)
        with pytest.raises(UsageError, match="another process"):
            await room.resume(LONG, runs=tmp_path)
    finally:
        archive.close()


async def test_a_record_that_the_rules_would_not_have_written_is_not_resumed(tmp_path: Path) -> None:
    room = Room()
    await interrupted(room, 9, tmp_path)
    story = read_story(room.store, room.run)
    assert story.config == config(**KNOBS)
    other = Config.parse({**story.config.as_data(), "runtime": {}})
    async with room as pen:
        with pytest.raises(UsageError, match="another configuration"):
            await resume_session(Setting.of(other, providers={"fake": scripted(LONG)}), pen, story)


def archived(room: Room) -> bytes:
    told = read_story(room.store, room.run).archived
    assert told is not None
    assert isinstance(told.fact, SessionArchived)
    assert told.fact.manifest.data is not None
    return told.fact.manifest.data


def edit(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        data = json.loads((folder / name).read_bytes())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return apply


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    """The same file, elsewhere."""
    path.symlink_to(path.rename(path.parent.parent / path.name))


def rehash(data: Any) -> None:
    data["canonical_transcript"][1]["content"]["text"] = "Never said."
    data["transcript_digest"] = transcript_digest(data["canonical_transcript"])


TAMPERING: dict[str, Callable[[Path], object]] = {
    "message text": edit("artifact.json", lambda a: a["canonical_transcript"][1]["content"].update(text="Never.")),
    "message text and digest": edit("artifact.json", rehash),
    "message usage": edit("artifact.json", lambda a: a["canonical_transcript"][1]["usage"].update(total_tokens=1)),
    "cumulative cost": edit("artifact.json", lambda a: a["cumulative_usage"].update(cost_usd=9.0)),
    "unresolved": edit("artifact.json", lambda a: a.update(cumulative_unresolved=[{"topic": "t", "positions": []}])),
    "problem": edit("artifact.json", lambda a: a["config"].update(problem_statement="Another")),
    "model": edit("artifact.json", lambda a: a["config"]["coordinator"].update(model="other")),
    "budget": edit("artifact.json", lambda a: a["config"]["budget"].update(max_rounds=99)),
    "session id": edit("artifact.json", lambda a: a.update(session_id="other")),
    "no such synthesis": edit("artifact.json", lambda a: a["outcome"].update(synthesis_message_id="msg-999")),
    "synthesis is a turn": edit("artifact.json", lambda a: a["outcome"].update(synthesis_message_id="msg-001")),
    "swapped": edit("artifact.json", lambda a: a["canonical_transcript"].insert(1, a["canonical_transcript"].pop(2))),
    "started": edit("artifact.json", lambda a: a.update(started_at="yesterday")),
    "ended": edit("artifact.json", lambda a: a.update(ended_at="yesterday")),
    "version": edit("artifact.json", lambda a: a.update(schema_version="9.9.9")),
    "manifest digest": edit("manifest.json", lambda m: m.update(transcript_digest="0" * 64)),
    "manifest status": edit("manifest.json", lambda m: m.update(status="crashed")),
    "config problem": edit("config.json", lambda c: c.update(problem_statement="Another")),
    "config model": edit("config.json", lambda c: c["coordinator"].update(model="other")),
    "journal": lambda folder: (folder / "transcript.jsonl").write_bytes(b"garbage\n"),
    "metrics": edit("metrics.json", lambda m: m.update(branch_depth_max=7)),
    "pins": edit("pins.json", lambda p: p.update(personas={})),
    "a file more": lambda folder: (folder / "extra.json").write_text("{}"),
    "a file less": lambda folder: (folder / "metrics.json").unlink(),
    "a hidden file": lambda folder: (folder / ".extra").write_bytes(b""),
    "an empty folder": lambda folder: (folder / "extra").mkdir(),
    "a pipe": lambda folder: os.mkfifo(folder / "extra"),
    "a link to nothing": lambda folder: (folder / "extra").symlink_to("nothing"),
    "a link to a folder": lambda folder: (folder / "extra").symlink_to(folder.parent),
    "a name that is no text": lambda folder: (folder / os.fsdecode(b"\xff")).write_bytes(b""),
    "something in the lock": lambda folder: (folder / ".lock").write_text("something"),
    "a pipe instead of a file": lambda folder: pipe(folder / "pins.json"),
}


@pytest.mark.parametrize("what", TAMPERING)
async def test_a_change_of_any_file_is_seen(what: str, tmp_path: Path) -> None:
    await Room().hold(config(**KNOBS), LONG, runs=tmp_path)
    folder = tmp_path / "s-1"
    assert seal_breaches(folder) == []
    TAMPERING[what](folder)
    assert len(seal_breaches(folder)) == 1


async def test_a_seal_that_was_made_anew_is_not_what_the_record_says(tmp_path: Path) -> None:
    room = Room()
    await room.hold(config(**KNOBS), LONG, runs=tmp_path)
    folder = tmp_path / "s-1"
    TAMPERING["message text and digest"](folder)
    edit("seal.json", lambda seal: seal.update(files=listing(folder)))(folder)
    assert seal_breaches(folder) == []
    assert [str(each) for each in seal_breaches(folder, archived(room))] == [
        "artifact.json: was changed since the directory was sealed [seal]",
        "seal.json: is not what the record says of this directory [seal]",
    ]


@pytest.mark.parametrize("seal", [b"", b"5", b"[]", b"{}", b'{"files": []}', b'{"files": 5}', b"[" * 10**5])
async def test_a_seal_that_lists_nothing_is_a_finding(seal: bytes, tmp_path: Path) -> None:
    room = Room()
    await room.hold(config(**KNOBS), LONG, runs=tmp_path)
    (tmp_path / "s-1" / "seal.json").write_bytes(seal)
    for recorded in (None, archived(room)):
        assert [each.document for each in seal_breaches(tmp_path / "s-1", recorded)] == ["seal.json"]


CHANGED_MEANWHILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "the problem": ("config.json", edit("config.json", lambda c: c.update(problem_statement="Another"))),
    "no configuration": ("config.json", lambda folder: (folder / "config.json").write_bytes(b"{")),
    "another model": ("pins.json", edit("pins.json", lambda p: p["adapters"]["fake"].update(model="other"))),
    "one adapter more": ("pins.json", edit("pins.json", lambda p: p["adapters"].update(more={}))),
    "other personas": ("pins.json", edit("pins.json", lambda p: p.update(personas={}))),
    "one pin more": ("pins.json", edit("pins.json", lambda p: p.update(more=None))),
    "adapters that are none": ("pins.json", edit("pins.json", lambda p: p.update(adapters=5))),
    "pins that are none": ("pins.json", lambda folder: (folder / "pins.json").write_bytes(b"garbage")),
    "pins that are a list": ("pins.json", lambda folder: (folder / "pins.json").write_bytes(b"[]")),
    "pins that are a link": ("pins.json", lambda folder: link(folder / "pins.json")),
    "a manifest that is none": ("manifest.json", lambda folder: (folder / "manifest.json").write_bytes(b"[]")),
    "a file more": ("evil.txt", lambda folder: (folder / "evil.txt").write_bytes(b"")),
    "a folder more": ("evil", lambda folder: (folder / "evil").mkdir()),
    "an unfinished folder": (".evil.new", lambda folder: (folder / ".evil.new").mkdir()),
    "a pipe for a lock": (".lock", lambda folder: pipe(folder / ".lock")),
}


@pytest.mark.parametrize("what", CHANGED_MEANWHILE)
async def test_a_directory_that_was_changed_after_a_crash_is_not_gone_on_with(what: str, tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 4, tmp_path)
    name, change = CHANGED_MEANWHILE[what]
    change(folder)
    with pytest.raises(UsageError, match=re.escape(name)):
        await room.resume(LONG, runs=tmp_path)
    assert not (folder / "seal.json").exists()


async def test_of_a_crashed_directory_nothing_is_sealed_that_the_session_did_not_say(tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 4, tmp_path)
    edit(
        "manifest.json",
        lambda m: m.update(producer={"name": "evil", "version": "1.0.0"}, created_at="1999-01-01T00:00:00Z"),
    )(folder)
    for name in ("artifact.json", "metrics.json", "tool_events.jsonl", "selector_output.json", "seal.json"):
        (folder / name).write_bytes(b"evil")
    (folder / ".lock").write_bytes(b"evil")
    (folder / ".artifact.json.new").write_bytes(b"evil")
    assert (await room.resume(LONG, runs=tmp_path)).fault is None
    assert not [path for path in folder.iterdir() if b"evil" in path.read_bytes()]
    assert not (folder / "tool_events.jsonl").exists()
    assert read_manifest(folder).created_at == "2026-05-25T12:00:00Z"
    assert directory_breaches(folder, recorded=archived(room)) == []


async def test_what_is_laid_beside_a_running_session_is_not_sealed(tmp_path: Path) -> None:
    class Lays(Wrapper):
        async def complete(self, exchange: Exchange) -> Completion:
            (tmp_path / "s-1" / "evil.txt").write_text("evil")
            return await super().complete(exchange)

    room = Room()
    sitting = await room.hold(config(**KNOBS), Lays(scripted(LONG)), runs=tmp_path)
    assert "evil.txt" in str(sitting.fault)
    (tmp_path / "s-1" / "evil.txt").unlink()
    assert (await room.resume(LONG, runs=tmp_path)).fault is None
    assert seal_breaches(tmp_path / "s-1", archived(room)) == []


@pytest.mark.parametrize("lost", [["manifest.json"], ["config.json", "pins.json"], ["transcript.jsonl", ".lock"]])
async def test_files_that_a_crashed_session_has_lost_are_made_anew(lost: list[str], tmp_path: Path) -> None:
    room = Room()
    folder = await interrupted(room, 9, tmp_path)
    for name in lost:
        (folder / name).unlink()
    assert (await room.resume(LONG, runs=tmp_path)).artifact == await uninterrupted()
    assert directory_breaches(folder, recorded=archived(room)) == []


FINISHED = (
    *("artifact.json", "config.json", "manifest.json", "transcript.jsonl", "observability.jsonl"),
    *("metrics.json", "pins.json", "selector_output.json", "seal.json", ".lock"),
)


@pytest.mark.parametrize("lost", [*([name] for name in FINISHED), FINISHED], ids=[*FINISHED, "all"])
async def test_files_that_a_finished_session_has_lost_are_made_anew(lost: Sequence[str], tmp_path: Path) -> None:
    room = Room()
    await room.hold(config(**KNOBS), LONG, runs=tmp_path)
    folder, before = tmp_path / "s-1", archived(room)
    for name in lost:
        (folder / name).unlink()
    assert (await room.resume(LONG, runs=tmp_path)).fault is None
    assert directory_breaches(folder, recorded=archived(room)) == []
    # What the record has by its meaning only is listed anew; everything else is as it was, byte for byte.
    assert (archived(room) == before) == {"config.json", "manifest.json"}.isdisjoint(lost)
    audit(room.store, room.run)


@pytest.mark.parametrize("what", ["pins", "a file more", "config problem", "metrics"])
async def test_a_finished_directory_that_was_changed_is_not_sealed_again(what: str, tmp_path: Path) -> None:
    room = Room()
    await room.hold(config(**KNOBS), LONG, runs=tmp_path)
    folder = tmp_path / "s-1"
    TAMPERING[what](folder)
    (folder / "artifact.json").unlink()
    (folder / "seal.json").unlink()
    if what == "a file more":
        with pytest.raises(UsageError, match=re.escape("extra.json")):
            await room.resume(LONG, runs=tmp_path)
    else:
        assert "since the record has listed it" in str((await room.resume(LONG, runs=tmp_path)).fault)
    assert not (folder / "seal.json").exists()
    assert len(room.facts("session.archived")) == 1


class Versioned(Wrapper):
    """A program that tells its version with its first answer."""

    def __init__(self, answers: Sequence[Heard], version: str = "", at: int = 10**6) -> None:
        super().__init__(Dies(list(answers), at))
        self._version = version

    def describe(self) -> Mapping[str, str]:
        return {**super().describe(), **({"version": self._version} if self._version else {})}


@pytest.mark.parametrize(
    ("then", "now", "fine"), [("", "2", True), ("2", "", True), ("2", "2", True), ("2", "3", False)]
)
async def test_a_version_that_nobody_has_asked_for_yet_is_no_other_version(
    then: str, now: str, fine: bool, tmp_path: Path
) -> None:
    room = Room()
    with pytest.raises(PowerCut):
        await room.hold(config(**KNOBS), Versioned(LONG, then, at=4), runs=tmp_path)
    rest = LONG[read_story(room.store, room.run).calls :]
    if fine:
        assert (await room.resume(Versioned(rest, now), runs=tmp_path)).fault is None
    else:
        with pytest.raises(UsageError, match="adapters"):
            await room.resume(Versioned(rest, now), runs=tmp_path)


def test_a_directory_without_a_seal_is_not_sealed(tmp_path: Path) -> None:
    assert len(seal_breaches(tmp_path)) == 1


@requirement("R-4.1-8")
async def test_a_disk_that_fails_in_the_middle_is_reported_and_changes_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("hansard.deliberation.archive._write", full)
    sitting = await Room().hold(config(**KNOBS), LONG, runs=tmp_path)
    assert sitting.artifact == await uninterrupted()
    assert "no space left" in str(sitting.fault)
    Artifact.parse(sitting.artifact)
