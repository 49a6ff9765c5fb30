"""Foreign ledgers come in as they were found: what holds is marked so, what does not is named, nothing passes in silence."""

import hashlib
import json
import math
import os
import sqlite3
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forum_files import Forum, Row, line_of, root_of, row_hash, write_payloads, write_rows
from hansard.domain.custody import ForeignEntry, Imported
from hansard.errors import StoreError, UsageError
from hansard.ledger.entry import Entry
from hansard.record.foreign import ForeignReport, examine, import_foreign, is_foreign
from hansard.record.foreign.format import MEANINGS, Code, Findings, HexTree, canonical, entry_hash, payload_hash
from hansard.record.foreign.sqlite import SqliteLedger
from hansard.store.base import Query, Store
from signed_log import SignedLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = SignedLog.create(tmp_path / "ours", signed=False).store
    yield made
    made.close()


def found(report: ForeignReport) -> dict[str, int]:
    return {code: told["count"] for code, told in report.findings.items()}


def brought_in(store: Store) -> list[Entry]:
    return list(store.select(Query(kind=ForeignEntry.KIND)))


def body(store: Store, seq: int, part: str) -> bytes:
    kept = store.body(seq, part)
    assert kept
    return kept.body


# The vectors of the format's description.


@pytest.mark.parametrize(
    ("value", "digest"),
    [
        ({}, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
        ({"text": "ship a login api"}, "cd00be2cc7c181caeb34866c7d27429fe43af80851495cac55d37fd869bc1422"),
        ({"b": 1, "a": "é"}, "6d9eb45284090145dc16661b06abe01185a16a7dabba07c992a131bffa6b8114"),
    ],
)
def test_payload_hashes_are_those_of_the_vectors(value: Any, digest: str) -> None:
    assert payload_hash(value) == digest


def test_an_entry_hash_is_that_of_the_vector() -> None:
    members = {
        "seq": 0,
        "ts": 1.0,
        "actor": "client",
        "kind": "request",
        "causal_parent": None,
        "payload_hash": payload_hash({"text": "hi"}),
        "prev_hash": "0" * 64,
    }
    assert entry_hash(members) == "052daf12c933841bc59409eb2a56723f7f3020376527e68f6df87185a039eb66"


@pytest.mark.parametrize(
    ("leaves", "root"),
    [
        ("", "0" * 64),
        ("a", "88df0645999a1bc9dec19086e862403750a069436d7ecf7775256f78279b3fcb"),
        ("ab", "0213bc5332c31aab3d5a53644449e5b54d6f74acfb722a8f9eaea7c248cb8d95"),
        ("abc", "5cc9a9352350c5a30daf9d4472af4e25dbd38ec249c9ca79dc27689580a43ee6"),
    ],
)
def test_roots_are_those_of_the_vectors(leaves: str, root: str) -> None:
    tree = HexTree()
    for leaf in leaves:
        tree.push(bytes.fromhex(leaf * 64))
    assert tree.root() == root


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e16, "1e+16"),
        (1e-07, "1e-07"),
        (0.0001, "0.0001"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1, "1"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (2**80, "1208925819614629174706176"),
        ("/\x7f\x01\n\U0001f600", r'"/\u007f\u0001\n\ud83d\ude00"'),
    ],
)
def test_payloads_are_hashed_over_the_json_that_python_writes(value: Any, text: str) -> None:
    assert canonical(value) == text.encode()


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=40))
def test_the_growing_tree_gives_the_root_of_the_level_by_level_tree(hashes: list[bytes]) -> None:
    tree = HexTree()
    for each in hashes:
        tree.push(each)
    assert tree.root() == root_of([each.hex() for each in hashes])


# A good ledger.


def good() -> Forum:
    forum = Forum.of(4)
    forum.append({"nan": math.nan, "n": 2**70, "é": ["\U0001f600", None, True, -0.0]}, actor="agent é", parent=1)
    forum.append("a body may be any JSON value", parent=0)
    forum.append(None, parent=0)
    forum.checkpoint()
    return forum


READ_AND_WAIT = """
import sys
from pathlib import Path
from hansard.record.foreign.sqlite import SqliteLedger
opened = SqliteLedger(Path(sys.argv[1]))
print("reading", flush=True)
sys.stdin.read()
"""


