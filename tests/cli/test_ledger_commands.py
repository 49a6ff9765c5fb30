import asyncio
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import hansard
from forging import chain, falsify, write
from forum_files import Forum
from hansard.app.ledgers.ledger import LedgerService
from hansard.app.service import Hansard
from hansard.app.settings import ledger_settings
from hansard.domain.custody import BodyRedacted
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.errors import StoreError
from hansard.ledger.layout import body_id
from hansard.ledger.merkle import leaf_hash
from hansard.record.recorder import Step, record_now
from hansard.seal import genesis, signing
from hansard.store.sqlite import SqliteStore
from small_run import record_run
from store.disks import halving_disk, tmpfs

Said = tuple[int, str, str]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    asyncio.run(record_run(path, tmp_path / "state"))
    return path


def test_show_lists_the_newest_entries_in_order(run: Any, ledger: Path) -> None:
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--limit", "3", "--json")
    views = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [view["seq"] for view in views] == [10, 11, 12]
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--after", "2", "--limit", "2", "--json")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [3, 4]
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--limit", "0")
    assert len(out.splitlines()) == 13


def test_a_line_that_does_not_tell_everything_says_so(run: Any, ledger: Path) -> None:
    lines = run("ledger", "show", "--ledger", str(ledger), "--limit", "0")[1].splitlines()
    returned = next(line for line in lines if " task.returned " in line)
    assert (lines[0][-1], returned[-1], lines[1][-1] != "…") == ("…", "…", True)


def test_show_filters_by_run_kind_and_actor(run: Any, ledger: Path) -> None:
    _, out, _ = run("ledger", "show", "--ledger", str(ledger), "--kind", "task.judged", "--json")
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"task.judged"}
    _, out, _ = run("ledger", "show", "--ledger", str(ledger), "--run", "demo-1", "--actor", "lane:backend")
    assert len(out.splitlines()) == 2
    whole = run("ledger", "show", "--ledger", str(ledger), "--run", "demo-1")[1]
    for word in ("demo", "last"):
        assert run("ledger", "show", "--ledger", str(ledger), "--run", word)[1] == whole != ""
    code, out, err = run("ledger", "show", "--ledger", str(ledger), "--run", "nobody")
    assert (code, out, "there is no run 'nobody'" in err) == (2, "", True)


def test_a_list_that_finds_nothing_says_what_there_is_none_of(run: Any, ledger: Path) -> None:
    asked = ("ledger", "show", "--ledger", str(ledger))
    code, out, err = run(*asked, "--kind", "task.judge", "--actor", "engine")
    assert (code, out, "no entry is of kind task.judge and of actor engine; " in err) == (0, "", True)
    advice = shlex.split(err.split("`")[1])
    assert "task.judged" in run(*advice[1:])[1]
    assert run(*asked, "--after", "12") == (0, "", "")


def test_a_line_says_what_an_entry_says_as_the_entry_has_it(run: Any, ledger: Path) -> None:
    judged = run("ledger", "show", "--ledger", str(ledger), "--kind", "task.judged")[1]
    assert " ok=true " in judged
    assert "True" not in judged


def test_get_shows_an_entry_and_a_body(run: Any, ledger: Path, tmp_path: Path) -> None:
    code, out, _ = run("ledger", "get", "6", "--ledger", str(ledger), "--json")
    view = json.loads(out)
    assert (code, view["kind"], view["causes"], view["effects"]) == (0, "task.returned", [5], [7])
    assert view["parts"] == [
        {
            "part": "output",
            "commitment": view["body"]["output"],
            "state": "here",
            "media": "text/plain; charset=utf-8",
            "bytes": 74,
        }
    ]
    body = subprocess.run(
        [sys.executable, "-m", "hansard", "ledger", "get", "6", "--part", "output", "--ledger", str(ledger)],
        capture_output=True,
        check=True,
        env=os.environ
        | {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "HANSARD_STATE": str(tmp_path / "state")},
    ).stdout
    assert body.startswith(b"accounts(id,")
    _, out, _ = run("ledger", "get", "6", "--ledger", str(ledger))
    assert "part    output: here" in out


def test_causes_walks_back_to_the_request(run: Any, ledger: Path) -> None:
    _, out, _ = run("ledger", "causes", "11", "--ledger", str(ledger), "--json")
    assert [view["seq"] for view in json.loads(out)] == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]


def test_replay_tells_the_state_at_an_entry(run: Any, ledger: Path) -> None:
    _, out, _ = run("ledger", "replay", "--at", "6", "--ledger", str(ledger), "--json")
    [state] = json.loads(out)["runs"]
    assert (state["state"], state["tasks"]) == ("running", {"schema": "returned"})
    _, out, _ = run("ledger", "replay", "--ledger", str(ledger))
    assert "answered" in out


def test_summary_counts_the_whole_record(run: Any, ledger: Path) -> None:
    _, out, _ = run("ledger", "summary", "--ledger", str(ledger), "--json")
    view = json.loads(out)
    assert (view["entries"], view["runs"], view["calls"], view["tokens"]) == (13, 1, 2, 80)
    assert view["run_states"] == {"answered": 1}
    assert view["verdicts"] == {"passed": 2}
    code, out, _ = run("ledger", "summary", "--ledger", str(ledger))
    assert (code, "None" in out) == (0, False)


