"""The quick look passes exactly those lines that the strict reading passes at this place."""

import json
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.ledger import canonical, form
from hansard.ledger.canonical import MAX_INT, Malformed, dump
from hansard.ledger.entry import Entry, checked_sketch, parse
from hansard.ledger.form import FAILURES, QuickForm, read

PREV = "ab" * 32
LENT: tuple[Any, ...] = (orjson.loads, lambda value: orjson.dumps(value, option=orjson.OPT_SORT_KEYS))

scalars = (
    st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | st.text(st.characters(codec="utf-8"), max_size=12)
)
names = st.text("abz_.-0", min_size=1, max_size=6)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
parts = st.dictionaries(
    st.sampled_from(["prompt", "output", "a", "z9_"]), st.sampled_from(["0f" * 32, "e" * 64]), max_size=3
)


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    sketch = checked_sketch(
        kind=draw(st.sampled_from(["task.answered", "a.b.c_d"])),
        actor=draw(st.sampled_from(["lane:a", "model:x/y+1"])),
        run=draw(st.sampled_from(["", "run-1"])),
        data=draw(st.dictionaries(names, values, max_size=4)),
        body=draw(parts),
    )
    causes = sorted(draw(st.sets(st.integers(0, 8), max_size=4)))
    return sketch.line(causes=causes, prev=PREV.encode(), seq=9, ts=draw(st.integers(0, MAX_INT)))


def passes_strictly(line: bytes) -> bool:
    try:
        entry = parse(line)
    except Malformed:
        return False
    return entry.seq == 9 and entry.prev == PREV


def passes_quickly(quick: QuickForm, line: bytes) -> bool:
    try:
        members = quick.members(line, 9, PREV)
    except FAILURES:
        return False
    assert quick.members(line) == members
    entry = parse(line)
    assert (members["kind"], members["ts"], members["body"]) == (entry.kind, entry.ts, entry.body)
    assert tuple(members["causes"]) == entry.causes
    return True


def either(reading: Callable[[bytes], Entry], line: bytes) -> Entry | str:
    """What comes of reading a line: the entry, or what is wrong with it."""
    try:
        return reading(line)
    except Malformed as error:
        return str(error)


