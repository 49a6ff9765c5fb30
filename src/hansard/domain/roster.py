"""A roster: the lanes that work can be given to. Parses text and mappings; reads no file but the one that ships with it."""

import hashlib
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from hansard.domain.lane import Lane as Lane
from hansard.domain.lane import lane_from
from hansard.domain.policy import Policy as Policy
from hansard.domain.policy import parse_policy as parse_policy
from hansard.domain.strict_toml import read_toml
from hansard.domain.table import Table
from hansard.errors import UsageError

MAX_CHARACTERS, MAX_LANES, MAX_NAME = 8_000_000, 1_000, 200
_SHIPPED = ("engineering", "graphics", "support", "research")


@dataclass(frozen=True, kw_only=True)
class Roster:
    """Lanes in their order, found by name in one step. Refuses to be empty and to name a lane twice."""

    name: str
    lanes: tuple[Lane, ...]
    _by_name: Mapping[str, Lane] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[str, Lane] = {}
        for lane in self.lanes:
            if lane.name in found:
                raise UsageError(f"roster {self.name!r}: lane {lane.name!r} stands there twice; rename or remove one")
            found[lane.name] = lane
        if not found:
            raise UsageError(f"roster {self.name!r} has no lanes; write at least one [[lane]]")
        object.__setattr__(self, "_by_name", found)

    @staticmethod
    def default() -> "Roster":
        """The roster that ships: 24 lanes of engineering, graphics, support and research."""
        return _shipped()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def lane(self, name: str) -> Lane | None:
        return self._by_name.get(name)

    def as_data(self) -> dict[str, Any]:
        """The roster as plain data in the shape of a roster file; `parse_roster` gives it back."""
        return {"name": self.name, "lane": [lane.as_data() for lane in self.lanes]}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in the roster, for the configuration snapshot of a run."""
        text = json.dumps(self.as_data(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def parse_roster(source: str | Mapping[str, Any], where: str) -> Roster:
    """A roster out of TOML text or an equal mapping, or a UsageError that says what is wrong where."""
    table = Table(_mapping(source, where), where)
    name = table.name("name", MAX_NAME) or "custom"
    lanes = table.any("lane")
    table.done()
    if not isinstance(lanes, list | tuple) or not lanes:
        raise UsageError(f"{where}: no lanes; write at least one [[lane]] with name, category and domain")
    if len(lanes) > MAX_LANES:
        raise UsageError(f"{where}: {len(lanes):,} lanes; a roster holds at most {MAX_LANES:,}")
    found = tuple(lane_from(lane, f"{where}: [[lane]] number {place}") for place, lane in enumerate(lanes, 1))
    try:
        return Roster(name=name, lanes=found)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _mapping(source: str | Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if not isinstance(source, str):
        return source
    if len(source) > MAX_CHARACTERS:
        raise UsageError(f"{where}: {len(source):,} characters; a roster has at most {MAX_CHARACTERS:,}")
    try:
        return read_toml(source)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not TOML: {error}") from error


@cache
def _shipped() -> Roster:
    lanes: list[Lane] = []
    for category in _SHIPPED:
        text = pkgutil.get_data("hansard.domain", f"lanes/{category}.toml")
        lanes += parse_roster((text or b"").decode(), f"lanes/{category}.toml").lanes
    return Roster(name="default", lanes=tuple(lanes))
