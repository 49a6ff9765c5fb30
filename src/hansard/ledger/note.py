"""C2SP signed notes: text with signature lines, verifier keys, and the cosignature/v1 of witnesses.

Reads and writes the form and says which known keys signed. Whether those are the right keys, and enough of them, is
the caller's question; what the text means is the checkpoint module's.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from . import ed25519
from .canonical import Malformed

ED25519 = 0x01
COSIGNATURE_V1 = 0x04
MAX_NOTE = 1 << 20
MAX_SIGNATURES = 100
MAX_TIME_S = 2**63 - 1

Check = Callable[[bytes, bytes, bytes], bool]
"""Verifies (public key, message, signature)."""

_DASH = "\N{EM DASH} "
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierKey:
    """A public key under a name, as text `name+hexkeyid+base64(algorithm || public)`."""

    name: str
    key_id: bytes
    algorithm: int
    public: bytes

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.algorithm not in (ED25519, COSIGNATURE_V1):
            raise Malformed(f"key {self.name}: algorithm {self.algorithm} is not Ed25519 (1) or cosignature/v1 (4)")
        if len(self.public) != 32:
            raise Malformed(f"key {self.name}: an Ed25519 public key has 32 bytes, not {len(self.public)}")
        if self.key_id != key_id_of(self.name, self.algorithm, self.public):
            raise Malformed(f"key {self.name}: the key id {self.key_id.hex()} does not belong to this name and key")

    @classmethod
    def ed25519(cls, name: str, public: bytes) -> Self:
        """A key that signs note texts."""
        return cls._of(name, ED25519, public)

    @classmethod
    def cosigner(cls, name: str, public: bytes) -> Self:
        """A witness's key, which signs note texts together with a time."""
        return cls._of(name, COSIGNATURE_V1, public)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that this text stands for."""
        parts = text.split("+", 2)
        if len(parts) != 3:
            raise Malformed(f"not a verifier key (name+keyid+base64): {text[:80]!r}")
        name, key_id, encoded = parts
        raw = from_base64(encoded, f"the verifier key {name[:80]!r}")
        key = cls._of(name, raw[0] if raw else 0, raw[1:])
        if key.key_id.hex() != key_id:
            raise Malformed(f"key {name}: the key id {key_id[:16]!r} does not belong to this name and key")
        return key

    def text(self) -> str:
        """The inverse of parse."""
        return f"{self.name}+{self.key_id.hex()}+{to_base64(bytes([self.algorithm]) + self.public)}"

    @classmethod
    def _of(cls, name: str, algorithm: int, public: bytes) -> Self:
        check_name(name)
        return cls(name=name, key_id=key_id_of(name, algorithm, public), algorithm=algorithm, public=public)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """One signature line: who claims to have signed, and the bytes."""

    name: str
    key_id: bytes
    blob: bytes

    def line(self) -> str:
        """The line with its newline."""
        return f"{_DASH}{self.name} {to_base64(self.key_id + self.blob)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A text, ending in a newline, and its signatures, none of them checked."""

    text: str
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a note says and which of the keys asked about vouch for it; `verified` may be empty."""

    text: str
    verified: tuple[VerifierKey, ...]
    unknown: tuple[Signature, ...]
    cosigned: tuple[tuple[VerifierKey, int], ...]
    """Each verified cosigner with the time it signed, in POSIX seconds."""


def key_id_of(name: str, algorithm: int, public: bytes) -> bytes:
    """The four bytes that, with the name, identify a key."""
    return sha256(name.encode() + b"\n" + bytes([algorithm]) + public).digest()[:4]


def parse_note(data: bytes | str) -> Note:
    """Read a signed note; Malformed for whatever strays from the form."""
    text = _decoded(data)
    split = text.rfind("\n\n")
    if split < 0:
        raise Malformed("the note has no blank line before its signatures")
    body, lines = text[: split + 1], text[split + 2 :].split("\n")
    if lines.pop() != "" or not lines:
        raise Malformed("the note does not end in a whole signature line")
    if len(lines) > MAX_SIGNATURES:
        raise Malformed(f"the note has {len(lines)} signatures, more than {MAX_SIGNATURES}")
    return Note(text=body, signatures=tuple(parse_signature(line) for line in lines))


def parse_signature(line: str) -> Signature:
    """Read one signature line, given without its newline."""
    name, space, encoded = line.removeprefix(_DASH).partition(" ")
    if not line.startswith(_DASH) or not space:
        raise Malformed(f"not a signature line: {line[:80]!r}")
    check_name(name)
    raw = from_base64(encoded, f"the signature of {name[:80]!r}")
    if len(raw) < 5:
        raise Malformed(f"the signature of {name[:80]!r} is shorter than a key id and one byte")
    return Signature(name=name, key_id=raw[:4], blob=raw[4:])


def format_note(text: str, signatures: Iterable[Signature]) -> str:
    """Write a signed note; Malformed unless it would be read back the same."""
    signed = tuple(signatures)
    written = f"{text}\n{''.join(each.line() for each in signed)}"
    if parse_note(written) != Note(text=text, signatures=signed):
        raise Malformed("the text and signatures do not make a note that reads back the same")
    return written


def open_note(note: Note, keys: Iterable[VerifierKey], check: Check = ed25519.verify) -> Opened:
    """Check every signature by one of these keys; a bad one rejects the note, unknown keys are set aside.

    A key that signed twice counts once, with its first time; each of its signatures must hold.
    """
    known = _by_identity(keys)
    verified: dict[VerifierKey, int | None] = {}
    unknown: list[Signature] = []
    for signature in dict.fromkeys(note.signatures):
        key = known.get((signature.name, signature.key_id))
        if key is None:
            unknown.append(signature)
        else:
            verified.setdefault(key, _check_signature(note.text, key, signature.blob, check))
    return Opened(
        text=note.text,
        verified=tuple(verified),
        unknown=tuple(unknown),
        cosigned=tuple((key, time_s) for key, time_s in verified.items() if time_s is not None),
    )


def cosignature_message(text: str, time_s: int) -> bytes:
    """What a witness signs to say that it saw this checkpoint text at this time."""
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def check_name(name: str) -> None:
    """Raise Malformed unless the name may stand for a key."""
    check_text(name)
    if not name or "+" in name or any(each.isspace() for each in name):
        raise Malformed(f"a key name is not empty and has no spaces and no '+': {name[:80]!r}")


def check_text(text: str) -> None:
    """Raise Malformed for what UTF-8 cannot carry and for control characters other than newline."""
    if _CONTROL.search(text):
        raise Malformed("control characters other than newline are not allowed")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed("a lone surrogate, which UTF-8 cannot carry") from error


def from_base64(text: str, what: str) -> bytes:
    """Decode standard base64, refusing every spelling but the canonical one."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError as error:
        raise Malformed(f"{what} is not base64") from error
    if to_base64(raw) != text:
        raise Malformed(f"{what} is not canonical base64")
    return raw