def test_redaction_erases_the_body_and_says_so_for_good(run: Any, ledger: Path) -> None:
    text = b"Design the table for accounts."
    assert text in ledger.read_bytes()
    code, out, _ = run("ledger", "redact", "5", "prompt", "--reason", "personal_data", "--ledger", str(ledger))
    assert code == 0
    assert "entry 13" in out
    code, _, err = run("ledger", "get", "5", "--part", "prompt", "--ledger", str(ledger))
    assert (code, "redacted" in err) == (2, True)
    assert run("verify", str(ledger), "--deep")[0] == 0
    for file in ledger.parent.glob("ledger.db*"):
        assert text not in file.read_bytes().replace(b"Design the table for accounts.\nPropose", b""), file
    again = run("ledger", "redact", "5", "prompt", "--reason", "personal_data", "--ledger", str(ledger), "--json")
    assert json.loads(again[1])["tombstone"] == 13


@pytest.mark.parametrize(
    "words",
    [
        ("ledger", "get", "99"),
        ("ledger", "get", "5", "--part", "nothing"),
        ("ledger", "causes", "99"),
        ("ledger", "replay", "--at", "99"),
        ("ledger", "redact", "5", "nothing", "--reason", "legal"),
        ("ledger", "redact", "5", "prompt", "--reason", "banana"),
        ("ledger", "redact", "0", "prompt", "--reason", "legal"),
        ("ledger", "redact", "5", "prompt", "6", "--reason", "legal"),
        ("ledger", "redact", "5", "prompt", "x", "prompt", "--reason", "legal"),
        ("ledger", "redact", "5", "prompt", "0", "prompt", "--reason", "legal"),
    ],
)
def test_a_wrong_word_is_a_usage_error_and_writes_nothing(run: Any, ledger: Path, words: tuple[str, ...]) -> None:
    before = ledger.read_bytes()
    code, out, err = run(*words, "--ledger", str(ledger))
    assert (code, out) == (2, "")
    assert err.startswith("hansard: ")
    assert "Traceback" not in err
    assert ledger.read_bytes() == before


def test_where_all_signatures_are_asked_for_the_library_checks_them_if_there_is_one(
    run: Any, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def refuse(public: bytes, message: bytes, signature: bytes) -> bool:
        asked.append(signature)
        return False

    monkeypatch.setattr(signing, "verify", refuse)
    assert run("verify", str(ledger))[0] == 0
    assert asked == []
    assert run("verify", str(ledger), "--all-signatures")[0] == 20
    assert asked
    monkeypatch.setattr(signing, "available", lambda: False)
    assert run("verify", str(ledger), "--all-signatures")[0] == 0


@pytest.mark.parametrize("verb", ["show", "summary", "replay", "repair", "verify"])
@pytest.mark.parametrize("name", ["typo.db", "typo.jsonl", "typo", "no/such/folder/x.db"])
def test_a_mistyped_path_is_an_error_and_creates_nothing(run: Any, tmp_path: Path, verb: str, name: str) -> None:
    place = str(tmp_path / "place" / name)
    (tmp_path / "place").mkdir()
    words = ("verify", place) if verb == "verify" else ("ledger", verb, "--ledger", place)
    code, _, err = run(*words)
    assert code == 2
    assert "Traceback" not in err
    assert err
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5000, b"\x89PNG\r\n"])
def test_a_file_that_is_not_a_ledger_gets_a_sentence(run: Any, tmp_path: Path, content: bytes) -> None:
    place = tmp_path / "x.db"
    place.write_bytes(content)
    code, _, err = run("ledger", "show", "--ledger", str(place))
    assert code in (2, 11)
    assert err.startswith("hansard: ")
    assert place.read_bytes() == content


def test_another_programs_database_is_refused(run: Any, tmp_path: Path) -> None:
    place = tmp_path / "x.db"
    with closing(sqlite3.connect(place)) as database:
        database.execute("CREATE TABLE t(x)")
    code, _, err = run("ledger", "show", "--ledger", str(place))
    assert (code, "not a Hansard ledger" in err) == (2, True)


def tampered(ledger: Path, statement: str) -> None:
    database = sqlite3.connect(ledger)
    database.execute(statement)
    database.commit()
    database.close()


def test_a_tampered_ledger_still_shows_and_marks_what_is_broken(run: Any, ledger: Path) -> None:
    tampered(ledger, "UPDATE entries SET line = replace(line, '\"tasks\":2', '\"tasks\":9') WHERE seq = 4")
    code, out, _ = run("ledger", "show", "--limit", "0", "--ledger", str(ledger))
    assert code == 0
    marked = [line for line in out.splitlines() if "BROKEN" in line]
    assert len(marked) == 1
    assert marked[0].split()[0] == "5"
    for seq, mark in ((3, False), (4, True), (5, True), (6, False)):
        code, out, _ = run("ledger", "get", str(seq), "--ledger", str(ledger))
        assert (code, "BROKEN" in out) == (0, mark), seq
    code, out, _ = run("ledger", "replay", "--at", "12", "--ledger", str(ledger))
    assert (code, out.startswith("BROKEN: entry 5 ")) == (0, True)
    assert "BROKEN" not in run("ledger", "replay", "--at", "4", "--ledger", str(ledger))[1]
    assert run("verify", str(ledger))[0] == 20
    for words in (("runs", "list"), ("gates", "list")):
        code, _, err = run(*words, "--ledger", str(ledger))
        assert (code, err.startswith("hansard: BROKEN: ")) == (0, True), words


