from dataclasses import replace

import pytest

from hansard.app.setup.wishes import Wishes
from hansard.domain.roster import Lane
from hansard.errors import UsageError
from hansard.orchestration.escalate import Rung, default_ladder, ladder_of, next_rung
from running import Answers, desk, roster

TIERS = {"cheap": "small", "capable": "large:m1", "frontier": "huge"}
LADDER = default_ladder(TIERS)


def lane(**more: str) -> Lane:
    return Lane(name="alpha", category="test", domain="work", tier=more.get("tier"), provider=more.get("provider"))


def test_a_ladder_has_the_configured_tiers_cheapest_first() -> None:
    assert default_ladder({"frontier": "x", "cheap": "y"}) == ("cheap", "frontier")
    assert ladder_of(lane(), TIERS, LADDER, "any") == (
        Rung("cheap", "small"),
        Rung("capable", "large:m1"),
        Rung("frontier", "huge"),
    )


def test_without_tiers_there_is_one_rung_and_nowhere_to_climb() -> None:
    [only] = ladder_of(lane(), {}, (), "any")
    assert only.target == "any"
    assert next_rung([only], only.name) is None


def test_a_lane_with_a_tier_starts_there() -> None:
    assert [rung.name for rung in ladder_of(lane(tier="capable"), TIERS, LADDER, "any")] == ["capable", "frontier"]


def test_a_lane_with_a_provider_asks_it_first_and_not_a_second_time() -> None:
    rungs = ladder_of(lane(provider="small"), TIERS, LADDER, "any")
    assert [rung.target for rung in rungs] == ["small", "large:m1", "huge"]


def test_a_ladder_may_name_providers_and_a_panel() -> None:
    rungs = ladder_of(lane(), TIERS, ("cheap", "other:model", "panel:elders"), "any")
    assert rungs[1:] == (Rung("other:model", "other:model"), Rung("panel:elders", "panel:elders"))


def test_the_next_rung_is_the_one_above_and_none_at_the_top_or_from_an_unknown_one() -> None:
    rungs = ladder_of(lane(), TIERS, LADDER, "any")
    assert next_rung(rungs, "cheap") == rungs[1]
    assert next_rung(rungs, "frontier") is None
    assert next_rung(rungs, "no such rung") is None


def test_whoever_climbs_comes_to_the_top_also_where_rungs_share_a_name() -> None:
    rungs = ladder_of(lane(provider="own"), {"lane": "small"}, ("lane", "large", "lane", "huge"), "any")
    assert [rung.name for rung in rungs] == ["lane", "lane", "large", "lane", "huge"]
    assert next_rung(rungs, "lane") == rungs[4]
    assert next_rung(rungs, "huge") is None


@pytest.mark.parametrize("ladder", [("told", "told"), ("told", "told:better", "told"), ("lane", "told")])
def test_a_ladder_with_two_rungs_of_one_name_is_refused_before_there_is_a_run(ladder: tuple[str, ...]) -> None:
    at = desk(Answers(), settings={"tiers": {"lane": "told:other"}})
    with pytest.raises(UsageError, match="twice"):
        at.config(Wishes(ladder=ladder, roster=roster(beta={"provider": "told:own"})))


def test_a_lane_whose_tier_nobody_is_named_for_is_refused_where_others_are() -> None:
    wishes = Wishes(roster=roster(beta={"tier": "frontier"}))
    at = desk(Answers(), settings={"tiers": {"cheap": "told", "capable": "told:better"}})
    with pytest.raises(UsageError, match=r"lane 'beta' .* has the tier 'frontier'; known are cheap, capable"):
        at.config(wishes)
    # Whoever is the only one to be asked does it all.
    assert desk(Answers()).config(wishes).rungs("beta") == (Rung("frontier", "told"),)
    assert at.config(replace(wishes, provider="told")).rungs("beta") == (Rung("frontier", "told"),)
