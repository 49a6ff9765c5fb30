"""A lane: one kind of work a roster offers, with the document that the router reads. Knows no router and no provider."""

import re
from collections.abc import Mapping
from typing import Any

from hansard.domain.budget import NANO_PER_USD, Budget
from hansard.domain.table import Table
from hansard.domain.value import value
from hansard.errors import UsageError

# A lane's name stands in actors (`lane:backend`), in URLs and in file names.
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
# Labelled requests say "none" where no lane fits.
RESERVED = ("none",)
MAX_LINE, MAX_TEXT, MAX_INSTRUCTIONS = 500, 20_000, 200_000


@value
class Lane:
    """One kind of work. Only name, category and domain are required; None leaves a choice to the run's own settings."""

    name: str
    category: str
    domain: str
    description: str = ""
    vocabulary: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    instructions: str = ""
    provider: str | None = None
    tier: str | None = None
    timeout_s: float | None = None
    permissions: tuple[str, ...] = ()
    max_parallel: int | None = None
    budget: Budget | None = None

    def as_data(self) -> dict[str, Any]:
        """The lane as plain data in the shape of a roster file; what is not set is left out."""
        data: dict[str, Any] = {"name": self.name, "category": self.category, "domain": self.domain}
        for key in ("description", "vocabulary", "examples", "instructions", "provider", "tier", "permissions"):
            if value := getattr(self, key):
                data[key] = list(value) if isinstance(value, tuple) else value
        if self.timeout_s is not None:
            data["timeout_s"] = _plain(self.timeout_s)
        if self.max_parallel is not None:
            data["max_parallel"] = self.max_parallel
        if self.budget is not None:
            data["budget"] = _budget_data(self.budget)
        return data


def lane_from(values: object, where: str) -> Lane:
    """A lane out of one `[[lane]]` table, or a UsageError that says what is wrong with which lane."""
    if isinstance(values, Mapping) and isinstance(values.get("name"), str):
        where = f"{where}: lane {values['name']!r:.60}"
    table = Table(values, where)
    lane = Lane(
        name=_name(table),
        category=table.short("category", MAX_LINE, required=True),
        domain=_one_line(table, "domain"),
        description=table.short("description", MAX_TEXT),
        vocabulary=table.items("vocabulary", MAX_LINE, also_by=","),
        examples=table.items("examples", MAX_TEXT),
        instructions=table.short("instructions", MAX_INSTRUCTIONS),
        provider=table.name("provider"),
        tier=table.name("tier"),
        timeout_s=table.above_0("timeout_s", "seconds"),
        permissions=table.items("permissions", MAX_LINE),
        max_parallel=table.from_1("max_parallel"),
        budget=_budget(table.any("budget"), where),
    )
    table.done()
    return lane


def _name(table: Table) -> str:
    name = table.short("name", 10_000, required=True)
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{table.where}: the name must be 1 to 64 of a-z, 0-9, '.', '_', '-', with a letter or digit at both ends"
        )
    if name in RESERVED:
        raise UsageError(f"{table.where}: the name is reserved for requests that fit no lane; choose another")
    return name


def _one_line(table: Table, key: str) -> str:
    line = table.short(key, MAX_LINE, required=True)
    if len(line.splitlines()) > 1:
        raise UsageError(f"{table.where}: {key} must be one line; the rest belongs into description")
    return line


def _budget(values: object, where: str) -> Budget | None:
    if values is None:
        return None
    table = Table(values, f"{where}: budget")
    nano, usd = table.from_1("max_cost_usd_nano"), table.above_0("max_cost_usd", "dollars")
    if nano is not None and usd is not None:
        raise UsageError(f"{table.where}: max_cost_usd and max_cost_usd_nano say the same thing; keep one")
    if usd is not None:
        nano = max(round(usd * NANO_PER_USD), 1)
    budget = Budget(
        max_calls=table.from_1("max_calls"),
        max_tokens=table.from_1("max_tokens"),
        max_cost_usd_nano=nano,
        max_seconds=table.above_0("max_seconds", "seconds"),
    )
    table.done()
    return budget


def _budget_data(budget: Budget) -> dict[str, Any]:
    found = {
        "max_calls": budget.max_calls,
        "max_tokens": budget.max_tokens,
        "max_cost_usd_nano": budget.max_cost_usd_nano,
        "max_seconds": None if budget.max_seconds is None else _plain(budget.max_seconds),
    }
    return {key: value for key, value in found.items() if value is not None}


def _plain(seconds: float) -> int | float:
    return int(seconds) if seconds == int(seconds) else seconds
