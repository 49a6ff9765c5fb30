"""A ledger in JSON lines: a live one ([J1]-[J5]), or the three files of an export ([X1]).

Each file is read up to its last line end as it stood when the source was opened; growth after that is not seen.
"""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ..body import SALT_BYTES
from ..canonical import Json, Malformed, decode
from ..entry import HASH, MAX_LINE, PART
from ..events import ROTATED, Noted, read_note
from ..merkle import Frontier, leaf_hash
from ..note import MAX_NOTE, from_base64
from ..report import Findings, Form
from .base import Block, CannotRead, Mirror, Row, State, Stored, open_regular

MAX_BODY_LINE = 1 << 30
MAX_NOTE_LINE = 2 * MAX_NOTE
PIECE = 1 << 17
_BODY_BEGINS = (b'{"b64":"', b'{"media":"')
_MEMBERS = ({"media", "part", "salt", "seq", "text"}, {"media", "part", "salt", "seq", "b64"})
_ROTATION = b'"kind":"%b"' % ROTATED.encode()
_TOKEN = b'"part":"token"'


class LineFile:
    """One file of lines, up to its last line end; one that does not exist is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None
        try:
            self._file = open_regular(path)
        except FileNotFoundError:
            self._seen = (0, 0, 0)
            self.end = self.torn = 0
            return
        except OSError as error:
            raise CannotRead(f"cannot read {path}: {error.strerror or error}") from error
        self._seen = self._stamp()
        self.end = self._last_line_end(self._seen[0])
        self.torn = self._seen[0] - self.end

    def split(self, longest: int, begins: tuple[bytes, ...] = (b"",)) -> Iterator[bytes]:
        """The lines without their ends; of one that is too long, or is long and begins with none of these, so much that it shows."""
        if self._file is None:
            return
        self._file.seek(0)
        read, left = self._file.readline, self.end
        while left > 0 and (line := read(min(left, longest + 2, PIECE))):
            left -= len(line)
            if len(line) == PIECE and not line.endswith(b"\n") and line.startswith(begins):
                rest = read(min(left, longest + 2 - PIECE))
                left -= len(rest)
                line += rest
            if line.endswith(b"\n"):
                yield line[:-1]
                continue
            while left > 0 and (rest := read(min(left, 1 << 20))):
                left -= len(rest)
                if rest.endswith(b"\n"):
                    break
            yield line

    def unchanged(self) -> bool:
        """Whether the part that was read is still what it was: the same file, not shorter, not rewritten."""
        if self._file is None:
            return True
        size, time_ns, node = self._stamp()
        try:
            same = os.stat(self.path).st_ino == node
        except OSError:
            return False
        return same and (size > self._seen[0] or (size, time_ns) == self._seen[:2])

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _stamp(self) -> tuple[int, int, int]:
        assert self._file is not None
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns, found.st_ino

    def _last_line_end(self, size: int) -> int:
        assert self._file is not None
        end = size
        while end > 0:
            start = max(0, end - 65_536)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0


class LinesSource:
    """Entries, bodies and checkpoints in three files."""

    form: Form = "jsonl"

    def __init__(self, entries: Path, bodies: Path, checkpoints: Path, findings: Findings) -> None:
        self._findings = findings
        # A checkpoint is written after its entries and a body before its entry: opened in this order, a log that
        # grows meanwhile still fits together.
        self._files: list[LineFile] = []
        try:
            self._files += (LineFile(path) for path in (checkpoints, entries, bodies))
        except CannotRead:
            self.close()
            raise
        self._checkpoints, self._entries, self._bodies = self._files
        self._told = 0
        """How far the lines of checkpoints were looked through: what is wrong with one is told once."""

    @property
    def entries(self) -> int:
        first = next(self._entries.split(MAX_LINE), b"")
        return self._entries.end // (len(first) + 1)

    def examine(self, deep: bool, since: int) -> None:
        for file in self._files:
            if file.torn:
                message = f"[J4] {file.path.name} ends in {file.torn} bytes without a line end: a torn write, which is not part of the log"
                self._findings.add("torn_tail", "warning" if self.form == "jsonl" else "structure", message)

    def lines(self, start: int, stop: int | None) -> Iterator[Row]:
        for line in islice(self._entries.split(MAX_LINE), start, stop):
            yield None, line

    def pick(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        numbered = enumerate(self._entries.split(MAX_LINE))
        at, line = next(numbered, (-1, None))
        for seq in seqs:
            while line is not None and at < seq:
                at, line = next(numbered, (-1, None))
            yield seq, line if at == seq else None

    def checkpoints(self, above: int, upto: int | None) -> Iterator[Noted]:
        last = -1
        for number, line in enumerate(self._checkpoints.split(MAX_NOTE_LINE), 1):
            try:
                noted = _read_checkpoint(line)
                if noted.size < last:
                    raise Malformed(f"[J3] size {noted.size} stands behind size {last}")
            except Malformed as error:
                if number > self._told:
                    self._told = number
                    message = f"line {number} of {self._checkpoints.path.name}: {error}"
                    self._findings.add("checkpoint_form", "structure", message)
                continue
            last = noted.size
            if above < last and (upto is None or last <= upto):
                yield noted

    def bodies(self, start: int, stop: int | None) -> Iterator[Stored]:
        last: tuple[int, str] = (-1, "")
        for number, line in enumerate(self._bodies.split(MAX_BODY_LINE, _BODY_BEGINS), 1):
            try:
                stored, place = _read_body(line)
                if place <= last:
                    raise Malformed("[J2] it does not stand in rising order of seq and part, or twice")
            except Malformed as error:
                message = f"line {number} of {self._bodies.path.name}: {error}"
                self._findings.add("body_form", "structure", message)
                continue
            last = place
            if start <= stored.seq and (stop is None or stored.seq < stop):
                yield stored

    def tokens(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        for stored in self._bodies_of(seqs, _TOKEN):
            if stored.part == "token":
                yield stored.seq, stored.body

    def stored(self, seqs: Iterable[int]) -> Iterator[tuple[int, str]]:
        for stored in self._bodies_of(seqs, b""):
            yield stored.seq, str(stored.part)

    def _bodies_of(self, seqs: Iterable[int], holding: bytes) -> Iterator[Stored]:
        """The bodies of these entries, whose seqs must rise, in lines that hold this."""
        rising = iter(seqs)
        wanted = next(rising, None)
        for line in self._bodies.split(MAX_BODY_LINE, _BODY_BEGINS):
            if wanted is None:
                return
            if holding not in line:
                continue
            try:
                stored, _ = _read_body(line)
            except Malformed:
                # Told where all bodies are read.
                continue
            while wanted is not None and wanted < stored.seq:
                wanted = next(rising, None)
            if wanted == stored.seq:
                yield stored

    def mirror(self) -> Mirror:
        return NoMirror()

    def specials(self, stop: int) -> Iterator[bytes]:
        for number, line in enumerate(islice(self._entries.split(MAX_LINE), stop)):
            if number == 0 or _ROTATION in line:
                yield line

    def frontier(self, size: int) -> Frontier:
        tree = Frontier()
        for line in islice(self._entries.split(MAX_LINE), size):
            tree.push(leaf_hash(line))
        if tree.size != size:
            raise Malformed(f"the log has fewer than {size} entries")
        return tree

    def roots(self, sizes: Iterable[int], *, by_lines: bool = False) -> dict[int, bytes]:
        tree, lines = Frontier(), self._entries.split(MAX_LINE)
        found = {}
        for size in sizes:
            for line in islice(lines, size - tree.size):
                tree.push(leaf_hash(line))
            if tree.size == size:
                found[size] = tree.root()
        return found

    def unchanged(self) -> bool:
        return all(file.unchanged() for file in self._files)

    def close(self) -> None:
        for file in self._files:
            file.close()


class NoMirror:
    """For a layout without derived copies."""

    def block(self, block: Block) -> None:
        return

    def finish(self, end: State, since: int) -> None:
        return


def _read_checkpoint(line: bytes) -> Noted:
    if len(line) > MAX_NOTE_LINE:
        raise Malformed(f"[J3] it is longer than {MAX_NOTE_LINE} bytes, as no checkpoint is")
    value = decode(line)
    if type(value) is not dict or set(value) != {"note"} or type(value["note"]) is not str:
        raise Malformed('[J3] not an object {"note": text}')
    return read_note(value["note"])


def _read_body(line: bytes) -> tuple[Stored, tuple[int, str]]:
    if len(line) > MAX_BODY_LINE:
        raise Malformed(f"[J2] it is longer than {MAX_BODY_LINE} bytes, more than is read of one")
    if len(line) >= PIECE and not line.startswith(_BODY_BEGINS):
        raise Malformed(f"[J2] it is longer than {PIECE} bytes and does not begin as a body does")
    value = decode(line)
    if type(value) is not dict or set(value) not in _MEMBERS:
        raise Malformed("[J2] not an object with media, part, salt, seq and text or b64")
    seq, part, salt, media = value["seq"], value["part"], value["salt"], value["media"]
    if type(seq) is not int or seq < 0 or type(part) is not str or not PART.fullmatch(part):
        raise Malformed("[J2] it names no part of an entry")
    if type(salt) is not str or not HASH.fullmatch(salt) or len(salt) != 2 * SALT_BYTES or type(media) is not str:
        raise Malformed("[J2] salt or media type is not of its form")
    return Stored(seq=seq, part=part, salt=bytes.fromhex(salt), media=media, body=_content(value)), (seq, part)


def _content(value: dict[str, Json]) -> bytes:
    text = value.get("text")
    if type(text) is str:
        return text.encode()
    encoded = value.get("b64")
    if type(encoded) is not str:
        raise Malformed("[J2] the body is not text")
    body = from_base64(encoded, "[J2] the body")
    try:
        body.decode()
    except UnicodeDecodeError:
        return body
    raise Malformed("[J2] a body that is UTF-8 is written as text, not as base64")
