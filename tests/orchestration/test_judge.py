"""The cheap checks, with real programs where they run any."""

import sys
from pathlib import Path
from typing import Any

import pytest

from hansard.app.pool import _Programs
from hansard.domain.exchange import Finish
from hansard.orchestration import judge
from hansard.orchestration.judge import Finding, at_a_glance, declared
from hansard.orchestration.plan import Check
from running import completion, fails


async def found(kind: Any, value: Any, output: str, folder: Path) -> Finding:
    [finding] = await declared([Check(kind=kind, value=value)], output, _Programs(folder, {}))
    return finding


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_an_answer_that_did_not_end_by_itself_is_not_whole(finish: Finish) -> None:
    finding = at_a_glance(completion("text", finish=finish))
    assert not finding.ok
    assert finish in finding.detail


@pytest.mark.parametrize("text", ["", "  \n\t ", "\u00a0\u2003"])
def test_an_answer_of_nothing_but_space_is_empty(text: str) -> None:
    assert not at_a_glance(completion(text)).ok


def test_a_failed_call_is_told_with_its_kind_and_words() -> None:
    finding = at_a_glance(completion(failure=fails("auth_failure", "the key is wrong")))
    assert not finding.ok
    assert finding.detail == "auth_failure: the key is wrong"


async def test_a_schema_check_reads_the_whole_answer(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (await found("schema", schema, '{"n": 1}', tmp_path)).ok
    for bad in ('{"n": "1"}', "{}", "prose", "", '{"n": 1} {"n": 2}'):
        assert not (await found("schema", schema, bad, tmp_path)).ok


async def test_a_regular_expression_is_searched_for(tmp_path: Path) -> None:
    assert (await found("regex", "(?m)^total: \\d+$", "a\ntotal: 12\nb", tmp_path)).ok
    missed = await found("regex", "total", "sum", tmp_path)
    assert not missed.ok
    assert "total" in missed.detail
    assert (await found("regex", "größe \u2028", "die größe \u2028 ist", tmp_path)).ok
    assert (await found("regex", "a\0b", "xa\0by", tmp_path)).ok
    assert not (await found("regex", "a\0b", "xa0by", tmp_path)).ok


async def test_a_pattern_that_takes_for_ever_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "REGEX_SECONDS", 0.5)
    finding = await found("regex", "(a+)+$", "a" * 60 + "b", tmp_path)
    assert not finding.ok
    assert "within" in finding.detail


async def test_a_command_sees_the_answer_on_its_input_and_decides_by_its_exit_code(tmp_path: Path) -> None:
    looks = "import sys; t = sys.stdin.buffer.read(); print('saw', len(t)); sys.exit(b'good' not in t)"
    argv = (sys.executable, "-c", looks)
    assert (await found("command", argv, "good \U0001f600", tmp_path)).ok
    refused = await found("command", argv, "bad", tmp_path)
    assert not refused.ok
    assert "exit code 1" in refused.detail
    assert "saw 3" in refused.detail


async def test_a_command_that_cannot_be_started_fails_the_check_by_name(tmp_path: Path) -> None:
    finding = await found("command", ("no-such-program-here",), "text", tmp_path)
    assert not finding.ok
    assert "no-such-program-here" in finding.detail


async def test_a_command_that_was_killed_is_told_by_its_signal(tmp_path: Path) -> None:
    finding = await found("command", ("/bin/sh", "-c", "kill -9 $$"), "text", tmp_path)
    assert (finding.ok, finding.detail) == (False, "exit code -9.")
    assert finding.program is not None
    assert finding.program["exit_code"] == -9


async def test_what_a_command_says_in_no_text_at_all_is_shown_all_the_same(tmp_path: Path) -> None:
    says = "import sys; sys.stderr.buffer.write(b'\\xff\\xfe'); sys.exit(3)"
    finding = await found("command", (sys.executable, "-c", says), "text", tmp_path)
    assert "exit code 3" in finding.detail
    assert "\ufffd" in finding.detail


async def test_a_lone_surrogate_in_an_answer_reaches_the_check(tmp_path: Path) -> None:
    assert (await found("regex", "x", "\ud800x", tmp_path)).ok
    assert (
        await found("command", (sys.executable, "-c", "import sys; sys.stdin.buffer.read()"), "\ud800", tmp_path)
    ).ok


async def test_the_first_check_that_fails_is_the_last_that_runs(tmp_path: Path) -> None:
    checks = [Check(kind="regex", value="a"), Check(kind="regex", value="b"), Check(kind="command", value=("false",))]
    findings = await declared(checks, "a", _Programs(tmp_path, {}))
    assert [each.ok for each in findings] == [True, False]
