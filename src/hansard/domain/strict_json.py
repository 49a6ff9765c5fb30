"""JSON that somebody wrote, where it has one reading."""

import json
from collections.abc import Iterable
from math import isinf
from typing import Any, NoReturn

from hansard.errors import UsageError


def read_json(text: str | bytes, *, where: str = "document") -> Any:
    """One JSON value. A name that stands twice, NaN and Infinity are refused: programs disagree about them."""
    try:
        said = text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass")
        return _STRICT.decode(said)
    except ValueError as error:
        raise UsageError(f"{where} is no JSON: {error}"[:300]) from error
    except RecursionError as error:
        raise UsageError(f"{where} is no JSON: it is nested too deeply to be read") from error


def refuse_twice(names: Iterable[str]) -> None:
    """ValueError where a name stands twice."""
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ValueError(f"{name!r:.60} stands twice in one object")
        known.add(name)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        refuse_twice(name for name, _ in pairs)
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    if isinf(found := float(text)):
        raise ValueError(f"{text:.60} is more than a number can be")
    return found


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text:.60}, of {len(text):,} digits, is more than a number can be") from None


# Made once: json.loads makes one each time.
_STRICT = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refuse, parse_float=_finite, parse_int=_whole)
