"""The ledgers of forum-engine as a format: rows, hashes, the tree over hex text. Written from a description of the bytes.

Pure: it opens no file. What is wrong is told by code and place, so that nothing is accepted in silence.
"""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal, NamedTuple, Protocol

from hansard.ledger.canonical import MAX_INT
from hansard.ledger.entry import FIRST_PREV, HASH

FIELDS = ("seq", "ts", "actor", "kind", "causal_parent", "payload_hash", "prev_hash", "entry_hash")
SEPARATOR = "\x1f"
PLACES_KEPT = 20
PIECES_TRIED = 1000

Code = Literal[
    "branch_left_out",
    "chain_broken",
    "checkpoint_differs",
    "database_damaged",
    "entry_hash_differs",
    "entry_malformed",
    "entry_repeated",
    "field_repeated",
    "field_unknown",
    "file_missing",
    "line_blank",
    "line_glued",
    "line_separator",
    "line_torn",
    "line_unreadable",
    "object_unknown",
    "parent_left_out",
    "parent_not_before",
    "payload_differs",
    "payload_malformed",
    "payload_missing",
    "payload_unreferenced",
    "seq_not_integer",
    "text_ambiguous",
    "time_backwards",
]

MEANINGS: dict[Code, str] = {
    "branch_left_out": "entries that fork off, or overlap what was imported; the longest branch was taken",
    "chain_broken": "the entry before is not there, or is not the one that was linked to; what follows is not chained",
    "checkpoint_differs": "a recorded checkpoint names another root than the entries before it give",
    "database_damaged": "SQLite finds the file damaged; what could be read was read",
    "entry_hash_differs": "the entry's hash is not the hash of its fields; left out",
    "entry_malformed": "a field is missing or not of its form; left out",
    "entry_repeated": "the same entry stands there twice; taken once",
    "field_repeated": "a field stands twice in one row; the last one counts",
    "field_unknown": "a field that no hash covers",
    "file_missing": "a file of the ledger is not there",
    "line_blank": "a blank line",
    "line_glued": "rows on one line with a row that was torn before them; the whole ones were taken",
    "line_separator": "a raw U+2028, U+2029 or U+0085, at which the engine that wrote it cannot read it back",
    "line_torn": "the last line has no line end",
    "line_unreadable": "not JSON; left out",
    "object_unknown": "a table, index, view or trigger that the format does not have",
    "parent_left_out": "the causal parent is not among the entries that were imported",
    "parent_not_before": "the causal parent is the entry itself, or a later one",
    "payload_differs": "the payload does not give its hash; kept as it was found",
    "payload_malformed": "a payload row that cannot be read, or is not of its form; left out",
    "payload_missing": "the payload of an entry is not there",
    "payload_unreferenced": "a payload that no entry names; left out",
    "seq_not_integer": "seq is not an integer; left out",
    "text_ambiguous": "actor or kind holds U+001F, so that other texts have the same hash",
    "time_backwards": "the time is before that of the entry before",
}


class Row(NamedTuple):
    """One entry whose hash holds; `at` and `length` say where its bytes lie, `line` names the place to people."""

    seq: int
    ts: float
    parent: int | None
    payload: bytes
    prev: bytes
    hash: bytes
    is_checkpoint: bool
    line: int
    at: int
    length: int


class Payload(NamedTuple):
    """One payload row: the hash that it states, whether its body gives it, and where it lies."""

    hash: bytes
    holds: bool
    line: int
    at: int
    length: int


class Findings:
    """What is wrong, counted by code; the first places of each are kept."""

    def __init__(self) -> None:
        self.counts: dict[Code, int] = {}
        self.places: dict[Code, list[str]] = {}

    def tell(self, code: Code, place: str) -> None:
        self.counts[code] = self.counts.get(code, 0) + 1
        kept = self.places.setdefault(code, [])
        if len(kept) < PLACES_KEPT:
            kept.append(place)

    def as_json(self) -> dict[str, Any]:
        return {
            code: {"count": count, "places": self.places[code], "what": MEANINGS[code]}
            for code, count in sorted(self.counts.items())
        }


class ForeignSource(Protocol):
    """A foreign ledger that is read and never written; `rows` and `payloads` are walked once, before anything else."""

    @property
    def format(self) -> Literal["forum_jsonl", "forum_sqlite"]: ...

    @property
    def rows_seen(self) -> int:
        """How many entry rows there were, readable or not."""
        ...

    def rows(self, findings: Findings) -> Iterator[Row]: ...

    def payloads(self, findings: Findings) -> Iterator[Payload]: ...

    def row_bytes(self, row: Row) -> bytes:
        """The row as it was found; a database's row in the form of a line."""
        ...

    def payload_bytes(self, payload: Payload) -> bytes:
        """What the hash is taken over, when it holds; else the row as it was found."""
        ...

    def files(self) -> list[dict[str, Any]]:
        """The files that were read: name, bytes, sha256."""
        ...

    def close(self) -> None: ...


