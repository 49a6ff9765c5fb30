"""Directories of sessions, for every surface: replay, validate, measure, golden cases, conformance. Needs no ledger.

Where a ledger is given, a directory is also held against what the record says of it.
"""

import json
import os
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hansard.app.finding import MODE, deliberations
from hansard.app.ids import as_recorded, new_run_id
from hansard.app.people import human
from hansard.app.settings import Settings
from hansard.app.telling.deliberationviews import artifacts_of, has_session, held_none
from hansard.app.telling.directories import directory_of, find_session, listing_of, listings_of
from hansard.app.wiring import found_ledger, open_script
from hansard.deliberation.afterwards.conformance import Report, run_conformance
from hansard.deliberation.afterwards.golden import GoldenRun, read_case, recorded, run_case
from hansard.deliberation.afterwards.replay import TranscriptReplay, read_original, transcript_replay
from hansard.deliberation.afterwards.validate import artifact_breaches, directory_breaches, same_json
from hansard.deliberation.archive import is_crashed, read_journal, read_manifest, session_around, write_whole
from hansard.deliberation.documents import DOCUMENTS, Artifact, Breach, Config, Invalid
from hansard.deliberation.documents.config_rules import config_breaches
from hansard.deliberation.documents.reading import load
from hansard.deliberation.inventory import (
    ARTIFACT,
    CONFIG,
    JOURNAL,
    MANIFEST,
    SEAL,
    closest,
    read_file,
    seal_breaches,
    seal_of,
)
from hansard.deliberation.personas import Personas
from hansard.deliberation.session import Pen
from hansard.deliberation.story import read_story
from hansard.domain.fact import Body
from hansard.domain.strict_json import read_json
from hansard.domain.value import value
from hansard.domain.work import RunRequested
from hansard.errors import StoreError, Tampered, UsageError, plainly
from hansard.record.recorder import Recorder
from hansard.store.base import Store

LEASE_S = 600.0
MARKS: Mapping[str, frozenset[str]] = {
    "artifact": frozenset({"canonical_transcript"}),
    "run_manifest": frozenset({"manifest_version"}),
    "golden_test_case": frozenset({"fake_script"}),
    "fake_provider_script": frozenset({"entries"}),
    "config": frozenset({"selector", "agents"}),
    "termination_artifact": frozenset({"final_round"}),
    "persona": frozenset({"persona_class"}),
    "message": frozenset({"speaker", "turn_index"}),
    "selector_output": frozenset({"selected_agents"}),
}
"""Members by which a document is told."""


