"""Facts to entries and back: kind, data and parts. The shape of each kind is read from its dataclass once.

Writing is strict: an unknown kind, a field of the wrong type, an open string where a closed one is asked for, are
refused before anything is written. Reading takes what an entry holds.
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from hansard.domain.fact import Body, Fact
from hansard.domain.kinds import KINDS
from hansard.errors import Broken, UsageError
from hansard.ledger.canonical import MAX_INT, Json
from hansard.ledger.entry import Entry

MAX_TEXT = 256
"""Strings in data are short and closed; whatever people or models wrote goes into a part."""


class Field(NamedTuple):
    """One field of a kind, as it stands in data."""

    name: str
    want: type
    choices: frozenset[str] | None
    item: type | None
    optional: bool


class Shape(NamedTuple):
    """What a kind looks like on the record."""

    kind: str
    driven: bool
    causes: tuple[str, ...]
    data: tuple[Field, ...]
    parts: tuple[tuple[str, bool], ...]


class Encoded(NamedTuple):
    """A fact ready to be drafted."""

    shape: Shape
    data: dict[str, Json]
    bodies: list[tuple[str, Body]]


_SHAPES: dict[type[Fact], Shape] = {}


def shape_of(kind: type[Fact]) -> Shape:
    """The shape of a fact's class, read once; Broken when it has a field that the record cannot hold."""
    known = _SHAPES.get(kind)
    if known is None:
        known = _SHAPES[kind] = _read_shape(kind)
    return known


def _read_shape(kind: type[Fact]) -> Shape:
    if KINDS.get(kind.KIND) is not kind:
        raise Broken(f"{kind.__name__} is not in the table of kinds")
    hints = get_type_hints(kind)
    data: list[Field] = []
    parts: list[tuple[str, bool]] = []
    for field in fields(kind):
        plain, optional = _without_none(hints[field.name])
        if plain is Body:
            parts.append((field.name, optional))
        else:
            data.append(_field(field.name, plain, optional or field.default is not MISSING))
    return Shape(kind.KIND, kind.DRIVEN, kind.CAUSES, tuple(data), tuple(sorted(parts)))


def encode(fact: Fact) -> Encoded:
    """The data and bodies of a fact, each field checked. This is the definition; record/quick follows it faster."""
    shape = shape_of(type(fact))
    data: dict[str, Json] = {}
    for field in shape.data:
        value: Any = getattr(fact, field.name)
        if (value is None or value == ()) and field.optional:
            continue
        _check(shape.kind, field, value)
        data[field.name] = list(value) if field.want is tuple else value
    return Encoded(shape, data, _bodies(shape, fact))


def _bodies(shape: Shape, fact: Fact) -> list[tuple[str, Body]]:
    bodies = []
    for name, optional in shape.parts:
        body = getattr(fact, name)
        if body is None and optional:
            continue
        if type(body) is not Body or type(body.data) is not bytes:
            raise UsageError(f"{shape.kind}: the part {name} must be a Body with its bytes at hand")
        bodies.append((name, body))
    return bodies


def decode(entry: Entry, bodies: Mapping[str, Body]) -> Fact:
    """The fact that an entry holds. Parts that are not given come back as bodies without bytes."""
    found = KINDS.get(entry.kind)
    if found is None:
        raise UsageError(f"entry {entry.seq} is of kind {entry.kind}, which this version of Hansard does not know")
    shape = shape_of(found)
    values: dict[str, Any] = {}
    for field in shape.data:
        if field.name in entry.data:
            value = entry.data[field.name]
            values[field.name] = tuple(value) if field.want is tuple else value
        elif not field.optional:
            raise UsageError(f"entry {entry.seq} ({entry.kind}) lacks {field.name}")
    for name, optional in shape.parts:
        if name in entry.body or not optional:
            values[name] = bodies.get(name, Body("", None))
    return found(**values)


def misfit(entry: Entry) -> str | None:
    """What in an entry is not as its kind has it, or None: only somebody else than a recorder writes such a thing.

    A kind or a field that this version does not know is taken as it is, and so is a word where others are known.
    """
    found = KINDS.get(entry.kind)
    if found and found.DRIVEN and found.CAUSES and not entry.causes:
        return "it names no cause"
    for name, want, _, item, optional in shape_of(found).data if found else ():
        value = entry.data.get(name)
        if value is None and name not in entry.data:
            if not optional:
                return f"{name} is missing"
        elif type(value) is not (list if want is tuple else want):
            return f"{name} is not {_NAMED[want]}"
        elif item is not None and any(type(each) is not item for each in entry.data[name]):
            return f"{name} holds something that is not {_NAMED[item]}"
    return None


_NAMED = {int: "a number", bool: "true or false", str: "text", tuple: "a list"}


def _field(name: str, hint: Any, optional: bool) -> Field:
    if get_origin(hint) is Literal:
        return Field(name, str, frozenset(get_args(hint)), None, optional)
    if get_origin(hint) is tuple and get_args(hint) in ((str, ...), (int, ...)):
        return Field(name, tuple, None, get_args(hint)[0], optional)
    if hint in (int, bool, str):
        return Field(name, hint, None, None, optional)
    raise Broken(f"the field {name} has a type that the record cannot hold: {hint}")


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, types.UnionType):
        return hint, False
    rest = [each for each in get_args(hint) if each is not type(None)]
    if len(rest) != 1:
        raise Broken(f"the record cannot hold a union: {hint}")
    return rest[0], True


def _check(kind: str, field: Field, value: Any) -> None:
    name, want, choices, item, _ = field
    found: type = type(value)
    if found is not want:
        raise UsageError(f"{kind}: {name} must be {want.__name__}, not {found.__name__}")
    if choices is not None and value not in choices:
        raise UsageError(f"{kind}: {name} is {value!r:.60}; it must be one of {', '.join(sorted(choices))}")
    for each in value if want is tuple else (value,):
        if item is not None and type(each) is not item:
            raise UsageError(f"{kind}: {name} must hold only {item.__name__}")
        if isinstance(each, str) and len(each) > MAX_TEXT:
            raise UsageError(
                f"{kind}: {name} has {len(each)} characters, more than {MAX_TEXT}; longer text belongs into a part"
            )
        if isinstance(each, int) and not -MAX_INT <= each <= MAX_INT:
            raise UsageError(f"{kind}: {name} is beyond 2^53-1")
