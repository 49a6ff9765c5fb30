"""Deliberations as the record tells them: what each was convened with, how it ended, which directory is its own."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hansard.app.convening import Convening
from hansard.app.views import View, moment
from hansard.deliberation.archive import read_manifest
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.record.history import fold
from hansard.store.base import Query, Store

MODE: Literal["deliberation"] = "deliberation"
PERSONA: Literal["persona"] = "persona"
"""The mode of a run that makes a persona, and holds no session."""


def convening_of(store: Store, configured: int | None) -> Convening:
    """What a session was convened with."""
    stored = store.body(configured, "config") if configured is not None else None
    if stored is None:
        raise UsageError(f"the configuration of this deliberation (entry {configured}) is not in the ledger any more")
    return Convening.from_json(stored.body)


def has_session(store: Store, run: str) -> bool:
    """Whether the run has come as far as its session."""
    return _last(store, run, "session.convened") is not None


def deliberation_view(store: Store, run: str) -> View:
    """One deliberation."""
    entries = list(store.select(Query(run=run)))
    configured = next((entry.seq for entry in entries if entry.kind == "run.configured"), None)
    made, artifact = convening_of(store, configured), _artifact(store, run)
    convened, selected = _last(store, run, "session.convened"), _last(store, run, "panel.selected")
    session = str(convened.data["session"]) if convened else made.config.session_id
    state = fold(entries).runs[run]
    view: View = {
        "run": run,
        "session_id": session,
        "state": state.state,
        "started": moment(state.started_us),
        "problem": made.config.problem_statement,
        "selected_agents": list(selected.data["agents"]) if selected else [],
        "coordinator": made.config.coordinator.id,
        "run_dir": str(Path(made.runs) / session) if made.runs else None,
        "outcome": None,
    }
    return view | (_outcome(artifact) if artifact else {})


def _outcome(artifact: dict[str, Any]) -> View:
    said, transcript = artifact["outcome"], artifact["canonical_transcript"]
    view: View = {
        "outcome": said["kind"],
        "rounds": max(message["round"] for message in transcript),
        "messages": len(transcript),
        "transcript_digest": artifact["transcript_digest"],
        "cumulative_usage": artifact["cumulative_usage"],
        "unresolved": artifact["cumulative_unresolved"],
    }
    if said["kind"] == "synthesis":
        return view | {"synthesis_answer": transcript[-1]["content"]["integrated_answer"]}
    ending = said["termination_artifact"]
    pending = ending.get("pending_user_input_request") or ending.get("pending_external_research_request")
    more = {"pending": pending, "last_provider_failure": ending.get("last_provider_failure")}
    return view | {"termination_reason": ending["reason"]} | {name: each for name, each in more.items() if each}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a session took, failed calls included, and the entry that ended it."""

    calls: int
    tokens: int
    cost_usd_nano: int
    elapsed_us: int
    ended_seq: int


def spent_on_record(store: Store, run: str) -> Spent:
    """The same for a session that was over before this process came."""
    calls = tokens = cost = elapsed = ended = 0
    for entry in store.select(Query(run=run)):
        data: Any = entry.data
        if entry.kind in ("turn.taken", "turn.failed", "ensemble.answered"):
            calls += "result" in entry.body or entry.kind == "ensemble.answered"
            tokens += data["prompt_tokens"] + data["completion_tokens"]
            cost += data["cost_usd_nano"]
            elapsed = max(elapsed, data.get("elapsed_us", 0))
        elif entry.kind == "role.answered":
            calls += 1
            tokens += data["input_tokens"] + data["output_tokens"]
            cost += data["cost_usd_nano"]
        elif entry.kind == "tools.called":
            calls += 1
        elif entry.kind == "session.ended":
            ended = entry.seq
    return Spent(calls=calls, tokens=tokens, cost_usd_nano=cost, elapsed_us=elapsed, ended_seq=ended)


def deliberations(store: Store) -> Iterator[str]:
    """The runs that are deliberations, the newest first."""
    for entry in store.select(Query(kind="run.requested", newest_first=True)):
        if entry.data.get("mode") == MODE:
            yield entry.run


def find_session(store: Store, folder: Path) -> str:
    """The run whose session lies in this directory."""
    session = read_manifest(folder).session_id
    for run in deliberations(store):
        view = deliberation_view(store, run)
        if view["session_id"] == session and view["run_dir"] in (None, str(folder.absolute())):
            return run
    raise UsageError(f"{store.place} knows no session {session!r} in {folder}; name its ledger with --ledger")


def listing_of(store: Store, run: str) -> bytes | None:
    """The list of a session's files with their hashes, as it stands on the record; None where there is none."""
    archived = _last(store, run, "session.archived")
    stored = store.body(archived.seq, "manifest") if archived else None
    return stored.body if stored else None


def artifact_on_record(store: Store, run: str) -> dict[str, Any]:
    """The artifact of the newest session of a run; UsageError where there is none."""
    found = _artifact(store, run)
    if found is None:
        raise UsageError(f"run {run} has no artifact on the record: its session has not ended, or it was redacted")
    return found


def _artifact(store: Store, run: str) -> dict[str, Any] | None:
    ended = _last(store, run, "session.ended")
    stored = store.body(ended.seq, "artifact") if ended else None
    return dict(json.loads(stored.body)) if stored else None


def _last(store: Store, run: str, kind: str) -> Entry | None:
    return next(iter(store.select(Query(run=run, kind=kind, newest_first=True, limit=1))), None)
