"""What is derived from the lines, in a SQLite file that may be deleted at any time ([J5]): where each line lies, who wrote
it, what it caused, the nodes of the tree. Knows no file of lines; whoever reads through it looks at the lines again.

It is written without waiting for the disk. After a crash of the process it is whole and merely behind; after a crash of
the machine nobody knows, and it is built anew: that is what the boot id in its head row is for.
"""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from hansard.ledger.canonical import Malformed
from hansard.ledger.merkle import Frontier
from hansard.store.holder import Holder
from hansard.store.sequence import Sequence

APPLICATION_ID = 0x48534C49
USER_VERSION = 1
BUSY_S = 10.0
TABLES = (
    "CREATE TABLE main.entries(seq INTEGER PRIMARY KEY, at INTEGER, length INTEGER, run TEXT, kind TEXT, actor TEXT)",
    "CREATE INDEX main.entries_by_run ON entries(run)",
    "CREATE INDEX main.entries_by_kind ON entries(kind)",
    "CREATE INDEX main.entries_by_actor ON entries(actor)",
    "CREATE TABLE main.causes(cause INTEGER, seq INTEGER, PRIMARY KEY(cause, seq)) WITHOUT ROWID",
    "CREATE TABLE main.nodes(level INTEGER, idx INTEGER, hash BLOB, PRIMARY KEY(level, idx)) WITHOUT ROWID",
    "CREATE TABLE main.head(id INTEGER PRIMARY KEY, size INTEGER, at INTEGER, leaf BLOB, ts INTEGER, frontier BLOB, boot TEXT)",
)

SCHEMA = {each.replace(" main.", " ", 1) for each in TABLES}
"""The same as SQLite keeps them."""


class Mark(NamedTuple):
    """What is kept of one line. Names are None when the line cannot be read."""

    seq: int
    at: int
    length: int
    run: str | None
    kind: str | None
    actor: str | None
    causes: tuple[int, ...]


class Reach(NamedTuple):
    """How far an index goes: the head of the log there, and the byte at which the next line begins."""

    sequence: Sequence
    at: int


