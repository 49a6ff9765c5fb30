"""A schema in the form that OpenAI's strict mode takes, and answers back in the form that was asked for.

In strict mode every object lists all that it may hold and everything in it is required; what was optional may be null
instead. Where a schema cannot be said so, there is no strict form, and the shape is described in words.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from hansard.providers.schema.rule import identity

_CANNOT_BE_SAID = frozenset(
    {
        *("allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "prefixItems"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "definitions"),
    }
)
# Left out, because every answer is checked against the whole schema afterwards.
_LEFT_OUT = frozenset(
    {"$schema", "$id", "uniqueItems", "minProperties", "maxProperties", "minContains", "maxContains", "default"}
)
_NULL: Mapping[str, Any] = {"type": "null"}


class _Open(Exception):
    """An object that does not list what it may hold, or a rule that has no strict form."""


def strictified(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The strict form of a schema, or None where there is none."""
    try:
        strict = _strict(schema)
    except _Open:
        return None
    return strict if strict.get("type") == "object" else None


def relaxed(value: Any, schema: Mapping[str, Any]) -> Any:
    """A strict answer in the form of the original schema: null goes where it only stood for something left out."""
    return _relaxed(value, schema, schema)


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or _CANNOT_BE_SAID & schema.keys():
        raise _Open
    said = {name: value for name, value in schema.items() if name not in _LEFT_OUT}
    for name, other in (("anyOf", "anyOf"), ("oneOf", "anyOf")):
        if name in said:
            said[other] = [_strict(each) for each in said.pop(name)]
    if "items" in said:
        said["items"] = _strict(said["items"])
    if "$defs" in said:
        said["$defs"] = {name: _strict(each) for name, each in said["$defs"].items()}
    return _closed(said) if _is_object(said) else said


def _closed(said: dict[str, Any]) -> dict[str, Any]:
    properties, required = said.get("properties") or {}, set(said.get("required", ()))
    others = said.get("additionalProperties", True)
    # To leave out what may be added breaks no rule, unless there is nothing else, or it is described.
    if isinstance(others, Mapping) or (others is not False and not properties) or required - properties.keys():
        raise _Open
    strict = {name: _strict(each) for name, each in properties.items()}
    said["properties"] = {name: each if name in required else _or_null(each) for name, each in strict.items()}
    said["required"] = list(strict)
    said["additionalProperties"] = False
    return said


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "object" or (isinstance(kind, list | tuple) and "object" in kind) or "properties" in schema


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if _takes_null(schema) else {"anyOf": [schema, dict(_NULL)]}


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    several = kind if isinstance(kind, list | tuple) else [kind]
    choices = (*schema.get("anyOf", ()), *schema.get("oneOf", ()))
    return (
        "null" in several
        or None in schema.get("enum", ())
        or ("const" in schema and schema["const"] is None)
        or any(isinstance(each, Mapping) and _takes_null(each) for each in choices)
    )


def _relaxed(value: Any, schema: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(value, list | dict):
        return value
    meant = [each for each in _choices(schema, root) if _describes(each, value, root)]
    # In strict form an object holds all that it may hold.
    whole = [each for each in meant if isinstance(value, dict) and value.keys() == each.get("properties", {}).keys()]
    schema = next(iter((*whole, *meant)), _resolved(schema, root))
    if isinstance(value, list):
        return [_relaxed(each, schema.get("items"), root) for each in value]
    properties, required = schema.get("properties", {}), schema.get("required", ())
    kept = {}
    for name, each in value.items():
        inner = _resolved(properties.get(name), root)
        if each is None and name in properties and name not in required and not _takes_null(inner):
            continue
        kept[name] = _relaxed(each, inner, root)
    return kept


def _choices(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a value may be by this schema, choices within choices included, in their order; the schema itself comes last."""
    schema = _resolved(schema, root)
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _choices(each, root)
    yield schema


def _describes(schema: Mapping[str, Any], value: Any, root: Mapping[str, Any]) -> bool:
    """Whether a list or an object is meant by this schema: it knows all names, and the values that it insists on are there."""
    if isinstance(value, list):
        return "items" in schema
    properties = schema.get("properties", {})
    return value.keys() <= properties.keys() and all(
        each is None or _may_be(_resolved(properties[name], root), each) for name, each in value.items()
    )


def _may_be(schema: Mapping[str, Any], value: Any) -> bool:
    return identity(value) in [
        identity(each) for each in ([schema["const"]] if "const" in schema else schema.get("enum", [value]))
    ]


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(16):
        if not isinstance(schema, Mapping):
            return {}
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#"):
            return schema
        schema = _at(place, root)
    return {}


def _at(place: str, root: Mapping[str, Any]) -> Any:
    """The schema to which a reference leads, or None."""
    found: Any = root
    for step in unquote(place[1:]).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
