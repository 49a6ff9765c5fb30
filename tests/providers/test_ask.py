from typing import Any

import pytest

from hansard.domain.exchange import Completion, Exchange, Message
from hansard.errors import UsageError
from hansard.providers.ask import NOTHING_SAID, Attempt, ask, corrected
from hansard.providers.base import failure
from providers.pretend import Doing, asking, saying, says

VERDICT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["ok"],
    "additionalProperties": False,
}
QUESTION = asking("Is it good?", schema=VERDICT, schema_name="verdict", metadata={"role": "validator", "turn": 1})


async def test_a_good_answer_is_asked_for_once() -> None:
    provider = saying('{"ok": true}')
    answer = await ask(provider, QUESTION)
    assert (answer.ok, answer.value, answer.failure, len(answer.attempts)) == (True, {"ok": True}, None, 1)
    assert provider.asked == [QUESTION]


async def test_nope_is_not_a_pass() -> None:
    answer = await ask(saying('{"ok": "nope"}', '{"ok": "fail"}', '{"ok": 1}'), QUESTION)
    assert not answer.ok
    assert answer.value is None
    assert answer.failure is not None
    assert answer.failure.kind == "malformed_response"
    assert len(answer.attempts) == 3


async def test_a_correction_quotes_the_answer_and_names_the_fault() -> None:
    provider = saying('I say {"ok": "nope"}', '{"ok": false}')
    answer = await ask(provider, QUESTION)
    assert answer.value == {"ok": False}
    first, second = provider.asked
    assert second.messages[: len(first.messages)] == first.messages
    quoted, correction = second.messages[len(first.messages) :]
    assert quoted == Message(role="assistant", content='I say {"ok": "nope"}')
    assert correction.role == "user"
    for part in ("`verdict`", "/ok", 'must be boolean, but is string "nope"', "one bare JSON object"):
        assert part in correction.content
    assert (first.metadata["turn"], second.metadata["turn"]) == (1, 2)
    assert second.schema == first.schema


async def test_each_correction_is_of_the_last_answer_only() -> None:
    provider = saying("first", "second", '{"ok": true}')
    await ask(provider, QUESTION)
    assert [message.content for message in provider.asked[2].messages][:2] == ["Is it good?", "second"]
    assert len(provider.asked[2].messages) == 3
    assert provider.asked[2].metadata == {"role": "validator", "turn": 3}


async def test_an_empty_answer_is_quoted_as_nothing() -> None:
    provider = saying("", '{"ok": true}')
    await ask(provider, QUESTION)
    assert provider.asked[1].messages[1].content == NOTHING_SAID


@pytest.mark.parametrize(("corrections", "calls"), [(0, 1), (1, 2), (5, 6)])
async def test_there_are_at_most_so_many_corrections(corrections: int, calls: int) -> None:
    provider = saying(*["no"] * 10)
    answer = await ask(provider, QUESTION, corrections=corrections)
    assert (len(provider.asked), len(answer.attempts), answer.ok) == (calls, calls, False)


async def test_every_attempt_is_told_before_the_next_is_made() -> None:
    provider = saying("no", "no", '{"ok": true}')
    told: list[tuple[str, int, int]] = []

    async def before(number: int, exchange: Exchange) -> None:
        told.append(("before", number, len(provider.asked)))

    async def after(attempt: Attempt) -> None:
        told.append(("after", attempt.number, len(provider.asked)))
        assert attempt.exchange is provider.asked[-1]

    await ask(provider, QUESTION, before=before, on_attempt=after)
    assert told == [
        *(("before", 1, 0), ("after", 1, 1)),
        *(("before", 2, 1), ("after", 2, 2)),
        *(("before", 3, 2), ("after", 3, 3)),
    ]


async def test_the_caller_may_refuse_to_go_on() -> None:
    provider = saying("no", "no", "no")

    async def broke(attempt: Attempt) -> bool:
        return attempt.number < 2

    answer = await ask(provider, QUESTION, on_attempt=broke)
    assert (answer.stopped, len(provider.asked)) == (True, 2)
    assert answer.failure is not None


async def test_the_caller_may_refuse_the_first_call() -> None:
    provider = saying('{"ok": true}')

    async def never(number: int, exchange: Exchange) -> bool:
        return False

    answer = await ask(provider, QUESTION, before=never)
    assert (answer.stopped, answer.ok, answer.value, answer.completion, provider.asked) == (True, False, None, None, [])


async def test_what_the_caller_raises_passes_and_nothing_more_is_asked() -> None:
    provider = saying("no", "no")

    async def full(attempt: Attempt) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        await ask(provider, QUESTION, on_attempt=full)
    assert len(provider.asked) == 1


@pytest.mark.parametrize("kind", ["timeout", "network", "rate_limit", "auth_failure", "tool_failure", "internal"])
async def test_any_other_failure_ends_the_asking(kind: Any) -> None:
    async def do(_: Exchange) -> Completion:
        return says('{"ok": true}', failure=failure(kind, "rate limited, try later"), finish="error")

    provider = Doing(do)
    answer = await ask(provider, QUESTION)
    assert len(provider.asked) == 1
    assert answer.failure is not None
    assert answer.failure.kind == kind


async def test_a_program_that_failed_is_not_believed_when_its_complaint_reads_like_a_verdict() -> None:
    async def do(_: Exchange) -> Completion:
        return says(
            stderr=b'{"ok": true}',
            text='{"ok": true}',
            structured={"ok": True},
            exit_code=1,
            failure=failure("tool_failure", "exit code 1"),
        )

    answer = await ask(Doing(do), QUESTION)
    assert (answer.ok, answer.value) == (False, None)


async def test_a_provider_that_calls_a_wrong_shape_right_is_corrected() -> None:
    said = [says("x", structured={"ok": "nope"}), says("x", structured={"ok": True})]

    async def do(_: Exchange) -> Completion:
        return said.pop(0)

    answer = await ask(Doing(do), QUESTION)
    assert (answer.value, len(answer.attempts)) == ({"ok": True}, 2)


async def test_an_answer_that_was_cut_off_is_not_corrected() -> None:
    async def do(_: Exchange) -> Completion:
        return says('{"ok": tr', finish="length")

    answer = await ask(Doing(do), QUESTION)
    assert len(answer.attempts) == 1
    assert answer.failure is not None
    assert answer.failure.kind == "context_length_exceeded"


async def test_a_question_without_a_shape_is_asked_once() -> None:
    answer = await ask(saying("just words"), asking())
    assert answer.ok
    assert answer.completion is not None
    assert answer.completion.text == "just words"


async def test_a_negative_number_of_corrections_is_refused() -> None:
    with pytest.raises(UsageError, match="-1"):
        await ask(saying("x"), QUESTION, corrections=-1)


def test_corrections_can_be_stacked_by_who_wants_them_stacked() -> None:
    once = corrected(QUESTION, says("one", failure=failure("malformed_response", "wrong")))
    twice = corrected(once, says("two", failure=failure("malformed_response", "wrong")))
    assert [message.content for message in twice.messages if message.role == "assistant"] == ["one", "two"]
    assert twice.metadata["turn"] == 3
