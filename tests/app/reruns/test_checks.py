"""Checks and programs of a run are not run again: each ends as it ended then."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.exchange import Exchange
from hansard.orchestration import judge
from rerunning import again, comes_out_the_same, with_provider
from running import (
    Answers,
    Ledger,
    Said,
    completion,
    desk,
    fails,
    obliging,
    plan,
    task,
    who,
)

CHECKED = """
import sys
text = sys.stdin.read()
sys.exit(0 if "result" in text else 3)
"""


async def test_programs_of_checks_and_of_workers_are_not_run_again(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    script = f"open({str(trace)!r}, 'a').write('x'); print('result: ' + str(len(__import__('sys').stdin.read())))"
    check = tmp_path / "check.py"
    check.write_text(f"open({str(trace)!r}, 'a').write('c')\n{CHECKED}")
    table = {"worker": {"kind": "command", "argv": [sys.executable, "-I", "-S", "-c", script]}}
    settings = Settings(
        ledger=str(tmp_path / "l.db"), state=tmp_path / "state", providers=table, environment={"PATH": "/usr/bin:/bin"}
    )
    checks = [{"command": [sys.executable, "-I", "-S", str(check)]}, {"regex": "result: [0-9]+"}]
    work = plan(task("a", lane="backend", checks=checks), task("b", "a", lane="backend"))
    async with Hansard.open(settings=settings) as hansard:
        run = await hansard.submit("count", plan=work, wishes=Wishes(judge="checks", answer="join"))
        assert (await run.ended()).state == "answered"
        before = trace.read_text()
        assert sorted(before) == ["c", "x", "x"]
        report = await hansard.runs.rerun(run.id)
    assert report["identical"] is True, report
    assert trace.read_text() == before


async def test_a_pattern_is_the_same_one_under_another_python(monkeypatch: pytest.MonkeyPatch) -> None:
    at = desk(Answers())
    checks = [{"regex": "result"}, {"regex": "nothing of the kind"}]
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    # As on another machine, or behind an upgrade.
    monkeypatch.setattr(sys, "executable", "/opt/elsewhere/bin/python3")
    await comes_out_the_same(at, ended.run)


async def test_a_check_that_nobody_could_pay_the_validator_for_is_no_miss() -> None:
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a", checks=[{"regex": "result"}])), wishes=Wishes(max_calls=1))
    assert ended.state == "stopped"
    await comes_out_the_same(at, ended.run)


@pytest.mark.parametrize("once", [fails("rate_limit", "slow down"), None], ids=["a failure that passed", "none"])
@pytest.mark.parametrize("short", [True, False], ids=["a result without a verdict", "none"])
async def test_a_check_of_another_result_is_a_miss_whatever_else_has_no_verdict(once: Said | None, short: bool) -> None:
    def flaky(exchange: Exchange) -> Said:
        role, _, attempt = who(exchange)
        return once if once and role == "worker" and attempt == 1 else obliging(exchange)

    at = desk(Answers(flaky))
    # The last call is a worker's: nobody can pay the validator for what came of it.
    wishes = Wishes(max_calls=3 + (once is not None) if short else None)
    ended = await at.run(plan=plan(task("a", checks=[{"regex": "result"}]), task("b", "a")), wishes=wishes)
    assert ended.state == ("stopped" if short else "answered")
    at.pool.given["other"] = Answers(lambda _: "something new", id="other")
    report = await again(replace(at, settings=with_provider(at, "other")), ended.run, worker="other")
    assert report["miss"].startswith("program "), report


async def test_a_program_of_a_check_ends_each_time_as_it_ended_then(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    fickle = f"import os, sys; been = os.path.exists({str(trace)!r}); open({str(trace)!r}, 'w'); sys.exit(not been)"
    checks = [{"command": [sys.executable, "-I", "-S", "-c", fickle]}]
    at = desk(Answers(lambda each: "the same" if who(each)[0] == "worker" else obliging(each)))
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert [entry.data["ok"] for entry in at.entries(ended.run, "task.judged")] == [False, True]
    await comes_out_the_same(at, ended.run)


@pytest.mark.parametrize("program", [False, True])
async def test_a_check_gets_a_result_with_its_line_ends_after_a_crash_too(tmp_path: Path, program: bool) -> None:
    (tmp_path / "check.py").write_text("import sys; sys.exit(0 if sys.stdin.read().endswith('.\\n') else 3)")
    checks = [{"command": [sys.executable, str(tmp_path / "check.py")]}]
    said = (
        completion("All is well.\n")
        if not program
        else completion("All is well.", output=b"All is well.\n", exit_code=0)
    )
    ledger = Ledger()
    at = desk(Answers(lambda _: said), store=ledger)
    wishes = Wishes(judge="checks", answer="join", ladder=("told",))
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=wishes)
    assert ended.state == ("failed" if program else "answered")
    for commits in range(2, len(ledger.commits)):
        resumed = desk(Answers(lambda _: said), store=ledger.until(commits))
        assert (await resumed.runs.drive(ended.run)).state == ended.state, commits
        await comes_out_the_same(resumed, ended.run, commits)


async def test_a_program_that_said_more_than_is_kept_says_the_same_again() -> None:
    says = f"import sys; sys.exit('a' * 100 + ' ' + 'b' * {judge.DETAIL_CHARACTERS - 1})"
    at = desk(Answers())
    checks = [{"command": [sys.executable, "-I", "-S", "-c", says]}]
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    await comes_out_the_same(at, ended.run)


async def test_a_program_that_could_not_be_run_fails_again_in_the_same_words(tmp_path: Path) -> None:
    checks = [{"command": [str(tmp_path / "no-such-program")]}]
    at = desk(Answers())
    ended = await at.run(plan=plan(task("a", checks=checks)), wishes=Wishes(ladder=("told", "told:better")))
    assert ended.state == "failed"
    await comes_out_the_same(at, ended.run)
