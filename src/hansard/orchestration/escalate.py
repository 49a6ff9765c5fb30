"""The ladder: which model or program gets a task next, once a result was rejected. Pure.

A task climbs on a recorded verdict only, never on what a model says of its own confidence.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hansard.domain.roster import Lane

TIERS = ("cheap", "capable", "frontier")
LANE_RUNG, ONLY_RUNG = "lane", "default"


class Rung(NamedTuple):
    """A step of the ladder: its name, and whom it asks (`provider` or `provider:model`, or `panel:NAME`)."""

    name: str
    target: str


def ladder_of(lane: Lane, tiers: Mapping[str, str], ladder: Sequence[str], default: str) -> tuple[Rung, ...]:
    """The rungs for a lane. `ladder` names tiers or targets; a lane with a tier starts there, one with a provider there first."""
    rungs = [Rung(name, tiers.get(name, name)) for name in ladder] or [Rung(ONLY_RUNG, default)]
    if lane.tier is not None:
        names = [rung.name for rung in rungs]
        rungs = (
            rungs[names.index(lane.tier) :] if lane.tier in names else [Rung(lane.tier, tiers.get(lane.tier, default))]
        )
    if lane.provider is not None:
        rungs = [Rung(LANE_RUNG, lane.provider), *(rung for rung in rungs if rung.target != lane.provider)]
    return tuple(rungs)


def default_ladder(tiers: Mapping[str, str]) -> tuple[str, ...]:
    """The tiers that are configured, cheapest first."""
    return tuple(tier for tier in TIERS if tier in tiers)


def next_rung(ladder: Sequence[Rung], current: str) -> Rung | None:
    """The rung above this one; None at the top, or where the ladder does not know it. Of several of a name, the one above all."""
    above = max((place for place, rung in enumerate(ladder, 1) if rung.name == current), default=len(ladder))
    return ladder[above] if above < len(ladder) else None
