import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hansard.app.service import Hansard
from hansard.domain.fact import Body
from hansard.domain.work import RunRequested
from hansard.surfaces.cli.main import main
from small_run import record_run

Said = tuple[int, str, str]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    asyncio.run(record_run(path, tmp_path / "state"))
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("HANSARD_STATE", str(tmp_path / "state"))

    def call(*words: str) -> Said:
        capsys.readouterr()
        code = main(words)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_show_lists_the_newest_entries_in_order(run: Any, ledger: Path) -> None:
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--limit", "3", "--json")
    views = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [view["seq"] for view in views] == [10, 11, 12]
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--after", "2", "--limit", "2", "--json")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [3, 4]
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--limit", "0")
    assert len(out.splitlines()) == 13


def test_show_filters_by_run_kind_and_actor(run: Any, ledger: Path) -> None:
    _, out, _ = run("ledger", "show", "--ledger", str(ledger), "--kind", "task.judged", "--json")
    assert {json.loads(line)["kind"] for line in out.splitlines()} == {"task.judged"}
    _, out, _ = run("ledger", "show", "--ledger", str(ledger), "--run", "demo-1", "--actor", "lane:backend")
    assert len(out.splitlines()) == 2
    code, out, _ = run("ledger", "show", "--ledger", str(ledger), "--run", "nobody")
    assert (code, out) == (0, "")


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
    assert run("ledger", "summary", "--ledger", str(ledger))[0] == 0


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
    ],
)
def test_a_wrong_word_is_a_usage_error_and_writes_nothing(run: Any, ledger: Path, words: tuple[str, ...]) -> None:
    before = ledger.read_bytes()
    code, out, err = run(*words, "--ledger", str(ledger))
    assert (code, out) == (2, "")
    assert err.startswith("hansard: ")
    assert "Traceback" not in err
    assert ledger.read_bytes() == before


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
    with sqlite3.connect(place) as database:
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
    assert (code, "never changed" in err) == (11, True)


def test_repair_rebuilds_what_is_derived(run: Any, ledger: Path) -> None:
    for statement in ("DELETE FROM causes WHERE seq = 7", "UPDATE head SET size = 3"):
        tampered(ledger, statement)
    assert run("verify", str(ledger))[0] == 20
    code, out, _ = run("ledger", "repair", "--ledger", str(ledger))
    assert (code, "repaired derived" in out) == (0, True)
    assert run("verify", str(ledger), "--deep")[0] == 0
    assert run("ledger", "repair", "--ledger", str(ledger))[1] == "nothing to repair\n"


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


def test_doctor_says_what_works_and_changes_nothing(run: Any, tmp_path: Path, ledger: Path) -> None:
    code, out, _ = run("doctor", "--ledger", str(tmp_path / "none.db"), "--json")
    assert code == 0
    found = {each["name"]: each for each in json.loads(out)}
    assert found["sqlite"]["ok"]
    assert "not made yet" in found["ledger"]["detail"]
    assert not (tmp_path / "none.db").exists()
    code, out, _ = run("doctor", "--ledger", str(ledger))
    assert "13 entries" in out


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
