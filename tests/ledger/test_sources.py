"""Ledgers are recognised by their bytes, read without a trace, and read in one state."""

import fcntl
import os
import re
import resource
import sqlite3
import struct
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from hansard.ledger import layout
from hansard.ledger.entry import MAX_LINE
from hansard.ledger.report import Findings
from hansard.ledger.sources import CannotRead, NotALedger, open_source, recognise
from hansard.ledger.sources.lines import PIECE
from hansard.ledger.sources.sqlite import _Budget
from hansard.ledger.tiles import encode_bundle
from hansard.ledger.verify import Options, verify
from specimens import FAST, Log, honest


def codes(path: Path) -> list[str]:
    return [each.code for each in verify(path, Options(), FAST).findings]


def test_every_form_is_recognised(tmp_path: Path) -> None:
    log = honest()
    (tmp_path / "receipt").write_bytes(log.receipt(3))
    assert recognise(log.write_sqlite(tmp_path / "any.name")) == "sqlite"
    assert recognise(log.write_jsonl(tmp_path / "x.jsonl")) == "jsonl"
    assert recognise(log.write_export(tmp_path / "export")) == "export"
    assert recognise(tmp_path / "receipt") == "receipt"


def test_the_document_has_the_schema_to_the_letter() -> None:
    """[S2]: whoever reads a ledger by the document alone need not guess."""
    document = Path(__file__).parents[2] / "docs" / "ledger-format.md"
    [written] = re.findall(r"```sql\n(.*?)```", document.read_text("utf-8"), re.DOTALL)
    assert written == "".join(f"{each};\n" for each in layout.TABLES)


