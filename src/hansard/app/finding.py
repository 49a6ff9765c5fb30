"""A run by what people type for it."""

from shlex import quote

from hansard.app.ids import as_recorded
from hansard.errors import UsageError
from hansard.store.base import Query, Store

ANY_RUN = Query(kind="run.requested", limit=1)


def find_run(store: Store, run: str) -> str:
    """A run by its id, or the beginning or the end of it, in small letters or capitals; `last` is the newest."""
    if not run:
        raise unknown_run(store, run)
    for entry in store.select(Query(run=as_recorded(run), limit=1)):
        return entry.run
    found, part = list[str](), run.lower()
    for entry in store.select(Query(kind="run.requested", newest_first=True)):
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


def unknown_run(store: Store, run: str) -> UsageError:
    if not any(store.select(ANY_RUN)):
        return UsageError(f"there is no run {run!r}: there are no runs yet; `hansard submit REQUEST` starts one")
    return UsageError(
        f"there is no run {run!r} in {store.place}; `hansard runs list --ledger {quote(store.place)}` shows them"
    )
