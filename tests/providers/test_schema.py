import json
import time
from types import MappingProxyType
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hansard.errors import UsageError
from hansard.providers.schema import Breach, Constant, compile, show
from hansard.providers.schema.assertions import is_date_time

Json = Any

VERDICT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "score": {"type": "integer", "minimum": 0, "maximum": 10}},
    "required": ["ok"],
    "additionalProperties": False,
}


def breach(schema: Json, value: Json) -> Breach | None:
    return compile(schema).check(value)


def broken(schema: Json, value: Json) -> tuple[str, str]:
    found = breach(schema, value)
    assert found is not None
    return found.path, found.rule


def test_a_constant_schema_is_compiled_once_and_checks_like_any_other() -> None:
    constant = Constant(VERDICT)
    assert constant == VERDICT
    assert compile(constant) is compile(constant) is compile(VERDICT)
    assert broken(constant, {"ok": 1}) == ("/ok", "type")
    with pytest.raises(UsageError, match="nonsense is no keyword"):
        Constant({"nonsense": 1})


@pytest.mark.parametrize("value", ["nope", "fail", "false", "true", "", 0, 1, None, [], {}, 1.0])
def test_only_true_and_false_are_booleans(value: Json) -> None:
    assert broken(VERDICT, {"ok": value}) == ("/ok", "type")


@pytest.mark.parametrize("value", [True, False, "1", None, 1.5])
def test_a_boolean_is_no_integer(value: Json) -> None:
    assert broken(VERDICT, {"ok": True, "score": value}) == ("/score", "type")


def test_a_breach_says_where_what_and_why() -> None:
    found = breach(VERDICT, {"ok": True, "score": 11})
    assert found == Breach(path="/score", rule="maximum", message="must be at most 10, but is 11")
    assert str(found) == "/score: must be at most 10, but is 11 [maximum]"


def test_a_path_is_a_json_pointer_with_its_escapes() -> None:
    schema = {"additionalProperties": {"items": {"type": "string"}}}
    assert broken(schema, {"a/b~c": ["x", 3]}) == ("/a~1b~0c/1", "type")


CASES: list[tuple[Json, Json, Json, str]] = [
    ({"type": ["string", "null"]}, None, 3, "type"),
    ({"type": "number"}, 3, True, "type"),
    ({"enum": [1, "a", None, [1]]}, [1.0], True, "enum"),
    ({"enum": [{"a": 1}]}, {"a": 1.0}, {"a": True}, "enum"),
    ({"const": 0}, 0.0, False, "const"),
    ({"minimum": 2}, 2, 1.9, "minimum"),
    ({"exclusiveMinimum": 2}, 2.1, 2, "exclusiveMinimum"),
    ({"exclusiveMaximum": 2}, 1, 2.0, "exclusiveMaximum"),
    ({"multipleOf": 0.1}, 0.3, 0.35, "multipleOf"),
    ({"minLength": 2}, "漢字", "漢", "minLength"),
    ({"maxLength": 1}, "🎉", "🎉🎉", "maxLength"),
    ({"pattern": "^a+$"}, "aa", "aa\n", "pattern"),
    ({"pattern": r"^\d$"}, "3", "٣", "pattern"),
    ({"pattern": r"[$]"}, "$", "a", "pattern"),
    ({"pattern": r"a\$b"}, "a$b", "ab", "pattern"),
    ({"format": "date-time"}, "2026-02-28T23:59:60Z", "2026-02-30T00:00:00Z", "format"),
    ({"minItems": 1}, [0], [], "minItems"),
    ({"maxItems": 1}, [0], [0, 0], "maxItems"),
    ({"uniqueItems": True}, [1, True, "1"], [1, 1.0], "uniqueItems"),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1], ["a", "b"], "type"),
    ({"prefixItems": [True], "items": False}, [1], [1, 2], "false"),
    ({"minProperties": 1}, {"a": 1}, {}, "minProperties"),
    ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "maxProperties"),
    ({"required": ["a"]}, {"a": None}, {"b": 1}, "required"),
    ({"patternProperties": {"^n_": {"type": "number"}}}, {"n_a": 1, "x": "y"}, {"n_a": "1"}, "type"),
    ({"patternProperties": {"^n_": True}, "additionalProperties": False}, {"n_a": 1}, {"m": 1}, "additionalProperties"),
    ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4, "maximum"),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, 6, 4, "anyOf"),
    ({"oneOf": [{"minimum": 1}, {"maximum": 3}]}, 0, 2, "oneOf"),
    ({"not": {"type": "string"}}, 1, "a", "not"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "x", 1, "type"),
    ({"properties": {"a": {"$ref": "#/$defs/b~1c"}}, "$defs": {"b/c": {"const": 1}}}, {"a": 1}, {"a": 2}, "const"),
]


