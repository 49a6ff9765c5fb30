"""Any bytes in, a report out: never an exception, never the last resort, and never a long wait."""

import json
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.ledger.openings import check_receipt
from hansard.ledger.report import Report, lines
from hansard.ledger.verify import Options, verify
from specimens import FAST, Leaves, Log, copied, honest

PAGE = 4096
SECONDS_EACH = 20


@pytest.fixture(scope="module")
def log() -> Log:
    """Everything that a verifier looks at, in one log."""
    log = honest(300)
    log.redact(5, "prompt")
    log.append(bodies={"big": b"x" * 30_000, "other": b"\xff"})
    data = {"by": "git", "size": 10, "root": Leaves(log.leaves).root(10).hex(), "time_us": 1}
    log.append("anchor.recorded", data=data)
    log.checkpoint()
    return log


@pytest.fixture(scope="module")
def asked(log: Log, tmp_path_factory: pytest.TempPathFactory) -> list[Options]:
    kept = tmp_path_factory.mktemp("kept") / "checkpoint"
    kept.write_text(log.note(270))
    return [
        Options(),
        Options(deep=True),
        Options(deep=True, all_signatures=True, pin=log.pin),
        Options(since=str(kept), deep=True),
        Options(strict=True, against=(str(kept),)),
    ]


def assert_total(check: Callable[[], Report]) -> Report:
    began = time.monotonic()
    report = check()
    assert time.monotonic() - began < SECONDS_EACH
    assert report.exit_code in (0, 20, 21, 22, 23)
    assert "internal" not in [each.code for each in report.findings], report.findings
    assert json.dumps(report.as_json())
    assert all(line.isprintable() for line in lines(report))
    return report


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few changes of the kinds that disks, editors and attackers make."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(changed) or 1)
        page, other = at // PAGE * PAGE, chance.randrange(len(changed) or 1) // PAGE * PAGE
        match chance.randrange(9):
            case 0 | 1:
                changed[at : at + 1] = chance.randbytes(1)
            case 2:
                changed[at : at + chance.choice((1, 4, 64))] = chance.randbytes(chance.choice((1, 4, 64)))
            case 3:
                del changed[at : at + chance.choice((1, 10, PAGE))]
            case 4:
                changed[at:at] = chance.randbytes(chance.choice((1, 10)))
            case 5:
                changed[page : page + PAGE], changed[other : other + PAGE] = (
                    changed[other : other + PAGE],
                    changed[page : page + PAGE],
                )
            case 6:
                # The header of a page: its type, its count of cells, where they begin.
                changed[page + chance.randrange(12) : page + 12] = chance.randbytes(1)
            case 7:
                changed[at : at + PAGE] = bytes(PAGE)
            case _:
                del changed[at:]
    return bytes(changed)


def test_a_damaged_database_gives_a_report(tmp_path: Path, log: Log, asked: list[Options]) -> None:
    chance = random.Random(1)
    whole = log.write_sqlite(tmp_path / "whole.db").read_bytes()
    path = tmp_path / "x.db"
    for _ in range(80):
        path.write_bytes(mutated(whole, chance))
        assert_total(lambda: verify(path, chance.choice(asked), FAST))


def test_a_damaged_write_ahead_log_gives_a_report(tmp_path: Path, log: Log, asked: list[Options]) -> None:
    chance = random.Random(2)
    db = sqlite3.connect(tmp_path / "whole.db", isolation_level=None)
    db.execute("PRAGMA wal_autocheckpoint = 0")
    log.fill(db)
    base, wal = (tmp_path / "whole.db").read_bytes(), (tmp_path / "whole.db-wal").read_bytes()
    db.close()
    path = tmp_path / "x.db"
    for _ in range(25):
        path.write_bytes(base if chance.random() < 0.5 else mutated(base, chance))
        (tmp_path / "x.db-wal").write_bytes(mutated(wal, chance))
        assert_total(lambda: verify(path, chance.choice(asked), FAST))


@pytest.mark.parametrize("form", ["jsonl", "export"])
def test_damaged_lines_and_tiles_give_a_report(tmp_path: Path, log: Log, asked: list[Options], form: str) -> None:
    chance = random.Random(3)
    whole = log.write_jsonl(tmp_path / "whole.jsonl") if form == "jsonl" else log.write_export(tmp_path / "whole")
    for number in range(40):
        path = copied(whole, tmp_path / (f"x{number}.jsonl" if form == "jsonl" else f"x{number}"))
        names = (
            sorted(path.parent.glob(f"x{number}.*"))
            if form == "jsonl"
            else sorted(each for each in path.rglob("*") if each.is_file())
        )
        for file in chance.sample(names, chance.randint(1, 2)):
            file.write_bytes(mutated(file.read_bytes(), chance))
        assert_total(lambda path=path: verify(path, chance.choice(asked), FAST))  # type: ignore[misc]


