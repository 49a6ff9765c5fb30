"""The ledger service: reading, explaining and looking after one ledger, for every surface. Synchronous.

A damaged ledger can still be read: what cannot be trusted is marked, and only appending is refused.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self, get_args

from hansard.app.opened import Opened
from hansard.app.settings import Settings
from hansard.app.views import View, broken_view, entry_view, part_view, state_view, summary_view
from hansard.app.wiring import open_ledger
from hansard.domain.custody import BodyRedacted, RedactionReason, Repaired
from hansard.errors import StoreError, Tampered, Uncleaned, UsageError
from hansard.ledger import body as bodies
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import FIRST_PREV, Entry
from hansard.ledger.form import read
from hansard.ledger.merkle import leaf_hash
from hansard.record.history import LedgerState
from hansard.record.recorder import Step, record_now
from hansard.store.base import Query, StoredBody, verify_of

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
        view["parts"] = [part_view(entry, part, *self._state(entry, part)) for part in sorted(entry.body)]
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
        entry = self._entry_with(seq, part)
        stored, state = self._state(entry, part)
        if state == "differs":
            raise StoreError(
                f"the part {part!r} of entry {seq} is not the body that was committed to; "
                f"{verify_of(self.store.place, deep=True)}"
            )
        if stored is None:
            raise UsageError(f"the part {part!r} of entry {seq} is {state}")
        return stored.body

    def _state(self, entry: Entry, part: str) -> tuple[StoredBody | None, str]:
        try:
            stored = self.store.body(entry.seq, part)
        except Tampered:
            return None, "differs"
        redacted = self._tombstone(entry, part) is not None
        if stored is None:
            return None, "redacted" if redacted else "missing"
        if not bodies.opens(entry.body[part], stored.salt, stored.media, stored.body):
            return stored, "differs"
        return stored, "pending" if redacted else "here"

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

    def _entry_with(self, seq: int, part: str) -> Entry:
        entry = self.store.entry(seq)
        if part not in entry.body:
            raise UsageError(f"entry {seq} has no part {part!r}; it has {', '.join(sorted(entry.body)) or 'none'}")
        return entry

    def redact(self, parts: Sequence[tuple[int, str]], *, reason: str, actor: str) -> View:
        """Erase bodies for good: tombstones first, then the deletion ([B3]). Says which parts of their runs and which files of
        their sessions hold the same texts, and which of the bodies were not what was recorded: afterwards nobody can tell. Of
        those that were gone already, nobody can any more.
        """
        if reason not in get_args(RedactionReason):
            raise UsageError(f"reason {reason!r} is not one of {', '.join(get_args(RedactionReason))}")
        wanted = list(dict.fromkeys(parts))
        texts: dict[str, list[bytes]] = {}
        differed: list[View] = []
        gone: list[View] = []
        for (seq, part), (run, body, state) in [(each, self._erasable(*each)) for each in wanted]:
            texts.setdefault(run, []).extend([] if body is None else [body])
            differed += [{"seq": seq, "part": part}] if state == "differs" else []
            gone += [{"seq": seq, "part": part}] if state == "redacted" else []
        stones = self._tombstones(wanted, reason, actor)
        also_in: list[View] = []
        files: list[str] = []
        try:
            # Before they are gone, and with them what to look for. What cannot be searched keeps nothing from being erased.
            files += [file for run, erased in texts.items() for file in self._files_holding(run, erased)]
            held = {each for run, erased in texts.items() for each in self._holding(run, erased)}
            also_in += [{"seq": seq, "part": part} for seq, part in sorted(held.difference(wanted))]
        finally:
            self._erase(wanted, also_in)
        (seq, part), *others = wanted
        return {
            "seq": seq,
            "part": part,
            "tombstone": stones[seq, part],
            "state": "redacted",
            "also_erased": [{"seq": seq, "part": part, "tombstone": stones[seq, part]} for seq, part in others],
            "also_in": also_in,
            "files": files,
            "differed": differed,
            "gone": gone,
        }

    def _erase(self, parts: Sequence[tuple[int, str]], also_in: Sequence[View]) -> None:
        try:
            self.store.erase(*parts)
        except StoreError as error:
            # Whoever tries again cannot be told any more.
            if not also_in:
                raise
            named = ", ".join(f"entry {each['seq']} {each['part']}" for each in also_in)
            raise StoreError(f"{error}; parts of the same run hold the same text: {named}") from error

    def _erasable(self, seq: int, part: str) -> tuple[str, bytes | None, str]:
        """The run that a part belongs to, the text that lies there, None where it is gone, and its state; UsageError where there
        is nothing to redact.
        """
        entry = self._entry_with(seq, part)
        stored, state = self._state(entry, part)
        if state == "missing":
            raise UsageError(f"the part {part!r} of entry {seq} is not here, so there is nothing to redact")
        return entry.run, stored.body if stored else None, state

    def _tombstones(self, parts: Sequence[tuple[int, str]], reason: str, actor: str) -> dict[tuple[int, str], int]:
        """The entry that redacts each of these parts; recorded where there is none yet."""
        stones: dict[tuple[int, str], int] = {}
        for seq, part in parts:
            entry = self.store.entry(seq)
            tombstone = self._tombstone(entry, part)
            if tombstone is None:
                fact = BodyRedacted(seq=seq, part=part, commitment=entry.body[part], reason=reason)  # type: ignore[arg-type]
                step = Step(fact, actor, (seq,))
                [written] = record_now(self.store, [step], run=entry.run, sealing=self.opened.extending())
                tombstone = written.seq
            stones[seq, part] = tombstone
        return stones

    def _holding(self, run: str, erased: Sequence[bytes]) -> list[tuple[int, str]]:
        """The parts of a run that hold what was erased, as it is, or as it stands within JSON and within JSON in JSON."""
        sought = _sought(erased)
        found: list[tuple[int, str]] = []
        for entry in self.store.select(Query(run=run)) if sought and run else ():
            for part in sorted(entry.body):
                with suppress(Tampered):
                    stored = self.store.body(entry.seq, part)
                    if stored and any(each in stored.body for each in sought):
                        found.append((entry.seq, part))
        return found

    def _files_holding(self, run: str, erased: Sequence[bytes]) -> list[str]:
        """The files in the directory of a run's session that hold it: they are the operator's, and stay as they are."""
        from hansard.app.telling.deliberationviews import directory_of
        from hansard.deliberation.inventory import WRITTEN, read_file

        sought, found = _sought(erased), list[str]()
        folder = directory_of(self.store, run) if sought and run else None
        for path in sorted(folder / name for name in WRITTEN) if folder else ():
            with suppress(OSError, StoreError):
                said = read_file(path)
                if any(each in said for each in sought):
                    found.append(str(path))
        return found

    def _tombstone(self, entry: Entry, part: str) -> int | None:
        """The entry that redacts this part ([B3]); one that names another commitment does not."""
        named = {"commitment": entry.body[part], "part": part, "seq": entry.seq}
        for effect in self.store.effects(entry.seq):
            try:
                found = self.store.entry(effect)
            except StoreError:
                continue
            if found.kind == BodyRedacted.KIND and named.items() <= found.data.items():
                return effect
        return None

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


def _sought(erased: Sequence[bytes]) -> list[bytes]:
    """What is looked for, in every form in which it may stand somewhere."""
    return list(dict.fromkeys(form for body in erased for text in _texts_of(body) for form in _written(text)))


def _texts_of(body: bytes) -> list[str]:
    """What is looked for when this body was erased: itself, and in JSON whatever somebody said; names and numbers are no text."""
    whole = body.decode("utf-8", "replace").strip()
    try:
        found = list(_leaves(json.loads(whole)))
    except (ValueError, RecursionError):
        found = []
    longest = max(map(len, found), default=0)
    said = [text for text in found if len(text) == longest or len(text.split()) > 1]
    return [text for text in dict.fromkeys((whole, *said)) if text]


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value.strip()
        # What a model has answered in JSON stands elsewhere without it.
        with suppress(ValueError, RecursionError):
            if value.lstrip().startswith(("{", "[")):
                yield from _leaves(json.loads(value))
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)


def _written(text: str) -> list[bytes]:
    # A lone surrogate is no UTF-8: it stands in other bodies as JSON escapes it.
    forms = [text.encode("utf-8", "backslashreplace").decode()]
    for _ in range(2):
        forms.append(json.dumps(forms[-1], ensure_ascii=False)[1:-1])
    return [form.encode() for form in forms]
