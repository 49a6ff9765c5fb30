"""What a log says about itself: its genesis, key rotations, tombstones, recorded anchors and checkpoints.

Reads those few kinds out of entries that are already known to be well formed, into small typed values. Whether what
they say is true is for others to judge.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .canonical import Json, Malformed
from .checkpoint import Checkpoint, parse_checkpoint
from .entry import GENESIS, HASH, NONCE, PART, VERSION, Entry
from .note import ED25519, Note, VerifierKey, parse_note

ROTATED = "key.rotated"
REDACTED = "body.redacted"
ANCHORED = "anchor.recorded"
SPECIAL = frozenset({GENESIS, ROTATED, REDACTED, ANCHORED})

UNSIGNED = "none"
"""The custody of a log without keys ([C10])."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Genesis:
    """Entry 0 ([E6]); the keys are None in an unsigned log."""

    seq: int
    leaf: str
    origin: str
    custody: str
    identity: VerifierKey | None
    epoch_key: VerifierKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotated:
    """`key.rotated` ([C5])."""

    seq: int
    epoch: int
    key: VerifierKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """`body.redacted` ([B3]): the entry `at` says that a part of the entry `seq` is to be erased."""

    at: int
    seq: int
    part: str
    commitment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchored:
    """`anchor.recorded`: something outside is said to have seen this root at this time."""

    seq: int
    by: str
    size: int
    root: str
    time_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A kept checkpoint, and whether its root is the log's root at its size; None before that is known."""

    checkpoint: Checkpoint
    note: Note
    raw: str
    agrees: bool | None = None

    @property
    def size(self) -> int:
        return self.checkpoint.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A part whose body does not lie where it should."""

    seq: int
    part: str
    commitment: str


Event = Genesis | Rotated | Tombstone | Anchored | Noted | Absent


def read_event(kind: str, seq: int, leaf: str, data: Mapping[str, Json]) -> Genesis | Rotated | Tombstone | Anchored:
    """The event that an entry of one of the SPECIAL kinds stands for; Malformed when its data does not say it."""
    match kind:
        case "log.genesis":
            return _genesis(seq, leaf, data)
        case "key.rotated":
            key = _key(data, "key")
            return Rotated(seq=seq, epoch=_count(data, "epoch"), key=key)
        case "body.redacted":
            part, commitment = _text(data, "part"), _text(data, "commitment")
            if not PART.fullmatch(part) or not HASH.fullmatch(commitment):
                raise Malformed("[B3] it names no part with a commitment")
            return Tombstone(at=seq, seq=_count(data, "seq"), part=part, commitment=commitment)
        case _:
            root = _text(data, "root")
            if not HASH.fullmatch(root):
                raise Malformed("the root is not 64 hex digits")
            size, time_us = _count(data, "size"), _count(data, "time_us")
            return Anchored(seq=seq, by=_text(data, "by"), size=size, root=root, time_us=time_us)


def tombstone_of(entry: Entry) -> Tombstone | None:
    """The tombstone that a `body.redacted` entry is; None where its data names no part."""
    try:
        event = read_event(REDACTED, entry.seq, "", entry.data)
    except Malformed:
        return None
    assert isinstance(event, Tombstone)
    return event


def read_note(raw: bytes | str) -> Noted:
    """A checkpoint that was kept; Malformed when it is none."""
    note = parse_note(raw)
    checkpoint = parse_checkpoint(note.text)
    return Noted(checkpoint=checkpoint, note=note, raw=raw if isinstance(raw, str) else raw.decode())


def epoch_name(origin: str, epoch: int) -> str:
    """The name of an epoch key ([C4])."""
    return f"{origin}/epoch/{epoch}"


def _genesis(seq: int, leaf: str, data: Mapping[str, Json]) -> Genesis:
    spec = data.get("spec")
    if type(spec) is not int or spec != VERSION:
        raise Malformed(f"[E6] format version {spec!r:.32}; this reader knows {VERSION}")
    origin, custody, nonce = _text(data, "origin"), _text(data, "custody"), _text(data, "nonce")
    if not origin or not NONCE.fullmatch(nonce):
        raise Malformed("[E6] it names no origin with a nonce of 32 hex digits")
    identity = epoch_key = None
    named = [name for name in ("identity", "epoch_key") if data.get(name) is not None]
    if custody == UNSIGNED:
        if named:
            raise Malformed("[C10] it names keys and says that there are none")
    else:
        identity, epoch_key = _key(data, "identity"), _key(data, "epoch_key")
        if identity.name != origin or epoch_key.name != epoch_name(origin, 0):
            raise Malformed("[C4] its keys are not named after its origin")
    return Genesis(seq=seq, leaf=leaf, origin=origin, custody=custody, identity=identity, epoch_key=epoch_key)


def _key(data: Mapping[str, Json], name: str) -> VerifierKey:
    key = VerifierKey.parse(_text(data, name))
    if key.algorithm != ED25519:
        raise Malformed(f"[C2] {name} is not an Ed25519 key")
    return key


def _text(data: Mapping[str, Json], name: str) -> str:
    value = data.get(name)
    if type(value) is not str:
        raise Malformed(f"{name} is not text")
    return value


def _count(data: Mapping[str, Json], name: str) -> int:
    value = data.get(name)
    if type(value) is not int or value < 0:
        raise Malformed(f"{name} is not an integer >= 0")
    return value