def test_a_damaged_receipt_gives_a_report(log: Log) -> None:
    chance = random.Random(4)
    whole = log.receipt(20, disclose=["prompt"], rotation=30)
    for _ in range(400):
        data = mutated(whole, chance)
        report = assert_total(lambda data=data: check_receipt(data, tools=FAST))  # type: ignore[misc]
        assert report.ok == (data == whole)


@settings(max_examples=150)
@given(data=st.binary(max_size=300), ending=st.sampled_from([".db", ".jsonl", ".tlog-proof", ""]), start=st.sampled_from(
    [b"", b"SQLite format 3\x00", b'{"actor":"a","body":{', b"c2sp.org/tlog-proof@v1\nextra ", b"{}\n\n"]
))  # fmt: skip
def test_any_bytes_under_any_name_give_a_report(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, ending: str, start: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any{ending}"
    path.write_bytes(start + data)
    assert not assert_total(lambda: verify(path, Options(deep=True), FAST)).ok
    path.unlink()


def hostile_schemas() -> Iterator[str]:
    endless = "WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r)"
    for table in ("entries", "causes", "nodes", "head", "checkpoints", "bodies", "shared"):
        yield f"DROP TABLE {table}"
        yield f"DROP TABLE {table}; CREATE VIEW {table} AS {endless} SELECT n FROM r"
        yield f"DROP TABLE {table}; CREATE TABLE {table}(x)"
    yield "CREATE INDEX slow ON entries(length(zeroblob(900000000)))"
    yield "PRAGMA encoding = 'UTF-16'; DROP TABLE meta"
    yield "DROP TABLE entries; CREATE TABLE entries(seq INTEGER PRIMARY KEY, line TEXT); INSERT INTO entries VALUES(0, 7)"
    yield "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 2"
    yield "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 2 WHERE name = 'causes'"
    yield "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET rootpage = 999999 WHERE name = 'entries'"
    yield "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = CAST(x'ff' AS TEXT) WHERE name = 'head'"
    yield "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET name = NULL, sql = x'00' WHERE name = 'meta'"
    yield "INSERT INTO checkpoints(size, note) VALUES(x'ff', 7)"
    yield "INSERT INTO checkpoints(size, note) VALUES(-5, ''), (9223372036854775807, 'x'), ('a', 'b')"
    yield "INSERT INTO checkpoints(size, note) VALUES(-1e300, 'x')"
    yield "INSERT INTO nodes VALUES('a', x'ff', 7)"
    yield "INSERT INTO nodes VALUES(8.5, 0, 7)"
    yield "INSERT INTO nodes VALUES(8, 0.5, 7)"
    yield "INSERT INTO causes VALUES(5.5, 3)"
    yield "INSERT INTO causes VALUES(x'ff', 'a')"
    yield "INSERT INTO bodies VALUES(9223372036854775807, 7, 7, 7, 7)"
    yield "INSERT INTO entries(seq, line) VALUES(9223372036854775807, '{}'), (-9223372036854775808, '{}')"
    yield "UPDATE head SET size = 'x', leaf = 7, ts = x'ff', frontier = 'x'"


@pytest.mark.parametrize("script", list(hostile_schemas()))
def test_a_hostile_database_gives_a_report(tmp_path: Path, log: Log, script: str) -> None:
    path = log.write_sqlite(tmp_path / "x.db")
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.executescript(f"PRAGMA ignore_check_constraints = ON; {script}; PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        pass
    finally:
        db.close()
    report = assert_total(lambda: verify(path, Options(deep=True), FAST))
    assert not report.ok


def test_an_error_that_nobody_foresaw_is_a_finding(tmp_path: Path, log: Log) -> None:
    def fails(*_: bytes) -> bool:
        raise ZeroDivisionError

    report = verify(log.write_jsonl(tmp_path / "x.jsonl"), Options(), type(FAST)(ed25519=fails))
    assert [(each.code, each.grade) for each in report.findings] == [("internal", "structure")]
    assert report.exit_code == 20
