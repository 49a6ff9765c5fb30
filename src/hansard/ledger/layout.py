"""The SQLite layout of a ledger ([S1]-[S6] of docs/ledger-format.md), written by the store and read by the verifier.

Only text and numbers: nothing here opens a database.
"""

APPLICATION_ID = 0x48534C44
USER_VERSION = 1
SHARED_FROM_BYTES = 16 * 1024
LONGEST_PATH = 500
"""In bytes, from the root on: SQLite takes 512, with what it appends to the name, and says no more than that it is unable to."""

TABLES = (
    """CREATE TABLE entries(
  seq INTEGER PRIMARY KEY,
  line TEXT NOT NULL,
  run TEXT GENERATED ALWAYS AS (line ->> '$.run') VIRTUAL,
  kind TEXT GENERATED ALWAYS AS (line ->> '$.kind') VIRTUAL,
  actor TEXT GENERATED ALWAYS AS (line ->> '$.actor') VIRTUAL
)""",
    "CREATE INDEX entries_by_run ON entries(run)",
    "CREATE INDEX entries_by_kind ON entries(kind)",
    "CREATE TABLE causes(seq INTEGER NOT NULL, cause INTEGER NOT NULL, PRIMARY KEY(seq, cause)) WITHOUT ROWID",
    "CREATE INDEX causes_by_cause ON causes(cause)",
    """CREATE TABLE bodies(
  id INTEGER PRIMARY KEY,
  salt BLOB NOT NULL,
  media TEXT NOT NULL,
  body BLOB,
  shared INTEGER
)""",
    "CREATE INDEX bodies_by_shared ON bodies(shared) WHERE shared IS NOT NULL",
    "CREATE TABLE shared(id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, body BLOB NOT NULL)",
    """CREATE TABLE nodes(
  level INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY(level, idx)
) WITHOUT ROWID""",
    """CREATE TABLE head(
  id INTEGER PRIMARY KEY CHECK (id = 0),
  size INTEGER NOT NULL,
  leaf BLOB NOT NULL,
  ts INTEGER NOT NULL,
  frontier BLOB NOT NULL
)""",
    "CREATE TABLE checkpoints(id INTEGER PRIMARY KEY, size INTEGER NOT NULL, note TEXT NOT NULL)",
    "CREATE INDEX checkpoints_by_size ON checkpoints(size)",
    """CREATE TABLE claims(
  name TEXT PRIMARY KEY,
  epoch INTEGER NOT NULL,
  holder TEXT NOT NULL,
  until_us INTEGER NOT NULL
) WITHOUT ROWID""",
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
"""Every object of the schema, in the order of creation; sqlite_schema must hold these texts and nothing else."""
INDEXES = {each.split()[2]: each for each in TABLES if each.startswith("CREATE INDEX")}
"""Those of them that only find something sooner, by name."""


def body_id(seq: int, position: int) -> int:
    """The row id of a part: its entry's seq and its place among the sorted part names ([S4])."""
    return seq << 8 | position
