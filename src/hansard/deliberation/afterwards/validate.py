"""Whether an artifact, or a whole directory, is what it says: schema, sums and digests, the rules turn by turn, the seal.

Takes nothing on its word and never raises over bad content: whatever is wrong is a breach that names its rule.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hansard.deliberation.archive import read_journal
from hansard.deliberation.documents import Artifact, Breach, Invalid, SelectorOutput, jcs
from hansard.deliberation.documents.config_rules import config_breaches
from hansard.deliberation.documents.document import ABSENT
from hansard.deliberation.documents.semantics import semantic_breaches
from hansard.deliberation.documents.transcript import seated
from hansard.deliberation.inventory import (
    ARTIFACT,
    CONFIG,
    EVENTS,
    JOURNAL,
    MANIFEST,
    SEAL,
    SELECTION,
    read_file,
    seal_breaches,
)
from hansard.deliberation.protocol.audit import CUT_SHORT, FROM_OUTSIDE, breaches
from hansard.deliberation.protocol.rules import Rules
from hansard.deliberation.selector import RULE, checked
from hansard.domain.council import SessionEnded
from hansard.domain.strict_json import read_json
from hansard.errors import HansardError, Unavailable, UsageError, plainly


def artifact_breaches(
    data: object, *, panel: Sequence[str] | None = None, manifest: object = None, config: object = None
) -> list[Breach]:
    """Every rule that an artifact breaks. `panel` is who was selected, where a selector chose and its output is known; where
    the panel is fixed, the config has the say."""
    found = semantic_breaches(data, manifest=manifest, config=config)
    try:
        artifact = Artifact.parse(data)
    except Invalid:
        return found
    assert isinstance(data, Mapping)
    transcript = [_golden(message) for message in data["canonical_transcript"]]
    flat = artifact.canonical_transcript[0].parent_id is ABSENT
    # Nobody is asked anything under a configuration that breaks them.
    wrong, has_begun = config_breaches(artifact.config), len(transcript) > 1
    told = None if wrong and not has_begun else seated(artifact, panel)
    unopened = _unopened(artifact, is_chosen=panel is not None)
    course = breaches(Rules.of(artifact.config), told, transcript, data["outcome"], flat=flat, unopened=unopened)
    return [*found, *(wrong if has_begun else []), *course]


def _unopened(artifact: Artifact, *, is_chosen: bool) -> frozenset[str]:
    """For what a session may have ended before its first round: once a panel is chosen, for nothing that this one did; and nobody
    is asked for one but by a selector that is a model.
    """
    if is_chosen:
        return FROM_OUTSIDE
    return CUT_SHORT if artifact.config.selector.strategy == "llm" else CUT_SHORT - {"provider_unrecoverable"}


def directory_breaches(folder: Path, *, recorded: bytes | None = None) -> list[Breach]:
    """Every rule that a session's directory breaks. `recorded` is the list of its files that is on the record."""
    try:
        artifact, manifest, config = (_read(folder / name) for name in (ARTIFACT, MANIFEST, CONFIG))
        selection = _selected(folder / SELECTION)
    except UsageError as error:
        return [_breach(folder.name, str(error), "R-7.1-2")]
    sealed = seal_breaches(folder, recorded) if recorded is not None or (folder / SEAL).exists() else []
    panel = None if selection is None else selection.selected_agents
    return [
        *artifact_breaches(artifact, panel=panel, manifest=manifest, config=config),
        *_selection(artifact, selection),
        *_journal(folder, artifact),
        *_last_round(folder, artifact),
        *sealed,
    ]


def _selection(artifact: Any, selection: SelectorOutput | None) -> list[Breach]:
    """What the selector is said to have chosen, against the config that it chose for."""
    if selection is None:
        return []
    try:
        config = Artifact.parse(artifact).config
    except Invalid:
        return []
    declared = config.selector
    try:
        if selection.strategy != declared.strategy:
            raise Invalid(f"must be {declared.strategy!r}, as the config says", rule=RULE, steps=("strategy",))
        if declared.strategy == "fixed" and selection.selected_agents != declared.default_deliberation_panel:
            raise Invalid("must be the panel that the config declares", rule=RULE, steps=("selected_agents",))
        checked(config, selection)
    except Invalid as error:
        return [Breach(document="SelectorOutput", path=error.path, rule=error.rule, message=error.message)]
    return []


def _journal(folder: Path, artifact: Any) -> list[Breach]:
    try:
        said = read_journal(folder)
        torn = not read_file(folder / JOURNAL).endswith(b"\n")
    except Unavailable:
        raise
    except (HansardError, OSError) as error:
        return [_breach(JOURNAL, str(error), "S-7.3-1")]
    if isinstance(artifact, Mapping) and not same_json(said, artifact.get("canonical_transcript")):
        return [_breach(JOURNAL, "is not the transcript of the artifact", "S-7.3-1")]
    # Only of a session that was cut short it may be.
    return [_breach(JOURNAL, "ends in the middle of a line, and the session is over", "S-7.3-1")] if torn else []


def _last_round(folder: Path, artifact: Any) -> list[Breach]:
    """In which round a session ended, as the log of its calls says: where it was cancelled, or a cap ended it, messages alone may
    leave that open [A-13].
    """
    try:
        ending = Artifact.parse(artifact).outcome.termination_artifact
        _, _, last = read_file(folder / EVENTS).rstrip(b"\n").rpartition(b"\n")
        event = read_json(last, where=EVENTS)
    except Unavailable:
        raise
    except (HansardError, OSError, ValueError):
        return []
    told = event.get("rounds") if isinstance(event, Mapping) and event.get("event") == SessionEnded.KIND else None
    if ending is None or told is None or same_json(told, ending.final_round):
        return []
    message = f"must be {told!r:.20}, as {EVENTS} has it"
    return [Breach(document="Artifact", path="/outcome/termination_artifact/final_round", rule="§5.8", message=message)]


def same_json(one: object, other: object) -> bool:
    """Whether both are the same JSON: to Python, true is 1."""
    try:
        return jcs(one) == jcs(other)
    except Invalid:
        return one == other


def _golden(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as we write it: the reference runtime keeps what a branch asked for in its annotation only [A-1]."""
    found = {"parent_id": None, **message}
    asked = found.get("suggested_followups")
    if found["type"] == "branch_turn" and asked and "direct_requests" not in found["content"]:
        found["content"] = {**found["content"], "direct_requests": asked}
    return found


def _selected(path: Path) -> SelectorOutput | None:
    if not path.exists():
        return None
    data = _read(path)
    told = data.get("selector_output", data) if isinstance(data, Mapping) else data
    return SelectorOutput.parse(told)


def _read(path: Path) -> Any:
    try:
        return read_json(read_file(path), where=path.name)
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(f"cannot read {path.name}: {plainly(error)}") from error


def _breach(document: str, message: str, rule: str) -> Breach:
    return Breach(document=document, path="", rule=rule, message=message)
