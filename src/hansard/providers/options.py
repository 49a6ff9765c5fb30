"""Reads one provider's table of hansard.toml: each option once, by its type, and a clear word for whatever is wrong."""

from collections.abc import Mapping
from typing import Any, TypeVar

from hansard.errors import UsageError
from hansard.providers.fields import Fields

Word = TypeVar("Word", bound=str)


class Options:
    """The options of the provider `id`. Ask for each known one, then call `done`, which refuses what is left over."""

    def __init__(self, id: str, table: Mapping[str, Any]) -> None:
        self.where = f"[providers.{id}]"
        self._fields = Fields(table, self.where)
        self._fields.any("kind")

    def text(self, name: str, default: str = "") -> str:
        return self._fields.text(name, default)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts that a program can be given."""
        value = self._fields.any(name, ())
        if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
            raise self._wrong(name, "a list of texts", value)
        if any("\0" in each for each in value):
            raise self._wrong(name, "texts without a NUL byte, which no program can be given", value)
        return tuple(value)

    def variables(self, name: str) -> dict[str, str]:
        """A table of variables that a program can be given."""
        value = self._fields.table(name)
        if not all(isinstance(each, str) and "\0" not in each for pair in value.items() for each in pair):
            raise self._wrong(name, "a table of texts without NUL bytes", value)
        if any("=" in each or not each for each in value):
            raise self._wrong(name, "a table of variables, whose names are not empty and hold no =", value)
        return dict(value)

    def flag(self, name: str, default: bool) -> bool:
        return self._fields.flag(name, default)

    def count(self, name: str, default: int, *, least: int = 1) -> int:
        return self._fields.count(name, default, least=least)

    def seconds(self, name: str) -> float | None:
        value = self._fields.number(name)
        if value is not None and not 0 < value < 1e9:
            raise self._wrong(name, "a number of seconds above 0", value)
        return value

    def choice(self, name: str, allowed: tuple[Word, ...]) -> Word:
        """One of these; the first where nothing is said."""
        value = self._fields.any(name, allowed[0])
        for word in allowed:
            if value == word:
                return word
        raise self._wrong(name, f"one of {', '.join(allowed)}", value)

    def done(self) -> None:
        self._fields.done()

    def _wrong(self, name: str, wanted: str, value: object) -> UsageError:
        return UsageError(f"{self.where}: {name} must be {wanted}, not {value!r:.80}")
