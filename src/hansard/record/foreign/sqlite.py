"""Reads a forum-engine ledger that lies in a SQLite file, from a copy: the file itself is neither opened nor locked."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Literal

from hansard.errors import StoreError, UsageError
from hansard.ledger.sources.aside import new_aside
from hansard.ledger.sources.view import REFUSALS
from hansard.record.foreign.format import (
    FIELDS,
    Findings,
    Payload,
    Row,
    canonical,
    check_row,
    gives,
    is_hash,
    parsed,
    row_of,
)

_PAYLOAD_COLUMNS = ("payload_hash", "body")
_SUFFIXES = ("", "-wal", "-journal")
_STEPS = 10_000
_STEPS_A_BYTE = 8


class SqliteLedger:
    """A copy of a database with the tables `entries` and `payloads`."""

    format: Literal["forum_sqlite"] = "forum_sqlite"

    def __init__(self, path: Path) -> None:
        self.rows_seen = 0
        self._path = path
        self._allow = self._left = 0
        with ExitStack() as opened:
            aside = new_aside()
            opened.callback(aside.remove)
            # A journal lies beside the file itself, not beside a link to it.
            real = Path(os.path.realpath(path))
            self._files = _copy(real, aside.folder)
            try:
                self._db = opened.enter_context(closing(_connect(aside.folder / real.name)))
                _harden(self._db)
                self._allow = 10 + _STEPS_A_BYTE * sum(each["bytes"] for each in self._files) // _STEPS
                self._left = self._allow
                self._db.set_progress_handler(self._spend, _STEPS)
                self._columns = self._check_tables()
            except REFUSALS as error:
                raise UsageError(f"{path} cannot be read as a SQLite file: {error}") from error
            self._opened = opened.pop_all()

    def rows(self, findings: Findings) -> Iterator[Row]:
        self._tell_about_the_file(findings)
        try:
            for values in self._execute(f"SELECT {', '.join(FIELDS)} FROM entries ORDER BY seq"):
                self.rows_seen += 1
                members = dict(zip(FIELDS, values, strict=True))
                place = f"entries row {self.rows_seen}"
                if check_row(members, place, findings):
                    yield row_of(members, line=self.rows_seen, at=members["seq"], length=0)
        except REFUSALS:
            findings.tell("database_damaged", f"entries after row {self.rows_seen}")

    def payloads(self, findings: Findings) -> Iterator[Payload]:
        line = 0
        try:
            for line, (rowid, digest, text) in enumerate(
                self._execute("SELECT rowid, payload_hash, body FROM payloads ORDER BY rowid"), 1
            ):
                place = f"payloads row {line}"
                body, repeated = _parsed(text)
                if not is_hash(digest) or (body is None and text != "null"):
                    findings.tell("payload_malformed", place)
                    continue
                if repeated:
                    findings.tell("field_repeated", place)
                yield Payload(bytes.fromhex(digest), gives(body, digest), line, rowid, 0)
        except REFUSALS:
            findings.tell("database_damaged", f"payloads after row {line}")

    def row_bytes(self, row: Row) -> bytes:
        # A stranger's table may hold a seq twice: only the row that was verified is the one.
        for values in self._again(f"SELECT {', '.join(FIELDS)} FROM entries WHERE seq = ?", row.at):
            members = dict(zip(FIELDS, values, strict=True))
            if check_row(members, "", Findings()) and members["entry_hash"] == row.hash.hex():
                return json.dumps(members, ensure_ascii=False).encode()
        raise self._not_found_again()

    def payload_bytes(self, payload: Payload) -> bytes:
        # And `rowid` may be a column of his, with one number for all rows.
        digest = payload.hash.hex()
        sql = "SELECT body FROM payloads WHERE rowid = ? AND payload_hash = ?"
        for (text,) in self._again(sql, payload.at, digest):
            if not payload.holds:
                return str(text).encode("utf-8", "surrogateescape")
            body, _ = _parsed(text)
            if gives(body, digest):
                return canonical(body)
        raise self._not_found_again()

    def files(self) -> list[dict[str, Any]]:
        return self._files

    def close(self) -> None:
        self._opened.close()

    def _check_tables(self) -> dict[str, list[str]]:
        found = {}
        for table, wanted in (("entries", FIELDS), ("payloads", _PAYLOAD_COLUMNS)):
            kinds = self._db.execute(
                "SELECT type FROM sqlite_schema WHERE name = ? AND rootpage > 0", (table,)
            ).fetchall()
            columns = [str(name) for _, name, *_ in self._db.execute(f"PRAGMA table_xinfo({table})")]
            if kinds != [("table",)] or not set(wanted) <= set(columns):
                raise UsageError(f"{self._path} is a SQLite file, but has no table {table} of a ledger")
            found[table] = [name for name in columns if name not in wanted]
        return found

    def _tell_about_the_file(self, findings: Findings) -> None:
        for table, columns in self._columns.items():
            for column in columns:
                findings.tell("field_unknown", f"column {column} of {table}")
        try:
            for kind, name in self._db.execute("SELECT type, name FROM sqlite_schema"):
                if name not in self._columns and not str(name).startswith("sqlite_"):
                    findings.tell("object_unknown", f"{kind} {name}")
            if self._execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                findings.tell("database_damaged", self._path.name)
        except REFUSALS:
            findings.tell("database_damaged", self._path.name)

    def _again(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._execute(sql, values).fetchall()
        except REFUSALS as error:
            raise StoreError(f"cannot read {self._path}: {error}") from error

    def _execute(self, sql: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        self._left = self._allow
        return self._db.execute(sql, values)

    def _spend(self) -> bool:
        """Ends what would not end: a damaged tree can lead to the same page again and again."""
        self._left -= 1
        return self._left < 0

    def _not_found_again(self) -> StoreError:
        return StoreError(f"{self._path}: a row that was there is not found again; copy the file and import the copy")


def _copy(path: Path, folder: Path) -> list[dict[str, Any]]:
    """A copy of the database with its journal; refused while something writes there, since it would be of two moments."""
    there = [path.with_name(path.name + suffix) for suffix in _SUFFIXES]
    try:
        before = [(each, each.stat()) for each in there if each.exists()]
        for each, _ in before:
            shutil.copyfile(each, folder / each.name)
        after = [(each, each.stat()) for each in there if each.exists()]
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
    if [(each, seen.st_size, seen.st_mtime_ns) for each, seen in before] != [
        (each, seen.st_size, seen.st_mtime_ns) for each, seen in after
    ]:
        raise StoreError(f"{path} is being written to; stop what writes there, and try again")
    return [_digested(folder / each.name) for each, _ in before]


def _parsed(text: object) -> tuple[Any, bool]:
    """What a cell holds as JSON, and whether a field stands twice in it; None where it holds none."""
    try:
        return parsed(text) if isinstance(text, str) else (None, False)
    except (ValueError, RecursionError):
        return None, False


def _digested(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "name": path.name, "sha256": file_digest(file, sha256).hexdigest()}


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)


def _harden(db: sqlite3.Connection) -> None:
    db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    # Nothing of a stranger's schema may run.
    db.execute("PRAGMA trusted_schema = OFF")
    db.execute("PRAGMA query_only = ON")
