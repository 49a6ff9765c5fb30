"""The quick look at one line: is it exactly an entry, and the one that must stand here?

It rebuilds the line from its parsed values plus the seq and prev that are expected, and compares once: equality proves
members, order, spacing, escapes, seq, prev and version together ([E1]-[E4], [H4]). It never says what is wrong; a line
that does not pass goes to `entry.parse`, which does.
"""

import json
from collections.abc import Callable
from typing import Any

from .canonical import MAX_INT, Json, Malformed, check, write
from .entry import ACTOR, HASH, KIND, MAX_CAUSES, MAX_LINE, MAX_PARTS, PART, RUN, Entry, entry_of, parse

FAILURES = (ValueError, LookupError, TypeError, AttributeError, RecursionError, StopIteration)
"""What parsing and rebuilding hostile text may raise; each means no more than: look closely."""

Loads = Callable[[str], Any]
"""Parses JSON text."""
Dumps = Callable[[Any], bytes]
"""Writes canonical JSON of the restricted model."""

_REMEMBERED = 4096
_HASH_DIGITS = 64
_is_hash = HASH.fullmatch


class QuickForm:
    """Checks lines one by one, remembering names that it has seen to be well formed."""

    def __init__(self, loads: Loads | None = None, dumps: Dumps | None = None) -> None:
        self._loads = loads or _scan()
        self._dumps = write if dumps is None else lambda value: dumps(value).decode()
        self._actors: set[str] = set()
        self._kinds: set[str] = set()
        self._runs: set[str] = set()
        self._parts: set[str] = set()

    def members(self, line: bytes, seq: int | None = None, prev: str = "") -> dict[str, Any]:
        """The members of a line that is well formed and has this seq and prev, or any; otherwise one of FAILURES."""
        text = line.decode()
        members: dict[str, Any] = self._loads(text)
        if seq is None:
            seq, prev = _place(members)
        actor, kind, run = members["actor"], members["kind"], members["run"]
        if actor not in self._actors or kind not in self._kinds or run not in self._runs:
            self._learn_names(actor, kind, run)
        body, causes, data, ts = members["body"], members["causes"], members["data"], members["ts"]
        parts = self._part_text(body) if body else ""
        caused = _cause_text(causes, seq) if causes else ""
        rebuilt = (
            f'{{"actor":"{actor}","body":{{{parts}}},"causes":[{caused}],"data":{self._dumps(data)},"kind":"{kind}",'
            f'"prev":"{prev}","run":"{run}","seq":{seq},"ts":{ts},"v":1}}'
        )
        # A ts of another type would be written the same way by Python as by its author.
        if rebuilt != text or type(ts) is not int or not 0 <= ts <= MAX_INT or len(line) > MAX_LINE:
            raise Malformed("not the entry that must stand here")
        _check_data(data, text.isascii())
        return members

    def _learn_names(self, actor: Any, kind: Any, run: Any) -> None:
        for name, pattern, seen in ((actor, ACTOR, self._actors), (kind, KIND, self._kinds), (run, RUN, self._runs)):
            if not pattern.fullmatch(name):
                raise Malformed("not of its form")
            _remember(name, seen)

    def _part_text(self, body: dict[str, str]) -> str:
        if len(body) == 1:
            [part] = body
            committed = body[part]
            # Quicker than the pattern, and as strict: what reads and writes back alike is lower-case hex.
            if part in self._parts and len(committed) == _HASH_DIGITS and bytes.fromhex(committed).hex() == committed:
                return f'"{part}":"{committed}"'
        for part, committed in body.items():
            if not PART.fullmatch(part) or not _is_hash(committed):
                raise Malformed("not a part name with a commitment")
            _remember(part, self._parts)
        if len(body) > MAX_PARTS:
            raise Malformed("too many parts")
        return ",".join([f'"{part}":"{body[part]}"' for part in sorted(body)])


def read(line: bytes) -> Entry:
    """The entry that a line is, wherever it stands: as `parse` reads it, and sooner where nothing is wrong with it."""
    try:
        members = _QUICK.members(line)
    except FAILURES:
        return parse(line)
    return entry_of(members, line)


def _place(members: dict[str, Any]) -> tuple[int, str]:
    seq, prev = members["seq"], members["prev"]
    if type(seq) is not int or not 0 <= seq <= MAX_INT or not _is_hash(prev):
        raise Malformed("not a place in a log")
    return seq, prev


def _remember(name: str, seen: set[str]) -> None:
    if len(seen) >= _REMEMBERED:
        seen.clear()
    seen.add(name)


def _cause_text(causes: list[int], seq: int) -> str:
    if len(causes) == 1 and type(causes[0]) is int and 0 <= causes[0] < seq:
        return str(causes[0])
    last = -1
    for cause in causes:
        if type(cause) is not int or cause <= last:
            raise Malformed("causes do not rise")
        last = cause
    if last >= seq or len(causes) > MAX_CAUSES:
        raise Malformed("causes are not before the entry")
    return ",".join(map(str, causes))


def _check_data(data: dict[str, Json], plain: bool) -> None:
    """[E3] for what rebuilding cannot see: floats that were written as they were read, large integers, keys, depth."""
    for value in data.values():
        # Most are texts, so that is asked first.
        if type(value) is not str and plain:
            plain = -MAX_INT <= value <= MAX_INT if type(value) is int else value is None or type(value) is bool
    if not plain:
        check(data, 1)


def _scan() -> Callable[[str], Any]:
    """The standard library's parser without its wrapping; text after the value is left to the comparison."""

    def refuse(text: str) -> None:
        raise Malformed(f"{text[:32]} is not an integer")

    decoder = json.JSONDecoder(parse_float=refuse, parse_constant=refuse)
    # An attribute that the documentation does not mention; decode() is the plain way to the same values.
    scan = getattr(decoder, "scan_once", None)
    return decoder.decode if scan is None else lambda text: scan(text, 0)[0]


_QUICK = QuickForm()