def test_the_copy_of_an_import_that_was_killed_goes_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = good().write_sqlite(tmp_path / "forum.db")
    place = tmp_path / "temporary"
    place.mkdir()
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(place)}
    with subprocess.Popen(
        [sys.executable, "-c", READ_AND_WAIT, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
    ) as killed:  # fmt: skip
        assert killed.stdout is not None
        killed.stdout.readline()
        killed.kill()
    assert len(list(place.iterdir())) == 1
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    assert examine(path).verified
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("layout", ["jsonl", "sqlite"])
def test_a_good_ledger_is_verified_and_comes_in_whole(tmp_path: Path, store: Store, layout: str) -> None:
    forum = good()
    path = forum.write(tmp_path / "forum") if layout == "jsonl" else forum.write_sqlite(tmp_path / "forum.db")
    assert is_foreign(path)
    done = import_foreign(store, path, actor="human:k7")
    report = done.report
    assert (report.verified, report.findings, report.left_out) == (True, {}, 0)
    assert (report.entries, report.chained) == (len(forum.rows), len(forum.rows))
    assert report.root == root_of([row["entry_hash"] for row in forum.rows])
    imported = store.entry(done.seq)
    assert imported.kind == Imported.KIND
    assert imported.data == {"entries": 8, "format": f"forum_{layout}", "left_out": 0, "verified": True}
    told = json.loads(body(store, done.seq, "report"))
    assert told["not_proven"]
    assert told["root"] == report.root
    entries = brought_in(store)
    assert [entry.data for entry in entries] == [
        {"body_state": "opened", "chained": True, "foreign_seq": seq} for seq in range(8)
    ]
    for entry, row in zip(entries, forum.rows, strict=True):
        assert json.loads(body(store, entry.seq, "entry")) == row
        assert hashlib.sha256(body(store, entry.seq, "payload")).hexdigest() == row["payload_hash"]
        parents = [] if row["causal_parent"] is None else [entries[row["causal_parent"]].seq]
        assert list(entry.causes) == [done.seq, *parents]


def test_the_same_ledger_gives_the_same_entries_from_both_layouts(tmp_path: Path) -> None:
    forum = good()
    jsonl, db = examine(forum.write(tmp_path / "f")), examine(forum.write_sqlite(tmp_path / "f.db"))
    assert (jsonl.root, jsonl.head) == (db.root, db.head)


def test_the_original_line_is_kept_byte_for_byte(tmp_path: Path, store: Store) -> None:
    folder = Forum.of(3).write(tmp_path / "forum")
    lines = (folder / "entries.jsonl").read_bytes().split(b"\n")[:-1]
    import_foreign(store, folder, actor="human:k7")
    assert [body(store, entry.seq, "entry") for entry in brought_in(store)] == lines


def test_parents_are_causes_across_groups(tmp_path: Path, store: Store) -> None:
    folder = Forum.of(600).write(tmp_path / "forum")
    seen: list[tuple[int, int]] = []
    done = import_foreign(store, folder, actor="human:k7", progress=lambda at, of: seen.append((at, of)))
    entries = brought_in(store)
    assert len(entries) == 600
    assert all(entry.causes == (done.seq, entry.seq - 1) for entry in entries[1:])
    assert seen == [(256, 600), (512, 600), (600, 600)]


def test_examining_and_importing_leave_the_foreign_files_as_they_were(tmp_path: Path, store: Store) -> None:
    folder = good().write(tmp_path / "forum")
    good().write_sqlite(folder / "forum.db")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    for path in (folder, folder / "forum.db"):
        import_foreign(store, path, actor="human:k7")
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()} == before


def test_entries_that_sleep_in_the_wal_are_read(tmp_path: Path) -> None:
    path = Forum.of(3).write_sqlite(tmp_path / "forum.db")
    db = sqlite3.connect(path)
    db.execute("DELETE FROM entries WHERE seq = 2")
    db.commit()
    assert (tmp_path / "forum.db-wal").stat().st_size
    assert examine(path).entries == 2
    db.close()


# Weakness by weakness, as the description numbers them.


