"""Ways in which another engine's ledger was seen to fail, each done to ours. The numbers are those of the list they come from.

L2, L3 and L12 are about commands and stand with the commands; L15, eight processes at once, is in test_processes.
"""

import os
import signal
import sqlite3
import stat
import threading
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from hansard.domain.fact import TEXT_WITH_SURROGATES, Body
from hansard.errors import StoreError, UsageError
from hansard.ledger.body import TEXT, commitment
from hansard.ledger.canonical import Malformed
from hansard.ledger.entry import checked_sketch, parse
from hansard.ledger.merkle import leaf_hash
from hansard.ledger.verify import Options, Report, verify
from hansard.record.draft import Drafter
from hansard.store.base import Draft, Part, Query, Store
from hansard.store.sqlite import SqliteStore
from hansard.store.sqlite import writer as sqlite_writer
from ledgers import Clock, request
from signed_log import SignedLog
from store import writer
from store.faults import FORMS, Child, after_fault, named, new_ledger, opened, run

each_form = pytest.mark.parametrize("form", FORMS)


def deep(path: Path) -> Report:
    return verify(path, Options(deep=True, jobs=1))


def put(store: Store, *drafts: Draft) -> list[int]:
    [outcome] = store.append([drafts])
    assert isinstance(outcome, list), outcome
    return [place.seq for place in outcome]


def noted(*, causes: tuple[int, ...] = (), body: bytes = b"", data: dict[str, str] | None = None) -> Draft:
    parts = (Part("output", TEXT, sha256(body).digest(), body),) if body else ()
    committed = {part.name: commitment(part.salt, part.media, part.body).hex() for part in parts}
    sketch = checked_sketch(kind="task.noted", actor="lane:test", run="r1", data=data or {}, body=committed)
    return Draft("r1", sketch, causes, parts, None)


def test_l1_two_processes_never_give_the_same_seq_twice(tmp_path: Path) -> None:
    path = new_ledger(named(tmp_path, "sqlite"))
    with opened(path) as first, opened(path) as second:
        for child in (first, second):
            child.tell("append 200 1 100")
        for child in (first, second):
            assert child.hear("done"), child.refusals
    assert len(first.acknowledged | second.acknowledged) == 400
    assert len(after_fault(path, first.acknowledged | second.acknowledged, batch=0)) == 401


def test_l1_a_ledger_in_json_lines_tells_a_second_writer_who_has_it(tmp_path: Path) -> None:
    path = new_ledger(named(tmp_path, "jsonl"))
    with opened(path) as first, Child(path) as second:
        second.hear()
        said = second.ask("open")
        assert said.startswith("refused Unavailable process ")
        assert "wait until it ends" in said
        assert first.ask("append 1 1 100").startswith("ack 1:")
        assert first.hear("done")
    assert second.stderr == b""
    assert len(after_fault(path, first.acknowledged, batch=0)) == 2


@each_form
@pytest.mark.parametrize("appends", [1, 2])
def test_l4_l5_what_is_appended_after_a_torn_end_is_there_after_reopening(
    tmp_path: Path, form: str, appends: int
) -> None:
    path = new_ledger(named(tmp_path, form))
    with opened(path) as crashed:
        crashed.tell("append 3 1 300")
        assert crashed.hear("done")
        crashed.signal(signal.SIGKILL)
        crashed.finish()
    _cut(path.with_name("log.db-wal") if form == "sqlite" else path, 40)
    later = run(path, ["open", f"append {appends} 1 300"])
    assert len(later.acknowledged) == appends, later.refusals
    kept = {seq: leaf for seq, leaf in crashed.acknowledged.items() if seq < 3}
    entries = after_fault(path, kept | later.acknowledged, batch=0)
    assert len(entries) - appends >= 3, "all but the torn entry"


@each_form
def test_l5_a_torn_body_neither_spoils_the_ledger_nor_goes_unnoticed(tmp_path: Path, form: str) -> None:
    path = new_ledger(named(tmp_path, form))
    run(path, ["open", "append 2 1 300", "close"])
    if form == "jsonl":
        _cut(path.with_name("log.bodies.jsonl"), 40)
    else:
        _execute(path, "DELETE FROM bodies WHERE id = (SELECT max(id) FROM bodies)")
    later = run(path, ["open", "append 2 1 300", "close"])
    assert len(later.acknowledged) == 2, later.refusals
    with closing(writer.reopen(path)) as store:
        assert store.broken is None
        assert store.body(2, "output") is None
        assert store.body(4, "output") is not None
    report = deep(path)
    assert report.exit_code == 22
    assert (report.bodies.missing, report.bodies.opened) == (1, 3)