@pytest.mark.parametrize(("schema", "good", "bad", "rule"), CASES, ids=lambda case: json.dumps(case)[:40])
def test_a_keyword_takes_what_it_asks_for_and_nothing_else(schema: Json, good: Json, bad: Json, rule: str) -> None:
    assert breach(schema, good) is None
    found = breach(schema, bad)
    assert found is not None
    assert found.rule == rule


def test_a_schema_may_describe_trees() -> None:
    tree = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["id"]}},
        "$ref": "#/$defs/node",
    }
    assert breach(tree, {"id": 1, "next": {"id": 2, "next": {"id": 3}}}) is None
    assert broken(tree, {"id": 1, "next": {"id": 2, "next": {}}}) == ("/next/next", "required")


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"typ": "string"}, "typ"),
        ({"properties": {"a": {"if": {}}}}, "#/properties/a: if"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"$anchor": "a"}, "$anchor"),
        ({"type": "text"}, "type must be"),
        ({"type": []}, "type must be"),
        ({"enum": []}, "enum must be"),
        ({"enum": "ab"}, "enum must be"),
        ({"minimum": "1"}, "minimum must be"),
        ({"minimum": True}, "minimum must be"),
        ({"multipleOf": 0}, "multipleOf must be"),
        ({"minLength": -1}, "minLength must be"),
        ({"minItems": 1.5}, "minItems must be"),
        ({"uniqueItems": 1}, "uniqueItems must be"),
        ({"pattern": "("}, "no regular expression"),
        ({"format": "email"}, "date-time"),
        ({"required": "a"}, "required must be"),
        ({"properties": []}, "properties must be"),
        ({"prefixItems": []}, "prefixItems must be"),
        ({"items": [True]}, "a schema is a table"),
        ({"anyOf": []}, "anyOf must be"),
        ({"$ref": "https://example.invalid/a"}, "$ref must be"),
        ({"$ref": "other.json#/a"}, "$ref must be"),
        ({"$ref": "#/$defs/gone"}, "leads to no schema"),
        ({"$defs": []}, "$defs must be"),
        ({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "refers to itself"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}, "refers to itself"),
        ({"allOf": [{"$ref": "#"}]}, "refers to itself"),
        (3, "a schema is a table"),
        ({"const": {1, 2}}, "not JSON"),
        ({"const": float("nan")}, "not JSON"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_a_schema_that_we_would_not_keep_is_refused_and_the_place_is_named(schema: Json, word: str) -> None:
    with pytest.raises(UsageError, match=r"schema") as refused:
        compile(schema)
    assert word in str(refused.value)


def test_a_schema_that_is_huge_or_deep_is_refused() -> None:
    deep: Json = {}
    for _ in range(100):
        deep = {"not": deep}
    too_much: list[Json] = [deep, {"enum": ["x" * 2_000_000]}, {"properties": {f"p{n}": {} for n in range(6000)}}]
    for schema in too_much:
        with pytest.raises(UsageError):
            compile(schema)


@pytest.mark.untraced
def test_a_schema_that_doubles_at_every_step_ends_all_the_same() -> None:
    branch = {"properties": {"n": {"$ref": "#/$defs/t"}}, "required": ["n"]}
    schema: Json = {"$defs": {"t": {"anyOf": [branch, {"not": {}}, branch]}}, "$ref": "#/$defs/t"}
    value: Json = {}
    for _ in range(60):
        value = {"n": value}
    started = time.monotonic()
    assert breach(schema, value) is not None
    assert time.monotonic() - started < 120


MAPS = {"additionalProperties": {"additionalProperties": {"type": "integer"}}}


def doubling(leaf: Json) -> Json:
    """A schema that asks for the same of one value four thousand times."""
    parts: dict[str, Json] = {"0": leaf}
    for n in range(1, 13):
        parts[str(n)] = {"anyOf": [{"$ref": f"#/$defs/{n - 1}"}] * 2}
    return {"$defs": parts, "$ref": "#/$defs/12"}


PATTERNS: Any = {"patternProperties": {f"^a{n}$": True for n in range(2_000)}, "additionalProperties": True}


@pytest.mark.untraced
@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (MAPS, {"k" * 2_000_000: dict.fromkeys(map(str, range(50_000)), 1)}),
        (doubling({"type": "integer"}), "x" * 1_000_000),
        (doubling({"type": "integer"}), [{"k" * 1_000_000: "x" * 1_000_000}]),
        (doubling({"enum": [1]}), [[n] for n in range(2_000)]),
        (doubling({"const": 1}), {str(n): [] for n in range(2_000)}),
        (doubling({"uniqueItems": True, "type": "null"}), [[n] for n in range(2_000)]),
        (PATTERNS, dict.fromkeys(map(str, range(200_000)), 1)),
        ({"patternProperties": PATTERNS["patternProperties"]}, dict.fromkeys(map(str, range(200_000)), 1)),
    ],
    ids=["a long path", "a long text", "a long name", "enum", "const", "uniqueItems", "no name fits", "many names"],
)
def test_a_large_value_is_not_looked_at_for_ever(schema: Json, value: Json) -> None:
    started = time.monotonic()
    assert breach(schema, value) is not None
    assert time.monotonic() - started < 120


