from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hansard
from hansard.domain.budget import Budget
from hansard.domain.roster import Lane, Policy, Roster, parse_policy, parse_roster
from hansard.errors import UsageError
from roster_files import roster_as_toml

SHARED = Path(__file__).resolve().parents[3] / "shared"
LANE = {"name": "a", "category": "c", "domain": "d"}
FULL = Lane(
    name="legal-advice",
    category="office",
    domain="Contracts and letters",
    description='Reads "contracts"\nand answers.\x7f',
    vocabulary=("contract", "non disclosure"),
    examples=("look over this lease", "что в договоре?"),
    instructions="Quote the clause.\n",
    provider="cloud",
    tier="capable",
    timeout_s=12.5,
    permissions=("read",),
    max_parallel=2,
    budget=Budget(max_calls=3, max_tokens=1000, max_cost_usd_nano=500_000_000, max_seconds=60.0),
)


def test_the_default_roster_has_24_lanes_in_four_categories() -> None:
    roster = hansard.Roster.default()
    assert len(roster.lanes) == len(set(roster.names)) == 24
    categories = [lane.category for lane in roster.lanes]
    assert [categories.count(each) for each in ("engineering", "graphics", "support", "research")] == [11, 5, 3, 5]
    assert roster.lane("ci-cd") is roster.lanes[roster.names.index("ci-cd")]
    assert roster.lane("no-such-lane") is None
    assert all(len(lane.vocabulary) >= 50 and len(lane.examples) >= 15 for lane in roster.lanes)


@pytest.mark.skipif(not (SHARED / "routing").is_dir(), reason="the shared folder is not here")
def test_the_default_roster_names_the_lanes_that_were_agreed() -> None:
    rows = [line.split("\t") for line in (SHARED / "routing" / "lanes.tsv").read_text("utf-8").splitlines()]
    assert [[lane.name, lane.category, lane.domain] for lane in Roster.default().lanes] == rows


def test_a_roster_survives_its_file_and_its_data() -> None:
    roster = Roster(name="ours", lanes=(FULL, Lane(name="b", category="c", domain="d")))
    assert parse_roster(roster_as_toml(roster), "x") == roster
    assert parse_roster(roster.as_data(), "x") == roster
    default = Roster.default()
    assert parse_roster(roster_as_toml(default), "x") == default


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@settings(max_examples=50)
@given(texts=st.lists(TEXT, max_size=3), seconds=st.none() | st.floats(0.001, 1e6))
def test_any_roster_survives_its_file(texts: list[str], seconds: float | None) -> None:
    lane = replace(FULL, examples=tuple(texts), vocabulary=tuple(texts), timeout_s=seconds, budget=None)
    roster = Roster(name="ours", lanes=(lane,))
    assert parse_roster(roster_as_toml(roster), "x") == roster


def test_the_digest_covers_every_field() -> None:
    roster = Roster(name="ours", lanes=(FULL,))
    changed = [
        replace(FULL, **{name: value})  # type: ignore[arg-type]
        for name, value in {
            "name": "other",
            "domain": "x",
            "vocabulary": (),
            "examples": (),
            "instructions": "",
            "provider": None,
            "timeout_s": 12.0,
            "permissions": (),
            "budget": None,
        }.items()
    ]
    digests = {roster.digest, *(Roster(name="ours", lanes=(lane,)).digest for lane in changed)}
    assert len(digests) == len(changed) + 1
    assert Roster(name="ours", lanes=(replace(FULL),)).digest == roster.digest


def test_lists_may_be_written_as_one_text() -> None:
    text = (
        "[[lane]]\nname = 'a'\ncategory = 'c'\ndomain = 'd'\n"
        "vocabulary = '''\njwt, refresh token,\nlogin\n'''\nexamples = '''\nfix the login, please\n\nadd sso\n'''\n"
    )
    lane = parse_roster(text, "x").lanes[0]
    assert lane.vocabulary == ("jwt", "refresh token", "login")
    assert lane.examples == ("fix the login, please", "add sso")


def test_money_in_a_budget_may_be_written_in_dollars() -> None:
    lane = parse_roster({"lane": [{**LANE, "budget": {"max_cost_usd": 0.25}}]}, "x").lanes[0]
    assert lane.budget == Budget(max_cost_usd_nano=250_000_000)


