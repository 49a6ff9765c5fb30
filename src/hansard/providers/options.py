"""Reads one provider's table of hansard.toml: each option once, by its type, and a clear word for whatever is wrong."""

from collections.abc import Mapping
from typing import Any

from hansard.domain.fields import MOST, Fields, Word

COMMON = ("kind", "max_concurrent", "per_minute", "burst", "breaker", "breaker_after", "breaker_cool_down_s", "secrets")
"""What every kind takes. Who opens providers reads it, and no kind sees it."""


class Options(Fields):
    """The options of the provider `id`. Ask for each known one, then call `done`, which refuses what is left over."""

    def __init__(self, id: str, table: Mapping[str, Any]) -> None:
        super().__init__(table, f"[providers.{id}]")
        self.any("kind")

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts that a program can be given."""
        found = super().texts(name)
        if any("\0" in each for each in found):
            raise self.wrong(name, "texts without a NUL byte, which no program can be given", self.any(name))
        return found

    def variables(self, name: str) -> dict[str, str]:
        """A table of variables that a program can be given."""
        value = self.table(name)
        if not all(isinstance(each, str) and "\0" not in each for pair in value.items() for each in pair):
            raise self.wrong(name, "a table of texts without NUL bytes", value)
        if any("=" in each or not each for each in value):
            raise self.wrong(name, "a table of variables, whose names are not empty and hold no =", value)
        return dict(value)

    def count(self, name: str, default: int = 0, *, least: int = 1, most: int = MOST) -> int:
        return super().count(name, default, least=least, most=most)

    def seconds(self, name: str) -> float | None:
        value = self.number(name)
        if value is not None and not 0 < value < 1e9:
            raise self.wrong(name, "a number of seconds above 0", value)
        return value

    def one_of(self, name: str, allowed: tuple[Word, ...]) -> Word:
        """One of these; the first where nothing is said."""
        value = self.any(name, allowed[0])
        for word in allowed:
            if value == word:
                return word
        raise self.wrong(name, f"one of {', '.join(allowed)}", value)

    def _unknown(self, name: str) -> str:
        self._known += COMMON
        return super()._unknown(name)
