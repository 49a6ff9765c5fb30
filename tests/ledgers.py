"""Small ledgers for tests: real stores, real facts, a clock that can be set."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from hansard.domain.custody import Genesis
from hansard.domain.fact import Body, Fact
from hansard.domain.work import RunRequested
from hansard.record.draft import Drafter
from hansard.store.base import Draft
from hansard.store.memory import MemoryStore

NONCE = "00112233445566778899aabbccddeeff"
ORIGIN = f"hansard.invalid/{NONCE}"


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def genesis_draft() -> Draft:
    fact = Genesis(spec=1, origin=ORIGIN, nonce=NONCE, custody="none", software="test")
    return draft(fact)


def draft(
    fact: Fact,
    *,
    actor: str = "human:test",
    run: str = "",
    causes: tuple[int, ...] = (),
    fence: tuple[str, int] | None = None,
) -> Draft:
    return Drafter().draft(fact, actor=actor, run=run, causes=causes, fence=fence)


def request(text: str = "ship a login API") -> RunRequested:
    return RunRequested(mode="request", surface="python", request=Body.text(text))


def memory(clock: Callable[[], float] | None = None) -> MemoryStore:
    return MemoryStore(genesis_draft(), clock=clock or Clock())


@contextmanager
def full_disk(ledger: str, *, what: str = "INSERT ON entries", when: str = "TRUE") -> Iterator[sqlite3.Connection]:
    """A ledger in SQLite on a disk that has no room for some of what is written; gives another connection to it.

    SQLite itself says that it is full: it does so too where a table has no number left for another row.
    """
    with closing(sqlite3.connect(ledger, isolation_level=None)) as other:
        other.execute("CREATE TABLE IF NOT EXISTS brim(id INTEGER PRIMARY KEY AUTOINCREMENT)")
        other.execute("INSERT OR IGNORE INTO brim VALUES (9223372036854775807)")
        other.execute(f"CREATE TRIGGER full BEFORE {what} WHEN {when} BEGIN INSERT INTO brim VALUES (NULL); END")
        yield other
        other.execute("DROP TRIGGER full")
