"""The figures of §9.10 and the postmortem, each against a session that was counted by hand."""

import json
from collections.abc import Sequence
from typing import Any

from deliberating import Heard, Room, config, fails, says, scripted, synthesis, turn, verdict
from hansard.app.archived.evaluating import Held, short
from hansard.deliberation.afterwards.evaluation import evaluation_of, postmortem_of
from hansard.deliberation.documents import Config
from hansard.deliberation.events import event_of, line_of
from hansard.deliberation.story import read_story

SPLIT = {"topic": "when", "positions": [{"agent": "ada", "claim": "now"}, {"agent": "ben", "claim": "never"}]}
OTHER = {"topic": "where", "positions": [{"agent": "cyd", "claim": "here"}]}
LAWYER = {
    "persona_class": "domain",
    "id": "ada",
    "reasoning_scope": "law",
    "reasoning_style": "careful",
    "behavioral_constraints": ["cite"],
    "failure_modes": ["slow"],
    "domain_scope": ["law"],
    "forbidden_domains": ["Tax", "medicine"],
    "must_delegate": {"Tax": "ben", "medicine": "cyd"},
}


def bound() -> Config:
    """The usual panel, where ada is bound to a domain."""
    data = config().as_data()
    data["agents"][0]["persona_ref"] = LAWYER
    return Config.parse(data)


def asks(text: str, *requests: tuple[str, str]) -> Heard:
    made = [{"target": to, "type": kind, "content": "?"} for to, kind in requests]
    return says({"text": text, **({"direct_requests": made} if made else {})})