def two_writers(folder: Path, mine: int, theirs: int) -> tuple[Forum, Forum]:
    """L1: two processes that read the same three entries append in turns to one file."""
    first = Forum.of(3)
    second = first.fork()
    folder.mkdir()
    rows = list(first.rows)
    for at in range(max(mine, theirs)):
        if at < mine:
            rows.append(first.append({"first": at}, parent=0))
        if at < theirs:
            rows.append(second.append({"second": at}, parent=0))
    write_rows(folder, rows)
    write_payloads(folder, first.payloads + second.payloads[3:])
    return first, second


def test_l1_of_a_forked_file_the_longest_branch_comes_in_and_the_other_is_named(tmp_path: Path, store: Store) -> None:
    _, second = two_writers(tmp_path / "forum", 20, 25)
    done = import_foreign(store, tmp_path / "forum", actor="human:k7")
    report = done.report
    assert (report.verified, report.entries, report.chained, report.left_out) == (False, 28, 28, 20)
    assert report.head == second.rows[-1]["entry_hash"]
    [branch] = report.branches
    assert (branch.seq, branch.entries) == (3, 20)
    assert found(report) == {"branch_left_out": 1}
    kept = [json.loads(body(store, entry.seq, "entry"))["entry_hash"] for entry in brought_in(store)]
    assert kept == [row["entry_hash"] for row in second.rows]


def test_l1_of_branches_equally_long_the_one_that_ends_first_in_the_file_is_taken(tmp_path: Path) -> None:
    first, second = two_writers(tmp_path / "forum", 20, 20)
    report = examine(tmp_path / "forum")
    assert report.head == first.rows[-1]["entry_hash"]
    assert [branch.tip for branch in report.branches] == [second.rows[-1]["entry_hash"]]
    assert examine(tmp_path / "forum") == report


def test_l1_of_two_writers_that_both_began_the_file_one_is_taken_whole(tmp_path: Path) -> None:
    first, second = Forum(), Forum()
    rows: list[Row] = []
    for at in range(5):
        rows += [first.append({"first": at}), second.append({"second": at})]
    folder = tmp_path / "forum"
    folder.mkdir()
    write_rows(folder, rows)
    write_payloads(folder, first.payloads + second.payloads)
    report = examine(folder)
    assert (report.entries, report.chained, report.left_out) == (5, 5, 5)
    assert report.head == first.rows[-1]["entry_hash"]
    assert [(branch.seq, branch.entries) for branch in report.branches] == [(0, 5)]


def cut(path: Path, count: int) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def add(path: Path, value: Any) -> None:
    with path.open("ab") as file:
        file.write(line_of(value))


def torn_and_gone_on(folder: Path, appended: int) -> Forum:
    """L4 and L5: the last 40 bytes are cut off, and a reopened engine glues its next rows to the torn one."""
    forum = Forum.of(4)
    forum.write(folder)
    cut(folder / "entries.jsonl", 40)
    after = Forum(forum.rows[:3], forum.payloads)
    for at in range(appended):
        add(folder / "entries.jsonl", after.append({"after": at}, parent=1))
        add(folder / "payloads.jsonl", {"hash": after.payloads[-1][0], "body": {"after": at}})
    return after


@pytest.mark.parametrize("appended", [1, 2, 5])
def test_l4_l5_rows_glued_to_a_torn_one_are_recovered(tmp_path: Path, store: Store, appended: int) -> None:
    after = torn_and_gone_on(tmp_path / "forum", appended)
    report = import_foreign(store, tmp_path / "forum", actor="human:k7").report
    assert (report.entries, report.chained, report.left_out) == (3 + appended, 3 + appended, 1)
    assert report.head == after.rows[-1]["entry_hash"]
    assert found(report) == {"line_glued": 1, "payload_unreferenced": 1}
    assert not report.verified
    last = brought_in(store)[-1]
    assert json.loads(body(store, last.seq, "entry")) == after.rows[-1]


def test_l4_a_torn_last_line_is_left_out_and_named(tmp_path: Path) -> None:
    torn_and_gone_on(tmp_path / "forum", 0)
    report = examine(tmp_path / "forum")
    assert (report.entries, report.left_out) == (3, 1)
    assert found(report) == {"line_torn": 1, "line_unreadable": 1, "payload_unreferenced": 1}


