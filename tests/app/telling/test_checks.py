"""What checks have found is told in words, and what is not as ours write it stays as it is."""

import json
from dataclasses import asdict

import pytest

from hansard.app.telling.checks import said_of_answer, said_of_result
from hansard.orchestration.checks.code import code
from hansard.orchestration.checks.delivery import delivery
from hansard.orchestration.checks.intent import intent


def written(found: object) -> str:
    return json.dumps(asdict(found))  # type: ignore[call-overload]


def test_what_is_missing_from_an_answer_is_named() -> None:
    said = said_of_answer("intent", written(intent("compare kafka, rabbitmq and nats", "Bananas are yellow fruit.")))
    assert said == "the answer speaks of 0 % of what was asked; not found in it: compare, kafka, rabbitmq, nats"


def test_of_many_missing_words_the_first_are_named_and_the_rest_counted() -> None:
    said = said_of_answer("intent", json.dumps({"why": "w", "missing": [f"m{number}" for number in range(15)]}))
    assert said == f"w; not found in it: {', '.join(f'm{number}' for number in range(12))} and 3 more"


def test_an_answer_that_is_as_it_should_be_has_measures_and_one_that_is_not_has_reasons() -> None:
    assert said_of_answer("delivery", written(delivery("One two. Three."))) == "3 words, 2 in the longest sentence"
    long = said_of_answer("delivery", written(delivery(" ".join(f"w{number}" for number in range(200)), "brief")))
    assert long is not None
    assert long.split("; ")[:2] == ["the answer has 200 words, more than 150", "a sentence has 200 words, more than 35"]


def test_what_is_wrong_with_code_is_told_by_block() -> None:
    told = said_of_answer("code", written(code("```python\ndef (\n```\n")))
    assert told is not None
    assert told.startswith("block 1: ")
    assert said_of_answer("code", written(code("```python\nx = 1\n```\n"))) == "nothing is wrong with 1 of its blocks"


def test_the_checks_of_a_result_are_told_a_line_each() -> None:
    rows = [{"check": "schema", "ok": True, "detail": ""}, {"check": "validator", "ok": False, "detail": "too short"}]
    assert said_of_result(json.dumps(rows)) == "schema: passed\nvalidator: failed, too short"


@pytest.mark.parametrize("text", [None, "", "in words", "[1]", "{}", "[{}]", '{"why": 1}', "null", "[" * 100_000])
def test_what_is_not_as_ours_write_it_stays_as_it_is(text: str | None) -> None:
    assert said_of_result(text) in (text, "")
    for check in ("intent", "delivery", "code", "verifier", "of another version"):
        assert said_of_answer(check, text) == text
