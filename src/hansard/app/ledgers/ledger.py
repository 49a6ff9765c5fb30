"""The ledger service: reading, explaining and looking after one ledger, for every surface. Synchronous.

A damaged ledger can still be read: what cannot be trusted is marked, and only appending is refused.
"""

from collections.abc import Iterator, Sequence
from typing import Self

from hansard.app.ledgers.parts import entry_with, state_of
from hansard.app.ledgers.redacting import redact
from hansard.app.opened import Opened
from hansard.app.settings import Settings
from hansard.app.views import View, broken_view, entry_view, part_view, state_view, summary_view
from hansard.app.wiring import open_ledger
from hansard.domain.custody import Repaired
from hansard.errors import StoreError, Uncleaned, UsageError
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import FIRST_PREV, Entry
from hansard.ledger.form import read
from hansard.ledger.merkle import leaf_hash
from hansard.record.history import LedgerState
from hansard.record.recorder import Step, record_now
from hansard.store.base import Query, verify_of

MAX_CAUSES_SHOWN = 10_000


class LedgerService:
    """One open ledger."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.store = opened.store

    @classmethod
    def open(cls, settings: Settings, *, writing: bool = False) -> Self:
        return cls(open_ledger(settings, writing=writing))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.close()

    def show(
        self,
        *,
        run: str | None = None,
        kind: str | None = None,
        actor: str | None = None,
        after: int | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Iterator[View]:
        """Entries in their order: the first ones behind `after`, or without it the newest, of those before `before` where that is
        given; a broken one is marked with why."""
        newest = after is None and limit is not None
        start = -1 if after is None else after
        if run is None and kind is None and actor is None:
            yield from self._show_lines(start, before, limit, newest)
            return
        query = Query(run=run, kind=kind, actor=actor, after=start, before=before, limit=limit, newest_first=newest)
        found = self.store.select(query)
        yield from (entry_view(entry) for entry in (reversed(list(found)) if newest else found))

    def _show_lines(self, after: int, before: int | None, limit: int | None, newest: bool) -> Iterator[View]:
        start, stop = max(after + 1, 0), self.size()
        if before is not None:
            stop = min(stop, before)
        if limit is not None:
            start, stop = (max(start, stop - limit), stop) if newest else (start, min(stop, start + limit))
        if start >= stop:
            return
        prev = leaf_hash(b"".join(self.store.lines(start - 1, start))).hex() if start else FIRST_PREV
        for seq, line in enumerate(self.store.lines(start, stop), start):
            yield _checked_view(seq, line, prev)
            prev = leaf_hash(line).hex()

    def size(self) -> int:
        """How many entries there are, also where the head row cannot be believed."""
        if self.store.broken is None:
            return self.store.head().size
        return sum(1 for _ in self.store.lines())

    def get(self, seq: int) -> View:
        """One entry with its parts, what caused it and what it caused."""
        entry = self.store.entry(seq)
        view = entry_view(entry)
        view["broken"] = self._broken_link(entry)
        view["effects"] = self.store.effects(seq)
        view["parts"] = [part_view(entry, part, *state_of(self.store, entry, part)) for part in sorted(entry.body)]
        return view

    def _broken_link(self, entry: Entry) -> str | None:
        """Why an entry does not hold together with its neighbours, as far as those can tell; verification looks at everything."""
        before = b"".join(self.store.lines(entry.seq - 1, entry.seq)) if entry.seq else None
        if entry.prev != (FIRST_PREV if before is None else leaf_hash(before).hex()):
            return "[H4] it does not follow the entry before it"
        after = b"".join(self.store.lines(entry.seq + 1, entry.seq + 2))
        if after and b'"prev":"%b"' % leaf_hash(entry.line).hex().encode() not in after:
            return "[H4] the entry behind it does not follow from it: one of the two was changed"
        return None

    def part(self, seq: int, part: str) -> bytes:
        """A body, checked against its commitment; UsageError when it is redacted or missing, StoreError when it is not the one."""
        entry = entry_with(self.store, seq, part)
        stored, state = state_of(self.store, entry, part)
        if state == "differs":
            raise StoreError(
                f"the part {part!r} of entry {seq} is not the body that was committed to; "
                f"{verify_of(self.store.place, deep=True)}"
            )
        if stored is None:
            raise UsageError(f"the part {part!r} of entry {seq} is {state}")
        return stored.body

    def causes(self, seq: int) -> list[View]:
        """Everything that led to an entry, itself last."""
        wanted, seen = [seq], {seq}
        while wanted:
            for cause in self.store.entry(wanted.pop()).causes:
                if cause not in seen:
                    if len(seen) >= MAX_CAUSES_SHOWN:
                        raise UsageError(
                            f"entry {seq} has more than {MAX_CAUSES_SHOWN} causes behind it; look at a nearer one"
                        )
                    seen.add(cause)
                    wanted.append(cause)
        return [entry_view(self.store.entry(each)) for each in sorted(seen)]

    def state_at(self, seq: int | None, *, after: int = -1, limit: int | None = None) -> View:
        """What the record said when entry `seq` had just been written; at most `limit` of its runs, those that began behind
        entry `after`.
        """
        if seq is not None:
            self.store.entry(seq)
        return state_view(self._fold(seq), after=after, limit=limit)

    def summary(self) -> View:
        view = summary_view(self._fold(None))
        view["broken"] = self.store.broken
        view["checkpoints"] = sum(1 for _ in self.store.checkpoints())
        return view

    def redact(self, parts: Sequence[tuple[int, str]], *, reason: str, actor: str) -> View:
        """Erase bodies for good: tombstones first, then the deletion ([B3]). Says which parts of their runs and which files of
        their sessions hold the same texts, and which of the bodies were not what was recorded: afterwards nobody can tell. Of
        those that were gone already, nobody can any more.
        """
        return redact(self.opened, parts, reason=reason, actor=actor)

    def repair(self) -> View:
        """Put right what is derived or half done. Entries are never touched; what was done is recorded."""
        self.opened.check_lines()
        try:
            done = self.store.repair()
        except Uncleaned as error:
            self._record_repairs(error.done)
            raise
        self._record_repairs(done)
        return {"repaired": [{"what": what, "count": count} for what, count in done], "broken": self.store.broken}

    def _record_repairs(self, done: list[tuple[str, int]]) -> None:
        for what, count in done:
            fact = Repaired(what=what, count=count)  # type: ignore[arg-type]
            record_now(self.store, [Step(fact, "repair")], sealing=self.opened.extending())

    def _fold(self, upto: int | None) -> LedgerState:
        """Fold line by line, so that one broken entry does not hide the others."""
        state, prev = LedgerState(), FIRST_PREV
        for seq, line in enumerate(self.store.lines(0, None if upto is None else upto + 1)):
            try:
                entry = read(line)
                state.take(entry)
                follows = (entry.seq, entry.prev) == (seq, prev)
            except Malformed:
                state.kinds["(broken)"] += 1
                state.at, follows = seq, False
            if not follows and state.broken_at is None:
                state.broken_at = seq
            prev = leaf_hash(line).hex()
        return state


def _checked_view(seq: int, line: bytes, prev: str) -> View:
    try:
        entry = read(line)
    except Malformed as error:
        return broken_view(seq, line, str(error))
    if entry.seq != seq:
        return broken_view(seq, line, f"[E4] it says that it is entry {entry.seq}")
    view = entry_view(entry)
    if entry.prev != prev:
        view["broken"] = "[H4] it does not follow the entry before it"
    return view
