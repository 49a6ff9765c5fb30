"""What one rule of a schema is: a check of a value, made from what the schema says. Knows no keyword."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hansard.domain.value import value
from hansard.errors import UsageError

MAX_STEPS = 300_000


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
    """A value as JSON, short enough for a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"a Python {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


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


def identity(value: Any) -> Any:
    """A hashable stand-in: equal exactly when two JSON values are equal, so that 1 is 1.0 and never true."""
    match value:
        case bool() | None:
            return ("constant", value)
        case list():
            return ("array", tuple(identity(each) for each in value))
        case dict():
            return ("object", frozenset((key, identity(each)) for key, each in value.items()))
        case str() | int() | float():
            return value
        case _:
            return ("no JSON", id(value))


def table_of(said: Said) -> Mapping[str, Any]:
    """What is said, as a table of schemas by name."""
    if not isinstance(said.value, Mapping) or not all(isinstance(name, str) for name in said.value):
        raise said.refuse("a table of schemas")
    return said.value
