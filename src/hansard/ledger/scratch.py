"""A database of a verifier's own, for what would not fit into the memory: nobody else sees it, and nothing of it stays."""

import sqlite3
from typing import Self

from .sources.base import CannotRead

_UNWRITTEN = ("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN")


class Scratch:
    """Some tables, in one transaction that is never ended."""

    def __init__(self, *tables: str) -> None:
        # The empty name is a private database on disk that SQLite deletes by itself; small ones never leave the memory.
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA cache_size = -4096")
        for each in tables:
            self._db.execute(each)
        self._db.execute("BEGIN")

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.close()
        # What a source cannot read is a finding of its own and comes to nobody: this is ours.
        if getattr(error, "sqlite_errorname", "").startswith(_UNWRITTEN):
            raise CannotRead(
                f"what was found so far cannot be set aside ({error}); name a folder with more room with TMPDIR"
            ) from error
