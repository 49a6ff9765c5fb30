import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Exchange, Tool, ToolCall, Usage
from hansard.errors import UsageError
from hansard.providers.checks import checked
from hansard.providers.correcting import corrected, wants_correction
from hansard.providers.recording import Call, RecordedCall, RecordedProgram, Recording, call_of, opened
from hansard.providers.replayed import Replayed
from providers.pretend import asking, says

VERDICT = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


def exchange(text: str = "Is it good?", **metadata: str | int) -> Exchange:
    return asking(text, metadata={"role": "validator", "task": "t1", "attempt": 1, "turn": 1, **metadata})


def recorded(asked: Exchange, said: Completion) -> RecordedCall:
    return RecordedCall(call=call_of(asked), prompt_sha256=sha256(opened(asked)).hexdigest(), completion=said)


def recording(*calls: tuple[Exchange, str]) -> Recording:
    return Recording(calls=tuple(recorded(asked, says(text, latency_us=77)) for asked, text in calls))


async def test_the_same_question_gets_the_same_answer_with_its_counts() -> None:
    asked = exchange()
    answer = says("Yes.", usage=Usage(input_tokens=3, output_tokens=0), latency_us=99, returned_model="m-2026")
    provider = Replayed(Recording(calls=(recorded(asked, answer),)))
    for _ in range(2):
        completion = await provider.complete(asked)
        assert (completion.text, completion.usage, completion.latency_us) == ("Yes.", answer.usage, 99)
    assert provider.first_miss is None


async def test_two_calls_with_one_prompt_are_told_apart_by_who_asks() -> None:
    asked = [
        exchange(role="worker"),
        exchange(role="validator"),
        exchange(attempt=2),
        exchange(turn=2),
        exchange(task="t2"),
    ]
    provider = Replayed(recording(*((each, str(number)) for number, each in enumerate(asked))))
    assert [(await provider.complete(each)).text for each in asked] == ["0", "1", "2", "3", "4"]


async def test_two_calls_of_one_place_are_told_apart_by_their_prompts() -> None:
    first, second = exchange("a"), exchange("b")
    provider = Replayed(recording((first, "A"), (second, "B")))
    assert (await provider.complete(second)).text == "B"
    assert (await provider.complete(first)).text == "A"


async def test_another_prompt_is_a_miss_that_names_both() -> None:
    provider = Replayed(recording((exchange("as it was"), "x")))
    asked = exchange("as it is now")
    completion = await provider.complete(asked)
    assert completion.failure is not None
    assert (completion.failure.kind, completion.failure.retryable, completion.text) == ("internal", False, "")
    for part in ("validator, task t1, attempt 1, turn 1", sha256(opened(asked)).hexdigest()[:16], "the prompt differs"):
        assert part in completion.failure.message


async def test_a_call_that_was_never_made_is_a_miss() -> None:
    provider = Replayed(recording((exchange(), "x")))
    completion = await provider.complete(exchange(task="t9"))
    assert completion.failure is not None
    assert "task t9, attempt 1, turn 1: the recorded run made no such call" in completion.failure.message


async def test_every_later_miss_names_the_first() -> None:
    provider = Replayed(Recording())
    await provider.complete(exchange(task="t1"))
    completion = await provider.complete(exchange(task="t2"))
    assert completion.failure is not None
    assert "task t2" in completion.failure.message
    assert "the first miss was validator, task t1" in completion.failure.message
    assert completion.failure.details["first_miss"] == provider.first_miss


async def test_corrections_are_replayed_turn_by_turn() -> None:
    first = asking("Judge.", schema=VERDICT, schema_name="verdict", metadata={"role": "validator", "turn": 1})
    second = corrected(first, checked(first, says("nope")))
    again = Replayed(recording((first, "nope"), (second, '{"ok": true}')))
    heard = [await again.complete(each) for each in (first, corrected(first, await again.complete(first)))]
    assert [wants_correction(each) for each in heard] == [True, False]
    assert heard[1].structured == {"ok": True}


