"""A table of a roster or a policy: fields with limits, where null is as good as nothing written. Knows no file.

A roster that quietly ignores a misspelt key would run with rules that nobody wrote.
"""

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from hansard.domain.fields import Fields
from hansard.errors import UsageError

MAX_ITEMS = 2_000


class Table(Fields):
    """Takes values of limited size; each is None or empty where nothing is written."""

    def short(self, key: str, limit: int, *, required: bool = False) -> str:
        found = self.any(key)
        if found is None and not required:
            return ""
        if not isinstance(found, str):
            raise self.wrong(key, "text", found)
        if required and not found.strip():
            raise UsageError(f"{self.where}: {key} is empty; write one line")
        return self._within(key, found, limit)

    def name(self, key: str, limit: int = 200) -> str | None:
        """Optional text that is not empty where it stands."""
        return self.short(key, limit, required=True) if self.any(key) is not None else None

    def items(self, key: str, limit: int, *, also_by: str = "") -> tuple[str, ...]:
        """A list of texts; or one text with an item per line, where `also_by` separates items as well."""
        found = self.any(key)
        if found is None:
            return ()
        if isinstance(found, str):
            lines = found.replace(also_by, "\n") if also_by else found
            found = [item for line in lines.split("\n") if (item := line.strip())]
        if not isinstance(found, list | tuple):
            raise self.wrong(key, "a list of texts, or one text with an item per line", found)
        if len(found) > MAX_ITEMS:
            raise UsageError(f"{self.where}: {key} has {len(found)} items; at most {MAX_ITEMS} are read")
        for item in found:
            if not isinstance(item, str) or not item.strip():
                raise UsageError(f"{self.where}: {key} must hold texts that are not empty, not {self._shown(item)}")
            self._within(key, item, limit)
        return tuple(found)

    def from_1(self, key: str) -> int | None:
        found = self.any(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found < 2**53:
            raise self.wrong(key, "a whole number of 1 or more", found)
        return found

    def above_0(self, key: str, unit: str) -> float | None:
        found = self.any(key)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found < math.inf:
            raise self.wrong(key, f"a number of {unit} above 0", found)
        return float(found)

    def wrong(self, name: str, wanted: str, value: object) -> UsageError:
        if value is None:
            return UsageError(f"{self.where}: {name} is missing; give it {wanted}")
        return super().wrong(name, wanted, value)

    def _within(self, key: str, text: str, limit: int) -> str:
        if len(text) > limit:
            raise UsageError(f"{self.where}: {key} has {len(text):,} characters; at most {limit:,} are read")
        return text

    def _readable(self, table: Any) -> bool:
        return isinstance(table, Mapping)

    def _unknown(self, name: object) -> str:
        near = get_close_matches(str(name)[:60], self._known, 1)
        return f"{self._shown(name)}; " + (
            f"did you mean {near[0]!r}?" if near else f"known are {', '.join(dict.fromkeys(self._known))}"
        )

    def _shown(self, value: object) -> str:
        if isinstance(value, Mapping):
            return "a table"
        if isinstance(value, list | tuple):
            return "a list"
        return f"{value!r:.60}"
