"""A ledger in PostgreSQL, for many machines: writers take turns on the head row, and followers are told by NOTIFY.

Times and leases are by the server's clock, so the machines need not agree on theirs. It needs sessions of its own: a pooler
that lends one session to many between transactions would lose their settings and their messages.
"""

from hansard.errors import MissingExtra

# Here and not where it is used: this runs before any module of the package.
try:
    import psycopg as psycopg
except ImportError as error:
    raise MissingExtra(
        "a PostgreSQL ledger needs psycopg, which is not installed; run: pip install 'hansard[postgres]'"
    ) from error

from hansard.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
