"""A session that met inside of a run, shown as a deliberation of its own is: by its id, from its own entries of the run."""

import json
from dataclasses import replace
from typing import Any

from hansard.app.telling.deliberationviews import ENDS, NO_ARTIFACT, outcome_view
from hansard.app.telling.runviews import interrupted_view, spent_view
from hansard.app.views import View, entry_view, moment
from hansard.deliberation.documents import Config, Invalid
from hansard.deliberation.story import entries_of, read_artifact
from hansard.domain.budget import in_nano
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.orchestration.config import RunConfig
from hansard.record.history import RunState, fold
from hansard.record.reading import read_body, read_entries, strange
from hansard.store.base import Query, Store


def nested_view(store: Store, run: str, session: str) -> View:
    """What `deliberation_view` says of a run, of a session inside of one; `within` is the question that it was to answer."""
    entries = entries_of(store, run, session)
    whole = list(read_entries(store, Query(run=run)))
    convened, asked = entries[0], store.entry(entries[0].causes[0])
    ended = next((each for each in entries if each.kind == "session.ended"), None)
    selected = next((each for each in entries if each.kind == "panel.selected"), None)
    config = _config(store, convened)
    state = fold(entries).runs[run]
    view: View = {
        "run": run,
        "session_id": session,
        "within": {"seq": asked.seq, **{name: asked.data.get(name) for name in ("task", "attempt", "role")}},
        "state": _state(ended, whole),
        "started": moment(convened.ts),
        "spent": _spent(state, entries[0].ts, ended),
        "unpriced": sorted(state.unpriced),
        "budget": _budget(config, _most_calls(store, whole, asked)),
        "problem": config.problem_statement if config else None,
        "selected_agents": list(selected.data["agents"]) if selected else [],
        "coordinator": config.coordinator.id if config else selected.data["coordinator"] if selected else None,
        "run_dir": None,
        "fault": None,
        "refused_experts": [],
        "cut": [],
        "outcome": None,
        "why": ended.data.get("why") if ended else None,
        "interrupted": interrupted_view(store, fold(whole).runs[run], whole),
    }
    return view | (outcome_view(store, ended) if ended else {})


def nested_entries(store: Store, run: str, session: str) -> list[View]:
    """The entries of such a session: others of its run may have been held at the same time."""
    return [entry_view(entry) for entry in entries_of(store, run, session)]


def nested_artifact(store: Store, run: str, session: str) -> dict[str, Any]:
    """The artifact of such a session; UsageError where there is none."""
    ended = next((each for each in entries_of(store, run, session) if each.kind == "session.ended"), None)
    found = read_artifact(store, ended) if ended else None
    if found is None:
        raise UsageError(f"session {session} has no artifact on the record: {NO_ARTIFACT}")
    return found


def _config(store: Store, convened: Entry) -> Config | None:
    stored = read_body(store, convened, "config")
    if stored is None:
        return None
    try:
        return Config.parse(json.loads(stored.body))
    except (ValueError, RecursionError, Invalid) as error:
        raise strange(convened, "config", error) from error


def _state(ended: Entry | None, whole: list[Entry]) -> str:
    if ended:
        return ENDS[ended.data.get("reason") or "synthesis"]
    run = fold(whole).runs[whole[0].run]
    return "interrupted" if run.over or run.state == "interrupted" else "running"


def _spent(state: RunState, began_us: int, ended: Entry | None) -> View:
    """What its own calls took, those of which nothing came back included."""
    made = replace(state, calls=state.calls + len(state.calling))
    return spent_view(made, None) | {"elapsed_us": ended.ts - began_us if ended else None}


def _budget(config: Config | None, max_calls: int | None) -> View:
    """What it may take. There is always a limit: one that is missing here is not in the ledger any more."""
    calls = {} if max_calls is None else {"max_calls": max_calls}
    if config is None:
        return calls
    return calls | {
        "max_tokens": config.budget.max_total_tokens,
        "max_cost_usd_nano": in_nano(config.budget.max_total_cost_usd),
        "max_seconds": config.budget.max_wallclock_seconds,
    }


def _most_calls(store: Store, whole: list[Entry], asked: Entry) -> int | None:
    """How many calls the panel may make for one answer, as the run was configured; it had less where less was left."""
    configured = next((each for each in whole if each.kind == "run.configured"), None)
    stored = read_body(store, configured, "config") if configured else None
    if configured is None or stored is None:
        return None
    table = RunConfig.from_json(stored.body, f"entry {configured.seq}").providers.get(str(asked.data["provider"]), {})
    most = table.get("max_calls")
    return most if isinstance(most, int) else None
