"""Reads a forum-engine ledger that lies in two files of JSON lines. Lines end at the byte 0x0A and nowhere else.

Keeps where rows lie, not the rows: the second reading fetches them again and refuses when they have changed.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal

from hansard.errors import StoreError, UsageError
from hansard.record.foreign.format import (
    Findings,
    Payload,
    Row,
    canonical,
    check_row,
    gives,
    is_hash,
    parsed,
    pieces,
    row_of,
)

ENTRIES = "entries.jsonl"
PAYLOADS = "payloads.jsonl"
_ROW, _PAYLOAD = '{"seq": ', '{"hash": '
_SEPARATORS = (b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85")


class JsonlLedger:
    """A folder with entries.jsonl and payloads.jsonl."""

    format: Literal["forum_jsonl"] = "forum_jsonl"

    def __init__(self, folder: Path) -> None:
        self.rows_seen = 0
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._read: list[dict[str, Any]] = []
        try:
            for name in (ENTRIES, PAYLOADS):
                if (folder / name).is_file():
                    self._files[name] = (folder / name).open("rb")
        except OSError as error:
            self.close()
            raise StoreError(f"cannot read {folder}: {error.strerror}") from error
        if ENTRIES not in self._files:
            raise UsageError(f"no {ENTRIES} in {folder}; name the folder of a ledger")

    def rows(self, findings: Findings) -> Iterator[Row]:
        for line, at, raw in self._lines(ENTRIES, findings):
            place = f"{ENTRIES}:{line}"
            values = list(_values(raw, _ROW, place, findings))
            self.rows_seen += max(1, raw.count(_ROW.encode()), len(values))
            for start, length, members in values:
                if check_row(members, place, findings):
                    yield row_of(members, line=line, at=at + start, length=length)

    def payloads(self, findings: Findings) -> Iterator[Payload]:
        if PAYLOADS not in self._files:
            findings.tell("file_missing", PAYLOADS)
            return
        for line, at, raw in self._lines(PAYLOADS, findings):
            place = f"{PAYLOADS}:{line}"
            for start, length, value in _values(raw, _PAYLOAD, place, findings):
                if not isinstance(value, dict) or not is_hash(value.get("hash")) or "body" not in value:
                    findings.tell("payload_malformed", place)
                    continue
                if len(value) > 2:
                    findings.tell("field_unknown", place)
                holds = gives(value["body"], value["hash"])
                yield Payload(bytes.fromhex(value["hash"]), holds, line, at + start, length)

    def row_bytes(self, row: Row) -> bytes:
        raw = self._again(ENTRIES, row.at, row.length)
        members = _parsed(raw)
        if not check_row(members, "", Findings()) or members["entry_hash"] != row.hash.hex():
            raise self._changed()
        return raw

    def payload_bytes(self, payload: Payload) -> bytes:
        raw = self._again(PAYLOADS, payload.at, payload.length)
        value = _parsed(raw)
        if not isinstance(value, dict) or value.get("hash") != payload.hash.hex():
            raise self._changed()
        if not payload.holds:
            return raw
        if not gives(value.get("body"), value["hash"]):
            raise self._changed()
        return canonical(value["body"])

    def files(self) -> list[dict[str, Any]]:
        return self._read

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _lines(self, name: str, findings: Findings) -> Iterator[tuple[int, int, bytes]]:
        """Each line that is not blank, without its end: (number, offset, bytes)."""
        at, whole, last = 0, sha256(), b"\n"
        for line, last in enumerate(self._files[name], 1):
            raw = last.removesuffix(b"\n")
            if not raw.strip():
                findings.tell("line_blank", f"{name}:{line}")
            else:
                if any(each in raw for each in _SEPARATORS):
                    findings.tell("line_separator", f"{name}:{line}")
                yield line, at, raw
            at += len(last)
            whole.update(last)
        if not last.endswith(b"\n"):
            findings.tell("line_torn", name)
        self._read.append({"bytes": at, "name": name, "sha256": whole.hexdigest()})

    def _again(self, name: str, at: int, length: int) -> bytes:
        raw = os.pread(self._files[name].fileno(), length, at)
        if len(raw) != length:
            raise self._changed()
        return raw

    def _changed(self) -> StoreError:
        return StoreError(
            f"{self._folder} was changed while it was being imported; stop what writes there, and try again"
        )


def _values(raw: bytes, marker: str, place: str, findings: Findings) -> Iterator[tuple[int, int, Any]]:
    """The JSON values on one line as (offset, length, value): one, or the whole ones among torn ones."""
    try:
        value, repeated = parsed(raw.decode())
    except (ValueError, RecursionError):
        yield from _salvaged(raw, marker, place, findings)
        return
    if repeated:
        findings.tell("field_repeated", place)
    yield 0, len(raw), value


def _salvaged(raw: bytes, marker: str, place: str, findings: Findings) -> Iterator[tuple[int, int, Any]]:
    # A replaced byte may sit in the torn part only: a whole row with one does not give its hash.
    text = raw.decode("utf-8", "surrogateescape")
    found = False
    for start, end, value in pieces(text, marker):
        found = True
        before, piece = (text[cut].encode("utf-8", "surrogateescape") for cut in (slice(start), slice(start, end)))
        findings.tell("line_glued", place)
        yield len(before), len(piece), value
    if not found:
        findings.tell("line_unreadable", place)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
