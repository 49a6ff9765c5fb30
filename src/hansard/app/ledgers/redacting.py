"""Erasing bodies for good: tombstones first, then the bodies; and where else the same texts stand, as long as that can be told."""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, get_args

from hansard.app.ledgers.parts import entry_with, state_of, tombstone_of
from hansard.app.opened import Opened
from hansard.app.views import View
from hansard.domain.council import TurnTaken
from hansard.domain.custody import BodyRedacted, RedactionReason
from hansard.errors import HansardError, StoreError, Tampered, UsageError
from hansard.ledger.entry import Entry
from hansard.record.recorder import Step, record_now
from hansard.store.base import Query, Store


def redact(opened: Opened, parts: Sequence[tuple[int, str]], *, reason: str, actor: str) -> View:
    """As `LedgerService.redact` says."""
    store = opened.store
    if reason not in get_args(RedactionReason):
        raise UsageError(f"reason {reason!r} is not one of {', '.join(get_args(RedactionReason))}")
    wanted = list(dict.fromkeys(parts))
    texts: dict[str, list[bytes]] = {}
    differed: list[View] = []
    gone: list[View] = []
    for (seq, part), (run, body, state) in [(each, _erasable(store, *each)) for each in wanted]:
        texts.setdefault(run, []).extend([] if body is None else [body])
        differed += [{"seq": seq, "part": part}] if state == "differs" else []
        gone += [{"seq": seq, "part": part}] if state == "redacted" else []
    stones = _tombstones(opened, wanted, reason, actor)
    also_in: list[View] = []
    files: list[str] = []
    try:
        # Before they are gone, and with them what to look for. What cannot be searched keeps nothing from being erased.
        files += [file for run, erased in texts.items() for file in _files_holding(store, run, erased)]
        held = {each for run, erased in texts.items() for each in _holding(store, run, erased)}
        also_in += [{"seq": seq, "part": part} for seq, part in sorted(held.difference(wanted))]
    finally:
        _erase(store, wanted, also_in)
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


def _erase(store: Store, parts: Sequence[tuple[int, str]], also_in: Sequence[View]) -> None:
    try:
        store.erase(*parts)
    except StoreError as error:
        # Whoever tries again cannot be told any more.
        if not also_in:
            raise
        named = ", ".join(f"entry {each['seq']} {each['part']}" for each in also_in)
        raise StoreError(f"{error}; parts of the same run hold the same text: {named}") from error


def _erasable(store: Store, seq: int, part: str) -> tuple[str, bytes | None, str]:
    """The run that a part belongs to, the text that lies there, None where it is gone, and its state; UsageError where there
    is nothing to redact.
    """
    entry = entry_with(store, seq, part)
    stored, state = state_of(store, entry, part)
    if state == "missing":
        raise UsageError(f"the part {part!r} of entry {seq} is not here, so there is nothing to redact")
    return entry.run, _whole(store, entry, part, stored.body) if stored else None, state


def _whole(store: Store, entry: Entry, part: str, body: bytes) -> bytes:
    """The body with what it names of its message in its place, as far as that is here: whoever erases an answer looks for all of it."""
    if (entry.kind, part) == (TurnTaken.KIND, "result"):
        from hansard.deliberation.quoting import answer_of

        with suppress(ValueError, LookupError, TypeError, RecursionError, HansardError):
            said, message = json.loads(body), store.body(entry.seq, "message")
            content = json.loads(message.body)["content"] if message else defaultdict(str)
            return json.dumps({**said, "text": answer_of(said["text"], {"content": content})}).encode()
    return body


def _tombstones(
    opened: Opened, parts: Sequence[tuple[int, str]], reason: str, actor: str
) -> dict[tuple[int, str], int]:
    """The entry that redacts each of these parts; recorded where there is none yet."""
    stones: dict[tuple[int, str], int] = {}
    for seq, part in parts:
        entry = opened.store.entry(seq)
        tombstone = tombstone_of(opened.store, entry, part)
        if tombstone is None:
            fact = BodyRedacted(seq=seq, part=part, commitment=entry.body[part], reason=reason)  # type: ignore[arg-type]
            step = Step(fact, actor, (seq,))
            [written] = record_now(opened.store, [step], run=entry.run, sealing=opened.extending())
            tombstone = written.seq
        stones[seq, part] = tombstone
    return stones


def _holding(store: Store, run: str, erased: Sequence[bytes]) -> list[tuple[int, str]]:
    """The parts of a run that hold what was erased, as it is, or as it stands within JSON and within JSON in JSON."""
    sought = _sought(erased)
    found: list[tuple[int, str]] = []
    for entry in store.select(Query(run=run)) if sought and run else ():
        for part in sorted(entry.body):
            with suppress(Tampered):
                stored = store.body(entry.seq, part)
                if stored and any(each in stored.body for each in sought):
                    found.append((entry.seq, part))
    return found


def _files_holding(store: Store, run: str, erased: Sequence[bytes]) -> list[str]:
    """The files in the directory of a run's session that hold it: they are the operator's, and stay as they are."""
    from hansard.app.telling.directories import directory_of
    from hansard.deliberation.inventory import WRITTEN, read_file

    sought, found = _sought(erased), list[str]()
    folder = directory_of(store, run) if sought and run else None
    for path in sorted(folder / name for name in WRITTEN) if folder else ():
        with suppress(OSError, StoreError):
            said = read_file(path)
            if any(each in said for each in sought):
                found.append(str(path))
    return found


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