def test_l5_payload_rows_glued_to_a_torn_one_are_recovered(tmp_path: Path) -> None:
    forum = Forum.of(3)
    folder = forum.write(tmp_path / "forum")
    cut(folder / "payloads.jsonl", 7)
    row = forum.append({"nested": {"hash": "x", "body": 1}})
    add(folder / "entries.jsonl", row)
    add(folder / "payloads.jsonl", {"hash": row["payload_hash"], "body": {"nested": {"hash": "x", "body": 1}}})
    assert found(examine(folder)) == {"line_glued": 1, "payload_missing": 1}


def test_two_whole_rows_on_one_line_are_both_taken(tmp_path: Path) -> None:
    folder = Forum.of(4).write(tmp_path / "forum")
    path = folder / "entries.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], lines[1] + lines[2], *lines[3:]]))
    report = examine(folder)
    assert (report.entries, report.chained, report.left_out) == (4, 4, 0)
    assert found(report) == {"line_glued": 2}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_l6_a_body_that_bricks_the_engine_is_read_and_named(tmp_path: Path, store: Store, separator: str) -> None:
    forum = Forum.of(2)
    forum.append({"output": f"one{separator}two"}, parent=1)
    report = import_foreign(store, forum.write(tmp_path / "forum"), actor="human:k7").report
    assert (report.entries, report.chained, report.verified) == (3, 3, False)
    assert found(report) == {"line_separator": 1}
    assert json.loads(body(store, brought_in(store)[-1].seq, "payload")) == {"output": f"one{separator}two"}


def test_l8_l9_what_no_check_of_such_a_ledger_shows_is_said_in_every_report(tmp_path: Path) -> None:
    forum = Forum.of(10)
    cut_off = Forum(forum.rows[:5], forum.payloads[:5])
    rebuilt = Forum()
    for at in range(10):
        rebuilt.append({"text": "forged" if at == 3 else f"entry {at}"})
    for name, each in (("cut", cut_off), ("rebuilt", rebuilt)):
        report = examine(each.write(tmp_path / name))
        assert report.verified
        said = " ".join(report.as_json()["not_proven"])
        assert "cut off at its end" in said
        assert "rebuilt it whole" in said


def test_l8_a_tail_that_left_its_payloads_behind_is_noticed(tmp_path: Path) -> None:
    forum = Forum.of(10)
    report = examine(Forum(forum.rows[:5], forum.payloads).write(tmp_path / "forum"))
    assert found(report) == {"payload_unreferenced": 5}
    assert not report.verified


@pytest.mark.parametrize("layout", ["jsonl", "sqlite"])
def test_l10_an_entry_whose_payload_was_deleted_is_marked_absent(tmp_path: Path, store: Store, layout: str) -> None:
    forum = Forum.of(4)
    del forum.payloads[2]
    path = forum.write(tmp_path / "forum") if layout == "jsonl" else forum.write_sqlite(tmp_path / "forum.db")
    report = import_foreign(store, path, actor="human:k7").report
    assert (found(report), report.verified) == ({"payload_missing": 1}, False)
    entry = brought_in(store)[2]
    assert (entry.data["body_state"], list(entry.body)) == ("absent", ["entry"])


@pytest.mark.parametrize("layout", ["jsonl", "sqlite"])
def test_l11_an_edited_payload_is_marked_and_kept_as_it_was_found(tmp_path: Path, store: Store, layout: str) -> None:
    forum = Forum.of(4)
    forum.payloads[2] = (forum.payloads[2][0], {"text": "edited"})
    path = forum.write(tmp_path / "forum") if layout == "jsonl" else forum.write_sqlite(tmp_path / "forum.db")
    report = import_foreign(store, path, actor="human:k7").report
    assert (found(report), report.verified) == ({"payload_differs": 1}, False)
    entry = brought_in(store)[2]
    assert entry.data["body_state"] == "differs"
    assert b'"text": "edited"' in body(store, entry.seq, "payload")