@pytest.mark.parametrize("tools", [(), LENT], ids=["standard library", "orjson"])
class TestTheQuickLook:
    @given(line=lines())
    def test_passes_what_a_writer_writes(self, tools: tuple[Any, ...], line: bytes) -> None:
        assert passes_quickly(QuickForm(*tools), line)

    @settings(max_examples=300)
    @given(
        line=lines(), at=st.integers(0, 10_000), byte=st.integers(0, 255), how=st.sampled_from(["set", "drop", "add"])
    )
    def test_agrees_with_the_strict_reading_on_damaged_lines(
        self, tools: tuple[Any, ...], line: bytes, at: int, byte: int, how: str
    ) -> None:
        at %= len(line)
        middle = {"set": bytes([byte]), "drop": b"", "add": line[at : at + 1] + bytes([byte])}[how]
        damaged = line[:at] + middle + line[at + 1 :]
        assert passes_quickly(QuickForm(*tools), damaged) == passes_strictly(damaged)
        assert either(read, damaged) == either(parse, damaged)

    @pytest.mark.parametrize(
        "text",
        ["1.0", "1e3", "-0", "9007199254740992", "-9007199254740992", "1" * 400, "1" * 5000, "NaN", "Infinity", "true", "01", "[1.5]",
         '{"a":1,"a":1}', '{"b":1,"a":1}', '{"é":1}', '"\\u0041"', '"\\ud800"', '"\\u000A"', '"\\/"', '" "', "[" * 33 + "]" * 33,
         "[" * 30 + "]" * 30, "[" * 31 + "]" * 31, "[" * 40_000, '{"a": 1}', '"\x7f"', '"\u2028"'],
    )  # fmt: skip
    def test_agrees_with_the_strict_reading_on_hostile_values(self, tools: tuple[Any, ...], text: str) -> None:
        line = (
            dump(members())[:-1].replace(b'"data":{}', b'"data":{"x":' + text.encode("utf-8", "surrogatepass") + b"}")
            + b"}"
        )
        assert passes_quickly(QuickForm(*tools), line) == passes_strictly(line)
        assert either(read, line) == either(parse, line)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("v", True), ("v", 2), ("v", 1.0), ("seq", 9.0), ("seq", True), ("ts", 1.0), ("ts", True), ("ts", -1), ("ts", MAX_INT + 1),
         ("ts", "1"), ("causes", [True]), ("causes", [1.0]), ("causes", [9]), ("causes", [2, 1]), ("causes", [1, 1]), ("causes", {}),
         ("causes", "12"), ("causes", None), ("body", []), ("body", [1]), ("body", ["prompt"]),
         ("body", {"A": "0" * 64}), ("body", {"a": "0" * 63}), ("body", {"a": 1}),
         ("body", {"a": "0" * 63 + "G"}), ("body", {"a": "0" * 64 + "\n"}), ("body", {"\u00e9": "0" * 64}), ("data", []), ("data", None),
         ("data", "x"), ("actor", ""), ("actor", "a b"), ("actor", ["a"]), ("actor", 1), ("kind", "one"), ("kind", "A.b"), ("kind", None),
         ("run", "a b"), ("run", "x" * 65), ("run", {}), ("prev", "0" * 64), ("prev", None), ("more", 1), ("seq", -1), ("seq", MAX_INT + 1),
         ("causes", [-1])],
    )  # fmt: skip
    def test_agrees_with_the_strict_reading_on_hostile_members(
        self, tools: tuple[Any, ...], name: str, value: Any
    ) -> None:
        line = json.dumps(members() | {name: value}, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert not passes_strictly(line)
        assert not passes_quickly(QuickForm(*tools), line)
        assert either(read, line) == either(parse, line)

    @pytest.mark.parametrize(
        "committed",
        [
            "AB" * 32,
            "ab " * 21 + "a",
            "0" * 62 + " 0",
            "\uff10" * 64,
            "0" * 63,
            "0" * 66,
            ["0"] * 64,
            {"0": 1},
            None,
            64,
            "",
        ],
    )
    def test_refuses_a_commitment_of_another_form_also_under_a_name_that_it_knows(
        self, tools: tuple[Any, ...], committed: Any
    ) -> None:
        quick = QuickForm(*tools)
        assert passes_quickly(quick, dump(members() | {"body": {"prompt": "0f" * 32}}))
        line = json.dumps(
            members() | {"body": {"prompt": committed}}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
        assert not passes_strictly(line)
        assert not passes_quickly(quick, line)

    @pytest.mark.parametrize("most", [MAX_INT, -MAX_INT])
    def test_passes_the_largest_numbers_that_there_are(self, tools: tuple[Any, ...], most: int) -> None:
        assert MAX_INT == 9_007_199_254_740_991
        line = dump(members() | {"data": {"x": most, "y": [most]}, "ts": abs(most)})
        assert passes_quickly(QuickForm(*tools), line)
        assert parse(line).data == {"x": most, "y": [most]}

    def test_refuses_a_line_that_is_too_long(self, tools: tuple[Any, ...]) -> None:
        line = dump(members() | {"data": {"x": "y" * 70_000}})
        assert not passes_quickly(QuickForm(*tools), line)

    def test_refuses_too_many_causes_and_parts(self, tools: tuple[Any, ...]) -> None:
        many = dump(members() | {"seq": 2000, "causes": list(range(1001))})
        with pytest.raises(FAILURES):
            QuickForm(*tools).members(many, 2000, PREV)
        wide = dump(members() | {"body": {f"p{number}": "0" * 64 for number in range(256)}})
        assert not passes_quickly(QuickForm(*tools), wide)


def test_names_are_forgotten_before_they_fill_the_memory() -> None:
    quick = QuickForm()
    for number in range(10_000):
        quick.members(dump(members() | {"run": f"r{number}"}), 9, PREV)
    assert len(quick._runs) <= form._REMEMBERED


def test_the_plain_encoder_stands_in_where_there_is_no_c_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"b": [1, None, True, '\u2028\n"\\\x01'], "a": {"k": -5}}
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert canonical.make_writer()(value).encode() == dump(value)


@given(value=st.dictionaries(names, values, max_size=4))
def test_the_kept_encoder_writes_canonical_text(value: dict[str, Any]) -> None:
    assert canonical.make_writer()(value).encode() == dump(value)


def members() -> dict[str, Any]:
    return {
        "actor": "a",
        "body": {},
        "causes": [],
        "data": {},
        "kind": "a.b",
        "prev": PREV,
        "run": "r",
        "seq": 9,
        "ts": 5,
        "v": 1,
    }
