"""The tables of a PostgreSQL ledger, in a schema of their own. Only text: nothing here opens a database.

The same layout in spirit as SQLite's ([S3], [S4]): `entries(seq, line)` is the only truth, the rest is derived from it or
lies beside it. Whatever may hold more than ASCII is bytea, so that it comes back byte for byte whatever the encoding of the
database is, and whatever escapes a line holds.
"""

MARK, VERSION = "hansard-ledger", "1"
SHARED_FROM_BYTES = 16 * 1024


def _derived(cut: str) -> str:
    return f'text COLLATE "C" GENERATED ALWAYS AS ({cut}) STORED'


# Canonical form ([E2]) fixes where each member stands, so no JSON need be read: cut at its quotes, a line begins
# {|actor|:|VALUE|… and ends …|kind|:|VALUE|,|prev|:|VALUE|,|run|:|VALUE|,|seq|:N,|ts|:N,|v|:1}, all of it ASCII.
# The last 400 bytes hold kind and all that follows; they are read backwards.
_BACK = "reverse(encode(substring(line from greatest(length(line) - 399, 1)), 'escape'))"
_RUN = f"""reverse(split_part({_BACK}, '"', 8))"""
_KIND = f"""reverse(split_part({_BACK}, '"', 16))"""
_ACTOR = """split_part(encode(substring(line from 1 for 160), 'escape'), '"', 4)"""

TABLES = (
    f"""CREATE TABLE entries(
  seq bigint PRIMARY KEY,
  line bytea NOT NULL,
  run {_derived(_RUN)},
  kind {_derived(_KIND)},
  actor {_derived(_ACTOR)}
)""",
    "CREATE INDEX entries_by_run ON entries(run, seq)",
    "CREATE INDEX entries_by_kind ON entries(kind, seq)",
    "CREATE INDEX entries_by_actor ON entries(actor, seq)",
    "CREATE TABLE causes(seq bigint NOT NULL, cause bigint NOT NULL, PRIMARY KEY(seq, cause))",
    "CREATE INDEX causes_by_cause ON causes(cause, seq)",
    "CREATE TABLE shared(digest bytea PRIMARY KEY, body bytea NOT NULL)",
    "CREATE TABLE bodies(id bigint PRIMARY KEY, salt bytea NOT NULL, media text NOT NULL, body bytea, shared bytea)",
    "CREATE INDEX bodies_by_shared ON bodies(shared) WHERE shared IS NOT NULL",
    "CREATE TABLE nodes(level integer NOT NULL, idx bigint NOT NULL, hash bytea NOT NULL, PRIMARY KEY(level, idx))",
    """CREATE TABLE head(
  id integer PRIMARY KEY CHECK (id = 0),
  size bigint NOT NULL,
  leaf bytea NOT NULL,
  ts bigint NOT NULL,
  frontier bytea NOT NULL
)""",
    "CREATE TABLE checkpoints(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, size bigint NOT NULL, note bytea NOT NULL)",
    "CREATE INDEX checkpoints_by_size ON checkpoints(size)",
    "CREATE TABLE claims(name text PRIMARY KEY, epoch bigint NOT NULL, holder text NOT NULL, until_us bigint NOT NULL)",
    "CREATE TABLE meta(name text PRIMARY KEY, value text NOT NULL)",
    f"INSERT INTO meta VALUES ('{MARK}', '{VERSION}')",
)
"""Every object of the schema, in the order of creation, and the mark that says whose it is."""

CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
READ_HEAD = "SELECT size, leaf, ts, frontier FROM head"
READ_NODES = "SELECT hash FROM nodes WHERE level = %s AND idx >= %s AND idx < %s ORDER BY idx"
LOCK_HEAD = f"SELECT h.*, txid_current(), ({CLOCK}) FROM ({READ_HEAD} FOR UPDATE) h"
"""Takes the log's one lock. The clock stands outside the inner query: it is read when the wait for the lock is over."""

LOCK_ALL = f"LOCK TABLE head IN EXCLUSIVE MODE; SELECT txid_current(), ({CLOCK})"
"""The same lock for a repair, which must be alone even when the head row is gone."""

INSERT = """WITH
  e AS (INSERT INTO entries(seq, line) SELECT * FROM unnest(%(seqs)b::bigint[], %(lines)b::bytea[])),
  c AS (INSERT INTO causes SELECT * FROM unnest(%(effects)b::bigint[], %(causes)b::bigint[])),
  b AS (INSERT INTO bodies SELECT * FROM
    unnest(%(ids)b::bigint[], %(salts)b::bytea[], %(medias)b::text[], %(bodies)b::bytea[], %(shared)b::bytea[])),
  n AS (INSERT INTO nodes SELECT * FROM unnest(%(levels)b::integer[], %(indexes)b::bigint[], %(hashes)b::bytea[]))
UPDATE head SET size = %(size)s, leaf = %(leaf)b, ts = %(ts)s, frontier = %(frontier)b
  RETURNING pg_notify(%(channel)s, '')"""
"""All that one append writes, in one statement and so one round trip. Followers are told when it is committed."""
