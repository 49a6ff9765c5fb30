"""One table of a configuration, read strictly: each wrong key or value is refused with its place. Knows no file.

A roster that quietly ignores a misspelt key would run with rules that nobody wrote.
"""

import difflib
import math
from collections.abc import Mapping
from typing import Any

from hansard.errors import UsageError

MAX_ITEMS = 2_000


class Table:
    """Takes typed values out of a mapping; `done` refuses what nobody asked for. `where` opens every message."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            raise UsageError(f"{where}: must be a table, not {_shown(values)}")
        self._values: Mapping[object, Any] = values
        self._known: list[str] = []
        self.where = where

    def take(self, key: str) -> Any:
        """The value as it stands, or None; from now on the key is a known one."""
        self._known.append(key)
        return self._values.get(key)

    def text(self, key: str, limit: int, *, required: bool = False) -> str:
        found = self.take(key)
        if found is None and not required:
            return ""
        if not isinstance(found, str):
            raise self.wrong(key, found, "text")
        if required and not found.strip():
            raise UsageError(f"{self.where}: {key} is empty; write one line")
        return self._short(key, found, limit)

    def name(self, key: str, limit: int = 200) -> str | None:
        """Optional text that is not empty where it stands."""
        return self.text(key, limit, required=True) if self._values.get(key) is not None else self.take(key)

    def texts(self, key: str, limit: int, *, also_by: str = "") -> tuple[str, ...]:
        """A list of texts; or one text with an item per line, where `also_by` separates items as well."""
        found = self.take(key)
        if found is None:
            return ()
        if isinstance(found, str):
            lines = found.replace(also_by, "\n") if also_by else found
            found = [item for line in lines.split("\n") if (item := line.strip())]
        if not isinstance(found, list | tuple):
            raise self.wrong(key, found, "a list of texts, or one text with an item per line")
        if len(found) > MAX_ITEMS:
            raise UsageError(f"{self.where}: {key} has {len(found)} items; at most {MAX_ITEMS} are read")
        for item in found:
            if not isinstance(item, str) or not item.strip():
                raise UsageError(f"{self.where}: {key} must hold texts that are not empty, not {_shown(item)}")
            self._short(key, item, limit)
        return tuple(found)

    def count(self, key: str) -> int | None:
        found = self.take(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found < 2**53:
            raise self.wrong(key, found, "a whole number of 1 or more")
        return found

    def above_0(self, key: str, unit: str) -> float | None:
        found = self.take(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
            raise self.wrong(key, found, f"a number of {unit} above 0")
        return float(found)

    def done(self) -> None:
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(str(key)[:60], self._known, n=1)
                meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self._known)}"
                raise UsageError(f"{self.where}: unknown key {_shown(key)}; {meant}")

    def wrong(self, key: str, found: object, wanted: str) -> UsageError:
        if found is None:
            return UsageError(f"{self.where}: {key} is missing; give it {wanted}")
        return UsageError(f"{self.where}: {key} must be {wanted}, not {_shown(found)}")

    def _short(self, key: str, text: str, limit: int) -> str:
        if len(text) > limit:
            raise UsageError(f"{self.where}: {key} has {len(text):,} characters; at most {limit:,} are read")
        return text


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    return f"{value!r:.60}"
