"""Reads a table that somebody wrote by hand, strictly: each field once, by its type, and nothing left over."""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from sys import float_info
from typing import Any, TypeVar

from hansard.errors import UsageError

Word = TypeVar("Word", bound=str)
MOST = 2**53 - 1
"""The record holds no number beyond it, and so nobody can go by one."""
_TEXT = frozenset({str})


class Fields:
    """The fields of one table. `where` begins every complaint: the file and the place in it."""

    def __init__(self, table: Any, where: str) -> None:
        if not self._readable(table):
            raise UsageError(f"{where}: must be a table, not {self._shown(table)}")
        self.where = where
        self._table = table
        self._known: list[str] = []

    def any(self, name: str, default: Any = None) -> Any:
        self._known.append(name)
        return self._table.get(name, default)

    def has(self, name: str) -> bool:
        self._known.append(name)
        return name in self._table

    def text(self, name: str, default: str = "") -> str:
        value = self.any(name, default)
        if isinstance(value, str):
            return value
        raise self.wrong(name, "a text", value)

    def choice(self, name: str, allowed: tuple[Word, ...], default: Word) -> Word:
        value = self.text(name, default)
        for word in allowed:
            if value == word:
                return word
        raise self.wrong(name, f"one of {', '.join(allowed)}", value)

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.any(name, ())
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return tuple(value)
        raise self.wrong(name, "a list of texts", value)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.any(name, default)
        if isinstance(value, bool):
            return value
        raise self.wrong(name, "true or false", value)

    def count(self, name: str, default: int = 0, *, least: int = 0, most: int = MOST) -> int:
        value = self.any(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        upwards = f" to {most:,}" if isinstance(value, int) and value > most else ""
        raise self.wrong(name, f"a whole number from {least}{upwards}", value)

    def number(self, name: str, default: float | None = None) -> float | None:
        value = self.any(name, default)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= float_info.max:
            return value
        raise self.wrong(name, "a number from 0", value)

    def table(self, name: str) -> Mapping[str, Any]:
        value = self.any(name, {})
        if isinstance(value, Mapping):
            return value
        raise self.wrong(name, "a table", value)

    def tables(self, name: str) -> list["Fields"]:
        value = self.any(name, [])
        if not isinstance(value, list):
            raise self.wrong(name, "a list of tables", value)
        return [Fields(each, f"{self.where}, {name} {number}") for number, each in enumerate(value, 1)]

    def done(self, known: Collection[str] = ()) -> None:
        """Refuse what nobody asked for, and is not otherwise known: it is a mistake in writing, and would be passed over."""
        self._known += known
        for name in self._table:
            if name not in self._known:
                raise UsageError(f"{self.where}: unknown key {self._unknown(name)}")

    def wrong(self, name: str, wanted: str, value: object) -> UsageError:
        return UsageError(f"{self.where}: {name} must be {wanted}, not {self._shown(value)}")

    def _readable(self, table: Any) -> bool:
        return (type(table) is dict or isinstance(table, Mapping)) and _TEXT.issuperset(map(type, table))

    def _unknown(self, name: str) -> str:
        near = get_close_matches(name, self._known, 1)
        return (
            f"{name}; did you mean {near[0]}?" if near else f"{name}; known are {', '.join(sorted(set(self._known)))}"
        )

    def _shown(self, value: object) -> str:
        return f"{value!r:.80}"
