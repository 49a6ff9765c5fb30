"""The walk names the first bad entry and the rule, and goes on."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hansard.ledger.canonical import dump
from hansard.ledger.report import Report
from hansard.ledger.verify import Options, verify
from specimens import FAST, Log, honest

FORMS = ("sqlite", "jsonl")


def walked(log: Log, folder: Path, form: str) -> Report:
    path = log.write_sqlite(folder / "x.db") if form == "sqlite" else log.write_jsonl(folder / "x.jsonl")
    return verify(path, Options(jobs=1), FAST)


def unsealed(size: int = 30) -> Log:
    log = Log.begun(signed=False)
    log.grow(size - 1)
    return log


def swap(log: Log) -> None:
    log.lines[7], log.lines[8] = log.lines[8], log.lines[7]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("tamper", "seq", "rule"),
    [
        (lambda log: log.edit(7, lambda entry: entry["data"].update(task="t9")), 7, "[H4]"),
        (lambda log: log.edit(7, lambda entry: entry.update(actor="lane:other")), 7, "[H4]"),
        (lambda log: log.edit(7, lambda entry: entry.update(v=True)), 7, "[E4]"),
        (lambda log: log.edit(7, lambda entry: entry["data"].update(cost=1.5)), 7, "[E3]"),
        (lambda log: log.edit(7, lambda entry: entry.update(causes=[7])), 7, "[E4]"),
        (lambda log: log.edit(7, lambda entry: entry.pop("run")), 7, "[E4]"),
        (lambda log: log.edit(7, lambda entry: entry.update(kind="log.genesis")), 7, "[E6]"),
        (lambda log: log.edit(0, lambda entry: entry.update(kind="task.answered")), 0, "[E6]"),
        (lambda log: log.edit(0, lambda entry: entry.update(prev="1" * 64)), 0, "[H4]"),
        (lambda log: log.edit(0, lambda entry: entry["data"].update(spec=2)), 0, "[E6]"),
        (lambda log: log.edit(0, lambda entry: entry["data"].update(nonce="../" * 10 + "ab")), 0, "[E6]"),
        (lambda log: log.edit(0, lambda entry: entry["data"].update(nonce="AB" * 16)), 0, "[E6]"),
        (lambda log: log.lines.__setitem__(7, log.lines[7].replace(b":", b": ", 1)), 7, "[E2]"),
        (lambda log: log.lines.__setitem__(7, log.lines[7].replace(b'"ok":true', b'"ok":true,"ok":true')), 7, "[E3]"),
        (lambda log: log.lines.__setitem__(7, log.lines[7].replace(b"lane", "l\u0430ne".encode())), 7, "[E4]"),
        (lambda log: log.lines.__setitem__(7, log.lines[7] + b" "), 7, "[E1]"),
    ],
)  # fmt: skip
def test_a_changed_entry_is_named_with_its_rule(
    tmp_path: Path, form: str, tamper: Callable[[Log], object], seq: int, rule: str
) -> None:
    log = unsealed()
    tamper(log)
    report = walked(log, tmp_path, form)
    first = report.first_bad
    assert first is not None
    assert (first.seq, first.grade) == (seq, "structure")
    assert rule in first.message
    assert report.exit_code == 20
    assert report.size == 30


@pytest.mark.parametrize(
    ("tamper", "found"),
    [
        (lambda log: log.lines.pop(7), [("gap", 7)]),
        (lambda log: log.lines.insert(7, log.lines[3]), [("order", 3), ("clock", 3), ("chain", 6)]),
        (swap, [("gap", 7), ("order", 7), ("clock", 7), ("chain", 8)]),
        (lambda log: log.lines.insert(7, log.lines[7]), [("order", 7)]),
        (lambda log: log.lines.pop(0), [("gap", 0)]),
    ],
)
def test_a_dropped_inserted_or_moved_line_is_named(
    tmp_path: Path, tamper: Callable[[Log], object], found: list[tuple[str, int]]
) -> None:
    log = unsealed()
    tamper(log)
    report = walked(log, tmp_path, "jsonl")
    assert report.exit_code == 20
    assert [(each.code, each.seq) for each in report.findings] == found


@pytest.mark.parametrize("form", FORMS)
def test_how_many_are_missing_and_where_what_was_moved_stands_is_told(tmp_path: Path, form: str) -> None:
    for missing, told in ((1, "the entry is missing"), (3, "the entry is missing, and those up to 9 with it")):
        log = unsealed()
        path = log.write_sqlite(tmp_path / "x.db") if form == "sqlite" else log.write_jsonl(tmp_path / "x.jsonl")
        if form == "sqlite":
            tampered(path, f"DELETE FROM entries WHERE seq >= 7 AND seq < {7 + missing}")
        else:
            path.write_bytes(b"".join(line + b"\n" for line in (*log.lines[:7], *log.lines[7 + missing :])))
        assert [each.message for each in verify(path, Options(), FAST).findings if each.code == "gap"] == [
            f"[E4] {told}"
        ]
    log = unsealed()
    log.lines.insert(7, log.lines[3])
    [moved] = (each.message for each in walked(log, tmp_path, "jsonl").findings if each.code == "order")
    assert "it stands behind entry 6:" in moved


@pytest.mark.parametrize("form", FORMS)
def test_a_line_that_is_no_entry_is_not_called_missing_too(tmp_path: Path, form: str) -> None:
    """Nor is what is derived from it held against it: nobody knows what it was."""
    log = unsealed()
    log.edit(7, lambda entry: entry.update(causes=[7]))
    report = walked(log, tmp_path, form)
    assert [(each.code, each.seq) for each in report.findings] == [("form", 7), ("chain", 7)]


def test_a_row_is_named_by_its_own_number_whatever_its_line_is(tmp_path: Path) -> None:
    for change, found in ((lambda entry: entry.update(seq=100), "seq"), (lambda entry: entry.pop("run"), "form")):
        log = unsealed()
        log.edit(8, change)
        path = log.write_sqlite(tmp_path / "x.db")
        tampered(path, "DELETE FROM entries WHERE seq = 7")
        told = [(each.code, each.seq) for each in verify(path, Options(), FAST).findings]
        assert (found, 8) in told
        assert not {9, 10} & {seq for _, seq in told}


def test_a_line_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    log = honest()
    log.lines.insert(17, log.lines[15])
    report = walked(log, tmp_path, "jsonl")
    assert report.bodies.parts == walked(honest(), tmp_path, "jsonl").bodies.parts
    assert "rotation" not in [each.code for each in report.findings]


@pytest.mark.parametrize("form", FORMS)
def test_a_genesis_that_follows_something_is_found_though_the_chain_fits(tmp_path: Path, form: str) -> None:
    log = unsealed()
    log.edit(0, lambda entry: entry.update(prev="1" * 64))
    log.rechain(1)
    log.edit(0, lambda entry: entry.update(prev="1" * 64))
    assert [(each.code, each.seq) for each in walked(log, tmp_path, form).findings] == [("chain", 0)]


@pytest.mark.parametrize(
    ("statement", "code", "seq"),
    [
        ("DELETE FROM entries WHERE seq = 7", "gap", 7),
        ("UPDATE entries SET seq = 100 WHERE seq = 7", "gap", 7),
        ("INSERT INTO entries(seq, line) SELECT -1, line FROM entries WHERE seq = 3", "order", -1),
        ("INSERT INTO entries(seq, line) SELECT 30, line FROM entries WHERE seq = 3", "seq", 30),
    ],
)
def test_a_row_that_is_dropped_or_moved_is_named(tmp_path: Path, statement: str, code: str, seq: int) -> None:
    path = unsealed().write_sqlite(tmp_path / "x.db")
    tampered(path, statement)
    report = verify(path, Options(), FAST)
    assert report.exit_code == 20
    assert (code, seq) in [(each.code, each.seq) for each in report.findings]


@pytest.mark.parametrize("form", FORMS)
def test_later_damage_is_seen_behind_earlier_damage(tmp_path: Path, form: str) -> None:
    log = unsealed(600)
    for seq in (20, 300, 580):
        log.edit(seq, lambda entry: entry["data"].update(task="t9"))
    report = walked(log, tmp_path, form)
    assert [each.seq for each in report.findings if each.code == "chain"] == [20, 300, 580]


@pytest.mark.parametrize("form", FORMS)
def test_a_clock_that_goes_backwards_is_caught_even_when_the_chain_fits(tmp_path: Path, form: str) -> None:
    log = unsealed()
    log.edit(7, lambda entry: entry.update(ts=entry["ts"] - 5_000))
    log.rechain(8)
    report = walked(log, tmp_path, form)
    assert [(each.code, each.seq) for each in report.findings] == [("clock", 7)]


@pytest.mark.parametrize("form", FORMS)
def test_equal_times_are_no_finding(tmp_path: Path, form: str) -> None:
    log = unsealed()
    log.edit(7, lambda entry: entry.update(ts=entry["ts"] - 1_000))
    log.rechain(8)
    assert walked(log, tmp_path, form).findings == ()


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_kind_is_accepted(tmp_path: Path, form: str) -> None:
    log = unsealed()
    log.append("future.kind", data={"deep": [{"er": [1, 2]}]})
    assert walked(log, tmp_path, form).ok


@pytest.mark.parametrize("form", FORMS)
def test_a_second_genesis_is_a_finding(tmp_path: Path, form: str) -> None:
    log = unsealed()
    log.append("log.genesis", data={"spec": 1, "origin": "other", "nonce": "0" * 32, "custody": "none"})
    report = walked(log, tmp_path, form)
    assert [(each.code, each.seq) for each in report.findings] == [("genesis", 30)]
    assert report.origin == log.origin


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 511, 512, 600])
def test_every_size_is_walked_whole_around_the_ends_of_blocks(tmp_path: Path, size: int) -> None:
    log = Log.begun()
    log.grow(size - 1, bodies=False)
    log.checkpoint()
    for form in FORMS:
        report = walked(log, tmp_path, form)
        assert report.findings == ()
        assert (report.size, report.signed.sealed_to) == (size, size)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("UPDATE causes SET cause = cause - 1 WHERE seq = 300", "causes"),
        ("UPDATE causes SET seq = 299 WHERE seq = 300 AND cause = 299", "causes"),
        ("DELETE FROM causes WHERE seq = 300", "causes"),
        ("INSERT INTO causes VALUES(300, 5)", "causes"),
        ("INSERT INTO causes VALUES(9000, 5)", "causes"),
        ("INSERT INTO causes VALUES(-1, 5)", "causes"),
        ("UPDATE causes SET cause = '299x' WHERE seq = 300", "causes"),
        ("UPDATE nodes SET hash = zeroblob(32) WHERE idx = 1", "node"),
        ("DELETE FROM nodes WHERE idx = 1", "node"),
        ("INSERT INTO nodes VALUES(8, 2, zeroblob(32))", "node"),
        ("INSERT INTO nodes VALUES(4, 0, zeroblob(32))", "node"),
        ("INSERT INTO nodes VALUES(16, 0, zeroblob(32))", "node"),
        ("UPDATE head SET size = 599", "head"),
        ("UPDATE head SET leaf = zeroblob(32)", "head"),
        ("UPDATE head SET ts = ts + 1", "head"),
        ("UPDATE head SET frontier = x''", "head"),
        ("DELETE FROM head", "head"),
    ],
)  # fmt: skip
def test_an_edited_derived_table_is_caught(tmp_path: Path, statement: str, code: str) -> None:
    path = honest(600).write_sqlite(tmp_path / "x.db")
    tampered(path, statement)
    report = verify(path, Options(), FAST)
    assert [each.code for each in report.findings] == [code]
    assert report.exit_code == 20


@pytest.mark.parametrize("column", ["run", "kind"])
def test_an_edited_query_column_is_caught(tmp_path: Path, column: str) -> None:
    """An index that answers a query with another value than the line has would hide an entry."""
    path = honest().write_sqlite(tmp_path / "x.db")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA writable_schema = ON")
    # Rebuild the index over another expression, then put its honest text back.
    db.execute(f"DROP INDEX entries_by_{column}")
    db.execute(f"CREATE INDEX entries_by_{column} ON entries(CASE seq WHEN 7 THEN 'hidden' ELSE {column} END)")
    text = f"CREATE INDEX entries_by_{column} ON entries({column})"
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (text, f"entries_by_{column}"))
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    report = verify(path, Options(), FAST)
    assert report.exit_code == 20
    assert {"integrity"} <= {each.code for each in report.findings}


TWIN = "CREATE TABLE twin(name TEXT, seq INTEGER, PRIMARY KEY(name, seq)) WITHOUT ROWID"


def with_twin(path: Path, column: str, *statements: str) -> None:
    """Let the index lead into a table of the same form, filled as the index is and then edited."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(TWIN)
    db.execute(f"INSERT INTO twin SELECT {column}, seq FROM entries")
    for statement in statements:
        db.execute(statement)
    db.execute("PRAGMA writable_schema = ON")
    root = "(SELECT rootpage FROM sqlite_schema WHERE name = 'twin')"
    db.execute(f"UPDATE sqlite_schema SET rootpage = {root} WHERE name = 'entries_by_{column}'")
    db.execute("DELETE FROM sqlite_schema WHERE name = 'twin'")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def sqlite_says(path: Path) -> str:
    db = sqlite3.connect(path)
    try:
        return str(db.execute("PRAGMA integrity_check(entries)").fetchone()[0])
    finally:
        db.close()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("column", ["run", "kind"])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM twin WHERE seq = 300",
        "UPDATE twin SET seq = 9000 WHERE seq = 300",
        "UPDATE twin SET seq = -1 WHERE seq = 300",
        "UPDATE twin SET name = 'other' WHERE seq = 300",
        "UPDATE twin SET name = CAST(name AS BLOB) WHERE seq = 300",
        "UPDATE twin SET name = name || x'00' WHERE seq = 300",
        "INSERT INTO twin VALUES('other', 300)",
        "INSERT INTO twin VALUES('other', 9000)",
        "INSERT INTO twin SELECT name, 9000 FROM twin WHERE seq = 300",
    ],
)
def test_an_index_that_does_not_answer_as_the_lines_do_is_caught(
    tmp_path: Path, statement: str, column: str, jobs: int
) -> None:
    path = honest(600).write_sqlite(tmp_path / "x.db")
    with_twin(path, column, statement)
    assert sqlite_says(path) != "ok"
    report = verify(path, Options(jobs=jobs), FAST)
    assert report.exit_code == 20
    assert {each.code for each in report.findings} == {"integrity"}