def test_a_ledger_broken_at_its_end_is_read_but_not_extended(run: Any, ledger: Path) -> None:
    tampered(ledger, "UPDATE entries SET line = '{\"nonsense\":1}' WHERE seq = 12")
    code, out, err = run("ledger", "show", "--ledger", str(ledger))
    assert code == 0
    assert "BROKEN" in err
    assert "BROKEN" in out.splitlines()[-1]
    code, _, err = run("ledger", "redact", "5", "prompt", "--reason", "legal", "--ledger", str(ledger))
    assert code == 11
    assert "may not be extended" in err
    code, _, err = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, "Nothing was written" in err) == (11, True)


def test_what_people_are_told_to_type_concerns_the_ledger_that_they_named(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("submit", "please", "--provider", "rehearsal", "--single", "--quiet")[0] == 0
    other = tmp_path / "another ledger.db"
    asyncio.run(record_run(other, tmp_path / "state"))
    _, _, unseen = run("ledger", "receipt", "5", "--cosigned", "--ledger", other)
    assert shlex.split(unseen.partition("ask one: ")[2])[-2:] == ["--ledger", str(other)]
    tampered(other, "UPDATE bodies SET body = x'7b7d', shared = NULL WHERE id >> 8 = 5")
    _, _, differs = run("ledger", "get", "5", "--part", "prompt", "--ledger", other)
    tampered(other, """UPDATE entries SET line = replace(line, '"attempt":1', '"attempt":2') WHERE seq = 5""")
    _, broken, _ = run("ledger", "replay", "--ledger", other)
    for said in (differs, broken.splitlines()[0]):
        _, *words = shlex.split(said.partition("run: ")[2])
        assert run(*words)[0] == 20, said


def test_repair_rebuilds_what_is_derived(run: Any, ledger: Path) -> None:
    for statement in (
        "DELETE FROM causes WHERE seq = 7",
        "UPDATE head SET ts = 3, frontier = x''",
        "DROP INDEX entries_by_run",
        "DROP INDEX causes_by_cause",
        "CREATE INDEX causes_by_cause ON causes(cause) WHERE cause < 3",
    ):
        tampered(ledger, statement)
    assert run("verify", str(ledger))[0] == 20
    code, out, _ = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, "repaired derived" in out) == (0, True)
    assert run("verify", str(ledger), "--deep")[0] == 0
    assert run("ledger", "repair", "--ledger", str(ledger))[1] == "nothing is left to repair\n"


def test_a_body_is_erased_also_where_its_run_cannot_be_searched_for_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Unsigned: what is signed here is held against its checkpoint first, and not extended at all.
    monkeypatch.setattr(genesis, "available", lambda: False)
    ledger = tmp_path / "l.db"
    asyncio.run(record_run(ledger, tmp_path / "state"))
    with LedgerService.open(ledger_settings(str(ledger)), writing=True) as service:
        tampered(ledger, "UPDATE entries SET line = line || ' ' WHERE seq = 7")
        with pytest.raises(StoreError, match="entry 7"):
            service.redact([(1, "request")], reason="other", actor="human:k7")
    with closing(sqlite3.connect(ledger)) as database:
        assert database.execute("SELECT 1 FROM bodies WHERE id = ?", (body_id(1, 0),)).fetchone() is None


def test_a_repair_that_may_have_left_traces_is_on_the_record_all_the_same(
    run: Any, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(ledger)) as database:
        row = database.execute("SELECT * FROM bodies WHERE id = ?", (body_id(1, 0),)).fetchone()
    assert run("ledger", "redact", "1", "request", "--reason", "other", "--ledger", str(ledger))[0] == 0
    with closing(sqlite3.connect(ledger)) as database:
        database.execute("INSERT INTO bodies VALUES (?, ?, ?, ?, ?)", row)
        database.commit()
    monkeypatch.setattr("hansard.store.sqlite.writer.BUSY_S", 0.5)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT size FROM head").fetchall()
        code, _, err = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, "a reader keeps the WAL" in err) == (11, True)
    told = run("ledger", "show", "--kind", "log.repaired", "--ledger", str(ledger))[1]
    assert "what=redaction" in told
    assert run("ledger", "repair", "--ledger", str(ledger))[0] == 0
    assert run("verify", str(ledger), "--deep")[0] == 0