def test_l13_text_that_could_stand_on_either_side_of_the_separator_is_named(tmp_path: Path) -> None:
    forum = Forum.of(2)
    row = forum.append({"x": 1}, actor="a\x1fb", kind="c")
    moved: Row = {**row, "actor": "a", "kind": "b\x1fc"}
    assert row_hash(moved) == row["entry_hash"]
    for rows in (forum.rows, [*forum.rows[:2], moved]):
        report = examine(Forum(rows, forum.payloads).write(tmp_path / "forum"))
        assert (found(report), report.verified) == ({"text_ambiguous": 1}, False)


def test_l14_fields_that_no_hash_covers_are_named(tmp_path: Path) -> None:
    forum = Forum.of(3)
    forum.rows[1] = {**forum.rows[1], "approved_by": "ceo"}
    assert found(examine(forum.write(tmp_path / "forum"))) == {"field_unknown": 1}


@pytest.mark.parametrize(
    ("parent", "code"), [(2, "parent_not_before"), (7, "parent_not_before"), (-1, "parent_left_out")]
)
def test_l14_a_parent_that_is_not_before_is_named_and_no_cause(
    tmp_path: Path, store: Store, parent: int, code: str
) -> None:
    forum = Forum.of(2)
    forum.append({"x": 1}, parent=parent)
    done = import_foreign(store, forum.write(tmp_path / "forum"), actor="human:k7")
    assert found(done.report) == {code: 1}
    assert brought_in(store)[2].causes == (done.seq,)


def test_l14_time_running_backwards_is_named(tmp_path: Path) -> None:
    forum = Forum.of(2)
    forum.append({"x": 1}, ts=12.5)
    assert found(examine(forum.write(tmp_path / "forum"))) == {"time_backwards": 1}


def test_l14_a_time_changed_below_a_microsecond_passes_and_the_report_says_so(tmp_path: Path) -> None:
    forum = Forum.of(2)
    forum.rows[1] = {**forum.rows[1], "ts": forum.rows[1]["ts"] + 2.4e-7}
    report = examine(forum.write(tmp_path / "forum"))
    assert report.verified
    assert "below a microsecond" in " ".join(report.as_json()["not_proven"])


# Other damage.


def spoilt(forum: Forum, at: int, **changes: Any) -> Forum:
    forum.rows[at] = {**forum.rows[at], **changes}
    return forum


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"actor": "someone else"}, "entry_hash_differs"),
        ({"seq": 2.0}, "seq_not_integer"),
        ({"seq": "2"}, "seq_not_integer"),
        ({"seq": True}, "seq_not_integer"),
        ({"seq": -2}, "entry_malformed"),
        ({"ts": "now"}, "entry_malformed"),
        ({"ts": math.nan}, "entry_malformed"),
        ({"ts": 10**400}, "entry_malformed"),
        ({"kind": None}, "entry_malformed"),
        ({"causal_parent": 1.0}, "entry_malformed"),
        ({"payload_hash": "A" * 64}, "entry_malformed"),
        ({"prev_hash": ""}, "entry_malformed"),
    ],
)
def test_a_row_that_does_not_hold_is_left_out_and_what_follows_is_not_chained(
    tmp_path: Path, store: Store, changes: dict[str, Any], code: str
) -> None:
    forum = spoilt(Forum.of(5), 2, **changes)
    done = import_foreign(store, forum.write(tmp_path / "forum"), actor="human:k7")
    report = done.report
    assert (report.entries, report.chained, report.left_out, report.verified) == (4, 2, 1, False)
    assert found(report)[code] == 1
    assert found(report)["chain_broken"] == 1
    entries = brought_in(store)
    assert [entry.data["foreign_seq"] for entry in entries] == [0, 1, 3, 4]
    assert [entry.data["chained"] for entry in entries] == [True, True, False, False]
    assert entries[2].causes == (done.seq,), "its parent was left out"


def test_a_lone_surrogate_in_an_actor_is_malformed(tmp_path: Path) -> None:
    folder = Forum.of(2).write(tmp_path / "forum")
    path = folder / "entries.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"actor": "client"', b'"actor": "\\ud800"', 1))
    assert found(examine(folder))["entry_malformed"] == 1


def test_every_segment_between_gaps_is_salvaged(tmp_path: Path) -> None:
    forum = Forum.of(30)
    for at in (5, 6, 11, 20):
        spoilt(forum, at, actor="edited")
    report = examine(forum.write(tmp_path / "forum"))
    assert (report.entries, report.chained, report.left_out) == (26, 5, 4)
    assert found(report)["chain_broken"] == 3