@value
class Validation:
    """What was looked at, and every rule that it breaks."""

    document: str
    breaches: tuple[Breach, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.breaches


def place_of(name: str, runs: Path, *, gone: bool = False) -> Path:
    """A session's directory by its path or, under `runs`, by its id; an artifact's directory by the artifact.

    With `gone` it need not be there any more: the record may know it.
    """
    path = Path(name)
    if path.is_dir():
        return path
    for each in (name, as_recorded(name)):
        if (runs / each).is_dir():
            return runs / each
    if path.name == ARTIFACT and path.is_file():
        return path.parent
    if gone and name:
        return runs / name if path.name == name else path
    raise UsageError(
        f"there is no session {name!r}: neither a directory here nor an id under {runs}; "
        f"`hansard runs show RUN` says where that of a run lies"
    )


def newest_place(store: Store) -> Path:
    """The directory of the newest deliberation on the record. Those that held no session are passed over."""
    run = next((each for each in deliberations(store) if not held_none(store, each)), None)
    if run is None:
        raise UsageError(f"{store.place} has no deliberation yet; `--ledger LEDGER` asks another ledger")
    folder = directory_of(store, run)
    if folder is None:
        raise UsageError(
            f"run {run}, the newest deliberation, has no directory; "
            f"`hansard session export {run} --ledger {shlex.quote(store.place)}` shows it"
        )
    return folder


def artifact_of(folder: Path) -> dict[str, Any]:
    """The artifact of a finished session as it is stored [R-7.3-1]."""
    if not (folder / ARTIFACT).is_file():
        state = "crashed" if is_crashed(folder) else read_manifest(folder).status
        go_on = f"`hansard session resume {shlex.quote(str(folder))}` goes on with it"
        now = "another process holds it: wait until it ends" if state == "in_progress" else go_on
        raise UsageError(f"{folder} is {state} and has no artifact; {now}")
    data = load(folder / ARTIFACT)
    if not isinstance(data, dict):
        raise UsageError(f"{folder / ARTIFACT} is no artifact")
    return data


def original_config(folder: Path) -> Config:
    """The configuration of a finished session, for whoever holds it again."""
    return read_original(folder).config


def whole_artifact(folder: Path) -> dict[str, Any]:
    """The same, where it has the shape of an artifact; UsageError says where it has not."""
    data = artifact_of(folder)
    try:
        Artifact.parse(data)
    except Invalid as error:
        raise UsageError(f"{folder / ARTIFACT} is no artifact: {error}") from error
    return data


def replayed(folder: Path) -> TranscriptReplay:
    """The transcript's exact bytes. They match where every digest of the directory is theirs [R-2.7-2]."""
    artifact = artifact_of(folder)
    found = transcript_replay(artifact)
    said = [artifact.get("transcript_digest")]
    if os.path.lexists(folder / MANIFEST):
        said.append(_member(_stored(folder / MANIFEST), "transcript_digest"))
    ending = _member(artifact.get("outcome"), "termination_artifact")
    said += [_member(ending, "transcript_digest")] if ending is not None else []
    wrong = [str(each) for each in said if each != found.digest]
    return TranscriptReplay(output=found.output, stored_digest=wrong[0] if wrong else found.digest, digest=found.digest)


def _stored(path: Path) -> Any:
    try:
        return read_json(read_file(path), where=str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {plainly(error)}") from error


def _member(data: object, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else None


def check_apart(path: str) -> None:
    """UsageError where a file would lie in the directory of a session."""
    if (folder := session_around(Path(path).parent)) is not None:
        raise UsageError(
            f"{folder} is the directory of a session, and what is added there breaks its seal; choose another place"
        )


def as_text(data: Mapping[str, Any]) -> str:
    """A document as a file holds it."""
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"


def validated(path: Path, store: Store | None = None, *, named: bool = False) -> Validation:
    """Every rule that a document breaks; of a session's directory, every file of it, and the rules of its course.

    `named` says that somebody chose this ledger for it: a session that it does not know is then a breach and no note.
    """
    folder = path if path.is_dir() else path.parent if path.name == ARTIFACT else None
    if folder is not None and (folder / MANIFEST).exists():
        return _directory(folder, store, named)
    if path.is_dir():
        raise UsageError(f"{path} is no session's directory: it has no {MANIFEST}")
    data = load(path)
    if not isinstance(data, dict):
        raise UsageError(f"{path} holds no document of the protocol")
    name = next((name for name, marks in MARKS.items() if marks <= data.keys()), None)
    if name is None:
        raise UsageError(f"{path} is no document that is told by its members; known are {', '.join(MARKS)}")
    if name == "artifact":
        wrong, unknown = _on_record(data, store)
        return _judged(name, [*artifact_breaches(data), *wrong], unknown, named)
    try:
        found = DOCUMENTS[name].parse(data)
    except Invalid as error:
        return Validation(document=name, breaches=(error.breach,))
    personas = [persona.id for persona in Personas()]
    wrong = config_breaches(found, personas=personas) if isinstance(found, Config) else []
    return Validation(document=name, breaches=tuple(wrong))


def _directory(folder: Path, store: Store | None, named: bool) -> Validation:
    if (folder / ARTIFACT).is_file():
        listed, entries, unknown = _listed(folder, store)
        found = [*directory_breaches(folder, recorded=listed), *_misplaced(folder, listed, entries)]
        bare = listed is None and not (folder / SEAL).exists()
        unsealed = "the directory has no seal: what lies outside of the transcript may have been changed"
        return _judged("directory", found, unknown, named, *([unsealed] if bare else []))
    manifest = read_manifest(folder)
    listed, unknown, run = _finished(folder, store, manifest.session_id)
    if listed is not None:
        return _judged("directory", seal_breaches(folder, listed))
    if manifest.status in {"complete", "terminated"}:
        message = f"the manifest says {manifest.status}, and there is no {ARTIFACT}"
        return _judged("directory", [Breach(document="RunManifest", path="/status", rule="R-7.4-2", message=message)])
    read_journal(folder)
    state = "crashed" if is_crashed(folder) else manifest.status
    if store is None or run is None:
        return _judged("directory", [], unknown, named, f"the session is {state}; only its journal was looked at")
    try:
        found, is_over = _begun(folder, store, run)
    except Tampered:
        raise
    except StoreError as error:
        # Redacted meanwhile.
        return _judged("directory", [], f"not held against the record: {error}", named)
    go_on = f"`hansard session resume {shlex.quote(str(folder))}` completes it"
    said = f"the session is over, and its directory is not complete; {go_on}" if is_over else f"the session is {state}"
    return _judged("directory", found, None, named, f"{said}; only its journal and its config were looked at")


def _judged(
    document: str, found: Sequence[Breach], unknown: str | None = None, named: bool = False, *notes: str
) -> Validation:
    """What came out. What a ledger does `unknown` of is told, and is a breach where just that ledger was to be asked."""
    if unknown and named:
        found = [*found, Breach(document=document, path="", rule="record", message=unknown)]
    told = (unknown, *notes) if unknown and not named else notes
    return Validation(document=document, breaches=tuple(found), notes=told)


def _on_record(artifact: Mapping[str, Any], store: Store | None) -> tuple[list[Breach], str | None]:
    """An artifact that lies alone, against every one of its session that the record has; or why it was not."""
    if store is None:
        return [], "no ledger was asked: an artifact that was changed throughout would not be noticed"
    session, others = artifact.get("session_id"), dict(artifacts_of(store, str(artifact.get("session_id"))))
    if any(held is not None and same_json(held, artifact) for held in others.values()):
        return [], None
    if not others:
        return [], f"not held against the record: {store.place} has no artifact of a session {session!r}"
    if None in others.values():
        # It may be the one that was redacted.
        return (
            [],
            f"not held against the record: an artifact of session {session!r} is not whole in {store.place} any more",
        )
    message = f"is not what the record has of session {session!r} at entry {max(others)}"
    return [Breach(document="artifact", path="", rule="record", message=message)], None


def _listed(folder: Path, store: Store | None) -> tuple[bytes | None, list[int], str | None]:
    """The list on the record that a directory comes closest to, wherever it lies by now, and its entries; or why there is none."""
    if store is None:
        return None, [], "no ledger was asked: a directory that was changed and sealed anew would not be noticed"
    try:
        session = read_manifest(folder).session_id
        if listings := listings_of(store, session):
            listed = closest(folder, listings)
            return listed, listings[listed], None
    except (UsageError, OSError) as error:
        return None, [], f"not held against the record: {error}"
    return None, [], f"not held against the record: {store.place} lists no files of a session {session!r}"


def _misplaced(folder: Path, listed: bytes | None, entries: Sequence[int]) -> list[Breach]:
    """A seal that has the list of the record and is another one, by a byte; what is no seal, or has another list, is told already."""
    try:
        found = read_file(folder / SEAL)
        sealed = read_json(found, where=SEAL)
    except (OSError, UsageError):
        return []
    if listed is None or not isinstance(sealed, dict) or sealed.get("files") != json.loads(listed):
        return []
    if found in (seal_of(entry, listed) for entry in entries):
        return []
    message = f"does not say, and nothing else, that the record lists these files at entry {entries[0]}"
    return [Breach(document=SEAL, path="", rule="seal", message=message)]


def _finished(folder: Path, store: Store | None, session: str) -> tuple[bytes | None, str | None, str | None]:
    """The list of a session that was complete once, where the record has one; or what the record does not know of it; and
    the run whose session lies here."""
    if store is None:
        return None, None, None
    try:
        # The session that lies in this very place: another one of the same id may be complete elsewhere.
        run = find_session(store, folder)
        return listing_of(store, run), None, run if has_session(store, run) else None
    except UsageError as error:
        listings = listings_of(store, session)
        unknown = f"not held against the record: {error}"
        return (closest(folder, listings), None, None) if listings else (None, unknown, None)


def _begun(folder: Path, store: Store, run: str) -> tuple[list[Breach], bool]:
    """What the files of a session that was cut short say otherwise than the record, and whether the session is over there."""
    # The files first: whoever holds it meanwhile writes them behind the record.
    try:
        journal = read_file(folder / JOURNAL)
        config = _stored(folder / CONFIG) if os.path.lexists(folder / CONFIG) else None
    except OSError as error:
        raise UsageError(f"cannot read {folder / JOURNAL}: {plainly(error)}") from error
    story = read_story(store, run)
    found = []
    if not b"".join(line + b"\n" for line in story.lines).startswith(journal):
        found.append(Breach(document=JOURNAL, path="", rule="record", message="says something else than the record"))
    if config is not None and not same_json(config, story.config.as_data()):
        message = "is not the configuration that the record has"
        found.append(Breach(document=CONFIG, path="", rule="record", message=message))
    return found, story.ended is not None


def conformance() -> Report:
    """The shipped cases through our documents."""
    return run_conformance()


async def golden(path: Path, *, record: bool = False) -> GoldenRun:
    """Run a golden case on a ledger in memory; `record` makes what came out the case's expectation."""
    case = read_case(path)
    async with _in_memory() as pen:
        run = await run_case(case, lambda script: open_script(script, "fake"), pen)
    if record:
        _rewrite(path, recorded(case, run))
    return run


def _rewrite(path: Path, case: Mapping[str, Any]) -> None:
    place = (path / "expected_artifact.json" if path.is_dir() else path).resolve()
    data = case["expected_artifact"] if path.is_dir() else case
    mode = place.stat().st_mode
    # Half of a surrogate pair stands there as JSON spells it.
    write_whole(place, as_text(data).encode("utf-8", "backslashreplace"))
    place.chmod(mode)


@asynccontextmanager
async def _in_memory() -> AsyncIterator[Pen]:
    """A run on a ledger that is gone afterwards."""
    with found_ledger(Settings(ledger="memory:", state=Path())) as opened:
        recorder, run = Recorder(opened.store), new_run_id()
        try:
            fact = RunRequested(mode=MODE, surface="python", request=Body.text("a golden case"))
            requested = await recorder.record(fact, actor=human(), run=run)
            claim = opened.store.claim(run, LEASE_S)
            yield Pen(recorder=recorder, run=run, claim=claim, causes=(requested.seq,))
        finally:
            await recorder.close()