@pytest.mark.parametrize("statement", ["DELETE FROM head", "UPDATE head SET size = 3, leaf = x'{leaf}'"])
def test_a_head_that_is_gone_or_behind_is_made_anew(run: Any, ledger: Path, statement: str) -> None:
    database = sqlite3.connect(ledger)
    line = database.execute("SELECT line FROM entries WHERE seq = 2").fetchone()[0]
    database.close()
    tampered(ledger, statement.format(leaf=leaf_hash(line.encode()).hex()))
    assert run("verify", str(ledger))[0] == 20
    assert run("ledger", "repair", "--ledger", str(ledger))[0] == 0
    assert run("verify", str(ledger), "--deep")[0] == 0


WITNESSED = {
    "an edited last entry": "UPDATE entries SET line = replace(line, '\"calls\":', '\"calls\":9') WHERE seq = 12",
    "a last entry cut off": "DELETE FROM entries WHERE seq = 12",
    "another head": "UPDATE head SET leaf = zeroblob(32)",
    "a head too far ahead": "UPDATE head SET size = 14",
    "a head behind that names no entry there": "UPDATE head SET size = 3",
    "a head of nonsense": "UPDATE head SET size = 'x', leaf = 7, ts = x'ff', frontier = 'x'",
    "a head before all": "UPDATE head SET size = -9223372036854775808",
}


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("statement", WITNESSED.values(), ids=WITNESSED.keys())
def test_repair_never_makes_a_log_look_right_that_its_head_contradicts(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, *, signed: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(genesis, "available", lambda: signed)
        ledger = tmp_path / "l.db"
        asyncio.run(record_run(ledger, tmp_path / "state"))
    tampered(ledger, statement)
    assert run("verify", str(ledger))[0] == 20
    before = dumped(ledger)
    code, out, err = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, out) == (11, "")
    assert "hansard" in err
    assert dumped(ledger) == before
    assert run("verify", str(ledger))[0] == 20


def test_repair_holds_the_lines_against_every_kept_checkpoint_before_it_writes(run: Any, ledger: Path) -> None:
    database = sqlite3.connect(ledger)
    rows = [json.loads(line) for (line,) in database.execute("SELECT line FROM entries ORDER BY seq")]
    database.close()
    write(ledger, chain(falsify(rows)))
    tampered(ledger, "DELETE FROM causes WHERE seq = 7")
    before = dumped(ledger)
    code, _, err = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, "FORKED" in err, "Nothing was written" in err) == (11, True, True)
    assert dumped(ledger) == before


def dumped(ledger: Path) -> list[str]:
    """All that stands in a ledger."""
    database = sqlite3.connect(ledger)
    try:
        return list(database.iterdump())
    finally:
        database.close()


@pytest.mark.parametrize("name", ["l.db", "l.jsonl"])
def test_a_ledger_that_was_emptied_is_not_replaced_by_a_new_one(run: Any, tmp_path: Path, name: str) -> None:
    ledger = tmp_path / name
    ledger.touch()
    for words in (("submit", "x", "--provider", "rehearsal", "--lane", "backend"), ("init",)):
        code, _, err = run(*words, "--ledger", str(ledger))
        assert (code, name in err) == (2, True)
        assert ledger.stat().st_size == 0
    assert not list(tmp_path.glob("state/logs/*"))


def test_control_characters_in_a_record_do_not_reach_the_terminal(run: Any, tmp_path: Path) -> None:
    async def record() -> None:
        async with Hansard.open(str(tmp_path / "x.db")) as hansard:
            fact = RunRequested(mode="request", surface="cli", request=Body.text("\x1b[2J\x07 wipe \u2028 \x9b"))
            await hansard.recorder.record(fact, actor="human:a")

    asyncio.run(record())
    tampered(
        tmp_path / "x.db",
        'UPDATE entries SET line = replace(line, \'"surface":"cli"\', \'"surface":"\' || char(155) || \'31m"\')',
    )
    _, out, _ = run("ledger", "show", "--ledger", str(tmp_path / "x.db"))
    assert "\x1b" not in out
    assert "\x9b" not in out


def test_no_word_shows_the_help(run: Any) -> None:
    code, _, err = run()
    assert (code, "commands:" in err) == (2, True)
    code, _, err = run("ledger")
    assert (code, "redact" in err) == (2, True)


def test_doctor_sets_a_long_name_apart_from_what_it_says_of_it(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hansard.toml").write_text('[providers.anthropic-europe]\nkind = "command"\nargv = ["cat"]')
    monkeypatch.chdir(tmp_path)
    assert "provider anthropic-europe id anthropic-europe, kind command" in run("doctor")[1]


def test_doctor_says_what_works_and_changes_nothing(run: Any, tmp_path: Path, ledger: Path) -> None:
    code, out, _ = run("doctor", "--ledger", str(tmp_path / "none.db"), "--json")
    assert code == 0
    found = {each["name"]: each for each in json.loads(out)}
    assert found["sqlite"]["ok"]
    assert "not made yet" in found["ledger"]["detail"]
    assert not (tmp_path / "none.db").exists()
    code, out, _ = run("doctor", "--ledger", str(ledger))
    assert "13 entries" in out
    run("init", "--ledger", str(tmp_path / "new.db"))
    assert "new.db: 1 entry;" in run("doctor", "--ledger", str(tmp_path / "new.db"))[1]


def test_what_doctor_names_to_make_a_ledger_makes_that_one(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a state" / "ledger.db"
    [found] = [
        each for each in json.loads(run("doctor", "--ledger", str(path), "--json")[1]) if each["name"] == "ledger"
    ]
    _, *words = shlex.split(found["detail"].split("`")[1])
    assert (run(*words)[0], path.exists()) == (0, True)


@pytest.mark.parametrize("name", ["x" * 300, "file", "file/below"])
def test_doctor_names_a_state_folder_or_ledger_that_cannot_be_used(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "file").touch(0o600)
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / name))
    code, out, _ = run("doctor", "--ledger", str(tmp_path / ("x" * 300) / "l.db"), "--json")
    found = {each["name"]: each for each in json.loads(out)}
    assert (code, found["state folder"]["ok"], found["ledger"]["ok"]) == (0, False, False)
    assert "cannot be used: " in found["state folder"]["detail"]
    assert "File name too long" in found["ledger"]["detail"]