def test_without_its_first_entry_a_ledger_is_salvaged_but_not_chained(tmp_path: Path) -> None:
    forum = Forum.of(5)
    report = examine(Forum(forum.rows[1:], forum.payloads).write(tmp_path / "forum"))
    assert (report.entries, report.chained) == (4, 0)


def test_rows_in_another_order_and_rows_that_stand_twice_do_no_harm(tmp_path: Path) -> None:
    forum = Forum.of(6)
    folder = forum.write(tmp_path / "forum")
    write_rows(folder, [*reversed(forum.rows), forum.rows[2]])
    report = examine(folder)
    assert (report.entries, report.chained, report.left_out) == (6, 6, 1)
    assert found(report) == {"entry_repeated": 1}


def test_a_recorded_checkpoint_with_another_root_is_named(tmp_path: Path) -> None:
    forum = Forum.of(3)
    forum.append({"wave": 0, "root": "ab" * 32}, kind="checkpoint")
    assert found(examine(forum.write(tmp_path / "forum"))) == {"checkpoint_differs": 1}


def test_of_two_payload_rows_for_one_hash_the_one_that_holds_is_taken(tmp_path: Path, store: Store) -> None:
    forum = Forum.of(2)
    digest, true = forum.payloads[1]
    forum.payloads[1:] = [(digest, {"text": "forged"}), (digest, true)]
    report = import_foreign(store, forum.write(tmp_path / "forum"), actor="human:k7").report
    assert found(report) == {"payload_differs": 1}
    assert json.loads(body(store, brought_in(store)[1].seq, "payload")) == true


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (b"\n", "line_blank"),
        (b"\xff\xfe\n", "line_unreadable"),
        (b"[" * 100_000 + b"\n", "line_unreadable"),
        (b"1" * 5_000 + b"\n", "line_unreadable"),
        (b'{"hash": "00", "body": 1}\n', "payload_malformed"),
        (b"[]\n", "payload_malformed"),
    ],
)
def test_any_line_of_payloads_gives_a_finding_and_never_an_error(tmp_path: Path, damage: bytes, code: str) -> None:
    folder = Forum.of(2).write(tmp_path / "forum")
    path = folder / "payloads.jsonl"
    path.write_bytes(damage + path.read_bytes())
    assert found(examine(folder)) == {code: 1}


def test_a_field_that_stands_twice_is_named(tmp_path: Path) -> None:
    folder = Forum.of(2).write(tmp_path / "forum")
    path = folder / "entries.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"actor"', b'"actor": "x", "actor"', 1))
    assert found(examine(folder)) == {"field_repeated": 1}


