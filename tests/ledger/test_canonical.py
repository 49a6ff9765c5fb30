import json
import time
from collections.abc import Callable
from contextlib import suppress

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger.canonical import MAX_DEPTH, MAX_INT, Malformed, decode, encode, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
KEYS = st.text(st.characters(max_codepoint=127), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | TEXT
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)


@given(DOCUMENTS)
def test_the_standard_library_rfc8785_and_orjson_give_the_same_bytes(document: object) -> None:
    ours = encode(document)
    assert ours == rfc8785.dumps(document)  # type: ignore[arg-type]
    assert ours == orjson.dumps(document, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)


@given(DOCUMENTS)
def test_what_is_encoded_comes_back(document: object) -> None:
    assert decode(encode(document)) == document


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_malformed(data: bytes) -> None:
    with suppress(Malformed):
        assert encode(decode(data)) == data


@given(DOCUMENTS)
def test_another_spelling_of_the_same_document_is_refused(document: object) -> None:
    spelt = json.dumps(document, indent=1).encode()
    if spelt != encode(document):
        with pytest.raises(Malformed):
            decode(spelt)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"1.0", "E3"),
        (b"1e3", "E3"),
        (b"NaN", "E3"),
        (b"-Infinity", "E3"),
        (b"9007199254740992", "E3"),
        (b"-9007199254740992", "E3"),
        (b'{"a":1,"a":2}', "E3"),
        ('{"é":1}'.encode(), "E3"),
        (b'"\\ud800"', "E3"),
        (b'{"b":1,"a":2}', "E2"),
        (b'{"a": 1}', "E2"),
        (b'"\\u0041"', "E2"),
        (b'"\\u001F"', "E2"),
        (b'"\xc3"', "E1"),
        (b"", "E1"),
        (b"1 2", "E1"),
        (b'"\x01"', "E1"),
        (b"[" * 40 + b"]" * 40, "E3"),
        (b"[" * 60_000, "E"),
        (b"1" * 5000, "E"),
    ],
)
def test_each_way_out_of_the_model_is_named_by_its_rule(text: bytes, rule: str) -> None:
    with pytest.raises(Malformed, match=rule):
        decode(text)


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), {1: 2}, {"é": 1}, b"bytes", {1, 2}, MAX_INT + 1, "\ud800", {"a": "\udfff"}]
)
def test_values_outside_the_model_are_not_encoded(value: object) -> None:
    with pytest.raises(Malformed):
        encode(value)


@pytest.mark.parametrize("leaf", ["text", 1, None, True, [], {}])
@pytest.mark.parametrize("around", [lambda inner: {"a": inner}, lambda inner: [inner]])
def test_whatever_lies_deeper_than_the_model_allows_is_refused(
    around: Callable[[object], object], leaf: object
) -> None:
    value = leaf
    for _ in range(MAX_DEPTH):
        value = around(value)
    assert decode(encode(value)) == value
    with pytest.raises(Malformed, match="nested deeper"):
        encode(around(value))


def test_line_separators_stand_as_they_are() -> None:
    assert encode("a\u2028b\u0085c\x00") == '"a\u2028b\u0085c\\u0000"'.encode()
    assert parse('"\u2028"'.encode()) == "\u2028"


def test_a_repeated_key_among_very_many_is_named_at_once() -> None:
    members = ",".join(f'"{key}":0' for key in [*range(200_000), 199_999])
    before = time.process_time()
    with pytest.raises(Malformed, match="the key '199999' stands twice"):
        parse(f"{{{members}}}".encode())
    assert time.process_time() - before < 10


@pytest.mark.parametrize("text", ['{"%s":0,"%s":0}', '{"\u00e9%s%s":0}'], ids=["twice", "not ASCII"])
def test_a_long_key_is_not_quoted_whole(text: str) -> None:
    with pytest.raises(Malformed) as raised:
        parse((text % ("k" * 100_000, "k" * 100_000)).encode())
    assert len(str(raised.value)) < 200
