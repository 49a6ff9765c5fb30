"""Patterns of schemas: the same answer as Python's own search, and one that comes soon."""

import re
import time
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hansard.providers.schema import compile, expression
from hansard.providers.schema.expression import Expression
from hansard.providers.schema.rule import TooMuch, Walk

ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "-",
        " ",
        ".",
        r"\d",
        r"\W",
        r"\s",
        "[ab]",
        "[^a]",
        r"[\w-]",
        r"[^\s\D]",
        r"\n",
        "é",
        "[]a]",
        "{",
        r"[\D\W]",
        "[a-e-z]",
    ]
)
COUNTS = st.sampled_from(["*", "+", "?", "*?", "{2}", "{0,2}", "{1,}", "{,2}"])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(inner, COUNTS).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda each: rf"\b{each}"),
    )


PLAIN = st.recursive(ATOMS, larger, max_leaves=6)
AHEAD = st.lists(st.tuples(st.sampled_from(["=", "!"]), PLAIN).map(lambda pair: f"(?{pair[0]}{pair[1]})"), max_size=2)
PATTERNS = st.one_of(
    PLAIN,
    PLAIN.map(lambda each: f"{each}$"),
    st.tuples(AHEAD, PLAIN).map(lambda pair: f"^{''.join(pair[0])}{pair[1]}"),
    st.tuples(PLAIN, PLAIN).map(lambda pair: f"^{pair[0]}$|{pair[1]}"),
)
TEXTS = st.text(st.sampled_from("ab-_ 7\né"), max_size=8)


@settings(max_examples=200)
@given(pattern=PATTERNS, text=TEXTS)
@example(pattern="", text="")
@example(pattern="(a*)*$", text="aab")
@example(pattern=r"\b", text="")
@example(pattern="^(?!a)(?=.*b).{2}$", text="-b")
def test_a_walk_finds_what_a_search_finds(pattern: str, text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expression, "FEW_TRIES", 0.5)
        patch.setattr(expression, "MOST_TRIES", 0.5)
        made = Expression(pattern)
    assert made._quick == 0
    wanted = re.search(pattern.replace("$", r"\Z"), f"{text} ", re.ASCII)
    assert made.is_in(f"{text} ", Walk()) is (wanted is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"(a+)+$", "a" * 100_000 + "!", False),
        (r"^(\w+\s?)*$", "word " * 20_000 + "!", False),
        (r"^[a-z0-9]+(-[a-z0-9]+)*$", "a-" * 20_000 + "a", True),
        (r"(x|x|x)*y", "x" * 50_000, False),
        ("a?" * 40 + "a" * 40, "a" * 40, True),
        (r".*foo.*bar.*baz", "foobar" * 20_000, False),
        (r"^(?=.*\d)(?!.*secret).{8,}$", "correct horse battery staple 9 " * 1_000, True),
        (r"^[A-Za-z0-9+/]+=*$", "QUJD" * 250_000, True),
        (r"(){4000000000}", "", True),
        (r"((){65535}){65535}b", "a" * 100, False),
        (r"\(?xyz\)?", "(xyz)", True),
        (r"a{1,900}b", "a" * 900, False),
        (f"^(?:{'|'.join(f'word{n}' for n in range(1_100))})$", "word1099", True),
        (r"(?i)^[a-z ]+$", "Correct Horse " * 50, True),
        (f"^[{''.join(rf'{chr(each)}-{chr(each + 1)}' for each in range(0x4E00, 0x9000, 3))}]+$", "一" * 5_000, True),
        (f"^[^{''.join(map(chr, range(0x20000, 0x2A000)))}]+$", "".join(map(chr, range(0x30, 0x5B))) * 500, True),
    ],
)
def test_the_worst_texts_are_searched_to_their_end(pattern: str, text: str, found: bool) -> None:
    assert Expression(pattern).is_in(text, Walk()) is found


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"(a|b)*a(a|b){20}c", "".join(Random(7).choices("ab", k=300_000))),
        (r"a{1,4000}b", "a" * 1_000_000),
        (r"(\w+)*\s\1", "a" * 10_000),
        (r"(?i)(a+)+$", "a" * 1_000),
        (r"((a{1,99}){1,99}){1,99}$", "a" * 1_000),
        (r"(?x)(a+) +$", "a" * 40 + "!"),
        (r"(?x:(a+) +)$", "a" * 40 + "!"),
        (r"()\1{4000000000}b", "b"),
        (r"(?=a){4000000000}b", ""),
        ("[ab]" * 2_000 + "c", "a" * 1_000_000),
        (r"\b" * 20_000 + "X", "a " * 20_000),
        (r"(?!z)" * 9_000 + "X", "a" * 500_000),
        (r"(?:\b){4000000000}b", "b"),
    ],
)
def test_what_would_take_too_long_is_told(pattern: str, text: str) -> None:
    with pytest.raises(TooMuch):
        Expression(pattern).is_in(text, Walk())
    breach = compile({"pattern": pattern}).check(text)
    assert breach is not None
    assert breach.rule == "size"


def test_many_patterns_share_the_steps_of_one_check() -> None:
    schema = {"allOf": [{"pattern": f"(a{{1,3000}})*{number}"} for number in range(2_000)]}
    breach = compile(schema).check("a" * 2_000)
    assert breach is not None
    assert breach.rule in ("pattern", "size")


def test_many_texts_share_the_steps_of_one_check() -> None:
    started = time.monotonic()
    breach = compile({"items": {"not": {"pattern": "(?i)a*b"}}}).check(["a" * 900] * 5_000)
    assert breach is not None
    assert breach.rule == "size"
    assert time.monotonic() - started < 120
    assert compile({"items": {"not": {"pattern": "a*b"}}}).check(["a" * 900] * 2_000) is None
    assert time.monotonic() - started < 120


def test_names_are_searched_like_texts() -> None:
    schema = {"patternProperties": {"(a+)+$": {"type": "integer"}}, "additionalProperties": False}
    name = "a" * 5_000
    assert compile(schema).check({name: 1}) is None
    breach = compile(schema).check({f"{name}!": 1})
    assert breach is not None
    assert breach.rule == "additionalProperties"