@pytest.mark.parametrize(
    ("roster", "words"),
    [
        ("lane = ", "not TOML"),
        ("", "no lanes"),
        ("lane = 3", "no lanes"),
        ("[lane]\nname = 'a'", "no lanes"),
        ({"lane": []}, "no lanes"),
        ({"agent": [LANE]}, "unknown key 'agent'"),
        ({"lane": [3]}, "number 1: must be a table"),
        ({"lane": [LANE, LANE]}, "'a' stands there twice"),
        ({"lane": [{**LANE, "name": "None"}]}, "lane 'None': the name must be"),
        ({"lane": [{**LANE, "name": "none"}]}, "reserved"),
        ({"lane": [{**LANE, "name": "a/b"}]}, "the name must be"),
        ({"lane": [{**LANE, "name": "x" * 65}]}, "the name must be"),
        ({"lane": [{**LANE, "name": 3}]}, "name must be text, not 3"),
        ({"lane": [{"name": "a", "category": "c"}]}, "lane 'a': domain is missing"),
        ({"lane": [{**LANE, "domain": " "}]}, "domain is empty"),
        ({"lane": [{**LANE, "domain": "a\nb"}]}, "one line"),
        ({"lane": [{**LANE, "exampels": []}]}, "did you mean 'examples'"),
        ({"lane": [{**LANE, "examples": [3]}]}, "not 3"),
        ({"lane": [{**LANE, "examples": {"a": 1}}]}, "not a table"),
        ({"lane": [{**LANE, "vocabulary": ["w"] * 2001}]}, "2001 items"),
        ({"lane": [{**LANE, "vocabulary": ["w" * 501]}]}, "501 characters"),
        ({"lane": [{**LANE, "instructions": "w" * 200_001}]}, "200,001 characters"),
        ({"lane": [{**LANE, "timeout_s": 0}]}, "timeout_s must be"),
        ({"lane": [{**LANE, "timeout_s": float("inf")}]}, "timeout_s must be"),
        ({"lane": [{**LANE, "timeout_s": float("nan")}]}, "timeout_s must be"),
        ({"lane": [{**LANE, "max_parallel": True}]}, "max_parallel must be"),
        ({"lane": [{**LANE, "max_parallel": 2**60}]}, "max_parallel must be"),
        ({"lane": [{**LANE, "provider": ""}]}, "provider is empty"),
        ({"lane": [{**LANE, "budget": {"max_calls": -1}}]}, "budget: max_calls must be"),
        ({"lane": [{**LANE, "budget": {"calls": 1}}]}, "did you mean 'max_calls'"),
        ({"lane": [{**LANE, "budget": {"max_cost_usd": 1, "max_cost_usd_nano": 1}}]}, "keep one"),
        ({"lane": [{**LANE, "budget": {"max_cost_usd": float("nan")}}]}, "a number of dollars above 0"),
        ({"lane": [{**LANE, "name": f"a{n}"} for n in range(1001)]}, "1,001 lanes"),
        ("#" * 8_000_001, "8,000,001 characters"),
        ("a = " + "[" * 5000, "not TOML"),
    ],
)
def test_a_wrong_roster_is_refused_with_its_place(roster: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_roster(roster, "team.toml")
    assert words in str(refused.value)
    assert str(refused.value).startswith("team.toml: ")


def test_a_policy_names_the_rule_by_which_it_refuses() -> None:
    lane = Lane(name="backend", category="engineering", domain="d")
    assert Policy().refuses(lane) is None
    assert Policy(allow_lanes=("backend",), allow_categories=("engineering",)).refuses(lane) is None
    for policy, rule in (
        (Policy(deny_lanes=("backend",)), "deny_lanes"),
        (Policy(deny_categories=("engineering",)), "deny_categories"),
        (Policy(allow_lanes=("frontend",)), "allow_lanes"),
        (Policy(allow_categories=("research",)), "allow_categories"),
        (Policy(allow_lanes=("backend",), deny_categories=("engineering",)), "deny_categories"),
    ):
        reason = policy.refuses(lane)
        assert reason is not None
        assert "'backend'" in reason
        assert reason.endswith(rule)


def test_a_policy_survives_its_data_and_refuses_what_it_does_not_know() -> None:
    policy = Policy(allow_categories=("a",), deny_lanes=("b",), max_parallel=3)
    assert parse_policy(policy.as_data(), "x") == policy
    assert parse_policy({}, "x") == Policy(max_parallel=8)
    tables: list[object] = [{"deny": []}, {"max_parallel": 0}, {"deny_lanes": [1]}, []]
    for wrong in tables:
        with pytest.raises(UsageError, match=r"hansard\.toml"):
            parse_policy(wrong, "hansard.toml: [policy]")
