"""Lists of runs: each in short, and no more of the record read than that takes."""

from hansard.app.finding import MOST_LOOKED_AT, requests
from hansard.app.telling.compare import end_of
from hansard.app.telling.runviews import first_of, head_view
from hansard.app.views import View
from hansard.record.history import ended_state, fold
from hansard.record.reading import read_for_list
from hansard.store.base import Query, Store


def runs_page(
    store: Store,
    *,
    limit: int,
    before: int | None = None,
    state: str | None = None,
    mode: str | None = None,
    most_looked_at: int = MOST_LOOKED_AT,
) -> tuple[list[View], int | None]:
    """Runs, the newest first, and where the next page begins; None where nothing is left.

    With a state or mode a page may hold fewer runs than asked for: it looks at so many runs, and no further.
    """
    found: list[View] = []
    looked = 0
    for entry in requests(store, before):
        if len(found) >= limit or looked >= most_looked_at:
            return found, before
        before, looked = entry.seq, looked + 1
        if mode is not None and entry.data.get("mode") != mode:
            continue
        if state is not None and _ended_otherwise(store, entry.run, state):
            continue
        view = _listed(store, entry.run)
        if state is None or view["state"] == state:
            found.append(view)
    return found, None


def _listed(store: Store, run: str) -> View:
    """One run in short, for lists. Of a run that is over its beginning and its end are read, since a long one has many
    thousand entries between them; of any other all are. Entries are taken as they are."""
    begin = list(store.select(Query(run=run, limit=2)))
    [last] = store.select(Query(run=run, newest_first=True, limit=1))
    if [entry.kind for entry in begin] == ["run.requested", "run.configured"]:
        # Counted last: whatever comes meanwhile makes the count differ, and nothing else.
        state = ended_state(begin[0], last, store.count(run))
        if state is not None:
            return head_view(state, begin, last, read_for_list(store, begin[0], "request"))
    entries = list(store.select(Query(run=run)))
    request = read_for_list(store, first_of(entries), "request")
    return head_view(fold(entries).runs[run], entries, end_of(entries), request)


def _ended_otherwise(store: Store, run: str, state: str) -> bool:
    """Whether a run has ended in another state. Its last entry alone tells: whoever lists by state looks at most runs in vain."""
    [last] = store.select(Query(run=run, newest_first=True, limit=1))
    return last.kind == "run.ended" and last.data.get("state") != state