def test_doctor_says_what_cannot_be_made(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "not" / "there"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    code, out, _ = run("doctor", "--ledger", str(tmp_path / "none.db"), "--json")
    found = {each["name"]: each for each in json.loads(out)}
    for name in ("state folder", "ledger"):
        assert (code, found[name]["ok"]) == (0, False)
        assert f"cannot be: you may not write to {tmp_path}" in found[name]["detail"]


def test_init_makes_a_ledger_with_a_pin(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("init", "--json", "--origin", "example.org/log")
    view = json.loads(out)
    assert code == 0
    assert view["ledger_made"]
    assert view["pin"].startswith("example.org/log+")
    assert (tmp_path / "hansard.toml").read_text().startswith("# Hansard")
    assert run("verify", "--strict", "--pin", view["pin"])[0] == 0
    again = json.loads(run("init", "--json")[1])
    assert (again["ledger_made"], again["config_written"], again["pin"]) == (False, False, view["pin"])
    assert view["before"] is again["before"] is None


def test_init_says_which_ledger_the_environment_had_it_make(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    code, out, _ = run("init")
    assert (code, "as HANSARD_LEDGER says: without that variable, the one that hansard.toml names" in out) == (0, True)
    monkeypatch.delenv("HANSARD_LEDGER")
    assert "HANSARD_LEDGER" not in run("init")[1]


def test_a_ledger_that_is_there_keeps_its_name(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    named = ("init", "--ledger", "new.db", "--origin")
    assert (run(*named, "example.org/one")[0], run(*named, "example.org/one")[0]) == (0, 0)
    code, _, err = run(*named, "example.org/other")
    assert (code, "called 'example.org/one', and a log keeps its name" in err) == (2, True)


def test_init_says_where_the_runs_from_before_it_are(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    before = tmp_path / "state" / "ledger.db"
    asyncio.run(record_run(before, tmp_path / "state"))
    assert "demo-1" in run("runs", "list")[1]
    code, out, _ = run("init")
    assert code == 0
    assert "demo-1" not in run("runs", "list")[1]
    advice = next(line.split() for line in out.splitlines() if "--ledger" in line)
    assert advice == ["hansard", "runs", "list", "--ledger", str(before)]
    assert "demo-1" in run(*advice[1:])[1]
    assert "--ledger" not in run("init")[1]


@pytest.mark.parametrize("name", ["my ledger.db", "my ledger.jsonl"])
def test_what_is_advised_where_there_is_no_ledger_makes_that_ledger(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init")[0] == 0
    code, _, err = run("runs", "list", "--ledger", name)
    assert code == 2
    advice = shlex.split(err.rpartition(": ")[2])
    assert advice[0] == "hansard"
    assert run(*advice[1:])[0] == 0
    assert run("runs", "list", "--ledger", name)[0] == 0


@pytest.mark.parametrize("ending", ["db", "jsonl"])
def test_nobody_is_told_to_make_a_ledger_where_a_link_or_a_folder_bears_its_name(
    run: Any, tmp_path: Path, ending: str
) -> None:
    link, folder = tmp_path / f"link.{ending}", tmp_path / f"folder.{ending}"
    link.symlink_to(tmp_path / "gone")
    folder.mkdir()
    for command in (("runs", "list"), ("init",)):
        assert run(*command, "--ledger", link) == (
            2, "", f"hansard: {link} is a link that leads to no file; mend or remove it, or name another place\n"
        )  # fmt: skip
        assert run(*command, "--ledger", folder) == (
            2, "", f"hansard: {folder} is no file, and so no ledger; name another place\n"
        )  # fmt: skip


def test_init_below_another_hansard_toml_names_the_ledger_of_that(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    asyncio.run(record_run(tmp_path / "state" / "ledger.db", tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    assert run("init")[0] == 0
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert json.loads(run("init", "--json")[1])["before"] == str(tmp_path / ".hansard" / "ledger.db")
    (tmp_path / "aside").mkdir()
    monkeypatch.chdir(tmp_path / "aside")
    monkeypatch.setenv("HANSARD_LEDGER", "new.db")
    view = json.loads(run("init", "--json")[1])
    assert (view["ledger_made"], view["before"]) == (True, None)


def test_a_bad_hansard_toml_keeps_no_ledger_from_being_read_or_brought_back(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    (tmp_path / "hansard.toml").write_text("[[[")
    for words in (("show",), ("get", "5"), ("summary",), ("pin",), ("export", "out"), ("receipt", "6")):
        assert run("ledger", *words, "--ledger", str(ledger))[0] == 0, words
    assert run("ledger", "import", "out", "--ledger", "back.db")[0] == 0
    assert run("verify", str(ledger), "--deep")[0] == 0
    code, _, err = run("verify")
    assert (code, "hansard.toml" in err) == (2, True)


def test_who_redacts_and_who_brings_something_in_is_whoever_types_it(
    run: Any, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "ann")
    foreign = Forum.of(2).write(tmp_path / "forum")
    assert run("ledger", "redact", "5", "prompt", "--reason", "legal", "--ledger", str(ledger))[0] == 0
    assert run("ledger", "import", str(foreign), "--ledger", str(ledger))[0] == 0
    for kind in ("body.redacted", "log.imported"):
        shown = run("ledger", "show", "--kind", kind, "--ledger", str(ledger), "--json")[1]
        assert [json.loads(line)["actor"] for line in shown.splitlines()] == ["human:ann"]


def test_what_is_amiss_in_a_foreign_ledger_is_told_in_words(run: Any, ledger: Path, tmp_path: Path) -> None:
    foreign = Forum.of(9).write(tmp_path / "forum")
    rows = (foreign / "entries.jsonl").read_bytes()
    (foreign / "entries.jsonl").write_bytes(rows.replace(b"\n", b"\n\n", 1))
    (foreign / "payloads.jsonl").write_bytes(b"")
    code, out, _ = run("ledger", "import", str(foreign), "--ledger", str(ledger))
    assert code == 0
    assert "  a blank line: 1 (entries.jsonl:2)\n" in out
    assert "  the payload of an entry is not there: 9 (seq 0, line 1; seq 1, line 3; seq 2, line 4; …)\n" in out


def test_redaction_names_the_parts_that_hold_the_same_text(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    assert run("submit", 'call "Jörg"\non 555-1234', "--provider", "rehearsal", "--quiet")[0] == 0
    told = run("ledger", "redact", "1", "request", "--reason", "personal_data")[1]
    assert "\n  entry 5 prompt\n" in told
    [command] = [line for line in told.splitlines() if line.startswith("all of them at once: `hansard ")]
    code, out, err = run(*shlex.split(command.partition("hansard ")[2].rstrip("`")))
    assert (code, err) == (0, "")
    assert "erased the part 'prompt' of entry 5" in out
    again = json.loads(run("ledger", "redact", "1", "request", "--reason", "personal_data", "--json")[1])
    assert again["also_in"] == []
    assert b"555-1234" not in (tmp_path / "l.db").read_bytes()


def test_a_redaction_that_is_typed_again_does_not_promise_that_it_looked_for_the_text(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    assert run("submit", "call Jo on 555-1234", "--provider", "rehearsal", "--quiet")[0] == 0
    once = ("ledger", "redact", "1", "request", "--reason", "personal_data")
    assert "searched no more" not in run(*once)[1]
    assert b"555-1234" in (tmp_path / "l.db").read_bytes()
    code, again, _ = run(*once)
    assert (code, "of entry 1 was erased before; entry 24 says so\n" in again) == (0, True)
    assert "can be searched no more, in the same run either" in again
    both = run(*once[:4], "5", "prompt", *once[4:])[1]
    assert "of entry 1 was erased before" in both
    assert "erased the part 'prompt' of entry 5; entry 25 says so for good" in both


def test_what_erases_the_rest_of_a_text_names_who_asked_for_it(run: Any, tmp_path: Path) -> None:
    ledger = ("--ledger", str(tmp_path / "l.db"))
    assert run("submit", "call Jo on 555-1234", "--provider", "rehearsal", "--quiet", *ledger)[0] == 0
    told = run("ledger", "redact", "1", "request", "--reason", "personal_data", "--by", "auditor:7", *ledger)[1]
    [command] = [line for line in told.splitlines() if line.startswith("all of them at once: `hansard ")]
    assert run(*shlex.split(command.partition("hansard ")[2].rstrip("`")))[0] == 0
    shown = run("ledger", "show", "--kind", "body.redacted", "--json", *ledger)[1]
    assert {json.loads(line)["actor"] for line in shown.splitlines()} == {"auditor:7"}


def test_a_redaction_that_may_have_left_traces_names_the_other_parts_too(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "l.db"
    monkeypatch.setenv("HANSARD_LEDGER", str(ledger))
    assert run("submit", "call Jo on 555-1234", "--provider", "rehearsal", "--quiet")[0] == 0
    monkeypatch.setattr("hansard.store.sqlite.writer.BUSY_S", 0.5)
    with closing(sqlite3.connect(ledger, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT size FROM head").fetchall()
        code, _, err = run("ledger", "redact", "1", "request", "--reason", "personal_data")
    assert (code, "the body is deleted" in err, "entry 5 prompt" in err, "entry 1 request" in err) == (
        11,
        True,
        True,
        False,
    )


def test_a_tombstone_of_another_commitment_redacts_nothing(run: Any, ledger: Path) -> None:
    false = BodyRedacted(seq=5, part="prompt", commitment="0" * 64, reason="other")
    with closing(SqliteStore.open(ledger)) as store:
        [written] = record_now(store, [Step(false, "human:k1", (5,))])
    assert "part    prompt: here" in run("ledger", "get", "5", "--ledger", str(ledger))[1]
    told = run("ledger", "redact", "5", "prompt", "--reason", "legal", "--ledger", str(ledger), "--json")[1]
    assert json.loads(told)["tombstone"] > written.seq
    assert json.loads(run("verify", str(ledger), "--deep", "--json")[1])["bodies"]["missing"] == 0


def test_redaction_looks_for_text_that_is_no_utf_8_as_json_writes_it(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    assert run("submit", r'{"call": "half a \ud83d smile"}', "--provider", "rehearsal", "--quiet")[0] == 0
    code, out, err = run("ledger", "redact", "1", "request", "--reason", "personal_data", "--json")
    assert code == 0, err
    assert {"seq": 5, "part": "prompt"} in json.loads(out)["also_in"]


READING = (
    ("runs", "list"),
    ("gates",),
    ("ledger", "show"),
    ("ledger", "summary"),
    ("ledger", "receipt", "6"),
    ("verify",),
)


@pytest.mark.needs_root
@pytest.mark.parametrize("name", ["ledger.db", "ledger.jsonl"])
def test_a_ledger_on_read_only_media_is_read_and_not_extended(run: Any, tmp_path: Path, name: str) -> None:
    state = tmp_path / "state"
    with tmpfs(tmp_path / "disk", 4096) as disk:
        ledger = disk / name
        asyncio.run(record_run(ledger, state))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = sorted(os.listdir(disk))
        for words in (*READING, ("ledger", "export", str(tmp_path / "out"))):
            code, _, err = run(*words, *(("--ledger",) if words != ("verify",) else ()), str(ledger))
            assert code == 0, (words, err)
        [found] = [
            each for each in json.loads(run("doctor", "--ledger", str(ledger), "--json")[1]) if each["name"] == "ledger"
        ]
        assert (found["ok"], "can be read only" in found["detail"]) == (False, True)
        code, _, err = run("ledger", "redact", "5", "prompt", "--reason", "legal", "--ledger", str(ledger))
        assert (code, name in err) == (11, True)
        assert sorted(os.listdir(disk)) == before


@pytest.mark.needs_root
def test_a_wal_that_cannot_be_worked_in_is_what_is_told(run: Any, ledger: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "disk", 4096) as disk:
        writing = sqlite3.connect(ledger)
        writing.execute("CREATE TABLE more (x)")
        for each in ("ledger.db", "ledger.db-wal"):
            shutil.copyfile(tmp_path / each, disk / each)
        writing.close()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, _, err = run("ledger", "show", "--ledger", str(disk / "ledger.db"))
        assert (code, "ledger.db-wal" in err, "copy it to another folder" in err) == (11, True, True), err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_ledger_that_may_not_be_read_is_what_is_told(run: Any, ledger: Path, tmp_path: Path) -> None:
    ledger.chmod(0)
    for mode in (0o700, 0o500):
        tmp_path.chmod(mode)
        code, _, err = run("ledger", "show", "--ledger", str(ledger))
        assert (code, "you may not read it" in err) == (11, True), err
    tmp_path.chmod(0o700)


def test_init_says_which_hansard_toml_there_is(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert f"config   {tmp_path / 'hansard.toml'} (new)" in run("init")[1]
    assert f"config   {tmp_path / 'hansard.toml'} (there already)" in run("init")[1]
    (tmp_path / "hansard.toml").unlink()
    (tmp_path / "hansard.toml").symlink_to(tmp_path / "nowhere")
    assert run("init")[0] == 2
    assert not (tmp_path / "nowhere").exists()


def test_whoever_redacts_a_turn_is_told_where_else_its_words_stand(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    assert run("deliberate", "Shall we?", "--provider", "rehearsal", "--output", str(tmp_path / "runs"))[0] == 0
    entries = [json.loads(line) for line in run("ledger", "show", "--limit", "100", "--json")[1].splitlines()]
    turns = [each["seq"] for each in entries if each["kind"] == "turn.taken" and "result" in each["body"]]
    taken, another, last = turns[0], turns[1], turns[-1]
    told = json.loads(run("ledger", "redact", str(taken), "message", "--reason", "personal_data", "--json")[1])
    ended = next(each["seq"] for each in entries if each["kind"] == "session.ended")
    # No question; nothing that a model answered, and not the artifact: these only name the message.
    assert {"seq": ended, "part": "artifact"} not in told["also_in"]
    assert not [each for each in told["also_in"] if each["part"] in ("prompt", "result")]
    # An answer that is too short for that holds it as it is.
    short = json.loads(run("ledger", "redact", str(last), "message", "--reason", "personal_data", "--json")[1])
    assert {"seq": last, "part": "result"} in short["also_in"]
    [folder] = (tmp_path / "runs").iterdir()
    assert told["files"] == [str(folder / name) for name in ("artifact.json", "transcript.jsonl")]
    # What is left of an answer without its message stands nowhere else.
    left = json.loads(run("ledger", "redact", str(taken), "result", "--reason", "personal_data", "--json")[1])
    assert left["also_in"] == []
    # Whoever erases the answer alone is told that its message has it.
    said = run("ledger", "redact", str(another), "result", "--reason", "personal_data")[1]
    assert f"  entry {another} message\n" in said
    assert f"they are yours to clean:\n  {folder / 'artifact.json'}\n" in said
    assert run("session", "questions", "last", "--answers")[1].count("--- answer\n(redacted)\n") == 2
    shown = run("session", "metrics", folder.name, "--runs", str(tmp_path / "nowhere"))
    assert (shown[0], "can neither be shown nor gone on with" in shown[2]) == (11, True)


def test_questions_are_those_of_the_session_that_is_named(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANSARD_LEDGER", str(tmp_path / "l.db"))
    config = json.loads((Path(__file__).parents[2] / "examples/configs/walking-skeleton.json").read_text())
    for name in ("A", "B"):
        (tmp_path / f"{name}.json").write_text(
            json.dumps({**config, "session_id": "s-1", "problem_statement": f"problem of {name}"})
        )
        made = ("deliberate", "--config", str(tmp_path / f"{name}.json"), "--provider", "rehearsal", "--ensemble")
        assert run(*made, "--output", str(tmp_path / name))[0] == 0

    def asked(*words: str) -> str:
        code, out, err = run("session", "questions", *words)
        assert code == 0, err
        return str(out)

    for name, other in (("A", "B"), ("B", "A")):
        for words in (("s-1", "--runs", str(tmp_path / name)), (str(tmp_path / name / "s-1"),)):
            assert f"problem of {name}" in asked(*words)
            assert f"problem of {other}" not in asked(*words)
    view = json.loads(asked(str(tmp_path / "A" / "s-1"), "--json"))
    assert view["session_id"] == "s-1"
    # First answers, which are given before the session, are asked for in round 0.
    rounds = [each["round"] for each in view["questions"]]
    assert rounds == sorted(rounds)
    assert rounds.count(0) == len(config["selector"]["default_deliberation_panel"])
    assert asked("last").count("===") == len(rounds)
    assert "answer" not in view["questions"][0]
    answers = [each["answer"] for each in json.loads(asked("last", "--answers", "--json"))["questions"]]
    # A first answer stands on the record by itself.
    first = rounds.count(0)
    assert answers[:first] == [None] * first
    assert "integrated_answer" in json.loads(answers[-1])
    assert asked("last", "--answers").count("--- answer\n{") == len(rounds) - first
    code, _, err = run("session", "questions", "nothing")
    assert (code, "nothing" in err) == (2, True)


def test_an_older_copy_whose_bodies_are_newer_keeps_them_for_the_newer_one(run: Any, tmp_path: Path) -> None:
    ledger, notes = tmp_path / "l.jsonl", tmp_path / "l.checkpoints.jsonl"
    asyncio.run(record_run(ledger, tmp_path / "state"))
    older = {each: each.read_bytes() for each in (ledger, notes)}
    assert run("submit", "x", "--provider", "rehearsal", "--lane", "backend", "--ledger", str(ledger))[0] == 0
    newer = {each: each.read_bytes() for each in tmp_path.glob("l.*jsonl")}
    for each, data in older.items():
        each.write_bytes(data)
    before = {each: each.read_bytes() for each in tmp_path.glob("l.*jsonl")}
    for words, said in (
        (("ledger", "export", str(tmp_path / "export")), 0),
        (("submit", "x", "--provider", "rehearsal", "--lane", "backend"), 11),
        (("ledger", "redact", "1", "request", "--reason", "other"), 11),
    ):
        code, _, err = run(*words, "--ledger", str(ledger))
        assert (code, "ROLLED BACK" in err) == (said, True), err
        assert {each: each.read_bytes() for each in tmp_path.glob("l.*jsonl")} == before
    for each, data in newer.items():
        if each in older:
            each.write_bytes(data)
    assert run("verify", "--deep", str(ledger))[0] == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("x.bodies.jsonl", ("ledger", "get", "1", "--part", "request")),
        ("x.bodies.jsonl", ("runs", "show", "last")),
        ("x.checkpoints.jsonl", ("ledger", "summary")),
    ],
    ids=["body", "run", "checkpoints"],
)
def test_a_disk_that_fails_is_told_with_its_file(
    tmp_path: Path, name: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hansard(tmp_path, "submit", "x", "--provider", "rehearsal", "--ledger", "x.jsonl").returncode == 0
    for variable, value in (("LD_PRELOAD", halving_disk(tmp_path)), ("TORN_NAME", name), ("TORN_READ", 0)):
        monkeypatch.setenv(variable, str(value))
    done = hansard(tmp_path, *words, "--ledger", "x.jsonl")
    assert (done.returncode, done.stderr) == (11, f"hansard: cannot read {tmp_path / name}: Input/output error\n")
