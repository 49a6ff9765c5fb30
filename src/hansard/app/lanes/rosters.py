"""Rosters for every surface: which lanes there are, and what is wrong with a roster file."""

from pathlib import Path

from hansard.app.settings import Settings, read_roster
from hansard.app.views import View
from hansard.domain.roster import Roster
from hansard.errors import UsageError

# Below this many words and examples the router can only guess.
ENOUGH = 10


def roster_of(settings: Settings, file: str | None = None) -> Roster:
    """The roster that a surface names, else the one of hansard.toml, else the one that ships."""
    return read_roster(Path(file)) if file else settings.roster or Roster.default()


def roster_view(roster: Roster, settings: Settings) -> View:
    """The lanes in short, each with what policy says about it."""
    return {
        "name": roster.name,
        "digest": roster.digest,
        "lanes": [
            {
                "name": lane.name,
                "category": lane.category,
                "domain": lane.domain,
                "provider": lane.provider,
                "tier": lane.tier,
                "refused": settings.policy.refuses(lane),
            }
            for lane in roster.lanes
        ],
    }


def lane_view(roster: Roster, name: str) -> View:
    """Everything about one lane."""
    lane = roster.lane(name)
    if lane is None:
        raise UsageError(f"roster {roster.name!r} has no lane {name!r:.60}; it has {', '.join(roster.names)}")
    return lane.as_data()


def check_view(roster: Roster) -> View:
    """What a roster file that can be read still lacks: lanes that the router knows little about."""
    thin = [lane.name for lane in roster.lanes if len(lane.vocabulary) + len(lane.examples) < ENOUGH]
    return {"name": roster.name, "digest": roster.digest, "lanes": len(roster.lanes), "thin": thin}
