"""What a run may use of its roster. Pure: a policy refuses a lane and says by which rule."""

from typing import Any

from hansard.domain.lane import MAX_LINE, Lane
from hansard.domain.table import Table
from hansard.domain.value import value

MAX_PARALLEL = 8


@value
class Policy:
    """An empty allow list allows all; a deny list goes before an allow list."""

    allow_categories: tuple[str, ...] = ()
    deny_categories: tuple[str, ...] = ()
    allow_lanes: tuple[str, ...] = ()
    deny_lanes: tuple[str, ...] = ()
    max_parallel: int = MAX_PARALLEL

    def refuses(self, lane: Lane) -> str | None:
        """Why this lane may not be used, naming the rule; None where it may."""
        if lane.name in self.deny_lanes:
            return f"lane {lane.name!r} is denied by policy rule deny_lanes"
        if lane.category in self.deny_categories:
            return f"lane {lane.name!r}: category {lane.category!r} is denied by policy rule deny_categories"
        if self.allow_lanes and lane.name not in self.allow_lanes:
            return f"lane {lane.name!r} is not in policy rule allow_lanes"
        if self.allow_categories and lane.category not in self.allow_categories:
            return f"lane {lane.name!r}: category {lane.category!r} is not in policy rule allow_categories"
        return None

    def as_data(self) -> dict[str, Any]:
        """The policy as plain data in the shape of a `[policy]` table."""
        lists = ("allow_categories", "deny_categories", "allow_lanes", "deny_lanes")
        return {key: list(getattr(self, key)) for key in lists} | {"max_parallel": self.max_parallel}


def parse_policy(values: object, where: str) -> Policy:
    """A policy out of a `[policy]` table, or a UsageError that says what is wrong."""
    table = Table(values, where)
    policy = Policy(
        allow_categories=table.items("allow_categories", MAX_LINE),
        deny_categories=table.items("deny_categories", MAX_LINE),
        allow_lanes=table.items("allow_lanes", MAX_LINE),
        deny_lanes=table.items("deny_lanes", MAX_LINE),
        max_parallel=table.from_1("max_parallel") or MAX_PARALLEL,
    )
    table.done()
    return policy
