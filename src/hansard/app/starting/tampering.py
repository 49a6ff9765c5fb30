"""Ways to tamper with a ledger, for the demonstration: each on a copy, each verified at both grades."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from hansard.app.ledgers.verifying import tools
from hansard.app.wiring import open_store, restorer
from hansard.domain.value import value
from hansard.ledger.entry import parse
from hansard.ledger.layout import body_id
from hansard.ledger.verify import Options, Report, verify
from hansard.store.base import Part, Query, Store


@value
class Tampering:
    """One way to tamper, and what the two grades of verification say."""

    name: str
    chain: Report
    deep: Report


def check(ledger: Path, *, deep: bool = False, pin: str | None = None) -> Report:
    return verify(ledger, Options(deep=deep, pin=pin), tools())


def tamper(ledger: Path, folder: Path, *, signed: bool) -> Iterator[Tampering]:
    """Tamper with copies, one way each, and verify every copy at both grades.

    An end that was cut off with everything else put right shows only by a signature, so an unsigned log is spared that one.
    """
    ways = _WAYS if signed else _WAYS[:-1]
    for number, (name, change) in enumerate(ways, 1):
        copy = folder / f"tampered-{number}.db"
        copy.touch(0o600)
        shutil.copyfile(ledger, copy)
        change(copy)
        yield Tampering(name=name, chain=check(copy), deep=check(copy, deep=True))


def _edit(copy: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(copy)) as database:
        database.execute(statement, values)
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _turn_verdict(copy: Path) -> None:
    """Make a rejection a pass; where nothing was rejected, the other way round."""
    turned = "UPDATE entries SET line = replace(line, ?, ?) WHERE kind = 'task.judged'"
    ok, bad = '"ok":true', '"ok":false'
    with closing(open_store(str(copy), reading=True)) as store:
        rejected = any(entry.data["ok"] is False for entry in store.select(Query(kind="task.judged")))
    _edit(copy, turned, *((bad, ok) if rejected else (ok, bad)))


def _drop_entry(copy: Path) -> None:
    _edit(copy, "DELETE FROM entries WHERE seq = ?", _last(copy, "task.returned"))


def _hide_by_index(copy: Path) -> None:
    _edit(copy, "UPDATE causes SET cause = 0 WHERE seq = ?", _last(copy, "task.judged"))


def _swap_body(copy: Path) -> None:
    seq = _last(copy, "task.returned")
    _edit(copy, "UPDATE bodies SET body = ? WHERE id = ?", b"Unlimited attempts are fine.", body_id(seq, 0))


def _lose_body(copy: Path) -> None:
    _edit(copy, "DELETE FROM bodies WHERE id = ?", body_id(_last(copy, "run.requested"), 0))


def _last(copy: Path, kind: str) -> int:
    """The newest entry of a kind."""
    with closing(open_store(str(copy), reading=True)) as store:
        return next(entry.seq for entry in store.select(Query(kind=kind, newest_first=True, limit=1)))


def _cut_end(copy: Path) -> None:
    """Rebuild the whole file as if the run had not ended, with the checkpoints left in place and every index right."""
    stop = _last(copy, "run.ended")
    with closing(open_store(str(copy), reading=True)) as store:
        rows = [(line, _parts(store, seq, line)) for seq, line in enumerate(store.lines(0, stop))]
        checkpoints = list(store.checkpoints())
    copy.unlink()
    restorer(str(copy))(rows, checkpoints)


def _parts(store: Store, seq: int, line: bytes) -> list[Part]:
    found = [store.body(seq, part) for part in sorted(parse(line).body)]
    return [Part(each.part, each.media, each.salt, each.body) for each in found if each]


_WAYS: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("turned a verdict round", _turn_verdict),
    ("dropped an entry", _drop_entry),
    ("edited an index to hide why", _hide_by_index),
    ("swapped a body", _swap_body),
    ("deleted a body silently", _lose_body),
    ("cut off the end and put every index right", _cut_end),
)
