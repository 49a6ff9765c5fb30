"""The runs of a ledger as the record tells them: listed, shown, followed, compared. Writes nothing, and drives nobody."""

import sys
import threading
from collections.abc import AsyncIterator

from hansard.app.finding import find_run, unknown_run
from hansard.app.telling.capsule import capsule
from hansard.app.telling.compare import answer_body, answer_of, compared, figures, last_verdicts
from hansard.app.telling.listing import runs_page
from hansard.app.telling.runpage import run_page
from hansard.app.telling.runviews import plan_data, run_view
from hansard.app.views import View, entry_view
from hansard.ledger.entry import Entry
from hansard.record.history import UNENDED, LedgerState, fold, follow
from hansard.record.reading import read_entries, read_text
from hansard.store.base import Query, Store

ENDED = ("answered", "partial", "failed", "stopped", "cancelled")
STATES = (*UNENDED, *ENDED)
"""What a run can be in."""
MOST_FOLDED = 16


class RecordedRuns:
    """The runs of one ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._keeping = threading.Lock()
        self._folded: dict[str, LedgerState] = {}
        """How far runs were folded for those who follow them: a long one is not read anew for each of its pages."""

    def listed(self, *, limit: int = 20, state: str | None = None) -> list[View]:
        """The newest runs first, all of them where `limit` is 0."""
        return runs_page(self._store, limit=limit or sys.maxsize, state=state, most_looked_at=sys.maxsize)[0]

    def show(self, run: str) -> View:
        """Everything about one run."""
        run = self.find(run)
        view = run_view(self._store, run, self.entries(run))
        if view["mode"] == "deliberation":
            from hansard.app.telling.deliberationviews import why_of
            from hansard.app.telling.directories import directory_of

            folder = directory_of(self._store, run)
            view["run_dir"] = str(folder) if folder else None
            view["why"] = why_of(self._store, run)
        return view

    def answer(self, run: str) -> bytes | None:
        """The answer's bytes; None where there is none."""
        found = answer_body(self._store, self.entries(run))
        return found.data if found else None

    def plan(self, run: str) -> View | None:
        """The newest plan of a run, as a file that `submit --plan` takes; None where there is none."""
        return plan_data(self._store, self.entries(run))

    def text(self, seq: int, part: str) -> str | None:
        """A body as text for showing; None where it is not in the ledger."""
        return read_text(self._store, self._store.entry(seq), part)

    def views(self, run: str) -> list[View]:
        """The entries of a run so far."""
        return [entry_view(entry) for entry in self.entries(run)]

    def entries(self, run: str) -> list[Entry]:
        return list(read_entries(self._store, Query(run=run)))

    def state(self, run: str, at: int | None = None) -> tuple[str, bool]:
        """In which state a run was when this entry was written, or is now, and whether it was over."""
        # Taken out while it grows: whoever asks at the same time makes his own.
        with self._keeping:
            folded = self._folded.pop(run, None)
        if folded is None or (at is not None and folded.at > at):
            folded = LedgerState()
        before = None if at is None else at + 1
        for entry in read_entries(self._store, Query(run=run, after=folded.at, before=before)):
            folded.take(entry)
        with self._keeping:
            while len(self._folded) >= MOST_FOLDED:
                del self._folded[next(iter(self._folded))]
            self._folded[run] = folded
        if run not in folded.runs:
            raise unknown_run(self._store, run)
        return folded.runs[run].state, folded.runs[run].over

    def find(self, run: str) -> str:
        """A run by its id, or the beginning or the end of it; `last` is the newest."""
        return find_run(self._store, run)

    async def follow(self, run: str, after: int = -1) -> AsyncIterator[View]:
        """The entries of a run as they are written, until it ends."""
        seen, so_far = after, self.entries(run)
        if not so_far:
            raise unknown_run(self._store, run)
        for entry in so_far:
            if entry.seq > after:
                seen = entry.seq
                yield entry_view(entry)
        # Of what was shown: whatever came meanwhile is still to be shown.
        if fold(so_far).runs[run].state in ENDED:
            return
        async for entry in follow(self._store, seen, Query(run=run)):
            yield entry_view(entry)
            if entry.kind == "run.ended":
                return

    def figures(self, run: str) -> View:
        """What a run came to, in figures."""
        return figures(self._store, self.entries(self.find(run)))

    def compare(self, a: str, b: str, others: "RecordedRuns | None" = None) -> View:
        """What changed between two runs; the second may lie in another ledger."""
        beside = others or self
        first, second = self.entries(self.find(a)), beside.entries(beside.find(b))
        answers = (answer_of(self._store, first), answer_of(beside._store, second))
        sides = (figures(self._store, first), figures(beside._store, second))
        return compared(*sides, answers, (last_verdicts(first), last_verdicts(second)))

    def capsule(self, run: str) -> View:
        """What a run knows, small enough to be given to the next one."""
        found = self.find(run)
        return capsule(self._store, found, self.entries(found))

    def page(self, run: str) -> str:
        """A run as one HTML page that needs nothing else."""
        view = self.show(run)
        return run_page(self._store, view, self.plan(view["run"]), self.entries(view["run"]))
