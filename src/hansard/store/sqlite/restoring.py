"""Lays out a SQLite ledger from lines that exist already: an import, never a way to write new entries.

The file appears under its name only when it is complete and durable. Claims and leases do not come along ([S6]).
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from hansard.durable import sync
from hansard.errors import plainly, unwritten
from hansard.ledger.layout import APPLICATION_ID, TABLES, USER_VERSION, body_id
from hansard.store.base import Head, Part, StoredCheckpoint
from hansard.store.retracing import Restored, Retracing
from hansard.store.sqlite.rows import bed, check_unused, keep_note
from hansard.store.unfinished import unfinished


def restore(path: Path, rows: Iterable[Restored], checkpoints: Iterable[StoredCheckpoint]) -> Head:
    """Make a new ledger of these lines, bodies and checkpoints; StoreError when one is there, or they do not fit together."""
    try:
        with unfinished(path, lambda place: place.touch(mode=0o600, exist_ok=False)) as partial:
            try:
                head = _fill(partial, rows, checkpoints)
                _put_in_place(partial, path)
            finally:
                for suffix in ("", "-wal", "-shm"):
                    with suppress(FileNotFoundError):
                        os.unlink(f"{partial}{suffix}")
    except (sqlite3.Error, OSError) as error:
        raise unwritten(f"cannot restore to {path}: {plainly(error)}", error) from error
    return head


def _fill(partial: Path, rows: Iterable[Restored], checkpoints: Iterable[StoredCheckpoint]) -> Head:
    db = sqlite3.connect(partial, isolation_level=None)
    try:
        # Until it has its name nobody reads this file, and after a crash nobody wants it.
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {USER_VERSION}")
        db.execute("BEGIN")
        for statement in TABLES:
            db.execute(statement)
        filler = _Filler(db)
        for line, parts in rows:
            filler.add(line, parts)
        head = filler.finish()
        for each in checkpoints:
            keep_note(db, each.size, each.note)
        db.execute("COMMIT")
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()
    return head


class _Filler:
    """Writes entry after entry, each of which must follow the one before."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._way = Retracing()

    def add(self, line: bytes, parts: Sequence[Part]) -> None:
        entry, nodes = self._way.step(line, parts)
        self._db.execute("INSERT INTO entries(seq, line) VALUES (?, ?)", (entry.seq, line.decode()))
        self._db.executemany("INSERT INTO causes VALUES (?, ?)", [(entry.seq, cause) for cause in entry.causes])
        self._db.executemany("INSERT INTO nodes VALUES (?, ?, ?)", nodes)
        for part in parts:
            at = body_id(entry.seq, entry.part_position(part.name))
            values = (at, part.salt, part.media, *bed(self._db, part))
            self._db.execute("INSERT INTO bodies VALUES (?, ?, ?, ?, ?)", values)

    def finish(self) -> Head:
        head = self._way.end()
        values = (head.size, head.leaf, head.ts, self._way.sequence.frontier.to_bytes())
        self._db.execute("INSERT INTO head VALUES (0, ?, ?, ?, ?)", values)
        return head


def _put_in_place(partial: Path, path: Path) -> None:
    """Give the finished file its name, unless another has taken it; [S5] keeps a second restore and a create out."""
    sync(partial)
    lock_fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX)
        check_unused(path)
        os.rename(partial, path)
        try:
            sync(path.parent)
        except OSError:
            os.unlink(path)
            raise
    finally:
        os.close(lock_fd)
