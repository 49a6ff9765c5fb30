"""What one rule of a schema is: a check of a value, made from what the schema says. Knows no keyword."""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

from hansard.domain.value import value
from hansard.errors import UsageError

MAX_STEPS = 300_000
PATH_A_STEP = 1_000
MEMBERS_A_STEP = 20
MOST_SHOWN = 80


@value
class Breach:
    """Where a value breaks its schema: a JSON pointer into the value, the rule, and what it asks for."""

    path: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or '(the whole answer)'}: {self.message} [{self.rule}]"


class TooMuch(Exception):
    """A check took more steps than any honest value needs."""


class Walk:
    """The steps that one check may still take."""

    __slots__ = ("left",)

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self.left = steps

    def step(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuch

    def at(self, path: str) -> None:
        """A step at this place: a path that is as long as a text takes as long to write."""
        self.step(1 + len(path) // PATH_A_STEP)


Check = Callable[[Any, str, Walk], Breach | None]
Sub = Callable[[Any, str], Check]
"""Compiles the schema that stands at a pointer below the present one."""


@value
class Said:
    """What a schema says under one keyword, and what else it says there."""

    keyword: str
    value: Any
    beside: Mapping[str, Any]
    where: str
    sub: Sub

    def refuse(self, wanted: str) -> UsageError:
        return UsageError(f"schema #{self.where}: {self.keyword} must be {wanted}, not {show(self.value)}")

    def below(self, *steps: str | int) -> str:
        return "".join((f"/{escaped(self.keyword)}", *(f"/{escaped(str(step))}" for step in steps)))

    def compile(self, value: Any, *steps: str | int) -> Check:
        return self.sub(value, self.below(*steps))


def escaped(step: str) -> str:
    """One step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")


def show(value: Any) -> str:
    """A value as JSON, short enough for a message. Of a long one no more is written than is shown."""
    text = ""
    try:
        for piece in _pieces(value):
            text += piece
            if len(text) > MOST_SHOWN:
                return f"{text[: MOST_SHOWN - 3]}..."
    except (TypeError, ValueError, RecursionError):
        return f"a Python {type(value).__name__}"
    return text


def _pieces(value: Any) -> Iterator[str]:
    """The JSON of a value, from its beginning; of a text as much as can be shown."""
    match value:
        case str():
            yield json.dumps(value[:MOST_SHOWN], ensure_ascii=False)
        case list() | tuple():
            for before, each in zip(chain("[", repeat(", ")), value, strict=False):
                yield before
                yield from _pieces(each)
            yield "]" if value else "[]"
        case dict():
            for before, (name, each) in zip(chain("{", repeat(", ")), value.items(), strict=False):
                yield f"{before}{json.dumps(str(name)[:MOST_SHOWN], ensure_ascii=False)}: "
                yield from _pieces(each)
            yield "}" if value else "{}"
        case _:
            yield json.dumps(value)


_KINDS: Mapping[type, str] = {
    str: "string",
    dict: "object",
    list: "array",
    int: "integer",
    bool: "boolean",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """The narrowest type of a value. A boolean is no number, and a float without a fraction is an integer."""
    if known := _KINDS.get(type(value)):
        return known
    match value:
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return f"Python {type(value).__name__}"


def identity(value: Any, walk: Walk | None = None) -> Any:
    """A hashable stand-in: equal exactly when two JSON values are equal, so that 1 is 1.0 and never true."""
    if walk and isinstance(value, list | dict):
        walk.step(1 + len(value) // MEMBERS_A_STEP)
    match value:
        case bool() | None:
            return ("constant", value)
        case list():
            return ("array", tuple(identity(each, walk) for each in value))
        case dict():
            return ("object", frozenset((key, identity(each, walk)) for key, each in value.items()))
        case str() | int() | float():
            return value
        case _:
            return ("no JSON", id(value))


def table_of(said: Said) -> Mapping[str, Any]:
    """What is said, as a table of schemas by name."""
    if not isinstance(said.value, Mapping):
        raise said.refuse("a table of schemas")
    return said.value
