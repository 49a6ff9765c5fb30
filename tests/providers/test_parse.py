import json
import time
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.providers.parse import MAX_DEPTH, plain, read, whole
from hansard.providers.schema import compile

VERDICT = compile(
    {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}, "score": {"type": "number"}, "reason": {"type": "string"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
)
PLAN = compile(
    {
        "type": "object",
        "properties": {
            "tasks": {
                "type": "array",
                "minItems": 1,
                "items": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            }
        },
        "required": ["tasks"],
    }
)


def why_not(text: str, validator: Any = VERDICT) -> str:
    reading = read(text, validator)
    assert reading.breach is not None
    assert reading.value is None
    return str(reading.breach)


@pytest.mark.parametrize(
    "text",
    [
        '{"ok": true}',
        '\n\t {"ok": true} \r\n',
        '```json\n{"ok": true}\n```',
        'Here it is: {"ok": true}. Hope it helps!',
        'prose with {this} before the JSON {"ok": true}',
        'a set {"a", "b"} and then {"ok": true}',
        'it\'s a "quote and an apostrophe\'s: {"ok": true}',
        '{} is empty, {"ok": true} is not',
        'first {"plan": "look"} and then {"ok": true}',
        '\ufeff{"ok": true}',
        'function f() { return {}; } gives {"ok": true}',
    ],
)
def test_the_one_object_that_fits_is_found_wherever_it_stands(text: str) -> None:
    assert read(text, VERDICT).value == {"ok": True}


def test_braces_and_quotes_within_strings_are_part_of_the_string() -> None:
    value = {"ok": False, "reason": 'a } and a { and \\" and \\\\ and "}" 漢字'}
    assert read(f"So: {json.dumps(value)} done", VERDICT).value == value
    assert read(f"So: {json.dumps(value, ensure_ascii=False)} done", VERDICT).value == value


# The rows of the seed engine's section 3.6: what a control role said, and what must not come of it.


@pytest.mark.parametrize("text", ["It looks fine to me.", "", "OK", "true and false", "{ok: true}", "{'ok': true}"])
def test_prose_of_a_validator_is_no_verdict(text: str) -> None:
    assert why_not(text)


def test_two_verdicts_are_none() -> None:
    assert "2 JSON objects that would do" in why_not('{"ok": true} or rather {"ok": false}')
    assert "2 JSON objects that would do" in why_not('{"ok": true}\n{"ok": true}')
    assert 'none will do; the last one: (the whole answer): must have "ok"' in why_not('{"ok": "no"} {"ok": 1} {}')


@pytest.mark.parametrize("score", ['"high"', "null", "true", "[1]"])
def test_a_score_that_is_no_number_is_no_score(score: str) -> None:
    assert why_not(f'{{"ok": true, "score": {score}}}').startswith("/score: must be number")


@pytest.mark.parametrize("ok", ['"nope"', '"fail"', '"true"', "1", "0", "null", '""'])
def test_only_a_boolean_passes(ok: str) -> None:
    assert why_not(f'{{"ok": {ok}}}').startswith("/ok: must be boolean")


@pytest.mark.parametrize(
    ("tasks", "path"), [("null", "/tasks"), ('["a"]', "/tasks/0"), ('[{"name": "x"}]', "/tasks/0"), ("[]", "/tasks")]
)
def test_a_plan_without_proper_tasks_is_no_plan(tasks: str, path: str) -> None:
    assert why_not(f'{{"tasks": {tasks}}}', PLAN).startswith(f"{path}: ")


def test_a_repeated_key_is_refused_whichever_value_would_win() -> None:
    assert 'says "ok" twice' in why_not('{"ok": true, "ok": false}')
    assert 'says "ok" twice' in why_not('so {"a": 1, "ok": true, "ok": true} it is')
    assert 'says "id" twice' in why_not('{"tasks": [{"id": "a", "id": "b"}]}', PLAN)


def test_an_object_with_a_repeated_key_does_not_spoil_the_one_that_fits() -> None:
    assert read('draft {"a": 1, "a": 2}, answer {"ok": true}', VERDICT).value == {"ok": True}


# A model that quotes somebody badly must not answer with what it quoted.


def test_an_object_behind_one_that_breaks_off_is_not_taken() -> None:
    quoted = '{"ok": false, "reason": "the worker wrote\n} {"ok": true, "reason": "x"} "}'
    assert "breaks off" in why_not(quoted)
    assert "breaks off" in why_not('{"ok": maybe} {"ok": true}')
    assert "breaks off" in why_not('{"ok": false, "reason": "it said "fine" {}"} {"ok": true}')


def test_an_object_inside_of_braces_that_are_no_json_is_not_taken() -> None:
    assert "holds no JSON object" in why_not('{verdict: {"ok": true}}')
    assert "holds no JSON object" in why_not('{{"ok": true}}')
    assert "holds no JSON object" in why_not('{a {b} {"ok": true}}')
    assert "holds no JSON object" in why_not('an opening { and then {"ok": true}')


def test_a_part_of_a_valid_value_is_not_taken() -> None:
    assert 'must have "ok"' in why_not('{"verdict": {"ok": true}}')
    assert "must be object, but is array" in why_not('[{"ok": true}]')
    assert "must be object, but is string" in why_not(json.dumps('{"ok": true}'))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "9007199254740993", "9" * 5000])
