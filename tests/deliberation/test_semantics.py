"""Rules over a whole artifact: the shipped bad cases show each rule once; here is what needs more than one change or file."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hansard.deliberation.afterwards.conformance import positive_cases
from hansard.deliberation.documents import transcript_digest
from hansard.deliberation.documents.semantics import moment, semantic_breaches
from hansard.providers.schema.assertions import is_date_time

GOOD = {case.name: case.data for case in positive_cases()}
DATE, TIME = r"[0-9]{4}-[01][0-9]-[0-3][0-9]", r"[0-2][0-9]:[0-5][0-9]:[0-6][0-9](\.[0-9]{1,9})?"
TIMES = st.from_regex(rf"{DATE}[Tt]{TIME}([Zz]|[+-][0-2][0-9]:[0-5][0-9])", fullmatch=True)
SYNTHESIS, TERMINATION = "an artifact with a synthesis", "an artifact with a termination"


def artifact(name: str = SYNTHESIS) -> dict[str, Any]:
    return deepcopy(GOOD[name])


def resealed(data: dict[str, Any]) -> dict[str, Any]:
    """With the digest of what the transcript now says, as a forger would leave it."""
    data["transcript_digest"] = transcript_digest(data["canonical_transcript"])
    if ending := data["outcome"].get("termination_artifact"):
        ending["transcript_digest"] = data["transcript_digest"]
    return data


def rules(data: object, **beside: Any) -> list[str]:
    return [breach.rule for breach in semantic_breaches(data, **beside)]


@pytest.mark.parametrize("name", [SYNTHESIS, TERMINATION])
def test_a_good_artifact_breaks_no_rule(name: str) -> None:
    manifest = {
        SYNTHESIS: GOOD["a manifest of a complete session"],
        TERMINATION: GOOD["a manifest of a terminated session"],
    }[name]
    assert rules(artifact(name), manifest=manifest, config=artifact(name)["config"], secrets=["hunter2"]) == []


def test_what_is_no_artifact_is_one_breach() -> None:
    assert len(semantic_breaches({})) == 1
    assert len(semantic_breaches(None)) == 1


@pytest.mark.requirement("R-5.10-2")
def test_an_artifact_of_another_session_than_its_config_is_told() -> None:
    assert rules({**artifact(), "session_id": "garden-2"}) == ["R-5.10-2"]


@given(st.data(), st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just({}))
def test_no_change_to_an_artifact_makes_the_check_crash(data: st.DataObject, value: object) -> None:
    changed = artifact(data.draw(st.sampled_from([SYNTHESIS, TERMINATION])))
    place: Any = changed
    while True:
        step = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not place[step] or not isinstance(place[step], dict | list) or data.draw(st.booleans()):
            break
        place = place[step]
    place[step] = value
    assert all(breach.rule for breach in semantic_breaches(changed, manifest=value, config=value, secrets=["x"]))


@pytest.mark.requirement("R-7.7-1", "R-7.7-2")
@given(st.data())
def test_a_digest_over_anything_but_the_stored_transcript_is_told(data: st.DataObject) -> None:
    changed = artifact()
    message = data.draw(st.sampled_from(changed["canonical_transcript"]))
    message["timestamp"] = "2026-05-01T10:00:05Z"
    expected = changed["transcript_digest"] != transcript_digest(changed["canonical_transcript"])
    assert ("R-7.7-1" in rules(changed)) == expected


def test_a_transcript_that_has_no_digest_is_told_and_not_a_crash() -> None:
    changed = artifact()
    changed["canonical_transcript"][1]["content"]["direct_requests"][1]["content"] = {"n": 2**60}
    assert "R-7.7-1" in rules(changed)


@pytest.mark.requirement("R-5.10-1")
def test_swapped_messages_are_told_even_when_the_digest_was_made_anew() -> None:
    changed = artifact()
    transcript = changed["canonical_transcript"]
    transcript[1], transcript[3] = transcript[3], transcript[1]
    assert "R-5.10-1" in rules(resealed(changed))


@pytest.mark.requirement("R-4.10-3", "R-4.2-3")
def test_a_turn_after_the_coordinator_is_told() -> None:
    changed = artifact()
    transcript = changed["canonical_transcript"]
    late = {**transcript[3], "id": "late", "turn_index": 5}
    transcript[5]["turn_index"] = 6
    transcript.insert(5, late)
    assert "R-4.10-3" in rules(resealed(changed))


@pytest.mark.requirement("R-4.2-3")
def test_a_round_that_opens_before_the_last_one_closed_is_told() -> None:
    changed = artifact(TERMINATION)
    changed["canonical_transcript"][2]["round"] = 2
    assert "R-4.2-3" in rules(resealed(changed))


@pytest.mark.requirement("R-4.10-2")
def test_an_agent_that_speaks_twice_in_one_round_is_told() -> None:
    changed = artifact()
    changed["canonical_transcript"][3]["speaker"] = "gardener"
    assert "R-4.10-2" in rules(resealed(changed))


def test_with_a_selector_the_first_round_shows_the_order() -> None:
    changed = artifact()
    changed["config"]["selector"] = {**GOOD["a configuration"]["selector"], "strategy": "rules"}
    changed["config"]["selector"]["default_deliberation_panel"] = ["baker", "gardener"]
    assert rules(changed) == []


@pytest.mark.requirement("R-4.10-5", "R-4.5-4")
def test_a_branch_of_a_branch_is_told() -> None:
    changed = artifact()
    branch = changed["canonical_transcript"][2]
    changed["canonical_transcript"][3] = {**branch, "id": "m3", "turn_index": 3, "parent_id": "m2"}
    assert "R-4.10-5" in rules(resealed(changed))


@pytest.mark.requirement("R-5.10-1", "R-4.8-1")
def test_an_outcome_that_the_transcript_does_not_bear_out_is_told() -> None:
    without = artifact()
    del without["canonical_transcript"][-1]
    assert "R-5.10-1" in rules(resealed(without))
    both = artifact()
    ending = {**GOOD["a termination by a failure"], "cumulative_usage": both["cumulative_usage"], "final_round": 1}
    ending |= {"most_recent_verdict": GOOD["a verdict to finish"], "transcript_digest": both["transcript_digest"]}
    both["outcome"] = {"kind": "termination", "termination_artifact": ending}
    assert "R-4.8-1" in rules(both)


@pytest.mark.requirement("R-4.4-4")
def test_a_termination_that_asks_what_no_verdict_asked_is_told() -> None:
    changed = artifact(TERMINATION)
    changed["outcome"]["termination_artifact"] |= {"reason": "external_research_required"}
    del changed["outcome"]["termination_artifact"]["pending_user_input_request"]
    changed["outcome"]["termination_artifact"]["pending_external_research_request"] = {"query": "soil"}
    assert "R-4.4-4" in rules(changed)


@pytest.mark.requirement("R-4.4-4")
def test_a_termination_for_another_reason_than_the_last_verdict_is_told() -> None:
    changed = artifact(TERMINATION)
    ending = changed["outcome"]["termination_artifact"]
    ending["reason"] = "user_cancel"
    del ending["pending_user_input_request"]
    assert rules(changed) == [], "a person may cancel, or a budget end, after any verdict"


@pytest.mark.requirement("R-2.7-2", "R-7.1-2")
@pytest.mark.parametrize(
    ("member", "value"),
    [("transcript_digest", "0" * 64), ("session_id", "another"), ("status", "crashed")],
)
def test_a_manifest_that_says_something_else_is_told(member: str, value: str) -> None:
    manifest = {**GOOD["a manifest of a complete session"], member: value}
    assert rules(artifact(), manifest=manifest)


@pytest.mark.requirement("R-7.1-2")
def test_a_config_file_that_differs_is_told() -> None:
    config = artifact()["config"]
    assert rules(artifact(), config={**config, "problem_statement": "Another?"}) == ["R-7.1-2"]
    assert rules(artifact(), config={**config, "budget": {**config["budget"], "max_total_cost_usd": 0.50}}) == []


@pytest.mark.requirement("R-8.9-2")
def test_a_credential_anywhere_in_an_artifact_is_told_with_its_place() -> None:
    changed = artifact()
    changed["canonical_transcript"][1]["content"]["text"] += " (sk-hunter2)"
    found = semantic_breaches(resealed(changed), secrets=["sk-hunter2", ""])
    assert [(breach.rule, breach.path) for breach in found] == [("R-8.9-2", "/canonical_transcript/1/content/text")]


def test_usage_where_there_was_no_call_is_told() -> None:
    changed = artifact()
    changed["canonical_transcript"][0]["usage"]["prompt_tokens"] = 1
    changed["canonical_transcript"][1]["usage"]["prompt_tokens"] -= 1
    assert "§5.4" in rules(resealed(changed))


def placed(data: object) -> list[tuple[str, str]]:
    return [(breach.rule, breach.path) for breach in semantic_breaches(data)]


@pytest.mark.requirement("R-4.1-3")
def test_a_transcript_that_does_not_begin_with_its_one_problem_is_told() -> None:
    without, twice = artifact(), artifact()
    del without["canonical_transcript"][0]
    assert ("R-4.1-3", "/canonical_transcript/0/type") in placed(resealed(without))
    twice["canonical_transcript"].insert(1, {**twice["canonical_transcript"][0], "id": "again"})
    assert ("R-4.1-3", "/canonical_transcript/1/type") in placed(resealed(twice))


@pytest.mark.requirement("R-4.5-2", "R-4.4-1")
@pytest.mark.parametrize(
    ("index", "speaker", "rule"),
    [(1, "stranger", "R-4.5-2"), (2, "stranger", "R-4.5-2"), (4, "baker", "R-4.4-1"), (5, "baker", "R-4.4-1")],
)
def test_whoever_may_not_speak_there_is_told(index: int, speaker: str, rule: str) -> None:
    changed = artifact()
    changed["canonical_transcript"][index]["speaker"] = speaker
    assert (rule, f"/canonical_transcript/{index}/speaker") in placed(resealed(changed))


@pytest.mark.requirement("R-4.10-2")
def test_an_agent_that_leaves_in_a_turn_that_it_had_is_told() -> None:
    changed = artifact(TERMINATION)
    leaving = {**GOOD["an agent leaves the panel"], "id": "left", "round": 1, "turn_index": 4}
    leaving["content"] = {**leaving["content"], "agent_id": "gardener"}
    leaving["timestamp"] = changed["canonical_transcript"][2]["timestamp"]
    changed["canonical_transcript"][3]["turn_index"] = 5
    changed["canonical_transcript"].insert(3, leaving)
    assert ("R-4.10-2", "/canonical_transcript/3/speaker") in placed(resealed(changed))


@pytest.mark.requirement("R-9.9-1")
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens", "total_tokens", "cost_usd"])
def test_each_sum_that_is_none_is_told(name: str) -> None:
    changed = artifact()
    changed["cumulative_usage"][name] += 1
    assert placed(changed) == [("R-9.9-1", "/cumulative_usage")]


@pytest.mark.requirement("R-5.10-1")
def test_a_synthesis_that_is_not_the_last_word_is_told() -> None:
    changed = artifact()
    transcript = changed["canonical_transcript"]
    transcript[4:] = [{**transcript[5], "turn_index": 4}, {**transcript[4], "turn_index": 5}]
    assert ("R-5.10-1", "/outcome/synthesis_message_id") in placed(resealed(changed))


def test_a_session_that_ended_before_any_verdict_breaks_no_rule() -> None:
    changed = artifact(TERMINATION)
    spent = changed["canonical_transcript"].pop()["usage"]
    ending = changed["outcome"]["termination_artifact"]
    ending["reason"] = "user_cancel"
    del ending["pending_user_input_request"], ending["most_recent_verdict"]
    for name, value in spent.items():
        changed["cumulative_usage"][name] -= value
    ending["cumulative_usage"] = changed["cumulative_usage"]
    assert placed(resealed(changed)) == []


@pytest.mark.parametrize(
    ("final", "most", "told"), [(1, 2, False), (2, 2, False), (0, 2, True), (3, 5, True), (2, 1, True)]
)
def test_the_last_round_is_the_one_that_was_reached_or_the_next_of_those_there_are(
    final: int, most: int, told: bool
) -> None:
    changed = artifact(TERMINATION)
    changed["config"]["budget"]["max_rounds"] = most
    changed["outcome"]["termination_artifact"]["final_round"] = final
    assert placed(changed) == [("§5.8", "/outcome/termination_artifact/final_round")] * told


def test_every_time_that_lies_before_an_earlier_one_is_told() -> None:
    changed = artifact()
    changed["canonical_transcript"][2]["timestamp"] = "2026-05-01T09:00:00Z"
    changed["canonical_transcript"][3]["timestamp"] = "2026-05-01T10:00:00.5Z"
    changed["ended_at"] = "2026-05-01T10:00:04Z"
    wanted = ["/canonical_transcript/2/timestamp", "/canonical_transcript/3/timestamp", "/ended_at"]
    assert placed(resealed(changed)) == [("§5.10 times", path) for path in wanted]


@given(TIMES)
def test_every_time_that_is_accepted_can_be_compared(text: str) -> None:
    if text.isascii() and is_date_time(text):
        assert moment(text) >= moment("0001-01-01T00:00:00+23:59")
