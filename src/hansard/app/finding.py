"""Which runs there are, and one of them by what people type for it, or by the whole name that programs have for it."""

from collections.abc import Iterator
from shlex import quote
from typing import Literal

from hansard.app.ids import as_recorded, is_run_id, run_within
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Query, Store

MODE: Literal["deliberation"] = "deliberation"
PERSONA: Literal["persona"] = "persona"
"""The mode of a run that makes a persona, and holds no session."""
MOST_LOOKED_AT = 2_000
"""So many runs are looked at for one that asks from afar."""


def requests(store: Store, before: int | None = None) -> Iterator[Entry]:
    """What began each run, the newest first. What names no run has begun none."""
    return (entry for entry in store.select(Query(kind="run.requested", newest_first=True, before=before)) if entry.run)


def deliberations(store: Store) -> Iterator[str]:
    """The runs that are deliberations, the newest first."""
    for entry in requests(store):
        if entry.data.get("mode") == MODE:
            yield entry.run


def request_of(store: Store, run: str) -> Entry | None:
    """What began a run; None where nobody has requested one of this id, though entries may name it."""
    return next(iter(store.select(Query(run=run, kind="run.requested", limit=1))), None) if run else None


def is_deliberation(store: Store, run: str) -> bool:
    return _mode(store, run) == MODE


def is_of_a_panel(store: Store, run: str) -> bool:
    """Whether it holds a session, or makes a persona for one: the engine drives neither."""
    return _mode(store, run) in (MODE, PERSONA)


def _mode(store: Store, run: str) -> object:
    begun = request_of(store, run)
    return begun.data.get("mode") if begun else None


def find_run(store: Store, run: str) -> str:
    """A run by its id, or the beginning or the end of it, in small letters or capitals; `last` is the newest."""
    if not run:
        raise unknown_run(store, run)
    if request_of(store, whole := as_recorded(run)):
        return whole
    found, part = list[str](), run.lower()
    for entry in requests(store):
        if run == "last":
            return entry.run
        # Those of one moment begin alike, and the dashboard names runs by their ends.
        if entry.run.startswith(part) or entry.run.endswith(part):
            found.append(entry.run)
    if len(found) > 1:
        raise UsageError(f"{run!r} begins or ends {len(found)} runs: {', '.join(found[:5])}; write more of it")
    if not found:
        raise unknown_run(store, run)
    return found[0]


def find_named(store: Store, run: str) -> str:
    """The same for whoever looks at entries: an id that they name may be that of no run."""
    whole = as_recorded(run)
    named = run and any(store.select(Query(run=whole, limit=1)))
    return whole if named else find_run(store, run)


def unknown_run(store: Store, run: str) -> UsageError:
    if run and any(store.select(Query(run=run, limit=1))):
        shown = f"`hansard ledger show --run {quote(run)} --ledger {quote(store.place)}`"
        return UsageError(f"{run!r} is no run: entries name it, and none of them requests it; {shown} shows them")
    if not any(requests(store)):
        return UsageError(f"there is no run {run!r}: there are no runs yet; `hansard submit REQUEST` starts one")
    return UsageError(
        f"there is no run {run!r} in {store.place}; `hansard runs list --ledger {quote(store.place)}` shows them"
    )


def exact_run(store: Store, run: str) -> str:
    """A run by its whole id, or `last`; looking for the beginning of an id would read every run."""
    if run == "last":
        for entry in requests(store):
            return entry.run
        raise UsageError("there are no runs yet")
    whole = as_recorded(run)
    if not is_run_id(whole):
        raise UsageError(f"there is no run {run!r:.60}; a run's id is a UUID, or `last`")
    if request_of(store, whole) is None:
        raise UsageError(f"there is no run {run!r:.60}")
    return whole


def exact_deliberation(store: Store, run: str) -> str:
    """A run by its id that is a deliberation; `last` is the newest of those, and not of all runs."""
    if run == "last":
        for entry in store.select(Query(kind="run.requested", newest_first=True, limit=MOST_LOOKED_AT)):
            if entry.data.get("mode") == MODE:
                return entry.run
        raise UsageError(f"there is no deliberation among the newest {MOST_LOOKED_AT:,} runs")
    found = exact_run(store, run)
    if not is_deliberation(store, found):
        raise UsageError(f"run {found} is no deliberation")
    return found


def exact_session(store: Store, name: str) -> tuple[str, str | None]:
    """The deliberation of this id; or the run in which the session of this id met, and that id."""
    session = as_recorded(name)
    run = run_within(session)
    if run is None:
        return exact_deliberation(store, name), None
    convened = store.select(Query(run=exact_run(store, run), kind="session.convened"))
    if not any(entry.data.get("session") == session for entry in convened):
        raise UsageError(f"run {run} has no session {session}")
    return run, session
