"""One entry: its fields, its strict reading, and the sketch from which a writer splices its line ([E1]-[E8]).

A writer encodes and commits to everything before it holds any lock; inside it, one splice puts the pieces and the place
together.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from .canonical import Json, Malformed, check, decode, dump

# A named tuple made by tuple itself: its own constructor is a Python function and takes twice as long.
new = tuple.__new__

VERSION = 1
MAX_LINE = 65_535
MAX_CAUSES = 1_000
MAX_PARTS = 255
FIRST_PREV = "0" * 64
GENESIS = "log.genesis"

ACTOR = re.compile(r"[A-Za-z0-9._:/+-]{1,128}")
KIND = re.compile(r"(?=.{3,64}\Z)[a-z][a-z_]*(\.[a-z][a-z_]*)+")
RUN = re.compile(r"[A-Za-z0-9_-]{0,64}")
PART = re.compile(r"[a-z][a-z0-9_]{0,31}")
HASH = re.compile(r"[0-9a-f]{64}")
NONCE = re.compile(r"[0-9a-f]{32}")
_KEYS = ("actor", "body", "causes", "data", "kind", "prev", "run", "seq", "ts", "v")


class Entry(NamedTuple):
    """A parsed entry and the exact line that it was read from."""

    seq: int
    ts: int
    run: str
    kind: str
    actor: str
    causes: tuple[int, ...]
    data: Mapping[str, Json]
    body: Mapping[str, str]
    prev: str
    line: bytes

    def part_position(self, part: str) -> int:
        """The place of a part among the sorted part names ([S4]); Malformed when the entry has no such part."""
        names = sorted(self.body)
        if part not in self.body:
            raise Malformed(f"entry {self.seq} has no part {part!r}; it has {', '.join(names) or 'none'}")
        return names.index(part)


def parse(line: bytes) -> Entry:
    """Read a line strictly: Malformed names the rule that it breaks. What needs neighbours (prev, ts order) is not checked."""
    if len(line) > MAX_LINE:
        raise Malformed(f"[E1] {len(line)} bytes, more than {MAX_LINE}")
    members = decode(line)
    check_members(members)
    return entry_of(members, line)


def entry_of(members: Mapping[str, Json], line: bytes) -> Entry:
    """An Entry over members that have been checked."""
    return new(
        Entry,
        (
            members["seq"],
            members["ts"],
            members["run"],
            members["kind"],
            members["actor"],
            tuple(members["causes"]),
            members["data"],
            members["body"],
            members["prev"],
            line,
        ),
    )


def check_members(members: Json) -> None:
    """Raise Malformed unless the parsed object has exactly the members of [E4], each of its form."""
    if type(members) is not dict:
        raise Malformed("[E4] not a JSON object")
    if tuple(sorted(members)) != _KEYS:
        odd = sorted(set(_KEYS) ^ set(members))
        raise Malformed(f"[E4] members missing or unknown: {', '.join(odd)[:200]}")
    if type(members["v"]) is not int or members["v"] != VERSION:
        raise Malformed(f"[E4] format version {members['v']!r:.32}; this reader knows {VERSION}")
    for name in ("seq", "ts"):
        if type(members[name]) is not int or members[name] < 0:
            raise Malformed(f"[E4] {name} is not an integer >= 0")
    for name, pattern in (("actor", ACTOR), ("kind", KIND), ("run", RUN), ("prev", HASH)):
        if type(members[name]) is not str or not pattern.fullmatch(members[name]):
            raise Malformed(f"[E4] {name} {members[name]!r:.80} is not of its form")
    if type(members["data"]) is not dict:
        raise Malformed("[E4] data is not an object")
    _check_causes(members["causes"], members["seq"])
    _check_body(members["body"])


def _check_causes(causes: Json, seq: int) -> None:
    if type(causes) is not list or len(causes) > MAX_CAUSES:
        raise Malformed(f"[E4] causes is not an array of at most {MAX_CAUSES}")
    last = -1
    for cause in causes:
        if type(cause) is not int or cause <= last:
            raise Malformed("[E4] causes do not strictly rise")
        last = cause
    if last >= seq:
        raise Malformed(f"[E4] cause {last} is not before entry {seq}")


def _check_body(body: Json) -> None:
    if type(body) is not dict or len(body) > MAX_PARTS:
        raise Malformed(f"[E4] body is not an object of at most {MAX_PARTS} parts")
    for part, committed in body.items():
        if not PART.fullmatch(part) or type(committed) is not str or not HASH.fullmatch(committed):
            raise Malformed(f"[E4] part {part!r:.40} is not a name with a commitment of 64 hex digits")


class Sketch(NamedTuple):
    """An entry before its place is known: its line in its final bytes, up to causes, from there to prev, and from there to seq."""

    head: bytes
    middle: bytes
    tail: bytes

    def line(self, causes: Sequence[int], prev: bytes, seq: int, ts: int) -> bytes:
        """The entry's line at its place; `prev` is in hex. Malformed when the line is too long."""
        head, middle, tail = self
        because = b"%d" % causes[0] if len(causes) == 1 else b",".join([b"%d" % cause for cause in causes])
        line = b'%b%b%b%b%b%d,"ts":%d,"v":1}' % (head, because, middle, prev, tail, seq, ts)
        if len(line) > MAX_LINE:
            raise Malformed(f"[E1] the entry would take {len(line)} bytes, more than {MAX_LINE}; move text into a part")
        return line


def sketch(kind: str, actor: str, run: str, data: bytes, body: bytes) -> Sketch:
    """Put together all that does not depend on the head.

    `data` is encoded already, and `body` the members of that object in their order; others use checked_sketch. Both are
    copied: an encoder may hand out a few bytes in a buffer of some thousand.
    """
    who, what, where = _names(actor, kind, run)
    return new(Sketch, (who + body + b'},"causes":[', b'],"data":' + data + what, where))


@lru_cache(4096)
def _names(actor: str, kind: str, run: str) -> tuple[bytes, bytes, bytes]:
    """Checked and encoded once, each as it stands in the line: the same few names come again and again."""
    if not ACTOR.fullmatch(actor):
        raise Malformed(f"[E4] actor {actor!r:.80} is not 1 to 128 of A-Z a-z 0-9 . _ : / + -")
    if not KIND.fullmatch(kind):
        raise Malformed(f"[E4] kind {kind!r:.80} is not dotted lower-case words")
    if not RUN.fullmatch(run):
        raise Malformed(f"[E4] run {run!r:.80} is not up to 64 of A-Z a-z 0-9 _ -")
    who, what, where = actor.encode(), kind.encode(), run.encode()
    return b'{"actor":"%b","body":{' % who, b',"kind":"%b","prev":"' % what, b'","run":"%b","seq":' % where


def checked_sketch(*, kind: str, actor: str, run: str, data: Mapping[str, Json], body: Mapping[str, str]) -> Sketch:
    """sketch() of plain values that nothing has checked yet."""
    _check_body(body)
    committed = ",".join(f'"{part}":"{hexed}"' for part, hexed in sorted(body.items()))
    # One level down, as the reader of the whole entry counts.
    check(data, 1)
    return sketch(kind, actor, run, dump(data), committed.encode())