async def held(given: Config, answers: Sequence[Heard]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The artifact, and the events as the record tells them."""
    room = Room()
    artifact = (await room.hold(given, list(answers))).artifact
    told = read_story(room.store, room.run).told
    return artifact, [json.loads(line_of(event)) for each in told if (event := event_of(each.seq, each.fact))]


# Round 1: ada speaks of tax, and asks ben for it (V1); ben answers; ben asks ada twice, of which one waits.
# Round 2: ada's waiting answer; ada speaks of medicine and leaves it to nobody (V1, V2); cyd asks somebody unknown (V3).
SESSION: list[Heard] = [
    asks("The tax is the point.", ("ben", "delegation")),
    asks("As for that, yes."),
    asks("I have two questions.", ("ada", "question"), ("ada", "critique")),
    asks("Here is one answer."),
    asks("Nothing from me."),
    verdict(unresolved=[SPLIT, OTHER]),
    asks("And the other answer."),
    asks("Medicine says no."),
    asks("I stay with it."),
    asks("Ask the oracle.", ("oracle", "question")),
    verdict("finalize", unresolved=[SPLIT]),
    synthesis(),
]


async def test_role_purity_counts_each_broken_rule_once_per_turn() -> None:
    artifact, _ = await held(bound(), SESSION)
    # ada: 4 turns (two of them branches), violations V1 + V1 + V2; cyd: 2 turns, V3.
    assert evaluation_of(artifact)["role_purity_score"] == {"ada": 0.25, "ben": 1.0, "cyd": 0.5}


async def test_an_agent_that_never_spoke_has_no_purity() -> None:
    artifact, _ = await held(config(), [fails("auth_failure")])
    assert evaluation_of(artifact)["role_purity_score"] == {"ada": None, "ben": None, "cyd": None}


async def test_disagreements_are_counted_by_round_and_on_average() -> None:
    artifact, _ = await held(bound(), SESSION)
    found = evaluation_of(artifact)
    assert found["disagreement_per_round"] == [{"round": 1, "count": 2}, {"round": 2, "count": 1}]
    assert found["disagreement_frequency"] == 1.5


async def test_the_interaction_graph_has_every_request_and_the_share_of_delegations() -> None:
    artifact, _ = await held(bound(), SESSION)
    found = evaluation_of(artifact)
    assert found["interaction_graph"]["nodes"] == ["ada", "ben", "cyd", "chair"]
    assert found["interaction_graph"]["edges"] == [
        {"speaker": "ada", "target": "ben", "type": "delegation", "count": 1},
        {"speaker": "ben", "target": "ada", "type": "critique", "count": 1},
        {"speaker": "ben", "target": "ada", "type": "question", "count": 1},
        {"speaker": "cyd", "target": "oracle", "type": "question", "count": 1},
    ]
    assert found["delegation_frequency"] == 0.25


async def test_without_requests_no_share_is_delegated() -> None:
    artifact, _ = await held(config(), [turn(), turn(), turn(), verdict("finalize"), synthesis()])
    found = evaluation_of(artifact)
    assert (found["delegation_frequency"], found["interaction_graph"]["edges"]) == (0.0, [])


async def test_the_time_to_the_end_is_in_whole_seconds() -> None:
    artifact, _ = await held(config(), [turn(), turn(), turn(), verdict("finalize"), synthesis()])
    # Six messages, five seconds apart, and the end five seconds behind the last one or with it.
    began, ended = artifact["started_at"], artifact["ended_at"]
    artifact["started_at"], artifact["ended_at"] = "2026-01-01T00:00:00.900Z", "2026-01-01T00:01:01.100Z"
    assert evaluation_of(artifact)["time_to_finalize"] == 60
    assert began < ended


async def test_retries_and_failures_come_from_the_events() -> None:
    answers: list[Heard] = [
        fails("network"),
        fails("rate_limit"),
        turn(),
        fails("malformed_response"),
        turn(),
        turn(),
        fails("network"),
        verdict("finalize"),
        synthesis(),
    ]
    artifact, events = await held(config(), answers)
    found = evaluation_of(artifact, events)
    assert found["retries_per_agent"] == {"ada": 2, "ben": 1, "chair": 1}
    assert found["failures_per_agent"] == {
        "ada": {"network": 1, "rate_limit": 1},
        "ben": {"malformed_response": 1},
        "chair": {"network": 1},
    }
    assert evaluation_of(artifact)["retries_per_agent"] is None


async def test_a_postmortem_names_violations_gaps_and_who_contributed() -> None:
    artifact, _ = await held(bound(), SESSION)
    found = postmortem_of(artifact)
    assert [(each["agent"], each["evidence"][:2]) for each in found["scope_violations"]] == [
        ("ada", "V1"),
        ("ada", "V1"),
        ("ada", "V2"),
        ("cyd", "V3"),
    ]
    gaps = {each["missing_capability"]: each for each in found["capability_gaps"]}
    assert set(gaps) == {"oracle", "when"}
    assert len(gaps["when"]["evidence"]) == 2
    assert found["correct_agents_selected"] is False
    assert found["best_contributors"] == [
        {"agent": "ada", "contribution_score": 4.0},
        {"agent": "ben", "contribution_score": 3.0},
        {"agent": "cyd", "contribution_score": 1.0},
    ]


async def test_agents_who_say_the_same_overlap() -> None:
    same = "Every message should be signed before delivery"
    answers = [turn(text=same), turn(text=f"{same} too"), turn(text="Otherwise nothing matters much")]
    artifact, _ = await held(config(), [*answers, verdict("finalize"), synthesis()])
    [overlap] = postmortem_of(artifact)["agent_overlap"]
    assert overlap["agents"] == ["ada", "ben"]


async def test_a_request_for_research_is_a_gap() -> None:
    answers = [turn(), turn(), turn(), verdict("request_external_research")]
    artifact, _ = await held(config(), answers)
    assert [each["missing_capability"] for each in postmortem_of(artifact)["capability_gaps"]] == ["what is known?"]


async def test_of_a_panel_that_was_chosen_those_are_looked_for_who_sat_there() -> None:
    data = config().as_data()
    data["selector"] |= {"strategy": "llm", "selector_budget": {"max_tokens": 500}}
    choosing = {"selector": scripted([says({"selected_agents": ["cyd", "ada"]})])}
    answers = [turn(), turn(), verdict("finalize"), synthesis()]
    artifact = (await Room().hold(Config.parse(data), answers, setting=choosing)).artifact
    assert postmortem_of(artifact)["correct_agents_selected"] is True
    assert short(Held(artifact=artifact, events=None))["agents"] == ["cyd", "ada"]