def test_a_field_that_stands_twice_in_a_payload_of_a_database_is_named(tmp_path: Path) -> None:
    path = Forum.of(2).write_sqlite(tmp_path / "forum.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            """UPDATE payloads SET body = replace(body, '"text"', '"text": "another", "text"') WHERE rowid = 1"""
        )
        db.commit()
    report = examine(path)
    assert (found(report), report.verified) == ({"field_repeated": 1}, False)


def test_a_missing_payload_file_is_named(tmp_path: Path) -> None:
    folder = Forum.of(2).write(tmp_path / "forum")
    (folder / "payloads.jsonl").unlink()
    report = examine(folder)
    assert found(report) == {"file_missing": 1, "payload_missing": 2}


@given(data=st.data())
def test_any_flipped_byte_gives_a_report_that_does_not_verify_or_changes_nothing_hashed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = Forum.of(4).write(tmp_path_factory.mktemp("flip"))
    good_report = examine(folder)
    path = folder / data.draw(st.sampled_from(["entries.jsonl", "payloads.jsonl"]))
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    report = examine(folder)
    if report.verified:
        assert (report.root, report.entries) == (good_report.root, good_report.entries)


def test_an_extra_column_and_an_extra_trigger_are_named(tmp_path: Path) -> None:
    path = Forum.of(2).write_sqlite(tmp_path / "forum.db")
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE entries ADD COLUMN approved_by TEXT")
    db.execute("CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM payloads; END")
    db.close()
    report = examine(path)
    assert found(report) == {"field_unknown": 1, "object_unknown": 1}
    assert report.entries == 2


@pytest.mark.parametrize(
    ("column", "value", "code"), [("actor", b"client", "entry_malformed"), ("ts", "soon", "entry_malformed")]
)
def test_a_cell_of_another_type_is_malformed(tmp_path: Path, column: str, value: Any, code: str) -> None:
    path = Forum.of(2).write_sqlite(tmp_path / "forum.db")
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE entries SET {column} = ? WHERE seq = 1", (value,))
    db.close()
    assert found(examine(path))[code] == 1


def test_a_damaged_database_gives_what_can_still_be_read(tmp_path: Path) -> None:
    path = Forum.of(400).write_sqlite(tmp_path / "forum.db")
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = b"\xaa" * 4096
    path.write_bytes(raw)
    report = examine(path)
    assert "database_damaged" in found(report)
    assert not report.verified


def test_a_database_of_whose_faults_sqlite_speaks_in_no_utf_8_is_refused(tmp_path: Path) -> None:
    path = Forum.of(2).write_sqlite(tmp_path / "forum.db")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE payloads", b"CREATE\xe5TABLE payloads"))
    with pytest.raises(UsageError, match="cannot be read as a SQLite file"):
        examine(path)


@pytest.mark.parametrize("table", ["entries", "payloads"])
def test_a_database_whose_pages_lead_to_the_same_page_again_comes_to_an_end(tmp_path: Path, table: str) -> None:
    """Three rows, on a page to which 300 places lead, on a page to which 300 places lead."""
    path = Forum.of(3).write_sqlite(tmp_path / "forum.db")
    with closing(sqlite3.connect(path)) as db:
        [[root]] = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
        [[size]] = db.execute("PRAGMA page_size")
    raw = bytearray(path.read_bytes())
    page, pages = slice((root - 1) * size, root * size), len(raw) // size

    def inner(child: int) -> bytes:
        start = size - 300 * 5
        cells = (start + at * 5 for at in range(300))
        head = struct.pack(">BHHHBI", 5, 0, 300, start, 0, child) + b"".join(struct.pack(">H", at) for at in cells)
        return head.ljust(start, b"\0") + struct.pack(">IB", child, 100) * 300

    raw += raw[page] + inner(pages + 1)
    raw[page] = inner(pages + 2)
    raw[28:32] = struct.pack(">I", pages + 2)
    path.write_bytes(raw)
    source = SqliteLedger(path)
    findings = Findings()
    with closing(source):
        seen = len(list(source.rows(findings) if table == "entries" else source.payloads(findings)))
    assert 3 < seen < 3 * 300 * 300
    assert any(place.startswith(f"{table} after row") for place in findings.places["database_damaged"])


def test_a_view_that_poses_as_the_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "forum.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE payloads (payload_hash TEXT PRIMARY KEY, body TEXT)")
    columns = "1 AS seq, 2 AS ts, 3 AS actor, 4 AS kind, 5 AS causal_parent, 6 AS payload_hash, 7 AS prev_hash, 8 AS entry_hash"
    db.execute(f"CREATE VIEW entries AS SELECT {columns}")
    db.close()
    with pytest.raises(UsageError, match="no table entries"):
        examine(path)


def loose(path: Path, forum: Forum, *, rows: str = "", payloads: str = "") -> Path:
    """A database of the format's columns, where nothing keeps a number from standing twice."""
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE entries ({', '.join(forum.rows[0])}{rows})")
        db.execute(f"CREATE TABLE payloads (payload_hash, body{payloads})")
        insert_rows(db, forum.rows)
        bodies = [(digest, json.dumps(body)) for digest, body in forum.payloads]
        db.executemany("INSERT INTO payloads (payload_hash, body) VALUES (?, ?)", bodies)
    db.close()
    return path


def insert_rows(db: sqlite3.Connection, rows: list[Row]) -> None:
    names = ", ".join(rows[0])
    db.executemany(
        f"INSERT INTO entries ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [tuple(row.values()) for row in rows]
    )


def test_of_rows_with_one_seq_the_one_that_was_verified_comes_in(tmp_path: Path, store: Store) -> None:
    forum = Forum.of(3)
    path = loose(tmp_path / "forum.db", Forum(forum.rows[:1], forum.payloads))
    with sqlite3.connect(path) as db:
        insert_rows(db, [{**forum.rows[1], "actor": "forger"}, *forum.rows[1:]])
    db.close()
    report = import_foreign(store, path, actor="human:k7").report
    assert (found(report), report.chained) == ({"entry_hash_differs": 1}, 3)
    kept = [json.loads(body(store, entry.seq, "entry")) for entry in brought_in(store)]
    assert kept == forum.rows


def test_a_column_that_poses_as_the_rowid_gives_no_entry_the_payload_of_another(tmp_path: Path, store: Store) -> None:
    path = loose(tmp_path / "forum.db", Forum.of(3), payloads=", rowid DEFAULT 7")
    report = import_foreign(store, path, actor="human:k7").report
    assert found(report) == {"field_unknown": 1}
    for entry in brought_in(store):
        named = json.loads(body(store, entry.seq, "entry"))["payload_hash"]
        assert entry.data["body_state"] == "opened"
        assert hashlib.sha256(body(store, entry.seq, "payload")).hexdigest() == named


def test_never_fewer_than_no_entries_are_left_out(tmp_path: Path) -> None:
    folder = Forum.of(3).write(tmp_path / "forum")
    first, second, third = (folder / "entries.jsonl").read_bytes().splitlines()
    turned = json.dumps(dict(reversed(json.loads(first).items()))).encode()
    (folder / "entries.jsonl").write_bytes(turned + second + b"\n" + third + b"\n")
    report = examine(folder)
    assert (report.entries, report.left_out, found(report)) == (3, 0, {"line_glued": 2})


def test_through_a_link_the_wal_is_read_too(tmp_path: Path) -> None:
    path = Forum.of(3).write_sqlite(tmp_path / "forum.db")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    db = sqlite3.connect(path)
    db.execute("DELETE FROM entries WHERE seq = 2")
    db.commit()
    assert (tmp_path / "forum.db-wal").stat().st_size
    assert examine(link).entries == 2
    db.close()


def test_a_pipe_is_no_ledger_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert not is_foreign(tmp_path / "pipe")


def test_what_is_no_ledger_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_bytes(b"not a database, though it has a few bytes to show" * 10)
    (tmp_path / "empty").mkdir()
    for name, message in (("text.db", "not a SQLite file"), ("empty", "no entries.jsonl"), ("typo", "no ledger at")):
        with pytest.raises(UsageError, match=message):
            examine(tmp_path / name)
    assert not (tmp_path / "typo").exists()


def test_our_own_ledger_is_not_taken_for_a_foreign_one(tmp_path: Path, store: Store) -> None:
    assert not is_foreign(Path(store.place))
    with pytest.raises(UsageError, match="not a SQLite file of a foreign ledger"):
        examine(Path(store.place))


def test_a_ledger_of_which_nothing_is_left_is_refused_and_nothing_is_recorded(tmp_path: Path, store: Store) -> None:
    folder = Forum.of(2).write(tmp_path / "forum")
    (folder / "entries.jsonl").write_bytes(b"gone\n")
    size = store.head().size
    with pytest.raises(UsageError, match=r"nothing .* could be salvaged: line_unreadable"):
        import_foreign(store, folder, actor="human:k7")
    assert store.head().size == size


@pytest.mark.parametrize(
    ("name", "old", "new"), [("payloads.jsonl", b"entry 299", b"entry 298"), ("entries.jsonl", b'"}', b"'}")]
)
def test_a_file_that_changes_between_the_readings_stops_the_import(
    tmp_path: Path, store: Store, name: str, old: bytes, new: bytes
) -> None:
    folder = Forum.of(300).write(tmp_path / "forum")

    path = folder / name
    raw = path.read_bytes()

    def rewrite(at: int, of: int) -> None:
        path.write_bytes(raw[:-60] + raw[-60:].replace(old, new))

    assert old in raw[-60:]
    with pytest.raises(StoreError, match="was changed while it was being imported"):
        import_foreign(store, folder, actor="human:k7", progress=rewrite)


def test_every_code_has_its_meaning() -> None:
    assert set(MEANINGS) == set(get_args(Code))
