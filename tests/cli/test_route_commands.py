import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROSTER = """\
name = "hotel"

[[lane]]
name = "front-desk"
category = "house"
domain = "Bookings and arrivals"
vocabulary = "reservation, check in, guest"
"""
REQUEST = "our login endpoint returns 500 and the postgres query is slow"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_request_is_routed_and_explained(run: Any) -> None:
    code, out, _ = run("route", REQUEST)
    assert (code, out.split()[0]) == (0, "backend")
    assert "postgres" in out
    view = json.loads(run("route", REQUEST, "--json")[1])
    assert (view["lane"], view["tier"]) == ("backend", 0)
    assert {"confidence", "runner_up", "evidence", "scores", "tier"} < set(view)
    assert 0 <= view["confidence"] <= 1


def test_an_undecided_request_says_so(run: Any) -> None:
    assert run("route", "summon a unicorn")[1].startswith("undecided")
    code, out, _ = run("route", "summon", "a", "unicorn", "--json")
    assert (code, json.loads(out)["lane"]) == (0, None)


def test_a_dash_reads_the_request_from_standard_input(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(REQUEST.encode())))
    assert json.loads(run("route", "-", "--json")[1])["lane"] == "backend"


def test_a_file_is_routed_by_what_it_says_as_submit_hands_it_in(run: Any, tmp_path: Path) -> None:
    words = "our jwt expires and people get logged out mid form"
    (tmp_path / "kubernetes.txt").write_text(words)
    assert run("route", f"@{tmp_path / 'kubernetes.txt'}", "--json")[1] == run("route", words, "--json")[1]
    code, _, err = run("route", "@nothing.txt")
    assert (code, "cannot read nothing.txt: No such file" in err) == (2, True)
    assert run("route", "@ann", "our", "jwt", "expires")[0] == 0


def test_the_word_eval_can_be_routed_too(run: Any) -> None:
    assert run("route", "--", "eval")[0] == 0


def test_a_router_is_measured_on_labelled_requests(run: Any, tmp_path: Path) -> None:
    rows = [
        {"id": "1", "text": REQUEST, "lane": "backend"},
        {"id": "2", "text": REQUEST, "lane": "frontend", "also": ["backend"]},
        {"id": "3", "text": REQUEST, "lane": "mobile"},
        {"id": "4", "text": "summon a unicorn", "lane": "none"},
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    code, out, _ = run("route", "eval", file, "--json")
    view = json.loads(out)
    assert (code, view["accuracy"], view["precision"]) == (0, 0.666667, 0.666667)
    assert (view["abstained"], view["off_topic_undecided"]) == (0.25, 1.0)
    assert view["confusions"] == [{"expected": "mobile", "decided": "backend", "count": 1, "ids": ["3"]}]
    assert sum(bucket["rows"] for bucket in view["calibration"]) == 3
    told = run("route", "eval", file)[1]
    assert "mobile -> backend" in told
    assert re.search(r"^ +[0-9.]+ % +3 +66\.7 %$", told, re.MULTILINE)


def test_flags_may_stand_before_the_word_eval(run: Any, tmp_path: Path) -> None:
    file, lanes = tmp_path / "rows.jsonl", tmp_path / "roster.toml"
    file.write_text(json.dumps({"id": "1", "text": REQUEST, "lane": "legal"}) + "\n", "utf-8")
    lanes.write_text('name = "one"\n[[lane]]\nname = "legal"\ncategory = "c"\ndomain = "Law"\n', "utf-8")
    for flag in ("--roster", "--ros", "--r"):
        code, out, _ = run("route", "--json", flag, str(lanes), "eval", str(file))
        assert (code, json.loads(out).get("rows")) == (0, 1), "the words `eval rows.jsonl` are no request"


def test_the_columns_of_a_measurement_stand_apart(run: Any, tmp_path: Path) -> None:
    rows = [{"id": str(number), "text": REQUEST, "lane": "backend"} for number in range(1200)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert re.search(r"^ +[0-9.]+ % +1,200  100\.0 %$", run("route", "eval", "rows.jsonl")[1], re.MULTILINE)


def test_the_lanes_are_listed_shown_and_checked(run: Any, tmp_path: Path) -> None:
    assert len(json.loads(run("roster", "--json")[1])["lanes"]) == 24
    assert "Continuous integration" in run("roster", "list")[1]
    assert json.loads(run("roster", "show", "ci-cd", "--json")[1])["category"] == "engineering"
    assert "vocabulary" in run("roster", "show", "ci-cd")[1]
    file = tmp_path / "hotel.toml"
    file.write_text(ROSTER, "utf-8")
    code, out, _ = run("roster", "check", file)
    assert (code, "front-desk" in out) == (0, True)
    assert json.loads(run("roster", "check", file, "--json")[1])["thin"] == ["front-desk"]


def test_a_roster_is_chosen_by_flag_or_by_hansard_toml(run: Any, tmp_path: Path) -> None:
    (tmp_path / "hotel.toml").write_text(ROSTER, "utf-8")
    request = "a guest wants to change the reservation at check in"
    assert json.loads(run("route", request, "--roster", "hotel.toml", "--json")[1])["lane"] == "front-desk"
    (tmp_path / "hansard.toml").write_text(
        '[roster]\nfile = "hotel.toml"\n[policy]\ndeny_lanes = ["front-desk"]', "utf-8"
    )
    assert json.loads(run("route", request, "--json")[1])["lane"] == "front-desk"
    assert "deny_lanes" in run("roster")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("route", "x", "--roster", "nowhere.toml"), "nowhere.toml"),
        (("route", ""), "the request is empty"),
        (("route", " ", "\t"), "the request is empty"),
        (("route", "bad.toml"), "bad.toml is a file; write @bad.toml to hand in what it says"),
        (("route", "eval", "nowhere.jsonl"), "nowhere.jsonl"),
        (("route", "eval", "."), "cannot read"),
        (("route", "eval", "bytes.jsonl"), "not UTF-8"),
        (("route", "eval", "rows.jsonl"), "line 1: the roster has no lane 'zz'"),
        (("roster", "check", "bad.toml"), "did you mean 'name'"),
        (("roster", "show", "nobody"), "no lane 'nobody'"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence_and_exit_2(run: Any, tmp_path: Path, words: Any, said: str) -> None:
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    (tmp_path / "rows.jsonl").write_text('{"text": "x", "lane": "zz"}', "utf-8")
    (tmp_path / "bad.toml").write_text("nmae = 'x'", "utf-8")
    code, _, err = run(*words)
    assert (code, said in err) == (2, True)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("roster = 3", "roster"),
        ("[roster]\nfiles = 'x'", "file = "),
        ("[roster]\nfile = 3", "file = "),
        ("[policy]\ndeny = ['x']", "unknown key 'deny'"),
        ("[policy]\nmax_parallel = 0", "max_parallel"),
        ("[roster]\nfile = 'gone.toml'", "gone.toml"),
    ],
)
def test_a_wrong_table_in_hansard_toml_is_told(run: Any, tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "hansard.toml").write_text(text, "utf-8")
    code, _, err = run("roster")
    assert (code, word in err) == (2, True)