async def test_a_recorded_answer_is_held_to_the_shape_that_is_asked_for_now() -> None:
    asked = exchange()
    provider = Replayed(Recording(calls=(recorded(asked, says("prose")),)), prompt=lambda _: opened(asked))
    completion = await provider.complete(asking("x", schema=VERDICT, metadata=asked.metadata))
    assert completion.failure is not None
    assert completion.failure.kind == "malformed_response"


async def test_a_schema_is_part_of_the_prompt() -> None:
    plain, shaped = asking("x"), asking("x", schema=VERDICT)
    assert opened(plain) != opened(shaped)


def test_attempts_and_turns_begin_at_one() -> None:
    assert call_of(asking()) == Call("", "", 1, 1)


PROGRAM = RecordedProgram(
    argv=("grep", "-c", "x"), stdin_sha256=sha256(b"x\n").hexdigest(), stdout=b"1\n\xff", stderr=b"", exit_code=0
)
FAILED = RecordedProgram(argv=("false",), stdin_sha256=sha256(b"").hexdigest(), stdout=b"", stderr=b"no", exit_code=1)


async def test_a_program_answers_as_it_did() -> None:
    provider = Replayed(Recording(programs=(PROGRAM, FAILED)))
    done = await provider.run(("grep", "-c", "x"), b"x\n")
    assert (done.output, done.exit_code, done.failure, done.argv) == (b"1\n\xff", 0, None, ("grep", "-c", "x"))
    failed = await provider.run(("false",), b"")
    assert (failed.exit_code, failed.stderr, failed.finish) == (1, b"no", "error")
    assert failed.failure is not None
    assert failed.failure.kind == "tool_failure"


@pytest.mark.parametrize(("argv", "stdin"), [(("grep", "-c", "x"), b"y\n"), (("grep", "-c"), b"x\n"), ((), b"")])
async def test_a_program_that_was_not_run_like_this_is_a_miss(argv: tuple[str, ...], stdin: bytes) -> None:
    provider = Replayed(Recording(programs=(PROGRAM,)))
    completion = await provider.run(argv, stdin)
    assert completion.failure is not None
    assert completion.failure.message.startswith(f"not in the record: program {argv!r}")
    assert provider.first_miss is not None


async def test_a_recording_can_be_written_by_hand(tmp_path: Path) -> None:
    asked = exchange()
    call = {
        "role": "validator",
        "task": "t1",
        "attempt": 1,
        "turn": 1,
        "provider": "p",
        "requested_model": "m",
        "prompt_sha256": sha256(opened(asked)).hexdigest(),
        "text": "Yes.",
        "usage": {"input_tokens": 1},
    }
    program = {"argv": ["true"], "stdout": "ok"}
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"calls": [call], "programs": [program]}))
    provider = Replayed(Recording.load(path))
    assert (await provider.complete(asked)).text == "Yes."
    assert (await provider.run(("true",), b"")).text == "ok"


async def test_the_calls_of_a_recorded_answer_come_back(tmp_path: Path) -> None:
    look = Tool(name="look", description="Look.", input_schema={"type": "object"})
    asked = asking("Well?", tools=(look,))
    call = {"id": "c1", "name": "look", "arguments": {"at": "Paris"}}
    table = {"prompt_sha256": sha256(opened(asked)).hexdigest(), "calls": [call]}
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"calls": [table]}))
    completion = await Replayed(Recording.load(path)).complete(asked)
    assert completion.calls == (ToolCall(id="c1", name="look", arguments={"at": "Paris"}),)
    assert (completion.failure, completion.finish) == (None, "tool_call")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"calls": [{"calls": [{"nam": "look"}]}]}, "calls 1, calls 1: unknown key nam"),
        ({"calls": [{"rol": "x"}]}, "calls 1: unknown key rol"),
        ({"calls": [{"attempt": 0}]}, "attempt must be a whole number from 1"),
        ({"programs": [{"argv": "ls"}]}, "programs 1: argv must be a list of texts"),
        ({"runs": []}, "unknown key runs"),
        (3, "must be a table"),
    ],
    ids=str,
)
def test_a_recording_that_makes_no_sense_is_refused(table: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(table))
    with pytest.raises(UsageError) as refused:
        Recording.load(path)
    assert words in str(refused.value)


def test_a_recording_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the recording"):
        Recording.load(tmp_path / "gone.json")
