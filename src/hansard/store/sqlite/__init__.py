"""A ledger in one SQLite file: many processes may append, opening is O(1), a commit is one fdatasync.

The layout is hansard/ledger/layout.py ([S1]-[S6]).
"""

from hansard.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
