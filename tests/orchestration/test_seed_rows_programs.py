"""The failures of programs and of control parsing that the seed engine was made to show (3.5, 3.6), with real processes."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from hansard.app.setup.wishes import Wishes
from running import Answers, Desk, desk, fails, one, plan, reasons, task

CHECKS = Wishes(judge="checks", answer="join")


def program(code: str) -> dict[str, Any]:
    return {"kind": "command", "argv": [sys.executable, "-I", "-S", "-c", f"import sys, os\n{code}"]}


def programs(roles: dict[str, str] | None = None, **codes: str) -> Desk:
    """A desk whose providers are programs of a few lines of Python; the first is the default."""
    tables = {name: program(code) for name, code in codes.items()}
    chosen = {"default": next(iter(tables)), **(roles or {})}
    return desk(settings={"providers": tables, "roles": chosen, "environment": dict(os.environ)})


ECHO = "p = sys.stdin.buffer.read(); sys.stdout.buffer.write(p)"
COUNT = "print(len(sys.stdin.buffer.read()), 'bytes')"


async def test_the_results_of_twenty_tasks_reach_the_synthesizer_whatever_their_size() -> None:
    """3.5: the prompt travels on standard input, and an error text can never be the answer."""
    made = programs({"synthesizer": "count"}, big="print('x' * 8000)", count=COUNT)
    rows = plan(*(task(f"t{each}") for each in range(20)))
    ended = await made.run(plan=rows, wishes=Wishes(judge="checks", answer="synthesize"))
    assert ended.state == "answered"
    assert int(str(made.answer(ended.run)).split()[0]) > 100_000


@pytest.mark.parametrize("instruction", ["x" * 200_000, "--version", "-rf /", "$(reboot)`x`;|&", "a\0b", "\ud800"])
async def test_any_instruction_can_be_given_to_a_program(instruction: str) -> None:
    """3.5: 128 KiB, options, NUL bytes, half surrogates."""
    made = programs(echo=ECHO)
    ended = await made.run(plan=plan({**task("a"), "instruction": instruction}), wishes=CHECKS)
    assert ended.state == "answered"
    assert instruction.replace("\ud800", "\ufffd") in str(made.answer(ended.run))
    attempt = one(made.entries(ended.run, "task.attempted"))
    assert instruction not in " ".join(json.loads(made.text(attempt, "argv")))


async def test_a_program_that_was_killed_says_by_what() -> None:
    """3.5: killed by a signal."""
    made = programs(dies="os.kill(os.getpid(), 9)")
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "failed"
    result = one(made.entries(ended.run, "task.returned"))
    assert (result.data["ok"], result.data["exit_code"]) == (False, -9)
    verdict = one(made.entries(ended.run, "task.judged"))
    assert (
        "signal" in reasons(made, verdict)[0]["detail"].lower() or "kill" in reasons(made, verdict)[0]["detail"].lower()
    )


async def test_stderr_exit_code_and_duration_of_a_success_stay_in_the_record() -> None:
    """3.5: dropped by the seed."""
    made = programs(warns="print('fine'); print('careful', file=sys.stderr)")
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    result = one(made.entries(ended.run, "task.returned"))
    assert result.data["exit_code"] == 0
    assert result.data["latency_us"] > 0
    assert made.text(result, "stderr") == "careful\n"


async def test_output_that_is_no_text_is_kept_byte_for_byte() -> None:
    """3.5: non-UTF-8."""
    made = programs(odd="sys.stdin.buffer.read(); sys.stdout.buffer.write(b'\\xff\\xfe ok \\x80')")
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "answered"
    result = one(made.entries(ended.run, "task.returned"))
    stored = made.store.body(result.seq, "output")
    assert stored is not None
    assert stored.body == b"\xff\xfe ok \x80"
    assert stored.media == "application/octet-stream"
    assert made.runs.answer(ended.run) == stored.body


async def test_an_answer_that_ended_at_its_length_limit_is_no_success() -> None:
    """3.5: finish reason length."""
    from running import completion

    made = desk(Answers(lambda _: completion("half", finish="length")))
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "failed"


async def test_one_failed_request_is_tried_again_and_stands_in_the_record() -> None:
    """3.5: one HTTP 503."""
    said = [fails("network", "503 Service Unavailable")]
    made = desk(Answers(lambda _: said.pop() if said else "done"))
    ended = await made.run(plan=plan(task("a")), wishes=CHECKS)
    assert ended.state == "answered"
    first, second = made.entries(ended.run, "task.returned")
    assert (first.data["error"], second.data["ok"]) == ("network", True)
    assert "503" in made.text(first, "output")


async def test_timeouts_and_limits_can_be_set() -> None:
    """3.5: no setting at all."""
    provider = Answers()
    made = desk(provider, settings={"run": {"timeout_s": 7, "max_output_tokens": 99}})
    await made.run(plan=plan(task("a")))
    assert {(each.limits.timeout_s, each.limits.max_output_tokens) for each in provider.calls} == {(7, 99)}


FINE = '{"ok": true, "score": 1, "reasons": "fine"}'


async def test_a_validator_that_ends_badly_has_not_judged_whatever_it_printed() -> None:
    """3.6: exit 1 with JSON on stderr, or on stdout."""
    for code in (f"print({FINE!r}, file=sys.stderr); sys.exit(1)", f"print({FINE!r}); sys.exit(1)"):
        made = programs({"validator": "judge"}, work="print('work')", judge=code)
        ended = await made.run(plan=plan(task("a")))
        assert ended.state == "failed"
        assert one(made.entries(ended.run, "task.judged")).data["ok"] is False


async def test_a_synthesizer_that_ends_badly_gives_no_answer() -> None:
    """3.6: "rate limited, try later" as the answer."""
    made = programs(
        {"synthesizer": "limited"}, work="print('work')", limited="print('rate limited, try later'); sys.exit(1)"
    )
    ended = await made.run(plan=plan(task("a"), task("b")), wishes=Wishes(judge="checks", answer="synthesize"))
    assert ended.state == "failed"
    assert made.answer(ended.run) is None
    assert made.entries(ended.run, "run.answered") == []


async def test_when_all_tasks_fail_there_is_no_answer() -> None:
    """3.6: a cheerful answer, exit 0."""
    provider = Answers(lambda _: fails("internal"))
    made = desk(provider)
    ended = await made.run(plan=plan(task("a"), task("b")))
    assert ended.state == "failed"
    assert provider.asked("synthesizer") == []
    assert made.answer(ended.run) is None


@pytest.mark.parametrize("said", ["nope", "fail", "yes", "true", 1, None, "TRUE"])
async def test_only_true_passes(said: object) -> None:
    """3.6: ok "nope" was a passing verdict."""
    verdict = {"ok": said, "score": 1, "reasons": ""}

    def says(exchange: Any) -> Any:
        return verdict if exchange.metadata["role"] == "validator" else "work"

    made = desk(Answers(says))
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "failed"


async def test_prose_around_a_verdict_is_corrected_and_does_not_end_the_run() -> None:
    """3.6: prose with "{this}" before the JSON."""
    turns = ["I looked at {this}: " + FINE, FINE]

    def says(exchange: Any) -> Any:
        return turns.pop(0) if exchange.metadata["role"] == "validator" else "work"

    made = desk(Answers(says))
    ended = await made.run(plan=plan(task("a")))
    assert ended.state == "answered"


async def test_a_check_that_is_a_program_decides_before_any_model_is_asked(tmp_path: Path) -> None:
    """The design: cheap checks first."""
    provider = Answers()
    made = desk(provider, settings={"environment": dict(os.environ)})
    refuses = [sys.executable, "-c", "import sys; sys.exit('number 7 is missing')"]
    ended = await made.run(plan=plan(task("a", checks=[{"command": refuses}])))
    assert ended.state == "failed"
    assert provider.asked("validator") == []
    verdict = one(made.entries(ended.run, "task.judged"))
    assert verdict.data["by"] == "checks"
    assert "number 7 is missing" in reasons(made, verdict)[-1]["detail"]