def test_a_missing_path_is_an_error_and_creates_nothing(tmp_path: Path) -> None:
    for name in ("none.db", "none.jsonl", "no/where", "none\0.db"):
        with pytest.raises(CannotRead):
            verify(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_sqlite_does_not_take_says_nothing_of_the_ledger(tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*["f" * 200] * 3)
    folder.mkdir(parents=True)
    with pytest.raises(CannotRead, match="its path is longer than"):
        verify(honest().write_sqlite(tmp_path / "x.db").rename(folder / "x.db"), tools=FAST)


@pytest.mark.parametrize("room", [19, 22], ids=["for no copy", "for no joining"])
def test_a_full_temporary_folder_says_nothing_of_the_ledger(tmp_path: Path, room: int) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE t (x)")
        for pages in (18, 5):
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            writer.execute("INSERT INTO t VALUES (zeroblob(?))", (pages * 4096,))
        assert path.stat().st_size > 19 * 4096
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room * 4096, before[1]))
        try:
            with pytest.raises(CannotRead, match="TMPDIR"):
                verify(path, tools=FAST)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"hello\n",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + bytes(4080),
        b"{}\n",
    ],
    ids=["empty", "png", "text", "short sqlite", "zeroed sqlite", "json"],
)
def test_other_bytes_are_reported_as_not_a_ledger(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "some.db"
    path.write_bytes(data)
    report = verify(path, tools=FAST)
    assert report.exit_code == 20
    assert [each.code for each in report.findings] == ["not_a_ledger"]
    assert [each.name for each in tmp_path.iterdir()] == ["some.db"]


def test_what_is_held_against_a_ledger_is_not_taken_for_one_and_told_where_it_belongs(tmp_path: Path) -> None:
    """The exit code stays: whoever took a ledger away may have put a checkpoint in its place."""
    log = honest()
    kept = {
        log.note(): "name the ledger, and this file behind --against or --since",
        f"old 0\n\n{log.note()}": "name the ledger, and this file behind --against or --since",
        f"{log.pin}\n": "; they are a pin: name the ledger, and this file behind --pin",
        "words\n": "its bytes are none of SQLite, JSON lines, export or receipt",
    }
    for text, said in kept.items():
        (tmp_path / "ledger.db").write_text(text)
        report = verify(tmp_path / "ledger.db", tools=FAST)
        [found] = report.findings
        assert (report.exit_code, found.code, found.message.endswith(said)) == (20, "not_a_ledger", True), found


def test_another_database_is_reported_as_not_a_ledger(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE people(name)")
    db.close()
    assert codes(tmp_path / "other.db") == ["not_a_ledger"]


def test_a_folder_without_entries_is_reported_as_not_a_ledger(tmp_path: Path) -> None:
    assert codes(tmp_path) == ["not_a_ledger"]


def test_a_device_and_a_pipe_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(CannotRead):
        verify("/dev/null")
    folder = honest().write_export(tmp_path / "export")
    (folder / "bodies.jsonl").unlink()
    os.mkfifo(folder / "bodies.jsonl")
    with pytest.raises(CannotRead):
        verify(folder, tools=FAST)


def test_an_empty_ledger_is_a_finding_in_every_form(tmp_path: Path) -> None:
    log = Log()
    for path in (
        log.write_sqlite(tmp_path / "x.db"),
        log.write_jsonl(tmp_path / "x.jsonl"),
        log.write_export(tmp_path / "x"),
    ):
        assert "empty" in codes(path)
        assert verify(path, tools=FAST).head is None


def test_beside_an_empty_ledger_a_checkpoint_of_no_entries_says_nothing_and_a_larger_one_of_a_cut(
    tmp_path: Path,
) -> None:
    log = Log(checkpoints=[honest().note(0), honest().note(1)])
    for path in (log.write_sqlite(tmp_path / "x.db"), log.write_jsonl(tmp_path / "x.jsonl")):
        assert codes(path) == ["tail_cut", "empty"]


class TestReadingSqlite:
    def test_leaves_nothing_behind_and_changes_nothing(self, tmp_path: Path) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        before = (path.read_bytes(), path.stat().st_mtime_ns)
        assert verify(path, Options(deep=True), FAST).ok
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before
        assert [each.name for each in tmp_path.iterdir()] == ["x.db"]

    def test_works_where_nothing_can_be_written_and_in_paths_with_odd_characters(self, tmp_path: Path) -> None:
        folder = tmp_path / "a?b#c%20 d'é"
        folder.mkdir()
        path = honest().write_sqlite(folder / "x?mode=rw&y.db")
        path.chmod(0o400)
        folder.chmod(0o500)
        try:
            assert verify(path, tools=FAST).ok
        finally:
            folder.chmod(0o700)

    def test_sees_what_is_only_in_the_write_ahead_log(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        (tmp_path / "temporary").mkdir()
        db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        honest().fill(db)
        names = sorted(each.name for each in tmp_path.iterdir())
        wal = (tmp_path / "x.db-wal").read_bytes()
        assert verify(tmp_path / "x.db", Options(deep=True), FAST).size == 40
        assert (tmp_path / "x.db-wal").read_bytes() == wal
        assert sorted(each.name for each in tmp_path.iterdir()) == names
        assert list((tmp_path / "temporary").iterdir()) == []
        db.close()

    def test_a_copy_without_its_write_ahead_log_is_reported_and_not_mistaken(self, tmp_path: Path) -> None:
        log = honest()
        db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        log.fill(db)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("BEGIN")
        log.grow(1)
        db.execute("INSERT INTO entries(seq, line) VALUES(40, ?)", (log.lines[40].decode(),))
        db.execute("COMMIT")
        (tmp_path / "copy.db").write_bytes((tmp_path / "x.db").read_bytes())
        db.close()
        report = verify(tmp_path / "copy.db", Options(deep=True), FAST)
        assert (report.size, report.exit_code) == (40, 0)

    def test_a_copy_taken_before_anything_left_the_write_ahead_log_is_no_ledger(self, tmp_path: Path) -> None:
        db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        honest().fill(db)
        (tmp_path / "copy.db").write_bytes((tmp_path / "x.db").read_bytes())
        db.close()
        assert codes(tmp_path / "copy.db") == ["not_a_ledger"]

    def test_waits_for_a_writer_that_holds_the_lock(self, tmp_path: Path) -> None:
        db = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
        db.execute("PRAGMA wal_autocheckpoint = 0")
        honest().fill(db)
        held = open(tmp_path / "x.db.lock", "wb")  # noqa: SIM115
        fcntl.flock(held, fcntl.LOCK_EX)
        released: list[float] = []

        def release() -> None:
            time.sleep(0.3)
            released.append(time.monotonic())
            held.close()

        writer = threading.Thread(target=release)
        writer.start()
        report = verify(tmp_path / "x.db", tools=FAST)
        assert report.ok
        assert time.monotonic() >= released[0]
        writer.join()
        db.close()

    def test_begins_anew_when_the_file_changes_under_the_reading(self, tmp_path: Path) -> None:
        log = honest()
        path = log.write_sqlite(tmp_path / "x.db")
        longer = log.copy()
        longer.grow(5)
        moved: list[int] = []

        def move(done: int, total: int) -> None:
            if not moved:
                moved.append(done)
                longer.write_sqlite(path)

        report = verify(path, Options(deep=True), FAST, progress=move)
        assert moved
        assert (report.size, report.findings) == (45, ())

    @pytest.mark.parametrize(
        ("statement", "code"),
        [
            ("PRAGMA application_id = 7", "header"),
            ("PRAGMA user_version = 2", "header"),
            ("CREATE TABLE extra(x)", "schema"),
            ("CREATE VIEW extra AS SELECT 1", "schema"),
            ("CREATE TRIGGER extra AFTER INSERT ON entries BEGIN SELECT 1; END", "schema"),
            ("CREATE INDEX extra ON entries(seq)", "schema"),
            ("ANALYZE", "schema"),
            ("DROP INDEX entries_by_run", "schema"),
            ("DROP TABLE nodes", "schema"),
            ("DROP TABLE head", "schema"),
        ],
    )
    def test_a_header_or_schema_that_is_not_ours_is_a_finding(self, tmp_path: Path, statement: str, code: str) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        change(path, statement)
        report = verify(path, Options(deep=True), FAST)
        assert report.exit_code == 20
        assert code in [each.code for each in report.findings]
        assert report.size == 40

    def test_a_copy_in_another_journal_mode_is_warned_of_and_read(self, tmp_path: Path) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        change(path, "PRAGMA journal_mode = DELETE")
        report = verify(path, Options(deep=True), FAST)
        assert [(each.code, each.grade) for each in report.findings] == [("header", "warning")]

    def test_a_rollback_journal_beside_the_file_is_a_finding(self, tmp_path: Path) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        journal = tmp_path / "x.db-journal"
        journal.touch()
        assert codes(path) == []
        journal.write_bytes(hot_journal(path))
        assert codes(path) == ["journal"]
        restored = sqlite3.connect(path)
        assert restored.execute("SELECT count(*) FROM entries").fetchone() == (0,)
        restored.close()

    def test_a_file_that_is_written_all_the_time_is_verified_in_one_state(self, tmp_path: Path) -> None:
        path = honest(600).write_sqlite(tmp_path / "x.db")
        moved: list[int] = []

        def take_bodies_away(done: int, _: int) -> None:
            # As a redaction does, whose tombstone lies behind what is being read.
            moved.append(done)
            change(path, f"DELETE FROM bodies WHERE id >> 8 = {599 - len(moved)}")

        report = verify(path, Options(deep=True, jobs=1), FAST, progress=take_bodies_away)
        in_the_copy = len(moved) // 2
        assert (report.bodies.missing, report.bodies.opened) == (in_the_copy, report.bodies.parts - in_the_copy)
        assert "moving" not in [each.code for each in report.findings]

    def test_of_a_line_that_is_too_long_only_so_much_is_read_that_it_shows(self, tmp_path: Path) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        change(path, """UPDATE entries SET line = '{"kind":"' || hex(zeroblob(1000000)) || '"}' WHERE seq = 7""")
        report = verify(path, tools=FAST)
        assert report.first_bad is not None
        assert (report.first_bad.seq, report.first_bad.code) == (7, "form")
        source = open_source(path, Findings())
        assert max(len(line) for _, line in source.lines(0, None)) == MAX_LINE + 1
        source.close()

    @pytest.mark.parametrize("value", ["zeroblob(1000000)", "hex(zeroblob(1000000))"])
    def test_a_cause_that_is_no_number_is_a_finding_and_is_not_read(self, tmp_path: Path, value: str) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        change(path, f"UPDATE causes SET cause = {value} WHERE seq = 20")
        report = verify(path, tools=FAST)
        assert [(each.code, each.seq) for each in report.findings] == [("causes", 20)]
        assert len(report.findings[0].message) < 200

    def test_a_table_whose_text_is_not_ours_is_not_read(self, tmp_path: Path) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        endless = "CREATE VIEW entries(seq, line) AS WITH RECURSIVE r(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM r) SELECT n, n FROM r"
        change(path, "DROP TABLE entries", endless)
        report = verify(path, Options(deep=True), FAST)
        assert report.size == 0
        assert {"schema", "empty", "tail_cut"} <= {each.code for each in report.findings}

    @pytest.mark.parametrize("value", ["CAST(line AS BLOB)", "7"])
    def test_a_line_that_is_not_stored_as_text_is_a_finding(self, tmp_path: Path, value: str) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        change(path, f"UPDATE entries SET line = {value} WHERE seq = 7")
        report = verify(path, tools=FAST)
        assert report.first_bad is not None
        assert report.first_bad.seq == 7

    def test_a_damaged_page_costs_only_the_entries_on_it(self, tmp_path: Path) -> None:
        log = honest(600)
        path = log.write_sqlite(tmp_path / "x.db")
        data = bytearray(path.read_bytes())
        page = data.index(b'"seq":200,') // 4096 + 1
        data[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
        path.write_bytes(data)
        report = verify(path, tools=FAST)
        seqs = [each.seq for each in report.findings if each.seq is not None]
        assert report.exit_code == 20
        assert report.size > 550
        assert {"unreadable", "gap"} <= {each.code for each in report.findings}
        assert min(seqs) > 50

    @pytest.mark.parametrize("table", ["checkpoints", "causes", "nodes", "bodies"])
    def test_a_table_that_cannot_be_read_is_told_and_not_taken_for_an_empty_one(
        self, tmp_path: Path, table: str
    ) -> None:
        path = honest(600).write_sqlite(tmp_path / "x.db")
        with closing(sqlite3.connect(path)) as db:
            [root] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        with open(path, "r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(b"\xff" * 4096)
        report = verify(path, Options(deep=True, jobs=1), FAST)
        assert report.exit_code == 20
        assert "unreadable" in [each.code for each in report.findings]

    def test_work_that_would_not_end_is_ended(self) -> None:
        budget = _Budget(1_000_000)
        steps = 0
        while not budget.spend():
            steps += 1
        assert 20 <= steps < 1_000
        budget.renew()
        assert not budget.spend()

    def test_an_older_sqlite_is_named_and_blamed_for_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = honest().write_sqlite(tmp_path / "x.db")
        monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))
        with pytest.raises(CannotRead, match=r"3\.38"):
            verify(path, tools=FAST)


class TestReadingLines:
    def test_a_torn_tail_is_a_warning_and_no_part_of_the_log(self, tmp_path: Path) -> None:
        log = honest()
        path = log.write_jsonl(tmp_path / "x.jsonl")
        with open(path, "ab") as file:
            file.write(b'{"actor":"torn')
        report = verify(path, tools=FAST)
        assert report.ok
        assert report.size == 40
        assert [(each.code, each.grade) for each in report.findings] == [("torn_tail", "warning")]
        assert "14 bytes" in report.findings[0].message

    def test_body_lines_past_the_last_entry_are_leftovers(self, tmp_path: Path) -> None:
        log = honest()
        ahead = log.copy()
        ahead.grow(1)
        path = ahead.write_jsonl(tmp_path / "x.jsonl")
        path.write_bytes(b"".join(line + b"\n" for line in log.lines))
        report = verify(path, Options(deep=True), FAST)
        assert report.ok
        assert [(each.code, each.grade) for each in report.findings] == [("leftover_bodies", "warning")]
        assert "1 body lines" in report.findings[0].message

    def test_companions_may_be_missing_where_nothing_needs_them(self, tmp_path: Path) -> None:
        log = Log.begun(signed=False)
        path = log.write_jsonl(tmp_path / "x.jsonl")
        (tmp_path / "x.bodies.jsonl").unlink()
        (tmp_path / "x.checkpoints.jsonl").unlink()
        assert verify(path, Options(deep=True), FAST).ok

    def test_lines_are_split_on_line_feeds_only(self, tmp_path: Path) -> None:
        log = Log.begun(signed=False)
        log.append(data={"x": "\u2028\u0085\x0b\x0c\r"}, bodies={"prompt": "a\u2028b\r\u0085".encode()})
        report = verify(log.write_jsonl(tmp_path / "x.jsonl"), Options(deep=True))
        assert (report.findings, report.bodies.opened) == ((), 1)

    def test_a_line_without_end_is_one_bad_entry_and_not_much_memory(self, tmp_path: Path) -> None:
        log = honest()
        path = log.write_jsonl(tmp_path / "x.jsonl")
        lines = [*log.lines]
        lines[7] = b"x" * 5_000_000
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        report = verify(path, tools=FAST)
        assert report.first_bad is not None
        assert report.first_bad.seq == 7
        assert "[E1]" in report.first_bad.message
        assert report.size == 40

    @pytest.mark.parametrize("blank", [b"\n", b" \n", b"\r\n"])
    def test_a_blank_line_is_no_entry_and_is_not_skipped(self, tmp_path: Path, blank: bytes) -> None:
        log = honest()
        path = log.write_jsonl(tmp_path / "x.jsonl")
        path.write_bytes(
            b"".join(line + b"\n" for line in log.lines[:7]) + blank + b"".join(line + b"\n" for line in log.lines[7:])
        )
        assert verify(path, tools=FAST).exit_code == 20

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b'"seq":5', b'"seq":6'),
            (b'"seq":5', b'"seq": 5'),
            (b'"part":"prompt","salt":"', b'"part":"other","salt":"'),
            (b'"media":"text/plain', b'"media":"text/plane'),
            (b'"text":"body           5"', b'"b64":"Ym9keSAgICAgICAgICAgNQ=="'),
        ],
    )
    def test_a_body_line_that_strays_from_its_form_or_place_is_caught(
        self, tmp_path: Path, old: bytes, new: bytes
    ) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        bodies = tmp_path / "x.bodies.jsonl"
        lines = bodies.read_bytes().split(b"\n")
        at = next(index for index, line in enumerate(lines) if b'"seq":5,' in line)
        lines[at] = lines[at].replace(old, new) if old != b'"text":"body           5"' else _as_base64(lines[at])
        bodies.write_bytes(b"\n".join(lines))
        assert verify(path, tools=FAST).ok
        assert verify(path, Options(deep=True), FAST).exit_code == 20

    @pytest.mark.parametrize(
        "line",
        [
            b"1",
            b"[]",
            b"{}",
            b'{"media":"m","part":"Prompt","salt":"%b","seq":3,"text":"x"}' % (b"0" * 64),
            b'{"media":"m","part":"prompt","salt":"%b","seq":3,"text":"x"}' % (b"z" * 64),
            b'{"media":1,"part":"prompt","salt":"%b","seq":3,"text":"x"}' % (b"0" * 64),
            b'{"media":"m","part":"prompt","salt":"%b","seq":-1,"text":"x"}' % (b"0" * 64),
            b'{"x":"%b"}' % (b"y" * 200_000),
        ],
        ids=lambda line: line[:40].decode(),
    )
    def test_a_line_that_is_no_body_is_told_as_one(self, tmp_path: Path, line: bytes) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        bodies = tmp_path / "x.bodies.jsonl"
        bodies.write_bytes(line + b"\n" + bodies.read_bytes())
        report = verify(path, Options(deep=True), FAST)
        assert [each.code for each in report.findings] == ["body_form"]
        assert "line 1 of x.bodies.jsonl: [J2]" in report.findings[0].message

    @pytest.mark.parametrize("line", [b"1", b"[]", b"{}", b'{"note":1}', b'{"more":1,"note":""}'])
    def test_a_line_that_is_no_checkpoint_is_told_as_one(self, tmp_path: Path, line: bytes) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        with open(tmp_path / "x.checkpoints.jsonl", "ab") as file:
            file.write(line + b"\n")
        [found] = verify(path, Options(), FAST).findings
        assert found.code == "checkpoint_form"
        assert "line 6 of x.checkpoints.jsonl: [J3]" in found.message

    def test_large_bodies_are_opened_and_what_is_torn_behind_them_is_no_part_of_the_log(self, tmp_path: Path) -> None:
        log = honest()
        for size in (PIECE - 1, PIECE, PIECE + 1, 3 * PIECE):
            log.append(bodies={"large": b"x" * size, "last": b"\xff" * size})
        path = log.write_jsonl(tmp_path / "x.jsonl")
        for name in ("x.jsonl", "x.bodies.jsonl"):
            with open(tmp_path / name, "ab") as file:
                file.write(b"y" * (1 << 17))
        report = verify(path, Options(deep=True), FAST)
        assert [(each.code, each.grade) for each in report.findings] == [("torn_tail", "warning")] * 2
        assert all(f" {1 << 17} bytes" in each.message for each in report.findings)
        assert report.bodies.opened == report.bodies.parts == 45

    def test_a_body_before_the_first_entry_is_caught(self, tmp_path: Path) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        bodies = tmp_path / "x.bodies.jsonl"
        lines = bodies.read_bytes().splitlines(keepends=True)
        at = next(index for index, line in enumerate(lines) if b'"seq":1,' in line)
        bodies.write_bytes(b"".join([lines[at].replace(b'"seq":1,', b'"seq":-1,'), *lines]))
        assert verify(path, Options(deep=True), FAST).exit_code == 20

    def test_checkpoints_that_do_not_rise_are_a_finding(self, tmp_path: Path) -> None:
        log = honest()
        log.checkpoints[0], log.checkpoints[2] = log.checkpoints[2], log.checkpoints[0]
        assert "checkpoint_form" in codes(log.write_jsonl(tmp_path / "x.jsonl"))

    def test_says_so_when_the_file_never_stands_still(self, tmp_path: Path) -> None:
        path = honest().write_jsonl(tmp_path / "x.jsonl")
        report = verify(
            path, tools=FAST, progress=lambda done, total: os.utime(path, ns=(time.time_ns(), time.time_ns()))
        )
        assert [each.code for each in report.findings] == ["moving"]
        assert report.ok

    def test_growth_while_reading_is_not_seen_and_not_a_finding(self, tmp_path: Path) -> None:
        log = honest()
        path = log.write_jsonl(tmp_path / "x.jsonl")

        def append(done: int, total: int) -> None:
            with open(path, "ab") as file:
                file.write(b"more\n")

        report = verify(path, tools=FAST, progress=append)
        assert (report.size, report.findings) == (40, ())


