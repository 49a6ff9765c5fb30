"""Facts of the log itself: its beginning, its clock, its keys, its anchors, what was erased, what was brought in."""

from typing import ClassVar, Literal

from hansard.domain.fact import Body, Fact
from hansard.domain.value import value

Custody = Literal["none", "file"]
"""Where the private keys live: nowhere (an unsigned log), or in 0600 files of the user's state folder."""

RedactionReason = Literal["personal_data", "secret", "legal", "retention", "other"]


@value
class Genesis(Fact):
    """Entry 0: which log this is, and whose keys speak for it."""

    KIND: ClassVar[str] = "log.genesis"
    spec: int
    origin: str
    nonce: str
    custody: Custody
    software: str
    identity: str | None = None
    epoch_key: str | None = None
    adopts_origin: str | None = None
    adopts_size: int | None = None
    adopts_root: str | None = None


@value
class ClockBehind(Fact):
    """The writer's clock was more than a second behind the head ([E5])."""

    KIND: ClassVar[str] = "log.clock"
    behind_us: int
    wall_us: int


@value
class Repaired(Fact):
    """Something derived or torn was put right on opening or by `ledger repair`; entries are never touched."""

    KIND: ClassVar[str] = "log.repaired"
    what: Literal["torn_tail", "derived", "redaction", "leftover_bodies"]
    count: int


@value
class KeyRotated(Fact):
    """Epoch key n + 1 takes over; the entry's own checkpoint is signed by key n ([C5])."""

    KIND: ClassVar[str] = "key.rotated"
    epoch: int
    key: str
    reason: Literal["day", "size", "asked", "lost"]


@value
class AnchorRecorded(Fact):
    """Something outside has seen this log at this size; the proof of it is the part `token`."""

    KIND: ClassVar[str] = "anchor.recorded"
    by: Literal["copy", "git", "witness", "rfc3161"]
    size: int
    root: str
    time_us: int
    token: Body


@value
class BodyRedacted(Fact):
    """The tombstone of one part; written before the body is erased ([B3]). Its actor is who asked for it."""

    KIND: ClassVar[str] = "body.redacted"
    CAUSES: ClassVar[tuple[str, ...]] = ("*",)
    seq: int
    part: str
    commitment: str
    reason: RedactionReason


@value
class Imported(Fact):
    """A foreign ledger was read in: how many of its entries follow as `foreign.entry`, and what was left out, with the report as a part."""

    KIND: ClassVar[str] = "log.imported"
    format: Literal["hansard", "forum_jsonl", "forum_sqlite"]
    entries: int
    left_out: int
    verified: bool
    report: Body


@value
class ForeignEntry(Fact):
    """One entry of a foreign ledger as it was found. What it claims is not ours to vouch for."""

    KIND: ClassVar[str] = "foreign.entry"
    CAUSES: ClassVar[tuple[str, ...]] = ("log.imported", "foreign.entry")
    foreign_seq: int
    chained: bool
    body_state: Literal["opened", "absent", "differs"]
    entry: Body
    payload: Body | None = None
