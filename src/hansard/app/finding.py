"""A run by what people type for it."""

from collections.abc import Iterator
from shlex import quote

from hansard.app.ids import as_recorded
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Query, Store


def requests(store: Store, before: int | None = None) -> Iterator[Entry]:
    """What began each run, the newest first. What names no run has begun none."""
    return (entry for entry in store.select(Query(kind="run.requested", newest_first=True, before=before)) if entry.run)


def is_requested(store: Store, run: str) -> bool:
    """Whether somebody has requested a run of this id: entries may name one that nobody has."""
    return bool(run) and any(store.select(Query(run=run, kind="run.requested", limit=1)))


def find_run(store: Store, run: str) -> str:
    """A run by its id, or the beginning or the end of it, in small letters or capitals; `last` is the newest."""
    if not run:
        raise unknown_run(store, run)
    if is_requested(store, whole := as_recorded(run)):
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
