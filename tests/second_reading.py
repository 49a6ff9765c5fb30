"""A verifier written from docs/ledger-format.md alone, for JSON lines: what it says is held against what ours says.

It shares nothing with `hansard`, reads everything into memory, and is in no hurry. A rule that it gets wrong is one that the
document does not tell.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeGuard

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MOST = 2**53 - 1
FORMS = {
    "actor": r"[A-Za-z0-9._:/+-]{1,128}",
    "kind": r"(?=.{1,64}\Z)[a-z][a-z_]*(\.[a-z][a-z_]*)+",
    "prev": r"[0-9a-f]{64}",
    "run": r"[A-Za-z0-9_-]{0,64}",
}
PART, HASH, MEDIA = r"[a-z][a-z0-9_]{0,31}", r"[0-9a-f]{64}", r"[\x20-\x7e]{1,127}"


class Odd(Exception):
    """Something is not as the document says."""


@dataclass
class Reading:
    """What was concluded. `odd` names the rules that are broken; `missing` bodies are counted apart."""

    odd: list[str] = field(default_factory=list)
    size: int = 0
    root: str = ""
    sealed: int = 0
    unsealed_rotations: int = 0
    opened: int = 0
    redacted: int = 0
    pending: int = 0
    missing: int = 0

    @property
    def exit_code(self) -> int:
        return 20 if self.odd else 22 if self.missing else 0


def read_log(path: Path) -> Reading:
    """The whole log, with every body and every signature."""
    return _Reader(
        *(_lines(path.with_name(path.stem + each)) for each in (".jsonl", ".bodies.jsonl", ".checkpoints.jsonl"))
    ).read()


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


class _Reader:
    def __init__(self, lines: Sequence[bytes], bodies: Sequence[bytes], checkpoints: Sequence[bytes]) -> None:
        self.lines, self.bodies, self.checkpoints = lines, bodies, checkpoints
        self.found = Reading(size=len(lines))
        self.leaves = [sha256(b"\0" + line).digest() for line in lines]
        self.entries: list[Any] = []
        self.origin, self.keys, self.rotations = "", list[tuple[tuple[str, bytes, bytes], int]](), list[int]()

    def read(self) -> Reading:
        found = self.found
        found.root = self.root(len(self.lines)).hex()
        self._walk()
        if not self.lines or self.entries[0] is None:
            found.odd.append("E6")
            return found
        try:
            self._begin(self.entries[0]["data"])
        except Odd as error:
            found.odd.append(str(error))
        tombstones = self._specials()
        self._seals()
        self._bodies(tombstones)
        return found

    def root(self, size: int, start: int = 0) -> bytes:
        if size < 2:
            return self.leaves[start] if size else sha256(b"").digest()
        left = 1 << (size - 1).bit_length() - 1
        return sha256(b"\1" + self.root(left, start) + self.root(size - left, start + left)).digest()

    def _walk(self) -> None:
        prev, ts = "0" * 64, 0
        for seq, line in enumerate(self.lines):
            try:
                entry = _entry(line, seq)
                if entry["prev"] != prev:
                    self.found.odd.append("H4")
                if entry["ts"] < ts:
                    self.found.odd.append("E4")
                ts = entry["ts"]
                if (entry["kind"] == "log.genesis") != (seq == 0):
                    self.found.odd.append("E6")
            except Odd as error:
                entry = None
                self.found.odd.append(str(error))
            self.entries.append(entry)
            prev = self.leaves[seq].hex()

    def _begin(self, data: dict[str, Any]) -> None:
        texts = all(type(data.get(name)) is str for name in ("origin", "nonce", "custody"))
        if (
            not _is(data.get("spec"), 1)
            or not texts
            or not data["origin"]
            or not re.fullmatch("[0-9a-f]{32}", data["nonce"])
        ):
            raise Odd("E6")
        named = [data.get("identity"), data.get("epoch_key")]
        if data["custody"] == "none":
            if named != [None, None]:
                raise Odd("C10")
            return
        keys = [_key(each) for each in named]
        if [key[0] for key in keys] != [data["origin"], data["origin"] + "/epoch/0"]:
            raise Odd("C4")
        self.origin, self.keys = data["origin"], [(key, 0) for key in keys]

    def _specials(self) -> set[tuple[int, str]]:
        tombstones = set()
        for seq, entry in enumerate(self.entries):
            data = entry["data"] if entry else {}
            try:
                match entry and entry["kind"]:
                    case "key.rotated":
                        self._rotated(seq, data)
                    case "body.redacted":
                        tombstones.add(self._tombstone(seq, data))
                    case "anchor.recorded":
                        self._anchored(seq, data)
            except Odd as error:
                self.found.odd.append(str(error))
        return tombstones

    def _rotated(self, seq: int, data: dict[str, Any]) -> None:
        number = len(self.rotations) + 1
        key = _key(data.get("key"))
        if not self.keys or not _is(data.get("epoch"), number) or key[0] != f"{self.origin}/epoch/{number}":
            raise Odd("C5")
        self.keys.append((key, seq + 1))
        self.rotations.append(seq)

    def _tombstone(self, at: int, data: dict[str, Any]) -> tuple[int, str]:
        seq, part = data.get("seq"), data.get("part")
        if not _number(seq) or type(part) is not str or type(data.get("commitment")) is not str:
            raise Odd("V2")
        named = self.entries[seq] if seq < at else None
        if named is None or named["body"].get(part) != data["commitment"]:
            raise Odd("B4")
        return seq, part

    def _anchored(self, at: int, data: dict[str, Any]) -> None:
        size = data.get("size")
        if type(data.get("by")) is not str or not _number(size) or not _number(data.get("time_us")):
            raise Odd("V2")
        if size > at or self.root(size).hex() != data.get("root"):
            raise Odd("V7")

    def _seals(self) -> None:
        last, sealing = 0, set[int]()
        for line in self.checkpoints:
            try:
                note = _parsed(line)
                if type(note) is not dict or list(note) != ["note"] or type(note["note"]) is not str:
                    raise Odd("J3")
                size, seals = self._seal(note["note"], last)
                last = size
                if seals:
                    sealing.add(size)
            except Odd as error:
                self.found.odd.append(str(error))
        lost = [seq for seq in self.rotations if seq + 1 not in sealing]
        self.found.unsealed_rotations = len(lost)
        self.found.sealed = max((size for size in sealing if not lost or size <= lost[0]), default=0)

    def _seal(self, note: str, last: int) -> tuple[int, bool]:
        text, blank, rest = note.rpartition("\n\n")
        lines = text.split("\n")
        if (
            not blank
            or len(lines) < 3
            or "" in lines
            or not rest.endswith("\n")
            or re.search(r"[\x00-\x09\x0b-\x1f]", note)
            or len(note.encode()) > 1 << 20
            or rest.count("\n") > 100
        ):
            raise Odd("C1")
        if not re.fullmatch("0|[1-9][0-9]{0,15}", lines[1]) or int(lines[1]) > MOST or len(_base64(lines[2])) != 32:
            raise Odd("C1")
        signed = [_signature(each) for each in rest[:-1].split("\n")]
        size = int(lines[1])
        if size < last or size > len(self.lines) or self.root(size) != _base64(lines[2]):
            raise Odd("C9")
        if not self.keys or lines[0] != self.origin:
            raise Odd("C10" if not self.keys else "C1")
        epoch = sum(1 for seq in self.rotations if seq + 1 < size)
        known = {key[:2]: key[2] for key, since in self.keys if since <= size}
        in_force = {self.origin, f"{self.origin}/epoch/{epoch}"}
        by = {name for name, number, _ in signed if (name, number) in known}
        if not by & in_force:
            raise Odd("C6")
        for name, number, blob in signed:
            if (name, number) in known and not _holds(known[name, number], blob, f"{text}\n".encode()):
                raise Odd("C3")
        return size, by >= in_force

    def _bodies(self, tombstones: set[tuple[int, str]]) -> None:
        here, last = set[tuple[int, str]](), (-1, "")
        for line in self.bodies:
            try:
                body = _body(line)
                place = body["seq"], body["part"]
                if place <= last:
                    raise Odd("J2")
                last = place
                if place[0] >= len(self.entries):
                    continue
                entry = self.entries[place[0]]
                if entry and place[1] not in entry["body"]:
                    raise Odd("B4")
                here.add(place)
                if entry and _commitment(body) != entry["body"][place[1]]:
                    raise Odd("B4")
            except Odd as error:
                self.found.odd.append(str(error))
        for seq, entry in enumerate(self.entries):
            for part in entry["body"] if entry else ():
                there, told = (seq, part) in here, (seq, part) in tombstones
                state = ("pending" if there else "redacted") if told else "opened" if there else "missing"
                setattr(self.found, state, getattr(self.found, state) + 1)


def _entry(line: bytes, seq: int) -> Any:
    entry = _parsed(line) if len(line) <= 65_535 else None
    if type(entry) is not dict or list(entry) != [
        "actor",
        "body",
        "causes",
        "data",
        "kind",
        "prev",
        "run",
        "seq",
        "ts",
        "v",
    ]:
        raise Odd("E4")
    if not all(type(entry[name]) is str and re.fullmatch(form, entry[name]) for name, form in FORMS.items()):
        raise Odd("E4")
    body, causes = entry["body"], entry["causes"]
    if type(body) is not dict or len(body) > 255 or type(entry["data"]) is not dict:
        raise Odd("E4")
    if not all(
        re.fullmatch(PART, part) and type(each) is str and re.fullmatch(HASH, each) for part, each in body.items()
    ):
        raise Odd("E4")
    if type(causes) is not list or len(causes) > 1_000 or not all(_number(each) and each < seq for each in causes):
        raise Odd("E4")
    if (
        causes != sorted(set(causes))
        or not _is(entry["seq"], seq)
        or not _number(entry["ts"])
        or not _is(entry["v"], 1)
    ):
        raise Odd("E4")
    return entry


def _parsed(line: bytes) -> Any:
    try:
        value = json.loads(line.decode(), parse_float=_no_number, parse_constant=_no_number, object_pairs_hook=_members)
        written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise Odd("E1") from error
    _check(value, 0)
    if written != line:
        raise Odd("E2")
    return value


def _check(value: Any, inside: int) -> None:
    if inside > 32 or (type(value) is int and abs(value) > MOST):
        raise Odd("E3")
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            _check(each, inside + 1)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs) or not all(name.isascii() for name, _ in pairs):
        raise Odd("E3")
    return dict(pairs)


def _no_number(_: str) -> None:
    raise Odd("E3")


def _body(line: bytes) -> Any:
    body = _parsed(line)
    if (
        type(body) is not dict
        or sorted({*body} - {"text", "b64"}) != ["media", "part", "salt", "seq"]
        or len(body) != 5
    ):
        raise Odd("J2")
    texts = (("media", MEDIA), ("part", PART), ("salt", HASH))
    if not _number(body["seq"]) or not all(
        type(body[name]) is str and re.fullmatch(form, body[name]) for name, form in texts
    ):
        raise Odd("J2")
    content = body.get("text", body.get("b64"))
    if type(content) is not str:
        raise Odd("J2")
    body["bytes"] = content.encode() if "text" in body else _base64(content)
    if "b64" in body:
        try:
            body["bytes"].decode()
        except UnicodeDecodeError:
            return body
        raise Odd("J2")
    return body


def _commitment(body: dict[str, Any]) -> str:
    inner = sha256(body["media"].encode() + b"\n" + body["bytes"]).digest()
    return sha256(b"hansard-body/v1\n" + bytes.fromhex(body["salt"]) + inner).hexdigest()


def _key(text: Any) -> tuple[str, bytes, bytes]:
    name, number, encoded = ([*text.split("+", 2), "", ""] if type(text) is str else ["", "", ""])[:3]
    raw = _base64(encoded)
    if (
        not _named(name)
        or len(raw) != 33
        or raw[0] != 1
        or sha256(name.encode() + b"\n" + raw).hexdigest()[:8] != number
    ):
        raise Odd("C2")
    return name, bytes.fromhex(number), raw[1:]


def _signature(line: str) -> tuple[str, bytes, bytes]:
    dash, name, encoded = [*line.split(" ", 2), "", ""][:3]
    raw = _base64(encoded)
    if dash != "\N{EM DASH}" or not _named(name) or len(raw) < 5:
        raise Odd("C1")
    return name, raw[:4], raw[4:]


def _named(name: str) -> bool:
    return bool(name) and "+" not in name and not re.search(r"\s", name)


def _holds(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def _base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Odd("C1") from error
    if base64.b64encode(raw).decode() != text:
        raise Odd("C1")
    return raw


def _number(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _is(value: Any, wanted: int) -> bool:
    return type(value) is int and value == wanted
