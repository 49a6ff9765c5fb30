"""The shapes that members of a document have: each reads a JSON value strictly, trims one, and says itself as JSON Schema.

Knows no document. A shape that does not fit raises Invalid; whoever holds the member adds the path.
"""

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from hansard.deliberation.documents.breach import Invalid
from hansard.providers.schema import show
from hansard.providers.schema.assertions import is_date_time
from hansard.providers.schema.rule import kind_of

MAX_DEPTH = 64

Definitions = dict[str, Any]
"""JSON Schemas by the name under which others refer to them."""


class Shape(Protocol):
    """What a member may hold."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The JSON types that it takes; an Either goes by them."""
        ...

    def read(self, value: object) -> Any:
        """The value as our code holds it, or Invalid."""
        ...

    def trim(self, value: Any) -> Any:
        """The value without members that no schema knows. Judges nothing."""
        ...

    def schema(self, definitions: Definitions) -> dict[str, Any]: ...


def wrong(wanted: str, value: object) -> Invalid:
    return Invalid(f"must be {wanted}, but is {show(value)}")


class Plain:
    """A shape without members of its own: nothing to trim."""

    def trim(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, slots=True)
class Text(Plain):
    """A text of at least so many characters, of a pattern where one is given."""

    least: int = 1
    pattern: str | None = None
    kinds = ("string",)

    def read(self, value: object) -> str:
        if not isinstance(value, str):
            raise wrong("a text", value)
        if len(value) < self.least:
            raise Invalid("must not be empty")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise wrong(f"of the form {self.pattern}", value)
        return value

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        size = {"minLength": self.least} if self.least and self.pattern is None else {}
        form = {"pattern": f"^{self.pattern}$"} if self.pattern is not None else {}
        return {"type": "string", **size, **form}


@dataclass(frozen=True, slots=True)
class DateTime(Plain):
    """A date and time of RFC 3339."""

    kinds = ("string",)

    def read(self, value: object) -> str:
        if isinstance(value, str) and is_date_time(value):
            return value
        raise wrong("a date-time such as 2026-01-31T12:00:00Z", value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True, slots=True)
class Whole(Plain):
    """A whole number; 3.0 is the number 3, as JSON Schema has it."""

    least: int = 0
    most: int | None = None
    kinds = ("integer",)

    def read(self, value: object) -> int:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise wrong("a whole number", value)
        if value < self.least or (self.most is not None and value > self.most):
            raise wrong(_between(self.least, self.most), value)
        return value

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        if self.least == self.most:
            return {"const": self.least}
        return {"type": "integer", "minimum": self.least, **({} if self.most is None else {"maximum": self.most})}


@dataclass(frozen=True, slots=True)
class Number(Plain):
    """A number from 0."""

    most: int | None = None
    kinds = ("integer", "number")

    def read(self, value: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not _finite(value):
            raise wrong("a number", value)
        if value < 0 or (self.most is not None and value > self.most):
            raise wrong(_between(0, self.most), value)
        return value

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "number", "minimum": 0, **({} if self.most is None else {"maximum": self.most})}


def _finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:
        # An integer with so many digits that it can be added to no fraction.
        return False


def _between(least: int, most: int | None) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most is None else f"between {least} and {most}"


@dataclass(frozen=True, slots=True)
class Flag(Plain):
    """True or false."""

    kinds = ("boolean",)

    def read(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise wrong("true or false", value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Choice(Plain):
    """One of a closed set of words."""

    values: tuple[str, ...]
    kinds = ("string",)

    def read(self, value: object) -> str:
        if isinstance(value, str) and value in self.values:
            return value
        raise wrong(f"one of {', '.join(self.values)}", value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"enum": list(self.values)}


@dataclass(frozen=True, slots=True)
class Null(Plain):
    """Nothing."""

    kinds = ("null",)

    def read(self, value: object) -> None:
        if value is not None:
            raise wrong("null", value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "null"}


@dataclass(frozen=True, slots=True)
class Anything(Plain):
    """Any JSON value, copied."""

    kinds = ("null", "boolean", "integer", "number", "string", "array", "object")

    def read(self, value: object) -> Any:
        return copied(value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class Open(Plain):
    """An object whose members the protocol leaves open."""

    kinds = ("object",)

    def read(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong("an object", value)
        return dict(copied(value))

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "object"}


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one shape."""

    item: Shape
    least: int = 0
    kinds = ("array",)

    def read(self, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise wrong("a list", value)
        if len(value) < self.least:
            raise Invalid("must not be empty")
        found: list[Any] = []
        try:
            for each in value:
                found.append(self.item.read(each))
        except Invalid as error:
            error.under(len(found))
            raise
        return tuple(found)

    def trim(self, value: Any) -> Any:
        return [self.item.trim(each) for each in value] if isinstance(value, list) else value

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", **least, "items": self.item.schema(definitions)}


@dataclass(frozen=True, slots=True)
class MapOf(Plain):
    """An object with any names and one shape of value."""

    item: Shape
    kinds = ("object",)

    def read(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise wrong("an object", value)
        found = {}
        for name, each in value.items():
            try:
                found[_name(name)] = self.item.read(each)
            except Invalid as error:
                error.under(str(name))
                raise
        return found

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.item.schema(definitions)}


@dataclass(frozen=True, slots=True)
class Either:
    """One of several shapes, told apart by their JSON types."""

    shapes: tuple[Shape, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for shape in self.shapes for kind in shape.kinds)

    def _for(self, value: object) -> Shape | None:
        kind = "object" if isinstance(value, dict) else kind_of(value)
        for shape in self.shapes:
            if kind in shape.kinds:
                return shape
        return None

    def read(self, value: object) -> Any:
        shape = self._for(value)
        if shape is None:
            raise wrong(f"of type {' or '.join(self.kinds)}", value)
        return shape.read(value)

    def trim(self, value: Any) -> Any:
        shape = self._for(value)
        return value if shape is None else shape.trim(value)

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return {"oneOf": [shape.schema(definitions) for shape in self.shapes]}


def copied(value: object, depth: int = 0) -> Any:
    """A copy of a JSON value that shares nothing with it; Invalid where it is no JSON."""
    if depth > MAX_DEPTH:
        raise Invalid(f"is nested deeper than {MAX_DEPTH} levels")
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            if not isfinite(value):
                raise Invalid("holds a number that is not finite")
            return value
        case list():
            return [copied(each, depth + 1) for each in value]
        case dict():
            return {_name(name): copied(each, depth + 1) for name, each in value.items()}
        case _:
            raise wrong("JSON", value)


def _name(name: object) -> str:
    if isinstance(name, str):
        return name
    raise Invalid(f"holds a name that is no text: {show(name)}")
