import hashlib
import json
import math
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

import vectors
from hansard.deliberation.documents import Invalid, digest_of, jcs, transcript_bytes, transcript_digest, unrepresentable
from hansard.deliberation.documents.jcs import number
from hansard.ledger.canonical import MAX_INT

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-MAX_INT, MAX_INT) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.requirement("R-7.5-2", "R-7.7-3")
@given(VALUES)
def test_our_bytes_are_those_of_another_implementation(value: Any) -> None:
    assert jcs(value) == rfc8785.dumps(value)


@given(st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", struct.pack(">Q", bits))[0]))
def test_every_double_is_written_as_another_implementation_writes_it(value: float) -> None:
    if math.isfinite(value):
        assert number(value).encode() == rfc8785.dumps(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e300, "-1.5e+300"),
        (0.0021, "0.0021"),
        (5e-324, "5e-324"),
        (333333333.33333329, "333333333.3333333"),
    ],
)
def test_numbers_are_written_as_ecmascript_writes_them(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_the_published_vectors_come_out_byte_for_byte(name: str) -> None:
    folder = vectors.file("jcs-cyberphone/testdata")
    value = json.loads((folder / "input" / f"{name}.json").read_text("utf-8"))
    wanted = bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text("utf-8"))
    assert jcs(value) == wanted


def test_names_are_ordered_by_utf_16_and_not_by_code_point() -> None:
    assert jcs({"\uffff": 1, "\U0001f600": 2}) == '{"\U0001f600":2,"\uffff":1}'.encode()


def test_text_is_not_normalised() -> None:
    assert jcs("é") != jcs("e\u0301")


@pytest.mark.parametrize(
    "value",
    [
        2**53,
        -(2**53),
        math.nan,
        math.inf,
        "\ud800",
        {"\udc00": 1},
        {1: 2},
        object(),
        [b"bytes"],
        {"deep": {"n": 2**60}},
    ],
    ids=repr,
)
def test_what_programs_read_differently_is_refused(value: object) -> None:
    with pytest.raises(Invalid):
        jcs(value)
    assert unrepresentable(value)


@given(VALUES)
@example(1e20)
@example({"n": [-9007199254740994.0]})
@example([1e21, 9007199254740991.0])
def test_what_is_called_representable_can_be_read_again(value: object) -> None:
    if unrepresentable(value) is None:
        assert unrepresentable(json.loads(jcs(value))) is None


def test_a_fraction_that_would_be_written_as_a_whole_number_beyond_the_limit_is_refused() -> None:
    assert [unrepresentable(value) is None for value in (1e20, -(2.0**53), 2.0**53 - 1, 1e21)] == [
        False,
        False,
        True,
        True,
    ]


def test_deep_nesting_is_refused_and_not_a_crash() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert unrepresentable(value) == "is nested too deeply"
    while value:
        value = value.pop()


@pytest.mark.requirement("R-7.7-1")
@given(st.lists(st.dictionaries(TEXT, NUMBERS, max_size=3), max_size=4))
def test_the_digest_is_sha256_over_the_canonical_array(messages: list[Any]) -> None:
    whole = hashlib.sha256(rfc8785.dumps(messages)).hexdigest()
    assert transcript_digest(messages) == whole
    assert digest_of(jcs(message) for message in messages) == whole
    assert transcript_bytes(jcs(message) for message in messages) == rfc8785.dumps(messages)
