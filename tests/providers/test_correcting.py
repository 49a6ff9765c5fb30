from typing import Any, get_args

import pytest

from hansard.domain.exchange import Completion, ErrorKind, Message
from hansard.providers.base import failure
from hansard.providers.checks import checked
from hansard.providers.correcting import NOTHING_SAID, corrected, wants_correction
from providers.pretend import asking, says

VERDICT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["ok"],
    "additionalProperties": False,
}
QUESTION = asking("Is it good?", schema=VERDICT, schema_name="verdict", metadata={"role": "validator", "turn": 1})


def heard(text: str, **more: Any) -> Completion:
    """An answer to the question, as whoever asks takes it."""
    return checked(QUESTION, says(text, **more))


@pytest.mark.parametrize("text", ['{"ok": "nope"}', '{"ok": 1}', "I think so", ""])
def test_nope_is_not_a_pass_and_worth_a_correction(text: str) -> None:
    answer = heard(text)
    assert (answer.ok, answer.structured) == (False, None)
    assert wants_correction(answer)


def test_a_provider_that_calls_a_wrong_shape_right_is_corrected() -> None:
    assert wants_correction(heard("x", structured={"ok": "nope"}))


def test_what_is_right_cut_off_or_advised_against_is_not_corrected() -> None:
    cut = heard('{"ok": tr', finish="length")
    assert cut.failure is not None
    assert cut.failure.kind == "context_length_exceeded"
    in_vain = says("no", failure=failure("malformed_response", "it will never do", retryable=False))
    assert [wants_correction(each) for each in (heard('{"ok": true}'), cut, in_vain)] == [False, False, False]


@pytest.mark.parametrize("kind", sorted(set(get_args(ErrorKind)) - {"malformed_response"}))
def test_no_other_failure_is_corrected(kind: ErrorKind) -> None:
    answer = heard('{"ok": true}', failure=failure(kind, "rate limited, try later", retryable=True), finish="error")
    assert (answer.ok, wants_correction(answer)) == (False, False)


def test_a_program_that_failed_is_not_believed_when_its_complaint_reads_like_a_verdict() -> None:
    complaint = '{"ok": true}'
    broken = failure("tool_failure", "exit code 1")
    answer = heard(complaint, stderr=complaint.encode(), structured={"ok": True}, exit_code=1, failure=broken)
    assert (answer.ok, wants_correction(answer)) == (False, False)


def test_a_correction_quotes_the_answer_and_names_the_fault() -> None:
    second = corrected(QUESTION, heard('I say {"ok": "nope"}'))
    assert second.messages[: len(QUESTION.messages)] == QUESTION.messages
    quoted, correction = second.messages[len(QUESTION.messages) :]
    assert quoted == Message(role="assistant", content='I say {"ok": "nope"}')
    assert correction.role == "user"
    for part in ("`verdict`", "/ok", 'must be boolean, but is string "nope"', "one bare JSON object"):
        assert part in correction.content
    assert second.metadata == {"role": "validator", "turn": 2}
    assert second.schema == QUESTION.schema


def test_an_empty_answer_is_quoted_as_nothing() -> None:
    assert corrected(QUESTION, heard("")).messages[1].content == NOTHING_SAID


def test_of_an_answer_whose_fault_has_no_place_the_whole_is_quoted() -> None:
    fault = failure("malformed_response", "two objects where one was asked for", raw_attempt="{} {}")
    second = corrected(asking("Is it good?", schema=VERDICT, schema_name="verdict"), says("", failure=fault))
    quoted, correction = second.messages[-2:]
    assert quoted.content == "{} {}"
    assert "Where: (the whole answer)\nWhat is wrong: two objects where one was asked for\n" in correction.content
    assert second.metadata["turn"] == 2


def test_corrections_can_be_stacked_by_who_wants_them_stacked() -> None:
    once = corrected(QUESTION, says("one", failure=failure("malformed_response", "wrong")))
    twice = corrected(once, says("two", failure=failure("malformed_response", "wrong")))
    assert [message.content for message in twice.messages if message.role == "assistant"] == ["one", "two"]
    assert twice.metadata["turn"] == 3
