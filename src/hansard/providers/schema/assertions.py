"""Rules that look at a value and nothing below it, one function per keyword of JSON Schema.

Each takes what the schema says, refuses it when it says nothing sensible, and returns the check that it means.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any

from hansard.providers.schema.expression import expression_of
from hansard.providers.schema.rule import Breach, Check, Said, Walk, identity, kind_of, show

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


def type_(said: Said) -> Check:
    names = said.value if isinstance(said.value, list) else [said.value]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        raise said.refuse(f"one or more of {', '.join(sorted(TYPES))}")
    allowed = {*names, "integer"} if "number" in names else set(names)
    wanted = " or ".join(names)

    def check(value: Any, path: str, _: Walk) -> Breach | None:
        kind = kind_of(value)
        if kind in allowed:
            return None
        return Breach(path=path, rule="type", message=f"must be {wanted}, but is {kind} {show(value)}")

    return check


def enum(said: Said) -> Check:
    if not isinstance(said.value, list) or not said.value:
        raise said.refuse("a list of values")
    allowed = {identity(each) for each in said.value}
    wanted = show(said.value)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if identity(value, walk) in allowed:
            return None
        return Breach(path=path, rule="enum", message=f"must be one of {wanted}, but is {show(value)}")

    return check


def const(said: Said) -> Check:
    wanted = identity(said.value)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if identity(value, walk) == wanted:
            return None
        return Breach(path=path, rule="const", message=f"must be {show(said.value)}, but is {show(value)}")

    return check


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_finite(value: int | float) -> bool:
    # An integer may be too large for a float, which `isfinite` would make of it.
    return isinstance(value, int) or isfinite(value)


def _bound(words: str, holds: Callable[[Any, Any], bool]) -> Callable[[Said], Check]:
    def rule(said: Said) -> Check:
        if not _is_number(said.value):
            raise said.refuse("a number")

        def check(value: Any, path: str, _: Walk) -> Breach | None:
            if not _is_number(value) or holds(value, said.value):
                return None
            message = f"must be {words} {show(said.value)}, but is {show(value)}"
            return Breach(path=path, rule=said.keyword, message=message)

        return check

    return rule


def multiple_of(said: Said) -> Check:
    if not _is_number(said.value) or said.value <= 0:
        raise said.refuse("a number above 0")
    unit = _written(said.value)

    def check(value: Any, path: str, _: Walk) -> Breach | None:
        if not _is_number(value) or not _is_finite(value) or _written(value) % unit == 0:
            return None
        message = f"must be a multiple of {show(said.value)}, but is {show(value)}"
        return Breach(path=path, rule="multipleOf", message=message)

    return check


def _written(number: int | float) -> Fraction:
    """A number by the decimal digits in which it is written: 0.3 is a multiple of 0.1."""
    return Fraction(number) if isinstance(number, int) else Fraction(Decimal(repr(number)))


def _size(kind: type, words: str, holds: Callable[[int, int], bool]) -> Callable[[Said], Check]:
    def rule(said: Said) -> Check:
        if kind_of(said.value) != "integer" or said.value < 0:
            raise said.refuse("an integer from 0")
        limit = int(said.value)

        def check(value: Any, path: str, _: Walk) -> Breach | None:
            if not isinstance(value, kind) or holds(len(value), limit):  # type: ignore[arg-type]
                return None
            message = f"must have {words.format(limit)}, but has {len(value)}"  # type: ignore[arg-type]
            return Breach(path=path, rule=said.keyword, message=message)

        return check

    return rule


def pattern(said: Said) -> Check:
    expression = expression_of(said.value, said)

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not isinstance(value, str) or expression.is_in(value, walk):
            return None
        message = f"must match {show(said.value)}, but is {show(value)}"
        return Breach(path=path, rule="pattern", message=message)

    return check


_DATE_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def is_date_time(text: str) -> bool:
    """Whether this is a date-time of RFC 3339, leap seconds included."""
    found = _DATE_TIME.fullmatch(text)
    if not found:
        return False
    year, month, day, hour, minute, second = (int(found[group]) for group in range(1, 7))
    ahead_hours, ahead_minutes = int(found[8] or 0), int(found[9] or 0)
    if ahead_hours > 23 or ahead_minutes > 59 or second > 60:
        return False
    try:
        datetime(year, month, day, hour, minute, min(second, 59))
    except ValueError:
        return False
    ahead = (60 * ahead_hours + ahead_minutes) * (-1 if found[7] == "-" else 1)
    # A leap second ends a day, and days end by UTC.
    return second < 60 or (60 * hour + minute - ahead) % 1440 == 1439


def format_(said: Said) -> Check:
    if said.value != "date-time":
        raise said.refuse('"date-time", the one format that is checked')

    def check(value: Any, path: str, _: Walk) -> Breach | None:
        if not isinstance(value, str) or is_date_time(value):
            return None
        message = f"must be a date-time such as 2026-01-31T12:00:00Z, but is {show(value)}"
        return Breach(path=path, rule="format", message=message)

    return check


def unique_items(said: Said) -> Check:
    if not isinstance(said.value, bool):
        raise said.refuse("true or false")

    def check(value: Any, path: str, walk: Walk) -> Breach | None:
        if not said.value or not isinstance(value, list):
            return None
        seen = set()
        for index, each in enumerate(value):
            stand_in = identity(each, walk)
            if stand_in in seen:
                message = f"must not repeat {show(each)}"
                return Breach(path=f"{path}/{index}", rule="uniqueItems", message=message)
            seen.add(stand_in)
        return None

    return check


def required(said: Said) -> Check:
    if not isinstance(said.value, list) or not all(isinstance(name, str) for name in said.value):
        raise said.refuse("a list of names")
    names: list[str] = said.value

    def check(value: Any, path: str, _: Walk) -> Breach | None:
        if not isinstance(value, dict):
            return None
        for name in names:
            if name not in value:
                return Breach(path=path, rule="required", message=f"must have {show(name)}")
        return None

    return check


ASSERTIONS: Mapping[str, Callable[[Said], Check]] = {
    "type": type_,
    "enum": enum,
    "const": const,
    "minimum": _bound("at least", lambda value, limit: value >= limit),
    "maximum": _bound("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": _bound("more than", lambda value, limit: value > limit),
    "exclusiveMaximum": _bound("less than", lambda value, limit: value < limit),
    "multipleOf": multiple_of,
    "minLength": _size(str, "at least {} characters", lambda size, limit: size >= limit),
    "maxLength": _size(str, "at most {} characters", lambda size, limit: size <= limit),
    "pattern": pattern,
    "format": format_,
    "minItems": _size(list, "at least {} items", lambda size, limit: size >= limit),
    "maxItems": _size(list, "at most {} items", lambda size, limit: size <= limit),
    "uniqueItems": unique_items,
    "minProperties": _size(dict, "at least {} members", lambda size, limit: size >= limit),
    "maxProperties": _size(dict, "at most {} members", lambda size, limit: size <= limit),
    "required": required,
}
"""In the order in which they are checked: a wrong type is said before anything that follows from it."""