def test_an_index_that_answers_as_the_lines_do_is_no_finding(tmp_path: Path) -> None:
    path = honest(600).write_sqlite(tmp_path / "x.db")
    for column in ("run", "kind"):
        with_twin(path, column)
    assert sqlite_says(path) == "ok"
    assert verify(path, Options(jobs=1), FAST).findings == ()


def test_an_index_with_one_entry_twice_in_place_of_another_is_caught(tmp_path: Path) -> None:
    """As many entries as there are lines, and all of them true: only comparing them one by one shows it."""
    path = honest(600).write_sqlite(tmp_path / "x.db")
    db = sqlite3.connect(path)
    [name] = db.execute("SELECT run FROM entries WHERE seq = 300").fetchone()
    db.close()
    with_twin(path, "run")
    data = path.read_bytes()
    # As they stand in a record: the name and two bytes of number, so that the one can become the other in place.
    one, other = (name.encode() + seq.to_bytes(2, "big") for seq in (300, 301))
    assert data.count(one) >= 1
    path.write_bytes(data.replace(one, other))
    assert sqlite_says(path) != "ok"
    assert {each.code for each in verify(path, Options(jobs=1), FAST).findings} == {"integrity"}


def test_a_malformed_line_forced_into_the_database_is_named(tmp_path: Path) -> None:
    path = unsealed().write_sqlite(tmp_path / "x.db")
    data = bytearray(path.read_bytes())
    at = data.index(b'"seq":7,')
    data[at : at + 8] = b'"seq":7x'
    path.write_bytes(data)
    report = verify(path, Options(), FAST)
    assert (7, "form") in [(each.seq, each.code) for each in report.findings]


@pytest.mark.parametrize("form", FORMS)
def test_the_close_look_finds_what_the_quick_look_finds_and_nothing_else(tmp_path: Path, form: str) -> None:
    def doubted(log: Log) -> Report:
        """Every line looked at closely, for no reason."""
        path = log.write_sqlite(tmp_path / "x.db") if form == "sqlite" else log.write_jsonl(tmp_path / "x.jsonl")
        return verify(path, Options(deep=True, jobs=1), replace(FAST, dumps=lambda value: dump(value) + b" "))

    log = honest()
    log.redact(7, "prompt")
    log.grow(2)
    for equal, seq in enumerate((41, 42), 1):
        log.edit(seq, lambda entry, by=equal: entry.update(ts=entry["ts"] - by * 1_000))  # type: ignore[misc]
    log.rechain(42)
    report = doubted(log)
    assert report.findings == ()
    assert report == verify(report.path, Options(deep=True, jobs=1), FAST)
    log.edit(42, lambda entry: entry.update(ts=entry["ts"] - 1))
    assert [(each.code, each.seq) for each in doubted(log).findings] == [("clock", 42)]


def tampered(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        db.execute(statement)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
