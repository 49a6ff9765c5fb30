import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.ledger.canonical import Malformed, encode
from hansard.ledger.entry import FIRST_PREV, MAX_CAUSES, MAX_LINE, Entry, checked_sketch, parse

HEX = "ab" * 32


def line(**changes: object) -> bytes:
    members: dict[str, object] = {
        "actor": "lane:backend",
        "body": {"prompt": HEX},
        "causes": [1, 2],
        "data": {"attempt": 1},
        "kind": "task.attempted",
        "prev": HEX,
        "run": "r1",
        "seq": 3,
        "ts": 5,
        "v": 1,
    }
    members |= changes
    return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def test_a_line_is_read_into_its_fields() -> None:
    entry = parse(line())
    assert isinstance(entry, Entry)
    assert (entry.seq, entry.causes, entry.body, entry.run) == (3, (1, 2), {"prompt": HEX}, "r1")


@pytest.mark.parametrize(
    "changes",
    [
        {"actor": ""},
        {"actor": "a b"},
        {"actor": "mail@example.org"},
        {"actor": "x" * 129},
        {"actor": 1},
        {"kind": "task"},
        {"kind": "Task.attempted"},
        {"kind": "a." + "b" * 70},
        {"kind": "task.attempted\n"},
        {"run": "a b"},
        {"run": "x" * 65},
        {"prev": HEX.upper()},
        {"prev": HEX[:-1]},
        {"seq": -1},
        {"seq": True},
        {"seq": -1, "causes": []},
        {"seq": True, "causes": []},
        {"ts": "5"},
        {"ts": -5},
        {"v": 2},
        {"v": True},
        {"causes": [2, 1]},
        {"causes": [1, 1]},
        {"causes": [3]},
        {"causes": [-1]},
        {"causes": [True]},
        {"causes": {}},
        {"data": []},
        {"body": {"Prompt": HEX}},
        {"body": {"prompt": "zz"}},
        {"body": {"prompt": 1}},
        {"body": []},
        {"more": 1},
    ],
)
def test_a_member_that_is_not_of_its_form_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(Malformed, match=r"\[E4\]"):
        parse(line(**changes))


def test_a_missing_member_is_named() -> None:
    with pytest.raises(Malformed, match="causes"):
        parse(encode({name: value for name, value in json.loads(line()).items() if name != "causes"}))


def test_true_is_not_taken_for_one() -> None:
    assert parse(line()) is not None
    with pytest.raises(Malformed):
        parse(line().replace(b'"v":1', b'"v":true'))


def test_too_many_causes_or_bytes_are_refused() -> None:
    with pytest.raises(Malformed, match="E4"):
        parse(line(causes=list(range(MAX_CAUSES + 1)), seq=5000))
    with pytest.raises(Malformed, match="E1"):
        parse(line(data={"x": "y" * MAX_LINE}))


@given(
    st.dictionaries(
        st.text(st.characters(max_codepoint=127), max_size=8),
        st.integers(-(2**53) + 1, 2**53 - 1)
        | st.booleans()
        | st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    ),
    st.sets(st.integers(0, 40), max_size=5),
    st.integers(41, 2**40),
    st.integers(0, 2**52),
)
def test_a_spliced_line_is_the_canonical_form_of_its_members(
    data: dict[str, object], causes: set[int], seq: int, ts: int
) -> None:
    made = checked_sketch(kind="a.b", actor="x", run="r", data=data, body={"b": HEX, "a": HEX})
    spliced = made.line(causes=sorted(causes), prev=FIRST_PREV.encode(), seq=seq, ts=ts)
    entry = parse(spliced)
    assert (entry.seq, entry.ts, set(entry.causes), entry.data) == (seq, ts, causes, data)


def test_an_entry_that_would_be_too_long_is_refused_before_it_is_written() -> None:
    made = checked_sketch(kind="a.b", actor="x", run="", data={"x": "y" * (MAX_LINE - 250)}, body={})
    assert len(made.line(causes=[], prev=FIRST_PREV.encode(), seq=1, ts=1)) <= MAX_LINE
    with pytest.raises(Malformed, match="move text into a part"):
        made.line(causes=range(100, 200), prev=FIRST_PREV.encode(), seq=300, ts=1)


def test_what_is_just_short_enough_is_written_and_read_and_one_more_is_not() -> None:
    """[E1] and [E4], by their numbers: an entry of 65,535 bytes, 1,000 causes, 255 parts and names of their full length."""
    names = {"actor": "a" * 128, "kind": "k." + "i" * 62, "run": "r" * 64}
    body = {f"{number:03}".rjust(32, "p"): HEX for number in range(255)}

    def written(size: int, count: int = 1000, parts: dict[str, str] = body) -> bytes:
        def of(filling: int) -> bytes:
            made = checked_sketch(**names, data={"x": "y" * filling}, body=parts)
            return made.line(causes=range(count), prev=FIRST_PREV.encode(), seq=2**53 - 1, ts=2**53 - 1)

        return of(size - len(of(0)))

    entry = parse(written(65_535))
    assert (len(entry.line), len(entry.causes), len(entry.body)) == (65_535, 1000, 255)
    assert (entry.seq, entry.ts, entry.actor, entry.kind, entry.run) == (2**53 - 1, 2**53 - 1, *names.values())
    with pytest.raises(Malformed, match="65536 bytes, more than 65535"):
        written(65_536)
    with pytest.raises(Malformed, match="65536 bytes, more than 65535"):
        parse(entry.line.replace(b"yyy", b"yyyy", 1))
    with pytest.raises(Malformed, match="at most 1000"):
        parse(written(65_000, count=1001))
    with pytest.raises(Malformed, match="at most 255 parts"):
        written(65_000, parts=body | {"more": HEX})


@pytest.mark.parametrize(("name", "wrong"), [("actor", "a b"), ("kind", "task"), ("run", "r 1"), ("run", "r" * 65)])
def test_a_name_that_may_not_be_read_is_not_written(name: str, wrong: str) -> None:
    with pytest.raises(Malformed, match=name):
        checked_sketch(**{"kind": "a.b", "actor": "x", "run": ""} | {name: wrong}, data={}, body={})


@given(st.binary(max_size=300))
def test_reading_is_total(data: bytes) -> None:
    with suppress(Malformed):
        assert parse(data).line == data


def test_what_may_be_written_may_be_read_however_deep_it_is() -> None:
    for depth in range(28, 34):
        data: object = 1
        for _ in range(depth):
            data = {"a": data}
        assert isinstance(data, dict)
        try:
            made = checked_sketch(kind="a.b", actor="x", run="", data=data, body={})
        except Malformed:
            continue
        assert parse(made.line(causes=[], prev=FIRST_PREV.encode(), seq=0, ts=0)).data == data