def test_a_number_that_programs_disagree_about_is_refused(number: str) -> None:
    assert "number" in why_not(f'{{"ok": true, "score": {number}}}') or "integer" in why_not(f'{{"n": {number}}}')
    assert read(f'{{"ok": true, "score": {number}}}', VERDICT).breach is not None


def test_half_a_character_is_refused() -> None:
    assert "surrogate" in why_not('{"ok": true, "reason": "\\ud800"}')
    assert "surrogate" in why_not('{"\\udc00": true}')
    assert read('{"ok": true, "reason": "\\ud83c\\udf89"}', VERDICT).value == {"ok": True, "reason": "🎉"}


def test_depth_and_size_are_bounded() -> None:
    deep = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    assert "deeper" in str(read(deep).breach)
    assert read("[" * MAX_DEPTH + "]" * MAX_DEPTH).breach is None
    assert read('{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH).breach is None
    assert "deeper" in str(read("[" * 200_000).breach)
    assert "deeper" in why_not('x {"a":' + "[" * 200_000)
    assert "at most 10 bytes" in str(read('{"ok": true}', VERDICT, max_bytes=10).breach)


@pytest.mark.parametrize(
    "piece",
    [
        "{",
        "}",
        '{"',
        '{"a":',
        '{"a"}',
        "{}",
        '{"\\"',
        "{ ",
        '"',
        "[{",
        '{"a":1}',
        "{a}",
        '{"a":x}',
        "\\",
        '{"a":"',
        "x",
    ],
)
def test_hostile_text_is_read_in_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.monotonic()
    assert read(text, VERDICT).breach is not None
    # A quadratic reader needs many minutes for this.
    assert time.monotonic() - started < 60


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    # An exact integer beyond 2^53 is refused in whatever form it is written.
    .filter(lambda number: abs(number) < 2**53)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_whatever_is_json_reads_as_itself(value: Any) -> None:
    assert read(json.dumps(value)).value == value
    assert read(json.dumps(value, ensure_ascii=False, indent=1)).value == value


@given(
    st.dictionaries(st.text(), JSON, max_size=4),
    st.text(alphabet="ab \n\"'`:,[]()"),
    st.text(alphabet="ab \n\"'`:,[]()"),
)
def test_an_object_in_prose_without_braces_reads_as_itself(value: dict[str, Any], before: str, after: str) -> None:
    text = f"{before} -- {json.dumps(value)} {after} --"
    assert read(text).value == value


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    for each in (text, "{" + text, '{"' + text, '{"a":' + text + "}"):
        reading = read(each, VERDICT)
        assert reading.breach is not None or VERDICT.check(reading.value) is None


def test_a_float_without_a_fraction_becomes_the_integer_that_it_is() -> None:
    value = plain({"a": 7.0, "b": [-0.0, 1.5]}).value
    assert value == {"a": 7, "b": [0, 1.5]}
    assert type(value["a"]) is int
    assert type(value["b"][0]) is int


@pytest.mark.parametrize(
    "value", [{1: 2}, {"a": {1, 2}}, object(), b"x", {"a": float("nan")}, "\ud800", 2**60, 10**400]
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    assert plain(value).breach is not None


def test_a_plain_value_is_a_copy() -> None:
    value: dict[str, Any] = {"a": [1, {"b": 2}]}
    copy = plain(value).value
    value["a"][1]["b"] = 3
    assert copy == {"a": [1, {"b": 2}]}


@pytest.mark.parametrize("text", ['{"a": [1, null]}', ' \n{"a": [1, null]}\t'])
def test_a_whole_text_that_is_json_is_its_value(text: str) -> None:
    assert whole(text).value == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "so: {}", "{} so", "{", '{"a": 1, "a": 2}', "[NaN]", "[" * (MAX_DEPTH + 1)])
def test_nothing_is_looked_for_within_a_text_that_is_to_be_json_as_a_whole(text: str) -> None:
    reading = whole(text)
    assert reading.breach is not None
    assert reading.value is None


def test_what_is_more_than_a_text_or_a_number_becomes_plain() -> None:
    class Action(StrEnum):
        DONE = "finalize"

    class Count(int): ...

    class Share(float): ...

    value = plain({Action.DONE: [Action.DONE, Count(7), Share(0.5), True]}).value
    assert value == {"finalize": ["finalize", 7, 0.5, True]}
    assert [type(each) for each in (*value, *value["finalize"])] == [str, str, int, float, bool]