@settings(max_examples=50)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda e: st.lists(e) | st.dictionaries(st.text(), e), max_leaves=6
    )
)
def test_a_value_is_shown_as_the_beginning_of_its_json(value: Json) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert show(value) == (text if len(text) <= 80 else f"{text[:77]}...")


def test_a_value_that_is_too_deep_or_no_json_is_a_breach_and_no_error() -> None:
    deep: Json = []
    for _ in range(100_000):
        deep = [deep]
    assert broken({"items": {"$ref": "#"}}, deep) == ("", "depth")
    for odd in (object(), {1, 2}, b"bytes", (1, 2)):
        assert broken({"type": "object"}, odd) == ("", "type")
        assert broken({"enum": [1]}, odd) == ("", "enum")


def test_numbers_of_hundreds_of_digits_are_numbers_like_others() -> None:
    huge = 10**400
    assert broken({"minimum": huge}, 1) == ("", "minimum")
    assert broken({"multipleOf": huge}, 1) == ("", "multipleOf")
    assert breach({"multipleOf": huge}, 3 * huge) is None
    assert broken({"multipleOf": 0.3}, huge) == ("", "multipleOf")
    assert breach({"minimum": 0.5, "exclusiveMaximum": huge + 1, "multipleOf": 10}, huge) is None
    assert str(breach({"maximum": 1}, 10**5000)).endswith("must be at most 1, but is a Python int [maximum]")


