"""A ledger in SQLite, as bytes that nobody trusts ([S1]-[S6]).

Reads a table only when its text in the schema is exactly ours, stops at whatever does not end, and turns every error
of SQLite into a finding. What the derived tables should hold is the business of `derived`.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from .. import layout
from ..body import digest
from ..canonical import MAX_INT, Malformed
from ..entry import MAX_LINE, new, parse
from ..events import ROTATED, Noted, read_note
from ..merkle import HASH, Frontier, leaf_hash, node_hash
from ..report import Findings, Form
from .base import CannotRead, NotALedger, Row, Stored
from .derived import Derived
from .view import REFUSALS, View

MAGIC = b"SQLite format 3\x00"
_OLDEST = (3, 38, 0)
_FIRST = -(2**63)
_LAST = 2**63 - 1
_STEPS = 1_000_000
_CHUNK = 256
# More at a time would be little quicker, and a stranger's bodies may be large.
_BODIES = 4
_STRIDES_END = 2**40
_PIECE = 1 << 20
# Those between the lines of one block and the root: lines that name keys may stand side by side.
_HASHES = 1024
_CHECKED = ("entries", "causes", "nodes", "head", "checkpoints", "claims", "meta")
_CHECKED_DEEP = ("bodies", "shared")


class SqliteSource:
    """One view of one database."""

    form: Form = "sqlite"

    def __init__(self, view: View, findings: Findings) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            raise CannotRead(f"this Python has SQLite {sqlite3.sqlite_version}; reading a ledger needs 3.38 or newer")
        self._view = view
        self._findings = findings
        self._db = view.connect()
        self._budget = _Budget(view.readable.stat().st_size)
        self._disk_gives_it = False
        self.node = lru_cache(_HASHES)(self._hash)
        """For proofs: the hash over the leaves from index << level up to (index + 1) << level, by stored nodes and by lines."""
        try:
            self._prepare()
        except REFUSALS as error:
            self._db.close()
            self._check_disk()
            raise NotALedger(f"SQLite cannot read it: {error}") from error
        except NotALedger:
            self._db.close()
            raise

    def reopened(self, findings: Findings) -> "SqliteSource":
        """The same view through a connection of its own, for another process."""
        return SqliteSource(self._view, findings)

    @property
    def entries(self) -> int:
        try:
            row = self._execute("SELECT max(seq) FROM entries").fetchone() if "entries" in self._sound else None
        except REFUSALS:
            row = None
        return int(row[0]) + 1 if row and row[0] is not None and 0 <= row[0] < _LAST else 0

    def examine(self, deep: bool, since: int) -> None:
        for problem in self._schema_problems:
            self._findings.add("schema", "structure", f"[S2] {problem}")
        if not self._view.steady:
            self._findings.add(
                "moving", "warning", "the file kept changing while it was copied; verify a copy of your own"
            )
        if self._view.has_journal():
            message = (
                "[S1] a rollback journal lies beside the file: SQLite would restore another state from it than the one"
                " that was verified; move it away"
            )
            self._findings.add("journal", "structure", message)
        if self._schema_problems:
            message = "the indexes were not checked, because the schema is not that of a ledger"
            self._findings.add("unchecked", "structure", message)
            return
        self._examine_header()
        self._examine_values(since)
        self._examine_order()
        if since == 0:
            for table in _CHECKED + (_CHECKED_DEEP if deep else ()):
                self._check_integrity(table)
        if deep:
            self._examine_shared()

    def lines(self, start: int, stop: int | None) -> Iterator[Row]:
        if "entries" not in self._sound:
            return
        at, last, stride, many = start or _FIRST, _LAST if stop is None else stop - 1, 1, _CHUNK
        while at <= last and stride < _STRIDES_END:
            try:
                for rows in self._chunks(at, last, many):
                    at = rows[-1][0] + 1
                    yield from rows
                return
            except REFUSALS as error:
                self._check_disk()
                if many > 1:
                    # Come as close to the unreadable page as can be, row by row.
                    many = 1
                    continue
                # Then leave it behind in growing strides: what follows it may be whole.
                at, many = max(at, 0), _CHUNK
                self._findings.add("unreadable", "structure", f"SQLite cannot read on from here: {error}", seq=at)
                at, stride = at + stride, stride * 4

    def _chunks(self, at: int, last: int, many: int) -> Iterator[list[tuple[int, bytes]]]:
        # Rows may share their pages: of a line that is too long no more than shows it, or a small file fills the memory.
        line = f"ifnull(substr(CAST(line AS BLOB), 1, {MAX_LINE + 1}), x'')"
        query = f"SELECT seq, {line} FROM entries WHERE seq BETWEEN ? AND ? ORDER BY seq"
        cursor = self._execute(query, (at, last))
        while rows := cursor.fetchmany(many):
            # A damaged tree may lead in a circle.
            if rows[-1][0] < at:
                raise sqlite3.DatabaseError("the rows do not rise")
            at = rows[-1][0] + 1
            yield rows

    def pick(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes | None]]:
        for seq in seqs:
            row = None
            if "entries" in self._sound:
                rows = self._rows("SELECT line FROM entries WHERE seq = ?", (seq,))
                row = next(rows, None)
            yield seq, row[0] if row and type(row[0]) is bytes else None

    def checkpoints(self, above: int, upto: int | None) -> Iterator[Noted]:
        if "checkpoints" not in self._sound:
            return
        # Without a bound a size that is no number is found too: text and blobs sort behind every number.
        bounds = {"size > ?": above} if above >= 0 else {}
        bounds |= {"size <= ?": upto} if upto is not None else {}
        where = f"WHERE {' AND '.join(bounds)}" if bounds else ""
        query = f"SELECT size, note FROM checkpoints {where} ORDER BY size, id"
        for size, note in self._rows(query, tuple(bounds.values())):
            try:
                if type(note) is not bytes:
                    raise Malformed("it is not text")
                noted = read_note(note)
            except Malformed as error:
                message = f"[C1] the checkpoint kept for size {size!r:.24} cannot be read: {error}"
                self._findings.add("checkpoint_form", "structure", message)
                continue
            if noted.size == size:
                yield noted
            else:
                message = f"[S3] a checkpoint of size {noted.size} is kept under size {size!r:.24}"
                self._findings.add("checkpoint_size", "structure", message)

    def bodies(self, start: int, stop: int | None) -> Iterator[Stored]:
        if not {"bodies", "shared"} <= self._sound:
            return
        query = "SELECT id, salt, media, body, shared FROM bodies WHERE id BETWEEN ? AND ? ORDER BY id"
        first = layout.body_id(start, 0) if start else _FIRST
        last = _LAST if stop is None else layout.body_id(stop, 0) - 1
        at = first
        try:
            cursor = self._execute(query, (first, last))
            while rows := cursor.fetchmany(_BODIES):
                for place, salt, media, body, shared in rows:
                    if place < at:
                        message = "SQLite cannot read all bodies: the rows do not rise"
                        self._findings.add("unreadable", "structure", message)
                        return
                    at = place + 1
                    if shared is None and type(body) is type(salt) is type(media) is bytes and media.isascii():
                        yield new(Stored, (place >> 8, place & 255, salt, media.decode(), body))
                    else:
                        yield self._shared_body(place, salt, media, body, shared)
        except REFUSALS as error:
            self._refused(error)

    def tokens(self, seqs: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        for seq, line in self.pick(seqs):
            try:
                place = parse(line or b"").part_position("token")
            except Malformed:
                continue
            yield from ((seq, stored.body) for stored in self.bodies(seq, seq + 1) if stored.part == place)

    def stored(self, seqs: Iterable[int]) -> Iterator[tuple[int, str]]:
        if "bodies" not in self._sound:
            return
        query = "SELECT id FROM bodies WHERE id BETWEEN ? AND ? ORDER BY id"
        for seq, line in self.pick(seqs):
            with suppress(Malformed):
                names = sorted(parse(line or b"").body)
                rows = self._fetch(query, (layout.body_id(seq, 0), layout.body_id(seq, 0) + len(names) - 1))
                yield from ((seq, names[place & 255]) for (place,) in rows)

    def _shared_body(self, place: int, salt: Any, media: Any, body: Any, shared: Any) -> Stored:
        """A body that lies in `shared`; a row of any other shape comes out as a body that opens nothing."""
        row = None
        if body is None and type(shared) is int and type(salt) is type(media) is bytes and media.isascii():
            row = next(iter(self._fetch("SELECT digest, body FROM shared WHERE id = ?", (shared,))), None)
        with suppress(Malformed):
            if row and type(row[1]) is bytes and digest(media.decode(), row[1]) == row[0]:
                return Stored(place >> 8, place & 255, salt, media.decode(), row[1])
        return Stored(place >> 8, place & 255, b"", "", b"")

    def mirror(self) -> Derived:
        return Derived(self._fetch, self._findings, self._sound)

    def specials(self, stop: int) -> Iterator[bytes]:
        if "entries" not in self._sound:
            return
        query = "SELECT line FROM entries WHERE seq = 0 OR (kind = ? AND seq < ?) ORDER BY seq"
        for (line,) in self._rows(query, (ROTATED, stop)):
            if type(line) is bytes:
                yield line

    def frontier(self, size: int) -> Frontier:
        tree = Frontier()
        self._grow(tree, size)
        return tree

    def roots(self, sizes: Iterable[int], *, by_lines: bool = False) -> dict[int, bytes]:
        tree, found = Frontier(), {}
        with suppress(Malformed):
            for size in sizes:
                self._grow(tree, size, by_lines=by_lines)
                found[size] = tree.root()
        return found

    def _grow(self, tree: Frontier, size: int, *, by_lines: bool = False) -> None:
        """Let a tree grow to this size by the largest nodes that fit, and by lines where none does or none is wanted."""
        while (at := tree.size) < size:
            fits = (each for each in range(56, 0, -8) if at % (1 << each) == 0 and size - at >= 1 << each)
            if level := 0 if by_lines else next(fits, 0):
                tree.push_subtree(level, self.node(level, at >> level))
                continue
            for _, line in self.lines(at, min(size, (at | 255) + 1)):
                tree.push(leaf_hash(line))
            if tree.size == at:
                raise Malformed(f"the log has fewer than {size} entries")

    def unchanged(self) -> bool:
        return self._view.unchanged()

    def close(self) -> None:
        self._db.close()
        self._view.close()

    def _prepare(self) -> None:
        self._db.text_factory = bytes
        self._db.set_progress_handler(self._budget.spend, _STEPS)
        for pragma in ("query_only = ON", "cell_size_check = ON"):
            self._db.execute(f"PRAGMA {pragma}")
        names = {row[1] for row in self._schema()}
        self._application_id = self._pragma("application_id")
        if self._application_id != layout.APPLICATION_ID and b"entries" not in names:
            raise NotALedger("it is a SQLite database, but not a ledger")
        ours, found = _our_schema(), set(self._schema())
        self._schema_problems = [
            f"{_label(each)} is not as the layout has it" for each in sorted(ours - found, key=repr)
        ]
        self._schema_problems += [
            f"{_label(each)} does not belong to a ledger" for each in sorted(found - ours, key=repr)
        ][:100]
        self._sound = {name.decode() for kind, name, _, _ in ours & found if kind == b"table"}

    def _schema(self) -> Iterator[tuple[bytes, bytes, bytes, bytes | None]]:
        yield from self._execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")

    def _examine_header(self) -> None:
        for name, found, wanted in (
            ("application_id", self._application_id, layout.APPLICATION_ID),
            ("user_version", self._pragma("user_version"), layout.USER_VERSION),
            ("encoding", self._pragma("encoding"), b"UTF-8"),
        ):
            if found != wanted:
                self._findings.add("header", "structure", f"[S1] {name} is {found!r:.40} instead of {wanted!r}")
        with open(self._view.readable, "rb") as file:
            if file.read(20)[18:] != b"\x02\x02":
                # A copy made with SQLite's own tools may be so; nothing that it records is touched by it.
                self._findings.add("header", "warning", "[S1] the journal mode is not WAL")

    def _examine_values(self, since: int) -> None:
        query = "SELECT seq FROM entries WHERE seq >= ? AND typeof(line) <> 'text' LIMIT 100"
        for (seq,) in self._rows(query, (since or _FIRST,)):
            self._findings.add("line_type", "structure", "[S2] its line is not stored as text", seq=seq)

    def _examine_order(self) -> None:
        # Below the first number a writer does not look, and behind the last one SQLite gives the next row any other.
        for (number,) in self._rows("SELECT id FROM checkpoints WHERE id NOT BETWEEN 1 AND ? LIMIT 1", (MAX_INT,)):
            message = f"[S3] a checkpoint is kept under the number {number}, which no writer gives"
            self._findings.add("checkpoint_order", "structure", message)
        last = 0
        for (size,) in self._rows("SELECT size FROM checkpoints WHERE typeof(size) = 'integer' ORDER BY id"):
            if size < last:
                message = f"[C9] a checkpoint of size {size} is kept behind one of size {last}"
                self._findings.add("checkpoint_order", "structure", message)
                return
            last = size

    def _check_integrity(self, table: str) -> None:
        for (problem,) in self._rows(f"PRAGMA integrity_check({table})"):
            if problem != b"ok":
                self._check_disk()
                message = f"[S3] integrity of {table}: {problem.decode(errors='replace')[:200]}"
                self._findings.add("integrity", "structure", message)

    def _examine_shared(self) -> None:
        query = "SELECT id FROM shared WHERE id NOT IN (SELECT shared FROM bodies WHERE shared IS NOT NULL) LIMIT 100"
        for (row,) in self._rows(query):
            self._findings.add("body_unreferenced", "structure", f"[B4] shared body {row} belongs to no part")

    def _hash(self, level: int, index: int) -> bytes:
        if level % 8:
            return node_hash(self.node(level - 1, 2 * index), self.node(level - 1, 2 * index + 1))
        if level == 0:
            for _, line in self.lines(index, index + 1):
                return leaf_hash(line)
            raise Malformed(f"there is no entry {index}")
        query = "SELECT hash FROM nodes WHERE level = ? AND idx = ?"
        row = next(self._rows(query, (level, index)), None) if "nodes" in self._sound else None
        if row is None or type(row[0]) is not bytes or len(row[0]) != HASH:
            raise Malformed(f"node ({level}, {index}) is not stored")
        return row[0]

    def _pragma(self, name: str) -> object:
        row = self._execute(f"PRAGMA {name}").fetchone()
        return row[0] if row else None

    def _execute(self, query: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        self._budget.renew()
        return self._db.execute(query, values)

    def _rows(self, query: str, values: tuple[object, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, ending with a finding where SQLite refuses."""
        try:
            yield from self._execute(query, values)
        except REFUSALS as error:
            self._refused(error)

    def _fetch(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """The rows of a query that is known to be short; none, with a finding, where SQLite refuses."""
        try:
            return self._execute(query, values).fetchall()
        except REFUSALS as error:
            self._refused(error)
            return []

    def _refused(self, error: Exception) -> None:
        self._check_disk()
        self._findings.add("unreadable", "structure", f"SQLite cannot read all of it: {error}")

    def _check_disk(self) -> None:
        """OSError where the disk does not give all of the file: SQLite calls that malformed, as if it were the bytes."""
        with open(self._view.readable, "rb") as file:
            while not self._disk_gives_it:
                self._disk_gives_it = not file.read(_PIECE)


class _Budget:
    """Ends what would not end: a damaged tree can send a scan through the same page again and again."""

    def __init__(self, file_bytes: int) -> None:
        self._allowed = 20 + file_bytes * 40 // _STEPS
        self._spent = 0

    def renew(self) -> None:
        self._spent = 0

    def spend(self) -> int:
        self._spent += 1
        return self._spent > self._allowed


def _our_schema() -> set[tuple[bytes, bytes, bytes, bytes | None]]:
    model = sqlite3.connect(":memory:")
    try:
        model.text_factory = bytes
        for text in layout.TABLES:
            model.execute(text)
        return set(model.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema"))
    finally:
        model.close()


def _label(row: tuple[bytes, bytes, bytes, bytes | None]) -> str:
    kind, name = (each.decode(errors="replace")[:60] if isinstance(each, bytes) else "?" for each in row[:2])
    return f"{kind} {name}"