class TestReadingAnExport:
    def test_a_link_in_the_place_of_the_tiles_is_not_walked_along(self, tmp_path: Path) -> None:
        path = honest().write_export(tmp_path / "x")
        (path / "tile").rename(tmp_path / "tiles")
        (tmp_path / "tiles" / "more").touch()
        (path / "tile").symlink_to(tmp_path / "tiles")
        assert codes(path) == []

    def test_extra_files_are_noted(self, tmp_path: Path) -> None:
        folder = honest().write_export(tmp_path / "x")
        (folder / "holiday.jpg").write_bytes(b"")
        (folder / "tile/0/001").write_bytes(b"")
        report = verify(folder, tools=FAST)
        assert report.ok
        assert [(each.code, each.grade) for each in report.findings] == [("extra_files", "note")] * 2

    @pytest.mark.parametrize("name", ["tile/0/000.p/40", "tile/entries/000.p/40"])
    @pytest.mark.parametrize("how", ["edit", "cut", "lengthen", "remove"])
    def test_a_tile_that_differs_is_caught(self, tmp_path: Path, name: str, how: str) -> None:
        folder = honest().write_export(tmp_path / "x")
        tile = folder / name
        data = bytearray(tile.read_bytes())
        data[100] ^= 1
        if how == "edit":
            tile.write_bytes(data)
        elif how == "remove":
            tile.unlink()
        else:
            tile.write_bytes(tile.read_bytes()[:-1] if how == "cut" else tile.read_bytes() + b"\0")
        assert codes(folder) == ["tile"]

    def test_tiles_of_every_level_are_compared(self, tmp_path: Path) -> None:
        log = Log.begun()
        log.grow(700, bodies=False)
        log.checkpoint()
        folder = log.write_export(tmp_path / "x")
        assert verify(folder, tools=FAST).findings == ()
        tile = folder / "tile/1/000.p/2"
        data = bytearray(tile.read_bytes())
        data[40] ^= 1
        tile.write_bytes(data)
        assert codes(folder) == ["tile"]

    def test_a_bundle_holds_no_entry_more_than_its_name_says(self, tmp_path: Path) -> None:
        log = honest()
        folder = log.write_export(tmp_path / "x")
        (folder / "tile/entries/000.p/40").write_bytes(encode_bundle([*log.lines, log.lines[0]]))
        [found] = verify(folder, tools=FAST).findings
        assert (found.code, found.seq) == ("tile", 39)

    def test_an_export_that_is_published_beyond_its_lines_was_cut(self, tmp_path: Path) -> None:
        log = honest()
        published = log.checkpoints.pop()
        log.cut(35)
        report = verify(log.write_export(tmp_path / "x", published=published), tools=FAST)
        assert ("tail_cut", 35) in [(each.code, each.seq) for each in report.findings]

    def test_an_export_of_a_log_without_keys_is_published_nowhere(self, tmp_path: Path) -> None:
        log = Log.begun(signed=False)
        log.grow(5)
        assert codes(log.write_export(tmp_path / "x")) == []

    def test_a_published_checkpoint_that_the_log_did_not_keep_is_caught(self, tmp_path: Path) -> None:
        log = honest()
        forged = log.note(keys=[log.epochs[2]])
        assert codes(log.write_export(tmp_path / "a", published=forged)) == ["published"]
        assert codes(log.write_export(tmp_path / "b", published=log.checkpoints[2])) == ["published"]
        folder = log.write_export(tmp_path / "c")
        (folder / "checkpoint").unlink()
        assert "published" in codes(folder)
        (folder / "checkpoint").write_text("nonsense")
        assert "published" in codes(folder)

    def test_a_torn_file_is_a_failure_there(self, tmp_path: Path) -> None:
        folder = honest().write_export(tmp_path / "x")
        with open(folder / "bodies.jsonl", "ab") as file:
            file.write(b"torn")
        assert codes(folder) == ["torn_tail"]
        assert not verify(folder, tools=FAST).ok