class Index:
    """One connection: to the kept file, to a private one, or to a private one laid over the kept one.

    Laying over is for whoever may not write the kept file: a reader without the lock, or a log that is broken.
    """

    def __init__(self, connection: sqlite3.Connection, reach: Reach, *, keeping: bool) -> None:
        self._connection = connection
        self.keeping = keeping
        self._in_use = False
        self.reach = reach

    @classmethod
    def kept(cls, path: Path) -> Self | None:
        """The kept index, for its writer; None when it is not to be trusted."""
        return cls._connected(path, "rw", keeping=True) if path.exists() else None

    @classmethod
    def new(cls, path: Path) -> Self:
        """An empty kept index in place of whatever is there."""
        for each in (path, path.with_name(f"{path.name}-journal")):
            each.unlink(missing_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return cls._empty(_uri(path, "rw"), keeping=True)

    @classmethod
    def private(cls) -> Self:
        """An empty index that nobody else sees and that is gone with its connection."""
        return cls._empty("", keeping=False)

    @classmethod
    def over(cls, path: Path) -> Self | None:
        """A private index that goes on where the kept one ends; None when that is not to be trusted."""
        below = cls._connected(path, "ro", keeping=False) if path.exists() else None
        if below is None:
            return None
        below.close()
        index = cls.private()
        size = below.reach.sequence.size
        try:
            index._connection.execute("ATTACH ? AS kept", (_uri(path, "ro"),))
            for table, condition in (
                ("entries", f"seq < {size}"),
                ("causes", f"seq < {size}"),
                ("nodes", f"(idx + 1) << level <= {size}"),
            ):
                index._connection.execute(
                    f"CREATE TEMP VIEW {table} AS SELECT * FROM kept.{table} WHERE {condition}"
                    f" UNION ALL SELECT * FROM main.{table}"
                )
        except sqlite3.Error:
            index.close()
            return None
        index.reach = below.reach
        return index

    @classmethod
    def _empty(cls, uri: str, *, keeping: bool) -> Self:
        connection = _connect(uri)
        try:
            index = cls(connection, Reach(Sequence(), 0), keeping=keeping)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {USER_VERSION}")
            index._lay_out()
        except sqlite3.Error:
            connection.close()
            raise
        return index

    @classmethod
    def _connected(cls, path: Path, mode: str, *, keeping: bool) -> Self | None:
        connection = None
        try:
            connection = _connect(_uri(path, mode))
            index = cls(connection, _trusted(connection), keeping=keeping)
        except (sqlite3.Error, Malformed, TypeError, ValueError):
            if connection is not None:
                connection.close()
            return None
        return index

    def add(self, marks: Items[Mark], nodes: Items[tuple[int, int, bytes]], sequence: Sequence, at: int) -> None:
        """Take in what lies between the old reach and the new one, given as the head of the log and the byte behind it."""
        head = (sequence.size, at, sequence.leaf, sequence.ts, sequence.frontier.to_bytes())
        connection = self._connection
        if self.keeping and not self._in_use:
            self._take_into_use()
        with _transaction(connection):
            connection.executemany("INSERT INTO main.entries VALUES (?, ?, ?, ?, ?, ?)", [mark[:6] for mark in marks])
            causes = [(cause, mark.seq) for mark in marks for cause in mark.causes]
            connection.executemany("INSERT INTO main.causes VALUES (?, ?)", causes)
            connection.executemany("INSERT INTO main.nodes VALUES (?, ?, ?)", nodes)
            connection.execute("UPDATE main.head SET size = ?, at = ?, leaf = ?, ts = ?, frontier = ?", head)
        self.reach = Reach(sequence, at)

    def is_readable(self) -> bool:
        """Whether the kept one below can be read as it stands: who was killed while he wrote it has left that to the next writer."""
        try:
            self._all("SELECT 1 FROM entries LIMIT 1")
        except sqlite3.Error:
            return False
        return True

    def place(self, seq: int) -> tuple[int, int] | None:
        """Where a line begins, and its length."""
        rows = self._all("SELECT at, length FROM entries WHERE seq = ?", seq)
        return (rows[0][0], rows[0][1]) if rows else None

    def places(
        self, low: int, high: int, names: Mapping[str, str], *, newest_first: bool, limit: int
    ) -> list[tuple[int, int, int]]:
        """Seq, beginning and length of the lines with these names from `low` up to `high`."""
        where = "".join(f" AND {'+' if at else ''}{name} = ?" for at, name in enumerate(names))
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT seq, at, length FROM entries WHERE seq >= ? AND seq < ?{where} ORDER BY seq {order} LIMIT ?"
        return self._all(sql, low, high, *names.values(), limit)

    def count(self, run: str) -> int:
        [(found,)] = self._all("SELECT count(*) FROM entries WHERE run = ?", run)
        return int(found)

    def effects(self, seq: int) -> list[int]:
        return [effect for (effect,) in self._all("SELECT seq FROM causes WHERE cause = ? ORDER BY seq", seq)]

    def nodes(self, level: int, start: int, stop: int) -> list[bytes]:
        sql = "SELECT hash FROM nodes WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx"
        # What is no hash counts as not there.
        return [node for (node,) in self._all(sql, level, start, stop) if isinstance(node, bytes)]

    def differences(self, path: Path) -> int:
        """In how many rows the kept index at this path is not what this private one is."""
        try:
            self._connection.execute("ATTACH ? AS other", (_uri(path, "ro"),))
            if _schema(self._connection, "other") != SCHEMA:
                return 1
            return sum(
                self._all(
                    f"SELECT count(*) FROM (SELECT {what} FROM {a}.{table} EXCEPT SELECT {what} FROM {b}.{table})"
                )[0][0]
                for table, what in (
                    ("entries", "*"),
                    ("causes", "*"),
                    ("nodes", "*"),
                    ("head", "size, at, leaf, ts, frontier"),
                )
                for a, b in (("main", "other"), ("other", "main"))
            )
        except sqlite3.Error:
            return 1

    def close(self) -> None:
        """Let go; a kept index is made durable first, so that it may be trusted after the next boot."""
        with suppress(sqlite3.Error):
            if self._in_use:
                self._connection.execute("PRAGMA synchronous = FULL")
                self._connection.execute("UPDATE main.head SET boot = ''")
        self._connection.close()

    def _lay_out(self) -> None:
        with _transaction(self._connection):
            for statement in TABLES:
                self._connection.execute(statement)
            sequence = self.reach.sequence
            row = (sequence.size, self.reach.at, sequence.leaf, sequence.ts, sequence.frontier.to_bytes())
            self._connection.execute("INSERT INTO main.head VALUES (0, ?, ?, ?, ?, ?, '')", row)

    def _take_into_use(self) -> None:
        # This one commit reaches the disk before any page that follows: should the machine go down, the mark is there.
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("UPDATE main.head SET boot = ?", (_boot() or "unknown",))
        self._connection.execute("PRAGMA synchronous = OFF")
        self._in_use = True

    def _all(self, sql: str, *values: object) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All statements of a block, or none."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _trusted(connection: sqlite3.Connection) -> Reach:
    """The head row of a kept index; ValueError when it is not ours, or may have been torn by a crash of the machine."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if (application, version, _schema(connection, "main")) != (APPLICATION_ID, USER_VERSION, SCHEMA):
        raise ValueError("not an index of this version")
    match connection.execute("SELECT size, at, leaf, ts, frontier, boot FROM head").fetchall():
        case [(int(size), int(at), bytes(leaf), int(ts), bytes(frontier), str(boot))] if boot in ("", _boot()):
            return Reach(Sequence(leaf=leaf, ts=ts, frontier=Frontier.from_bytes(size, frontier)), at)
        case _:
            raise ValueError("in use when the machine went down, or changed by somebody")


def _schema(connection: sqlite3.Connection, name: str) -> set[object]:
    """What the database of this name consists of, to the letter: a view in the place of a table may never end."""
    return {sql for (sql,) in connection.execute(f"SELECT sql FROM {name}.sqlite_schema")}


def _boot() -> str:
    return Holder.here().boot


def _uri(path: Path, mode: str) -> str:
    return f"{path.absolute().as_uri()}?mode={mode}"


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