def parsed(text: str) -> tuple[Any, bool]:
    """A JSON text's value, and whether a field stands twice in it. ValueError or RecursionError where it is none."""
    repeated = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        made = dict(pairs)
        repeated = repeated or len(made) < len(pairs)
        return made

    return json.loads(text, object_pairs_hook=members), repeated


def canonical(body: Any) -> bytes:
    """The bytes that a payload's hash is taken over: Python's JSON, keys sorted, no spaces, ASCII, NaN allowed."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def payload_hash(body: Any) -> str:
    """The hash by which an entry names this payload."""
    return sha256(canonical(body)).hexdigest()


def gives(body: Any, digest: str) -> bool:
    """Whether a payload has this hash; one that is too deep to be written has none."""
    try:
        return payload_hash(body) == digest
    except (ValueError, RecursionError):
        return False


def entry_hash(members: Mapping[str, Any]) -> str:
    """The hash over the seven other fields, joined by U+001F."""
    parent = members["causal_parent"]
    fields = (
        str(members["seq"]),
        f"{members['ts']:.6f}",
        members["actor"],
        members["kind"],
        "" if parent is None else str(parent),
        members["payload_hash"],
        members["prev_hash"],
    )
    return sha256(SEPARATOR.join(fields).encode()).hexdigest()


class HexTree:
    """The tree of RFC 6962 in shape, but over hex text: what that engine calls its root."""

    def __init__(self) -> None:
        self._size = 0
        self._stack: list[bytes] = []

    def push(self, entry: bytes) -> None:
        node, rest = _hex(b"\x00" + entry.hex().encode()), self._size
        while rest & 1:
            node = _hex(b"\x01" + self._stack.pop() + node)
            rest >>= 1
        self._stack.append(node)
        self._size += 1

    def root(self) -> str:
        if not self._stack:
            return FIRST_PREV
        root = self._stack[-1]
        for left in reversed(self._stack[:-1]):
            root = _hex(b"\x01" + left + root)
        return root.decode()


def _hex(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode()


def check_row(members: Any, place: str, findings: Findings) -> bool:
    """Whether this is an entry whose hash holds; whatever is wrong or odd about it is told."""
    if not isinstance(members, dict) or not set(FIELDS) <= members.keys():
        findings.tell("entry_malformed", place)
        return False
    if type(members["seq"]) is not int:
        findings.tell("seq_not_integer", place)
        return False
    if not _of_its_form(members):
        findings.tell("entry_malformed", place)
        return False
    if entry_hash(members) != members["entry_hash"]:
        findings.tell("entry_hash_differs", place)
        return False
    if len(members) > len(FIELDS):
        findings.tell("field_unknown", place)
    if SEPARATOR in members["actor"] or SEPARATOR in members["kind"]:
        findings.tell("text_ambiguous", place)
    return True


def _of_its_form(members: Mapping[str, Any]) -> bool:
    parent = members["causal_parent"]
    return (
        0 <= members["seq"] <= MAX_INT
        and _is_time(members["ts"])
        and all(_is_text(members[name]) for name in ("actor", "kind"))
        and (parent is None or (type(parent) is int and abs(parent) <= MAX_INT))
        and all(is_hash(members[name]) for name in ("payload_hash", "prev_hash", "entry_hash"))
    )


def row_of(members: Mapping[str, Any], *, line: int, at: int, length: int) -> Row:
    """The row of members that check_row has passed."""
    return Row(
        members["seq"],
        float(members["ts"]),
        members["causal_parent"],
        bytes.fromhex(members["payload_hash"]),
        bytes.fromhex(members["prev_hash"]),
        bytes.fromhex(members["entry_hash"]),
        members["kind"] == "checkpoint",
        line,
        at,
        length,
    )


def is_hash(value: Any) -> bool:
    """Whether this is text of 64 lower-case hex digits."""
    return type(value) is str and HASH.fullmatch(value) is not None


def pieces(text: str, marker: str) -> Iterator[tuple[int, int, Any]]:
    """The whole JSON values on a line that is not one: (start, end, value), looked for where `marker` stands."""
    decoder = json.JSONDecoder()
    at = 0
    for _ in range(PIECES_TRIED):
        try:
            value, end = decoder.raw_decode(text, at)
            yield at, end, value
            at = end
            if text.startswith(marker, at):
                continue
        except (ValueError, RecursionError):
            at += 1
        at = text.find(marker, at)
        if at < 0:
            return


def _is_time(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= MAX_INT


def _is_text(value: Any) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
