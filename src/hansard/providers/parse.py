"""Reads the JSON in a model's answer: strictly when it is JSON, and by looking for one object when it is wrapped in prose.

Never guesses. What cannot be read in exactly one way is a Breach, which `ask` quotes back to the model. Linear in the
length of the text, whatever the text.
"""

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

from hansard.domain.value import value
from hansard.providers.schema import Breach, Validator, show

MAX_DEPTH = 64
MAX_BYTES = 10 * 1024 * 1024
MAX_OBJECTS = 1_000
MAX_BRACES = 100_000
MAX_INT = 2**53 - 1
"""Beyond this, programs disagree about which number it is."""

_SPACE = " \t\r\n"
_BRACE = re.compile(r"[{}]")
_OPENS = re.compile(r'\{[ \t\r\n]*+(?:\}|"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+:)', re.DOTALL)
"""How a JSON object begins, and a brace in prose does not."""


@value
class Reading:
    """What was read: a value, or why there is none."""

    value: Any = None
    breach: Breach | None = None


class _Refused(ValueError):
    """JSON by its grammar, and still nothing that we take."""


def read(text: str, validator: Validator | None = None, *, max_bytes: int = MAX_BYTES) -> Reading:
    """The one JSON value of this text that the validator accepts.

    The whole text when it is JSON; otherwise the objects that stand in it outside of any other braces. Of several,
    the one that is valid, when exactly one is.
    """
    if len(text) > max_bytes:
        return _no(f"is {len(text)} characters long; at most {max_bytes} bytes are read")
    try:
        return judged(_whole(text.strip(_SPACE)), validator)
    except json.JSONDecodeError as error:
        why = f"{error.msg}, character {error.pos}"
    except _Refused as error:
        return _no(str(error))
    try:
        return _chosen(list(_objects(text)), validator, why)
    except _Refused as error:
        return _no(str(error))


def whole(text: str) -> Reading:
    """The JSON value that the whole text is; nothing is looked for within it."""
    try:
        return Reading(value=_whole(text.strip(_SPACE)))
    except (json.JSONDecodeError, _Refused) as error:
        return _no(str(error))


def plain(value: Any) -> Reading:
    """A value as JSON holds it, copied: no NaN, no number that programs disagree about, no half of a character.

    A float without a fraction becomes the integer that it equals, so that `integer` in a schema means one.
    """
    try:
        return Reading(value=_plain(value, 0))
    except _Refused as error:
        return _no(str(error))


def _plain(value: Any, depth: int) -> Any:
    if type(value) is str:
        return value if value.isascii() else _text(value)
    if depth == MAX_DEPTH and isinstance(value, list | tuple | dict):
        raise _Refused(f"is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        return {_text(key): _plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if value is None or isinstance(value, bool):
        return value
    # What is more than a number or a text, such as a member of an enumeration, becomes what it is besides.
    if isinstance(value, float):
        return _number(int(value) if value.is_integer() else float.__float__(value))
    if isinstance(value, int):
        return _number(int.__int__(value))
    if isinstance(value, str):
        return _text(value)
    raise _Refused(f"holds a Python {type(value).__name__}, which is no JSON")


def _number(value: int | float) -> int | float:
    if isinstance(value, float) and not isfinite(value):
        raise _Refused("holds a number that is not finite")
    if isinstance(value, int) and abs(value) > MAX_INT:
        raise _Refused("holds an integer beyond 2^53, which not every program reads as the same number")
    return value


def _text(value: Any) -> str:
    if type(value) is str and value.isascii():
        return value
    if not isinstance(value, str):
        raise _Refused(f"holds a key that is no text: {show(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Refused("holds half of a surrogate pair, which is no character") from None
    return value if type(value) is str else str.__str__(value)


def judged(value: Any, validator: Validator | None) -> Reading:
    """A value as whoever asks wants to have it."""
    if validator is None:
        return Reading(value=value)
    value, breach = validator.read(value)
    return Reading(breach=breach) if breach else Reading(value=value)


def _chosen(found: list["_Object"], validator: Validator | None, why: str) -> Reading:
    if not found:
        return _no(f"is not JSON and holds no JSON object ({why})")
    readings = [judged(each.value, validator) if each.fault is None else _no(each.fault) for each in found]
    valid = [reading for reading in readings if reading.breach is None]
    if len(valid) == 1:
        return valid[0]
    if valid:
        return _no(f"holds {len(valid)} JSON objects that would do; it must hold one")
    if len(readings) == 1:
        return readings[0]
    return _no(f"holds {len(readings)} JSON objects, and none will do; the last one: {readings[-1].breach}")


def _no(message: str) -> Reading:
    return Reading(breach=Breach(path="", rule="json", message=message))


@value
class _Object:
    value: Any
    fault: str | None


class _Decoder:
    """The standard library's scanner. A repeated key is noted and not raised: the end of its object must be known."""

    def __init__(self) -> None:
        self._repeated: list[str] = []
        self._json = json.JSONDecoder(object_pairs_hook=self._pairs)

    def _pairs(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            self._repeated += [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return found

    def decode(self, text: str, start: int) -> tuple[_Object, int]:
        """The value at `start` and where it ends. JSONDecodeError where it is no JSON."""
        self._repeated.clear()
        try:
            value, end = self._json.raw_decode(text, start)
        except RecursionError:
            raise _Refused(f"is nested deeper than {MAX_DEPTH}") from None
        except json.JSONDecodeError:
            raise
        except ValueError:
            raise _Refused("holds a number with thousands of digits") from None
        if self._repeated:
            return _Object(value=None, fault=f"says {show(self._repeated[0])} twice in one object"), end
        read = plain(value)
        return _Object(value=read.value, fault=read.breach.message if read.breach else None), end


def _whole(text: str) -> Any:
    found, end = _Decoder().decode(text, 0)
    if end != len(text):
        raise json.JSONDecodeError("there is more after the JSON", text, end)
    if found.fault:
        raise _Refused(found.fault)
    return found.value


def _objects(text: str) -> Iterator[_Object]:
    """Every JSON object that stands outside of any other braces.

    Once an object has begun it must end well. To look for another one behind the break would be to take an object out
    of a text that somebody else wrote and the model quoted badly.
    """
    decoder, depth, at, found = _Decoder(), 0, 0, 0
    for _ in range(MAX_BRACES):
        brace = _BRACE.search(text, at)
        if brace is None:
            return
        at = brace.end()
        if brace[0] == "}":
            depth = max(0, depth - 1)
        elif depth or not _OPENS.match(text, brace.start()):
            depth += 1
        else:
            found += 1
            if found > MAX_OBJECTS:
                raise _Refused(f"holds more than {MAX_OBJECTS} JSON objects")
            try:
                each, at = decoder.decode(text, brace.start())
            except json.JSONDecodeError as error:
                raise _Refused(f"holds a JSON object that breaks off: {error.msg}, character {error.pos}") from None
            yield each
    raise _Refused(f"has more than {MAX_BRACES} braces")