def to_base64(data: bytes) -> str:
    """Standard base64, with padding."""
    return b64encode(data).decode()


def _decoded(data: bytes | str) -> str:
    if isinstance(data, str):
        check_text(data)
        data = data.encode()
    if len(data) > MAX_NOTE:
        raise Malformed(f"a note of {len(data)} bytes, more than {MAX_NOTE}")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"the note is not UTF-8 at byte {error.start}") from error
    check_text(text)
    return text


def _by_identity(keys: Iterable[VerifierKey]) -> dict[tuple[str, bytes], VerifierKey]:
    known: dict[tuple[str, bytes], VerifierKey] = {}
    for key in keys:
        if known.setdefault((key.name, key.key_id), key) != key:
            raise Malformed(f"two different keys are called {key.name}+{key.key_id.hex()}: drop one of them")
    return known


def _check_signature(text: str, key: VerifierKey, blob: bytes, check: Check) -> int | None:
    """The time of a valid cosignature, None for a valid plain signature."""
    time_s, message, signature = None, text.encode(), blob
    if key.algorithm == COSIGNATURE_V1:
        time_s, signature = int.from_bytes(blob[:8], "big"), blob[8:]
        message = cosignature_message(text, time_s)
    if len(signature) != 64 or (time_s or 0) > MAX_TIME_S or not check(key.public, message, signature):
        raise Malformed(f"the signature of {key.name}+{key.key_id.hex()} does not hold for this note")
    return time_s