def _cut(path: Path, count: int) -> None:
    os.truncate(path, path.stat().st_size - count)


@each_form
@pytest.mark.parametrize(
    "odd", ["a\u2028b", "a\u2029b", "a\u0085b", "a\x00b\x1f\r\n\x0b\x0c", "\ufeff\uffff\U0010ffff"]
)
def test_l6_no_character_of_an_output_spoils_the_ledger(tmp_path: Path, form: str, odd: str) -> None:
    path = named(tmp_path, form)
    with closing(writer.create(path)) as store:
        put(store, noted(body=odd.encode(), data={"said": odd}), noted())
    with closing(writer.reopen(path)) as store:
        kept = store.body(1, "output")
        assert kept is not None
        assert kept.body == odd.encode()
        assert store.entry(1).data == {"said": odd}
        put(store, noted())
    assert deep(path).ok


@each_form
def test_l7_a_lone_surrogate_in_an_output_is_kept_byte_for_byte(tmp_path: Path, form: str) -> None:
    path = named(tmp_path, form)
    said = "half of an emoji: \ud83d, and on it goes"
    with closing(writer.create(path)) as store:
        put(store, Drafter().draft(request(said), actor="model:m", run="r1", causes=(), fence=None))
    with closing(writer.reopen(path)) as store:
        kept = store.body(1, "request")
        assert kept is not None
        assert Body(kept.media, kept.body).as_text() == said
        assert kept.media == TEXT_WITH_SURROGATES
    assert deep(path).ok


def test_l7_a_lone_surrogate_in_a_name_is_refused_before_anything_is_written() -> None:
    with pytest.raises(UsageError, match="actor"):
        Drafter().draft(request(), actor="lane:\ud83d", run="r1", causes=(), fence=None)
    with pytest.raises(Malformed):
        noted(data={"said": "\ud83d"})


def test_l8_a_cut_tail_is_seen_by_the_store_and_by_the_checkpoint_that_outlived_it(tmp_path: Path) -> None:
    log = SignedLog.create(tmp_path)
    log.ask_many(9)
    log.checkpoint()
    log.store.close()
    assert deep(log.path).ok
    _execute(log.path, "DELETE FROM entries WHERE seq >= 5", "DELETE FROM bodies WHERE id >= 5 << 8")
    with closing(SqliteStore.open(log.path)) as store:
        assert store.broken is not None
        assert "the last entry is 4" in store.broken
        with pytest.raises(StoreError, match="may not be extended"):
            put(store, noted())
        assert store.entry(4).seq == 4, "what is left can still be read"
        with pytest.raises(StoreError, match="its end was cut off"):
            store.repair()
    assert deep(log.path).exit_code == 20


def test_l9_a_forged_log_rebuilt_from_the_start_does_not_agree_with_the_pin(tmp_path: Path) -> None:
    logs = []
    for name, text in (("true", "the tests failed"), ("forged", "the tests passed")):
        log = SignedLog.create(tmp_path / name)
        log.ask(text)
        log.checkpoint()
        genesis = leaf_hash(log.store.entry(0).line).hex()
        logs.append((log.path, f"{log.identity}@{genesis}"))
        log.store.close()
    (true, pin), (forged, _) = logs
    assert verify(true, Options(deep=True, pin=pin)).exit_code == 0
    assert verify(forged, Options(deep=True, pin=pin)).exit_code == 21
    assert verify(forged, Options(deep=True)).signed.keys == "self-asserted", (
        "without the pin it says whose keys those are"
    )


def test_l10_a_body_deleted_without_a_word_is_missed_and_everything_else_works_on(tmp_path: Path) -> None:
    path = new_ledger(named(tmp_path, "sqlite"))
    run(path, ["open", "append 3 1 300", "close"])
    _execute(path, f"DELETE FROM bodies WHERE id = {2 << 8}")
    with closing(writer.reopen(path)) as store:
        assert store.body(2, "output") is None
        assert [entry.seq for entry in store.select(Query(kind="task.noted"))] == [1, 2, 3]
        assert put(store, noted(causes=(2,))) == [4]
    report = deep(path)
    assert report.exit_code == 22
    assert report.first_bad is not None
    assert (report.first_bad.seq, report.first_bad.part) == (2, "output")


def test_l11_an_edited_body_is_a_failure_with_an_exit_code(tmp_path: Path) -> None:
    path = new_ledger(named(tmp_path, "sqlite"))
    run(path, ["open", "append 3 1 300", "close"])
    _execute(path, f"UPDATE bodies SET body = CAST('all is well' AS BLOB) WHERE id = {2 << 8}")
    report = deep(path)
    assert report.exit_code == 20
    assert report.first_bad is not None
    assert report.first_bad.seq == 2