def test_an_index_of_lines_is_not_read_and_the_report_says_so(tmp_path: Path) -> None:
    path = honest().write_jsonl(tmp_path / "x.jsonl")
    (tmp_path / "x.index").write_bytes(b"anything")
    report = verify(path, tools=FAST)
    assert report.findings == ()
    assert any("NAME.index" in each for each in report.not_proven)


def test_a_source_can_be_opened_by_itself(tmp_path: Path) -> None:
    findings = Findings()
    source = open_source(honest().write_sqlite(tmp_path / "x.db"), findings)
    assert source.entries == 40
    assert [seq for seq, _ in source.lines(10, 13)] == [10, 11, 12]
    assert source.unchanged()
    source.close()
    with pytest.raises(NotALedger):
        open_source(tmp_path, findings)


def change(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def hot_journal(path: Path) -> bytes:
    """The journal from which SQLite would make this database one without entries."""
    other = path.with_name("other.db")
    other.write_bytes(path.read_bytes())
    change(other, "DELETE FROM entries")
    data = other.read_bytes()
    other.unlink()
    size = int.from_bytes(data[16:18], "big")
    pages = [data[at : at + size] for at in range(0, len(data), size)]
    header = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", len(pages), 0, len(pages), 512, size)
    records = (
        struct.pack(">I", number) + page + struct.pack(">I", sum(page[size - 200 : 0 : -200]))
        for number, page in enumerate(pages, 1)
    )
    return header.ljust(512, b"\0") + b"".join(records)


def _as_base64(line: bytes) -> bytes:
    start = line.index(b',"text":')
    return b'{"b64":"Ym9keSAgICAgICAgICAgNQ==",' + line[1:start] + b"}"
