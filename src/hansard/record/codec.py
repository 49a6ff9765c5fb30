"""Facts to entries and back: kind, data and parts. The shape of each kind is read from its dataclass once.

Writing is strict: an unknown kind, a field of the wrong type, an open string where a closed one is asked for, are
refused before anything is written. Reading takes what an entry holds.
"""

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from operator import attrgetter
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


class Plan(NamedTuple):
    """How facts of one kind are written whose fields have just these types: what is left to check, field by field."""

    present: tuple[tuple[str, int], ...]
    integers: tuple[tuple[str, int], ...]
    closed: tuple[tuple[str, int, frozenset[str]], ...]
    open: tuple[tuple[str, int], ...]
    lists: tuple[tuple[str, int, type | None, bool], ...]


class Shape(NamedTuple):
    """What a kind looks like on the record."""

    kind: str
    driven: bool
    causes: tuple[str, ...]
    data: tuple[Field, ...]
    parts: tuple[tuple[str, bool], ...]
    values: Callable[[Fact], tuple[Any, ...]]
    plans: dict[tuple[type, ...], Plan]


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
    values = _values([field.name for field in data])
    return Shape(kind.KIND, kind.DRIVEN, kind.CAUSES, tuple(data), tuple(sorted(parts)), values, {})


def encode(fact: Fact) -> Encoded:
    """The data and bodies of a fact, each field checked.

    The types of all fields are compared at once: facts of a kind come in very few combinations of types, and what is right
    for one combination is looked up, not worked out again.
    """
    shape = shape_of(type(fact))
    values = shape.values(fact)
    types = tuple(map(type, values))
    plan = shape.plans.get(types)
    if plan is None:
        plan = shape.plans[types] = _plan(shape, types)
    data: dict[str, Json] = {name: values[at] for name, at in plan.present}
    for name, at in plan.integers:
        if not -MAX_INT <= values[at] <= MAX_INT:
            raise UsageError(f"{shape.kind}: {name} is beyond 2^53-1")
    for name, at, choices in plan.closed:
        if values[at] not in choices:
            raise UsageError(
                f"{shape.kind}: {name} is {values[at]!r:.60}; it must be one of {', '.join(sorted(choices))}"
            )
    for name, at in plan.open:
        if len(values[at]) > MAX_TEXT:
            raise _too_long(shape.kind, name, values[at])
    for name, at, item, optional in plan.lists:
        if values[at] or not optional:
            data[name] = _items(shape.kind, name, values[at], item)
    return Encoded(shape, data, _bodies(shape, fact))


def _plan(shape: Shape, types: tuple[type, ...]) -> Plan:
    """What is left to check for this combination of types; UsageError names the field whose type is wrong."""
    present, integers, closed, open_text, lists = [], [], [], [], []
    for at, (field, found) in enumerate(zip(shape.data, types, strict=True)):
        name, want, choices, item, optional = field
        if found is type(None) and optional:
            continue
        if found is not want:
            raise UsageError(f"{shape.kind}: {name} must be {want.__name__}, not {found.__name__}")
        if want is tuple:
            lists.append((name, at, item, optional))
            continue
        present.append((name, at))
        if want is int:
            integers.append((name, at))
        elif choices is not None:
            closed.append((name, at, choices))
        elif want is str:
            open_text.append((name, at))
    return Plan(tuple(present), tuple(integers), tuple(closed), tuple(open_text), tuple(lists))


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


def _too_long(kind: str, name: str, value: str) -> UsageError:
    return UsageError(
        f"{kind}: {name} has {len(value)} characters, more than {MAX_TEXT}; longer text belongs into a part"
    )


def _items(kind: str, name: str, value: tuple[Any, ...], item: type | None) -> list[Any]:
    for each in value:
        if type(each) is not item:
            raise UsageError(f"{kind}: {name} must hold only {item.__name__ if item else ''}")
        if isinstance(each, str) and len(each) > MAX_TEXT:
            raise _too_long(kind, name, each)
        if isinstance(each, int) and not -MAX_INT <= each <= MAX_INT:
            raise UsageError(f"{kind}: {name} holds a number beyond 2^53-1")
    return list(value)


def _values(names: list[str]) -> Callable[[Fact], tuple[Any, ...]]:
    """All values of a fact's data at once; attrgetter gives a tuple only from two names on."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda fact: tuple(getattr(fact, name) for name in names)
