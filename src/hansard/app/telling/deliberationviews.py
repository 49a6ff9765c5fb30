"""Deliberations as the record tells them: what each was convened with, and how it ended."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hansard.app.finding import MODE, PERSONA, deliberations
from hansard.app.setup.convening import Convening
from hansard.app.telling.compare import end_of
from hansard.app.telling.runviews import budget_view, interrupted_view, spent_view
from hansard.app.views import View, moment
from hansard.deliberation.metrics import metrics_of
from hansard.deliberation.outcome import messages_of
from hansard.deliberation.story import read_answer, read_artifact, read_ending
from hansard.domain.value import value
from hansard.domain.work import EndState
from hansard.errors import Tampered, UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.progress import progress_of
from hansard.record.history import fold
from hansard.record.reading import formed, read_body, read_entries, read_text, strange
from hansard.store.base import Query, Store

ENDS: Mapping[str, EndState] = {
    "synthesis": "answered",
    "schema_error": "failed",
    "provider_unrecoverable": "failed",
    "budget_exceeded": "stopped",
    "timeout": "stopped",
    "user_cancel": "cancelled",
    "user_input_required": "stopped",
    "external_research_required": "stopped",
}
"""How a run ends when its session ends so."""
NO_ARTIFACT = "its session has not ended, or the artifact or one of its messages was redacted"


def convening_of(store: Store, configured: int | None) -> Convening:
    """What a session was convened with; UsageError where the run is no deliberation, or it is not in the ledger any more."""
    made = _recorded_convening(store, configured)
    if made is None:
        raise UsageError(f"the configuration of this deliberation (entry {configured}) is not in the ledger any more")
    return made


def _recorded_convening(store: Store, configured: int | None) -> Convening | None:
    entry = formed(store, store.entry(configured)) if configured is not None else None
    asked = next(read_entries(store, Query(run=entry.run, kind="run.requested", limit=1)), None) if entry else None
    if entry and asked and asked.data["mode"] not in (MODE, PERSONA):
        raise UsageError(
            f"run {entry.run} is no deliberation; `hansard runs show {entry.run} --ledger {shlex.quote(store.place)}` "
            "shows it, with the panels that met in it"
        )
    stored = read_body(store, entry, "config") if entry else None
    if entry is None or stored is None:
        return None
    try:
        return Convening.from_json(stored.body)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise strange(entry, "config", error) from error


def has_session(store: Store, run: str) -> bool:
    """Whether the run has come as far as its session."""
    return newest(store, run, "session.convened") is not None


def held_none(store: Store, run: str) -> bool:
    """Whether the run is over and came to no session, as a replay that was refused."""
    return not has_session(store, run) and newest(store, run, "run.ended") is not None


def deliberation_view(store: Store, run: str) -> View:
    """One deliberation. Where its configuration was redacted, what the rest of the record tells of it."""
    entries = list(read_entries(store, Query(run=run)))
    configured = next((entry for entry in entries if entry.kind == "run.configured"), None)
    made = _recorded_convening(store, configured.seq if configured else None)
    convened, selected = newest(store, run, "session.convened"), newest(store, run, "panel.selected")
    ended = newest(store, run, "session.ended")
    session = str(convened.data["session"]) if convened else made.config.session_id if made else None
    state = fold(entries).runs[run]
    run_dir = str(Path(made.runs) / session) if made and made.runs and session else None
    view: View = {
        "run": run,
        "session_id": session,
        "state": state.state,
        "started": moment(state.started_us),
        "spent": spent_view(state, end_of(entries)),
        "unpriced": sorted(state.unpriced),
        "budget": budget_view(configured),
        "problem": made.config.problem_statement if made else read_text(store, entries[0], "request"),
        "selected_agents": list(selected.data["agents"]) if selected else [],
        "coordinator": made.config.coordinator.id if made else selected.data["coordinator"] if selected else None,
        "run_dir": run_dir,
        "fault": _fault(entries, run_dir),
        "refused_experts": _refused(entries, made.experts) if made else [],
        "cut": list(made.cut) if made else [],
        "outcome": None,
        "why": ended.data.get("why") if ended else None,
        "interrupted": interrupted_view(store, state, entries),
    }
    return view | (outcome_view(store, ended) if ended else {})


def _fault(entries: list[Entry], run_dir: str | None) -> str | None:
    """What the record shows to be wrong with the directory of a session that is over."""
    kinds = {entry.kind for entry in entries}
    if run_dir is None or "session.archived" in kinds or not {"session.ended", "run.ended"} <= kinds:
        return None
    return f"the directory is not complete; `hansard session resume {shlex.quote(run_dir)}` completes it"


def _refused(entries: list[Entry], needs: Sequence[str]) -> list[str]:
    """The needs for which no expert was made: personas stand on the record in the order of their needs."""
    personas = (entry for entry in entries if entry.kind == "persona.made")
    return [need for need, entry in zip(needs, personas, strict=False) if not entry.data["accepted"]]


def rounds_of(artifact: Mapping[str, Any]) -> int:
    """How many rounds a session opened, also where nobody spoke in the last of them."""
    ending = artifact["outcome"].get("termination_artifact")
    return int(ending["final_round"] if ending else max(each["round"] for each in artifact["canonical_transcript"]))


def outcome_view(store: Store, ended: Entry) -> View:
    """How a session ended, as its artifact has it, whichever of its messages were redacted; nothing where that itself was."""
    artifact = read_ending(store, ended)
    if artifact is None:
        return {}
    said = artifact["outcome"]
    view: View = {
        "outcome": said["kind"],
        "rounds": ended.data["rounds"],
        "messages": messages_of(artifact),
        "transcript_digest": artifact["transcript_digest"],
        "cumulative_usage": artifact["cumulative_usage"],
        "unresolved": artifact["cumulative_unresolved"],
    }
    if said["kind"] == "synthesis":
        return view | {"synthesis_answer": read_answer(store, ended, artifact)}
    ending = said["termination_artifact"]
    more = {"pending": pending_of(ending), "last_provider_failure": ending.get("last_provider_failure")}
    return view | {"termination_reason": ending["reason"]} | {name: each for name, each in more.items() if each}


def pending_of(ending: Mapping[str, Any]) -> dict[str, Any] | None:
    """The request with which a session ended, where it asked for something."""
    return ending.get("pending_user_input_request") or ending.get("pending_external_research_request")


def asked_for(pending: Mapping[str, Any]) -> list[str]:
    """What such a request asks for, line by line, with whatever it tells whoever is to answer it."""
    sources = "; ".join(pending.get("suggested_sources") or ())
    said = [pending.get("question") or pending["query"], pending.get("context"), pending.get("rationale")]
    said.append(sources and f"Where to look: {sources}")
    return [line for each in said if each for line in each.splitlines()]


def price_unknown(artifact: Mapping[str, Any]) -> str:
    """A word on money where models answered for none: an artifact does not tell what is free from what nobody knows."""
    usages = [message["usage"] for message in artifact["canonical_transcript"]]
    nothing = any(usage.get("estimated") and usage["total_tokens"] and not usage["cost_usd"] for usage in usages)
    return "; 0 is also what nobody knows the price of" if nothing else ""


def left_out(events: Sequence[Mapping[str, Any]] | None) -> str:
    """A word on calls of which no message came, where the figures are those of the messages: they are paid for too."""
    if events is None:
        return "; what failed calls took is not in it"
    failed = sum(each["event"] == "turn.failed" for each in events)
    return f"; what {failed} failed call{'' if failed == 1 else 's'} took is not in it" if failed else ""


def requested(request: Mapping[str, Any]) -> str:
    """What a member of a panel asks another one: a text as it is, an object as JSON."""
    content = request["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


@value
class Spent:
    """What a session took, failed calls included, and the entry that ended it."""

    calls: int
    tokens: int
    cost_usd_nano: int
    elapsed_us: int
    ended_seq: int
    priced: bool


def spent_on_record(store: Store, run: str, *, before: int | None = None) -> Spent:
    """The same for a session that was over before this process came, or of what comes `before` an entry. Calls of which
    nothing came back were made, too.
    """
    entries = list(read_entries(store, Query(run=run, before=before)))
    spent = fold(entries).runs[run]
    return Spent(
        calls=spent.calls + len(spent.calling),
        tokens=spent.tokens,
        cost_usd_nano=spent.cost_usd_nano,
        elapsed_us=progress_of(run, entries).spent.elapsed_us,
        ended_seq=max((entry.seq for entry in entries if entry.kind == "session.ended"), default=0),
        priced=not spent.unpriced,
    )


def deliberation_views(store: Store) -> Iterator[View]:
    """The deliberations, the newest first. One that is not as Hansard writes it hides no other."""
    for run in deliberations(store):
        try:
            view = deliberation_view(store, run)
        except (UsageError, Tampered):
            continue
        yield view


def why_of(store: Store, run: str) -> str | None:
    """Which cap ended a session, or what kept its panel from sitting; None where neither did."""
    ended = newest(store, run, "session.ended")
    return ended.data.get("why") if ended else None


def artifacts_of(store: Store, session: str) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Every artifact of a session of this id that is on the record, newest first, with its entry; None where it is gone."""
    for ended in store.select(Query(kind="session.ended", newest_first=True)):
        if ended.data.get("session") == session:
            yield ended.seq, read_artifact(store, ended)


def artifact_on_record(store: Store, run: str) -> dict[str, Any]:
    """The artifact of the newest session of a run; UsageError where there is none."""
    ended = newest(store, run, "session.ended")
    found = read_artifact(store, ended) if ended else None
    if found is None:
        raise UsageError(f"run {run} has no artifact on the record: {NO_ARTIFACT}")
    return found


def metrics_on_record(store: Store, run: str) -> View:
    """The figures of a deliberation that is over."""
    return metrics_of(artifact_on_record(store, run))


def newest(store: Store, run: str, kind: str) -> Entry | None:
    """The newest entry of this kind in a run."""
    return next(read_entries(store, Query(run=run, kind=kind, newest_first=True, limit=1)), None)