@pytest.mark.parametrize("separator", ["\x1f", "\x00", "\n", '"', " "])
def test_l13_no_separator_can_stand_in_an_actor_or_a_kind(separator: str) -> None:
    with pytest.raises(UsageError, match="actor"):
        Drafter().draft(request(), actor=f"lane{separator}x", run="r1", causes=(), fence=None)
    for names in ({"actor": f"a{separator}b"}, {"kind": f"task{separator}.noted"}, {"run": f"r{separator}1"}):
        with pytest.raises(Malformed, match=next(iter(names))):
            checked_sketch(**({"kind": "task.noted", "actor": "a", "run": "r1"} | names), data={}, body={})


@each_form
@pytest.mark.parametrize("cause", [1, 2, 99, ~0, ~1, ~7])
def test_l14_an_entry_cannot_be_caused_by_itself_by_the_future_or_by_nothing(
    tmp_path: Path, form: str, cause: int
) -> None:
    with closing(writer.create(named(tmp_path, form))) as store:
        outcome, other = store.append([[noted(causes=(cause,))], [noted(causes=(0,))]])
        assert isinstance(outcome, UsageError)
        assert "cause" in str(outcome)
        assert isinstance(other, list), "its neighbour in the commit goes on"
        assert store.head().size == 2


def test_l14_time_never_runs_backwards_and_a_late_clock_is_recorded(tmp_path: Path) -> None:
    clock = Clock()
    with closing(SqliteStore.create(named(tmp_path, "sqlite"), writer.genesis(), clock=clock)) as store:
        put(store, noted())
        clock.now -= 3600
        put(store, noted())
        entries = [parse(line) for line in store.lines()]
        assert [entry.kind for entry in entries][2:] == ["log.clock", "task.noted"]
        assert len({entry.ts for entry in entries}) == 1
        assert entries[2].data["behind_us"] == 3_600_000_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ts":1', '"ts":2'),
        ('"prev":', '"more":"unhashed","prev":'),
        ('"causes":[]', '"causes":[2]'),
        ('"causes":[]', '"causes":[7]'),
        ('"seq":2', '"seq":3'),
    ],
)
@each_form
def test_l14_any_edit_of_an_entry_is_found_there(tmp_path: Path, form: str, old: str, new: str) -> None:
    path = new_ledger(named(tmp_path, form))
    run(path, ["open", "append 3 1 300", "close"])
    with closing(writer.reopen(path)) as store:
        line = store.entry(2).line.decode()
    assert old in line
    _edit_entry(path, line, line.replace(old, new))
    report = deep(path)
    assert report.exit_code == 20
    assert report.first_bad is not None
    assert report.first_bad.seq in (2, 3), "the edited entry, or the one that its hash no longer leads to"


def _edit_entry(path: Path, line: str, new: str) -> None:
    if path.suffix == ".jsonl":
        path.write_bytes(path.read_bytes().replace(line.encode(), new.encode()))
    else:
        _execute(path, "UPDATE entries SET line = '{}' WHERE seq = 2".format(new.replace("'", "''")))


def _execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_l16_an_open_transaction_elsewhere_is_waited_for(tmp_path: Path) -> None:
    path = new_ledger(named(tmp_path, "sqlite"))
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with closing(holder), closing(writer.reopen(path)) as store:
        holder.execute("BEGIN IMMEDIATE")
        late = threading.Timer(0.3, lambda: holder.execute("ROLLBACK"))
        late.start()
        assert put(store, noted()) == [1]
        late.join()


def test_l16_one_that_never_ends_is_told_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_writer, "BUSY_S", 0.2)
    path = new_ledger(named(tmp_path, "sqlite"))
    holder = sqlite3.connect(path, isolation_level=None)
    with closing(holder), closing(writer.reopen(path)) as store:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match=f"cannot write to {path}: database is locked"):
            put(store, noted())
        assert store.head().size == 1, "reading goes on"
        holder.execute("ROLLBACK")
        assert put(store, noted()) == [1]


@each_form
@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_l17_no_file_of_a_ledger_can_be_read_by_others_whatever_the_umask(
    tmp_path: Path, form: str, umask: int
) -> None:
    path = named(tmp_path, form)
    with Child(path, umask=umask) as child:
        child.tell("create")
        assert child.hear("ready ")
        assert child.ask("claim r1 60").startswith("claimed ")
        assert child.ask("append 1 1 300").startswith("ack ")
        found = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    beside = {"sqlite": {"log.db", "log.db-wal", "log.db-shm", "log.db.lock"}, "jsonl": {"log.jsonl", "log.lock"}}
    assert beside[form] <= set(found)
    assert set(found.values()) == {0o600}, found