def test_any_mapping_is_a_schema() -> None:
    assert breach(MappingProxyType({"type": "string", "title": "a name"}), 1) is not None


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-31t12:00:00.123456789z", True),
        ("2026-01-31T12:00:00+23:59", True),
        ("2024-02-29T00:00:00-00:00", True),
        ("2026-12-31T23:59:60Z", True),
        ("2027-01-01T00:59:60+01:00", True),
        ("2026-12-31T20:29:60-03:30", True),
        ("2026-12-31T23:59:60+01:00", False),
        ("2026-12-31T23:59:61Z", False),
        ("2026-12-31T12:00:60Z", False),
        ("2025-02-29T00:00:00Z", False),
        ("2026-01-31T24:00:00Z", False),
        ("2026-01-31T12:00:00", False),
        ("2026-01-31 12:00:00Z", False),
        ("2026-1-31T12:00:00Z", False),
        ("2026-01-31T12:00:00+24:00", False),
        ("2026-01-31T12:00:00+01:60", False),
        ("2026-01-31T12:00:00+0100", False),
        ("2026-01-31T12:00:00Z\n", False),
        ("٢٠٢٦-01-31T12:00:00Z", False),
        ("yesterday", False),
    ],
)
def test_a_date_time_is_one_of_rfc_3339(text: str, valid: bool) -> None:
    assert is_date_time(text) is valid


# The oracle is the jsonschema library, over schemas and values drawn from small pools so that they meet often.
NAMES = st.sampled_from(["a", "b", "ab", "n_x"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 6),
    st.sampled_from([-1.5, 0.0, 0.5, 1.0, 2.25, 3.0]),
    st.sampled_from(["", "a", "ab", "aab", "b", "漢字", "n_x"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
NUMBERS = st.integers(-2, 5) | st.sampled_from([0.5, 1.0, 2.5])
SIZES = st.integers(0, 3)
PATTERNS = st.sampled_from(["^a", "b$", "^a+b?$", "^n_", "[ab]{2}", "a|漢"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def keywords(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    schemas = st.lists(inner, min_size=1, max_size=3)
    known: dict[str, st.SearchStrategy[Json]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": NUMBERS,
        "maximum": NUMBERS,
        "exclusiveMinimum": NUMBERS,
        "exclusiveMaximum": NUMBERS,
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.25, 1.5]),
        "minLength": SIZES,
        "maxLength": SIZES,
        "pattern": PATTERNS,
        "minItems": SIZES,
        "maxItems": SIZES,
        "uniqueItems": st.booleans(),
        "prefixItems": schemas,
        "items": inner,
        "minProperties": SIZES,
        "maxProperties": SIZES,
        "required": st.lists(NAMES, max_size=2, unique=True),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "allOf": schemas,
        "anyOf": schemas,
        "oneOf": schemas,
        "not": inner,
        "title": st.just("a title"),
    }
    return st.lists(st.sampled_from(sorted(known)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: known[name] for name in chosen})
    )


REFERENCES = st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}])
SCHEMAS = st.recursive(st.booleans() | TYPES.map(lambda name: {"type": name}) | REFERENCES, keywords, max_leaves=6)
DEFINITIONS = st.fixed_dictionaries(
    # Definitions without references, so that no schema refers to itself.
    {"one": st.recursive(st.booleans(), keywords, max_leaves=3), "two": TYPES.map(lambda name: {"type": name})}
)
ROOTS = st.tuples(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), DEFINITIONS).map(
    lambda pair: {**pair[0], "$defs": pair[1]}
)


@settings(max_examples=200)
@given(schema=ROOTS, values=st.lists(VALUES, min_size=1, max_size=5))
def test_a_value_is_accepted_exactly_when_the_jsonschema_library_accepts_it(schema: Json, values: list[Json]) -> None:
    oracle = jsonschema.Draft202012Validator(schema)
    ours = compile(schema)
    for value in values:
        assert (ours.check(value) is None) == oracle.is_valid(value), (schema, value)


@settings(max_examples=100)
@given(schema=ROOTS, value=VALUES)
def test_a_breach_points_at_something_that_is_there(schema: Json, value: Json) -> None:
    found = compile(schema).check(value)
    if found is None:
        return
    at = value
    for step in found.path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        at = at[int(name)] if isinstance(at, list) else at[name]
    assert found.rule
    assert found.message
