"""Strict schemas and answers, there and back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.providers.hosted.strict import relaxed, strictified
from hansard.providers.schema import compile

TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "note": {"type": ["string", "null"]},
        "weight": {"type": "integer", "minimum": 0},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}, "uniqueItems": True},
        "either": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/part"}]},
    },
    "required": ["name"],
    "$defs": {
        "part": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["id"],
            "additionalProperties": False,
        }
    },
}
part = st.fixed_dictionaries({"id": st.integers(-9, 9)}, optional={"label": st.text(max_size=3)})
tree = st.fixed_dictionaries(
    {"name": st.text(max_size=3)},
    optional={
        "note": st.none() | st.text(max_size=3),
        "weight": st.integers(0, 9),
        "parts": st.lists(part, max_size=2, unique_by=str),
        "either": st.text(max_size=3) | part,
    },
)


def filled(value: Any, strict: Any) -> Any:
    """The value as strict mode says it: what is left out is null."""
    strict = TREE["$defs"]["part"] if "$ref" in strict else strict  # type: ignore[index]
    if isinstance(value, list):
        return [filled(each, strict["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    known = strict.get("properties") or {"id": {}, "label": {}}
    inner = {name: each["anyOf"][0] if "anyOf" in each else each for name, each in known.items()}
    return {name: filled(value[name], inner[name]) if name in value else None for name in known}


@given(value=tree)
def test_an_answer_in_strict_form_comes_back_as_it_was_meant(value: Any) -> None:
    strict = strictified(TREE)
    assert strict is not None
    said = filled(value, strict)
    assert compile(strict).check(said) is None
    meant = {**value, "note": value.get("note")}
    assert relaxed(said, TREE) == meant
    assert compile(TREE).check(relaxed(said, TREE)) is None


def test_everything_is_required_and_nothing_may_be_added() -> None:
    strict = strictified(TREE)
    assert strict is not None
    assert strict["required"] == list(TREE["properties"])
    assert strict["additionalProperties"] is False
    assert strict["$defs"]["part"]["required"] == ["id", "label"]
    assert strict["properties"]["weight"] == {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]}
    assert strict["properties"]["note"] == {"type": ["string", "null"]}
    assert "uniqueItems" not in str(strict)
    assert "oneOf" not in str(strict)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {}}, "allOf": [{"required": ["a"]}]},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {"a": {}}, "required": ["b"]},
        {"type": "array", "items": {"type": "string"}},
    ],
)
def test_what_cannot_be_said_strictly_is_not_said_wrongly(schema: dict[str, Any]) -> None:
    assert strictified(schema) is None


ITEM = {"type": "object", "properties": {"id": {"type": "integer"}, "label": {"type": "string"}}, "required": ["id"]}
CLEAR = {"properties": {"op": {"const": "clear"}, "label": {"type": ["string", "null"]}}, "required": ["op", "label"]}
UNLABELLED = {"properties": {"label": {"type": ["string", "null"]}}, "required": ["label"]}
RENAME = {"properties": {"op": {"const": "rename"}, "label": {"type": "string"}}, "required": ["op"]}


@pytest.mark.parametrize(
    ("inner", "said", "meant"),
    [
        ({"anyOf": [{"type": "array", "items": ITEM}, {"type": "null"}]}, [{"id": 1, "label": None}], [{"id": 1}]),
        ({"anyOf": [{"oneOf": [{"type": "null"}, ITEM]}, {"type": "string"}]}, {"id": 1, "label": None}, {"id": 1}),
        ({"anyOf": [RENAME, CLEAR]}, {"op": "clear", "label": None}, {"op": "clear", "label": None}),
        ({"anyOf": [RENAME, CLEAR]}, {"op": "rename", "label": None}, {"op": "rename"}),
        ({"anyOf": [ITEM, UNLABELLED]}, {"label": None}, {"label": None}),
        ({"$ref": "#/$defs/an~1item"}, {"id": 1, "label": None}, {"id": 1}),
        ({"$ref": "#"}, {"held": None}, {}),
    ],
)
def test_of_several_choices_the_one_is_found_that_was_meant(inner: Any, said: Any, meant: Any) -> None:
    schema = {"type": "object", "properties": {"held": inner}, "$defs": {"an/item": ITEM}}
    strict = strictified(schema)
    assert strict is not None
    assert compile(strict).check({"held": said}) is None
    assert relaxed({"held": said}, schema) == {"held": meant}
    assert compile(schema).check({"held": meant}) is None


def test_a_name_that_was_not_asked_for_keeps_no_null_in_place() -> None:
    assert relaxed({"name": "x", "weight": None, "more": 1}, TREE) == {"name": "x", "more": 1}


def test_a_null_that_was_asked_for_stays() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", None]}, "b": {"const": None}, "c": {"type": "null"}}}
    assert relaxed({"a": None, "b": None, "c": None, "d": None}, schema) == {"a": None, "b": None, "c": None, "d": None}


@pytest.mark.parametrize("value", [None, 1, "x", [None], {"name": [None]}, {"parts": "x"}, {"either": {"other": None}}])
def test_an_answer_that_misses_the_schema_is_left_for_the_check(value: Any) -> None:
    assert relaxed(value, TREE) == value
