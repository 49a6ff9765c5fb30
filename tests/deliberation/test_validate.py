"""Validation of whole directories: ours pass, and every row of the tamper matrix is seen even where there is no seal."""

import asyncio
import json
import os
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import symposium
from deliberating import PANEL, Heard, Room, config, fails, says, script, scripted, synthesis, turn, verdict
from hansard.deliberation.afterwards.validate import artifact_breaches, directory_breaches
from hansard.deliberation.documents import Config
from hansard.deliberation.documents.reading import MAX_BYTES
from hansard.deliberation.documents.scripting import neutral_script
from hansard.domain.exchange import Completion, Exchange
from hansard.providers.scripted import Scripted

requirement = pytest.mark.requirement
ANSWERS: list[Heard] = [
    *(turn("ben", "cyd", "nobody"), turn("cyd"), turn(), turn(), verdict()),
    *(turn(), turn(), fails("auth_failure"), turn(), verdict("finalize"), synthesis()),
]


async def held(runs: Path, **more: Any) -> Path:
    sitting = await Room().hold(config(on_agent_failure="continue_without"), ANSWERS, runs=runs, **more)
    assert sitting.directory is not None
    return sitting.directory


async def test_a_directory_of_ours_keeps_every_rule(tmp_path: Path) -> None:
    assert directory_breaches(await held(tmp_path)) == []


@pytest.mark.parametrize(
    "answers",
    [
        ANSWERS,
        [turn("cyd", "ben"), fails("auth_failure"), turn(), verdict("finalize"), synthesis()],
        [turn(), turn("ada"), fails("auth_failure"), turn(), verdict("finalize"), synthesis()],
        [
            turn("ben", "cyd"),
            turn(),
            turn(),
            turn(),
            verdict(),
            fails("auth_failure"),
            turn(),
            turn(),
            verdict("finalize"),
        ],
    ],
)
async def test_a_directory_in_the_shape_of_the_reference_keeps_every_rule_too(
    tmp_path: Path, answers: list[Heard]
) -> None:
    """Also where somebody has left in a branch: that shape does not tell where."""
    given, shape = config(on_agent_failure="continue_without"), {"shape": "reference"}
    sitting = await Room().hold(given, [*answers, synthesis()], setting=shape, runs=tmp_path)
    assert directory_breaches(tmp_path / "s-1") == []
    left = next(each for each in sitting.artifact["canonical_transcript"] if each["type"] == "panel_contraction")
    left["content"]["agent_id"] = "ada" if left["content"]["agent_id"] == "ben" else "ben"
    assert {"R-4.9-6"} <= {each.rule for each in artifact_breaches(sitting.artifact)}


@requirement("R-4.9-6")
async def test_whoever_leaves_in_a_branch_does_so_under_the_message_that_asked_him() -> None:
    answers: list[Heard] = [turn("ben"), fails("auth_failure"), turn(), verdict("finalize"), synthesis()]
    artifact = (await Room().hold(config(on_agent_failure="continue_without"), answers)).artifact
    assert artifact_breaches(artifact) == []
    artifact["canonical_transcript"][2] |= {"branch_depth": 0, "parent_id": None}
    assert "R-4.5-3" in {each.rule for each in artifact_breaches(artifact)}


async def test_a_panel_that_a_model_chose_is_known_from_its_selection(tmp_path: Path) -> None:
    data = config().as_data()
    data["selector"] |= {"strategy": "llm", "selector_budget": {"max_tokens": 500}}
    chosen = says({"selected_agents": ["cyd", "ada"]})
    sitting = await Room().hold(
        Config.parse(data),
        [turn(), turn(), verdict("finalize"), synthesis()],
        setting={"selector": scripted([chosen])},
        runs=tmp_path,
    )
    assert directory_breaches(tmp_path / "s-1") == []
    assert artifact_breaches(sitting.artifact) == []
    assert artifact_breaches(sitting.artifact, panel=["ada", "cyd"])


@pytest.mark.parametrize("target", [[], {}, None, 7])
async def test_a_request_that_was_refused_may_have_any_target(target: Any) -> None:
    data = config().as_data()
    data["selector"] |= {"strategy": "llm", "selector_budget": {"max_tokens": 500}}
    chosen = says({"selected_agents": list(PANEL)})
    answers = [turn("nobody"), turn(), turn(), verdict("finalize"), synthesis()]
    artifact = (await Room().hold(Config.parse(data), answers, setting={"selector": scripted([chosen])})).artifact
    artifact["canonical_transcript"][1]["schema_failure"][0]["offending_request"]["target"] = target
    assert {each.rule for each in artifact_breaches(artifact)} == {"R-7.7-1", "R-4.5-5"}


@pytest.mark.parametrize("of_a_message", [False, True])
async def test_a_cost_of_more_digits_than_any_number_has_is_a_breach(of_a_message: bool) -> None:
    artifact = (await Room().hold(config(), [turn(), turn(), verdict("finalize"), synthesis()])).artifact
    spender = artifact["canonical_transcript"][1]["usage"] if of_a_message else artifact["cumulative_usage"]
    spender["cost_usd"] = 10**400
    assert any(each.message.startswith("must be a number") for each in artifact_breaches(artifact))


@pytest.mark.parametrize(
    "answers",
    [
        [turn("ben"), fails("auth_failure"), turn(), verdict("finalize"), synthesis()],
        [turn("cyd"), turn(), turn(tokens=1000)],
        [turn("cyd", "ben", "dan"), turn(tokens=1000)],
        [turn("dan", "cyd"), turn(), turn("dan", "cyd", tokens=1000)],
        [*[fails("auth_failure")] * 3],
    ],
    ids=["left in a branch", "answered", "waits", "undecided", "left one by one"],
)
async def test_of_an_artifact_alone_a_member_is_known_who_came_to_no_turn_of_his_own(
    answers: list[Heard],
) -> None:
    await check_alone(answers, on_agent_failure="continue_without")


@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize(
    "answers",
    [
        [fails("auth_failure")],
        [turn(), fails("malformed_response", retriable=False)],
        [turn("cyd"), fails("auth_failure")],
        [turn("dan", "cyd"), turn(), fails("auth_failure")],
    ],
)
async def test_of_an_artifact_alone_a_member_is_known_with_whose_failure_it_ended(
    answers: list[Heard], saves: bool
) -> None:
    await check_alone(answers, synthesize_on_terminate=saves)
    await check_alone([*answers, synthesis()], synthesize_on_terminate=saves)


async def check_alone(answers: list[Heard], **knobs: Any) -> None:
    data = config((*PANEL, "dan"), budget={"max_total_tokens": 500}, **knobs).as_data()
    data["selector"] |= {"strategy": "llm", "selector_budget": {"max_tokens": 500}}
    chosen = says({"selected_agents": list(PANEL)})
    sitting = await Room().hold(Config.parse(data), answers, setting={"selector": scripted([chosen])})
    assert artifact_breaches(sitting.artifact) == []


@pytest.mark.parametrize(
    "change",
    [
        {"selected_agents": ["ada", "ben"]},
        {"selected_agents": ["ada", "ben", "cyd", "nobody"]},
        {"coordinator_agent": "ada"},
        {"strategy": "llm"},
    ],
)
async def test_a_selection_is_held_against_the_config_that_it_was_made_for(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = await held(tmp_path)
    (folder / "seal.json").unlink()
    rewritten(folder, "selector_output.json", lambda said: said["selector_output"].update(change))
    assert [each.document for each in directory_breaches(folder)] == ["SelectorOutput"]


async def test_a_panel_that_the_config_fixes_is_not_what_a_file_beside_it_says(tmp_path: Path) -> None:
    folder = await held(tmp_path)
    (folder / "seal.json").unlink()
    for name in ("artifact.json", "config.json"):
        rewritten(
            folder,
            name,
            lambda data: data.get("config", data)["selector"].update(default_deliberation_panel=["ada", "ben"]),
        )
    assert {each.rule for each in directory_breaches(folder)} >= {"R-4.1-4", "R-4.10-3"}


@pytest.mark.parametrize("name", ["worked_example_artifact.json", "budget_breach_artifact.json"])
def test_the_published_artifacts_keep_the_rules(name: str) -> None:
    assert artifact_breaches(symposium.example(name)) == []


def rewritten(folder: Path, name: str, change: Any) -> None:
    data = json.loads((folder / name).read_bytes())
    change(data)
    (folder / name).write_text(json.dumps(data))


ROWS: dict[str, tuple[str, Any]] = {
    "message text": ("artifact.json", lambda a: a["canonical_transcript"][1]["content"].update(text="Never.")),
    "message usage": ("artifact.json", lambda a: a["canonical_transcript"][1]["usage"].update(total_tokens=1)),
    "cost": ("artifact.json", lambda a: a["cumulative_usage"].update(cost_usd=9.0)),
    "unresolved": (
        "artifact.json",
        lambda a: a.update(cumulative_unresolved=[{"topic": "t", "positions": [{"agent": "a", "claim": "c"}]}]),
    ),
    "problem": ("artifact.json", lambda a: a["config"].update(problem_statement="Another")),
    "model": ("artifact.json", lambda a: a["config"]["coordinator"].update(model="other")),
    "budget": ("artifact.json", lambda a: a["config"]["budget"].update(max_rounds=99)),
    "session": ("artifact.json", lambda a: a.update(session_id="other")),
    "no synthesis": ("artifact.json", lambda a: a["outcome"].update(synthesis_message_id="msg-999")),
    "a turn": ("artifact.json", lambda a: a["outcome"].update(synthesis_message_id="msg-001")),
    "swapped": ("artifact.json", lambda a: a["canonical_transcript"].insert(1, a["canonical_transcript"].pop(2))),
    "started": ("artifact.json", lambda a: a.update(started_at="yesterday")),
    "ended": ("artifact.json", lambda a: a.update(ended_at="yesterday")),
    "version": ("artifact.json", lambda a: a.update(schema_version="9.9.9")),
    "manifest digest": ("manifest.json", lambda m: m.update(transcript_digest="0" * 64)),
    "manifest status": ("manifest.json", lambda m: m.update(status="crashed")),
    "config problem": ("config.json", lambda c: c.update(problem_statement="Another")),
    "config model": ("config.json", lambda c: c["coordinator"].update(model="other")),
}


@requirement("R-5.1-2", "R-5.1-3", "R-5.10-1", "R-5.10-2", "R-7.1-2")
@pytest.mark.parametrize("row", ROWS)
async def test_every_row_of_the_tamper_matrix_is_seen_without_a_seal(row: str, tmp_path: Path) -> None:
    folder = await held(tmp_path)
    (folder / "seal.json").unlink()
    rewritten(folder, *ROWS[row])
    assert directory_breaches(folder)


async def test_a_termination_that_was_made_up_is_seen(tmp_path: Path) -> None:
    folder = await held(tmp_path)
    made_up = {
        "schema_version": "1.0.0",
        "reason": "budget_exceeded",
        "final_round": 2,
        "cumulative_usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost_usd": 0},
        "unresolved_disagreements": [],
        "transcript_digest": "0" * 64,
    }
    rewritten(
        folder, "artifact.json", lambda a: a.update(outcome={"kind": "termination", "termination_artifact": made_up})
    )
    assert directory_breaches(folder)


def ended_in(folder: Path, round: int) -> list[str]:
    """What is said of a directory in which another round is told as the last one."""
    rewritten(folder, "artifact.json", lambda a: a["outcome"]["termination_artifact"].update(final_round=round))
    return [each.path for each in directory_breaches(folder)]


@pytest.mark.parametrize("asked", [1, 4, 5])
async def test_a_session_that_was_cancelled_ended_in_the_round_in_which_somebody_was_asked_last(
    asked: int, tmp_path: Path
) -> None:
    cancel, calls = asyncio.Event(), count(1)

    class Host(Scripted):
        async def complete(self, exchange: Exchange) -> Completion:
            if next(calls) == asked:
                cancel.set()
                await asyncio.sleep(60)
            return await super().complete(exchange)

    spoken = Host(neutral_script(script([turn(), turn(), turn(), verdict(), turn()])), id="fake")
    sitting = await Room().hold(config(), spoken, runs=tmp_path, cancel=cancel)
    assert sitting.reason == "user_cancel"
    last = 2 if asked == 5 else 1
    (tmp_path / "s-1" / "seal.json").unlink()
    wrong = "/outcome/termination_artifact/final_round"
    assert [wrong in ended_in(tmp_path / "s-1", round) for round in range(4)] == [each != last for each in range(4)]


async def test_a_session_whose_panel_was_asked_and_never_answered_ended_in_its_first_round(tmp_path: Path) -> None:
    artifact = (await Room().hold(config(), [fails("auth_failure")])).artifact
    assert artifact_breaches(artifact) == []
    artifact["outcome"]["termination_artifact"]["final_round"] = 0
    assert [each.path for each in artifact_breaches(artifact)] == ["/outcome/termination_artifact/final_round"]
    del artifact["outcome"]["termination_artifact"]["last_provider_failure"]
    assert artifact_breaches(artifact)


async def test_a_session_that_ended_over_its_configuration_opened_no_round() -> None:
    data = config().as_data()
    data["selector"]["coordinator_agent"] = "ada"
    artifact = (await Room().hold(Config.parse(data), [turn()])).artifact
    artifact["outcome"]["termination_artifact"]["final_round"] = 1
    assert [each.path for each in artifact_breaches(artifact)] == ["/outcome/termination_artifact/final_round"]


@requirement("R-4.1-4", "R-8.1-2")
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["selector"].update(coordinator_agent="ada"),
        lambda c: c["agents"].append(c["agents"][0]),
        lambda c: c["agents"].append({**c["agents"][0], "id": "chair"}),
        lambda c: c["agents"][0].update(tools=[{"name": "search"}]),
        lambda c: [
            c[name].update(selector_budget={"max_tokens": at}) for at, name in enumerate(("selector", "budget"))
        ],
    ],
)
async def test_a_session_that_was_held_under_a_configuration_that_allows_for_none_is_seen(change: Any) -> None:
    artifact = (await Room().hold(config(on_agent_failure="continue_without"), ANSWERS)).artifact
    change(artifact["config"])
    assert {each.document for each in artifact_breaches(artifact)} == {"Config"}


@requirement("R-4.1-3")
async def test_a_session_that_ended_over_its_configuration_broke_no_rule() -> None:
    data = config().as_data()
    data["selector"]["coordinator_agent"] = "ada"
    artifact = (await Room().hold(Config.parse(data), [turn()])).artifact
    assert artifact["outcome"]["termination_artifact"]["reason"] == "schema_error"
    assert artifact_breaches(artifact) == []


OPEN = [{"topic": topic, "positions": [{"agent": "ada", "claim": "no"}]} for topic in ("soil", "seed")]


@requirement("R-4.8-5")
@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (OPEN, True),
        (OPEN[1:], True),
        (OPEN[:1], False),
        ([], False),
        ([*OPEN, {**OPEN[0], "topic": "rain"}], False),
        ([OPEN[0], {**OPEN[1], "positions": [{"agent": "ada", "claim": "yes"}]}], False),
    ],
)
async def test_a_termination_leaves_open_what_the_verdicts_did(told: list[Any], kept: bool) -> None:
    rounds = [
        turn(),
        turn(),
        turn(),
        verdict(unresolved=OPEN[:1]),
        turn(),
        turn(),
        turn(),
        verdict(unresolved=OPEN[1:]),
    ]
    artifact = (await Room().hold(config(), [*rounds, fails("auth_failure")])).artifact
    artifact["outcome"]["termination_artifact"]["unresolved_disagreements"] = told
    artifact["cumulative_unresolved"] = told
    assert [each.rule for each in artifact_breaches(artifact)] == ([] if kept else ["R-4.8-5"])


async def test_a_failure_of_whom_the_configuration_does_not_have_is_seen() -> None:
    artifact = (await Room().hold(config(), [fails("auth_failure")])).artifact
    artifact["outcome"]["termination_artifact"]["last_provider_failure"]["provider"] = "another"
    assert [each.rule for each in artifact_breaches(artifact)] == ["§5.8"]


@requirement("R-7.1-1")
async def test_a_session_whose_id_can_name_no_directory_is_seen() -> None:
    artifact = (await Room().hold(config(), ANSWERS[:1])).artifact
    artifact["session_id"] = artifact["config"]["session_id"] = "../s-1"
    assert [each.rule for each in artifact_breaches(artifact)] == ["R-7.1-1"]


@pytest.mark.parametrize("content", [b"", b"garbage\n", b"[]\n", b'{"id": 1}\n'])
async def test_a_journal_that_was_replaced_is_seen(content: bytes, tmp_path: Path) -> None:
    folder = await held(tmp_path)
    (folder / "seal.json").unlink()
    (folder / "transcript.jsonl").write_bytes(content)
    assert [each.document for each in directory_breaches(folder)] == ["transcript.jsonl"]


CONTENTS = (
    b"",
    b"nothing",
    b"[]",
    b'{"a": 1, "a": 2}',
    b'{"canonical_transcript": 7}',
    b'{"files": []}',
    b'{"files": 5}',
)


def _said_before(journal: bytes) -> bytes:
    first, second, rest = journal.split(b"\n", 2)
    return b"\n".join((first, second.replace(b"I think so", b"I never said"), second, rest))


@pytest.mark.parametrize(
    "change",
    [_said_before, lambda journal: journal + b"more", lambda journal: journal.replace(b'"round":1', b'"round":true')],
    ids=["other words before", "torn", "true for 1"],
)
async def test_a_journal_says_nothing_else_than_the_transcript(tmp_path: Path, change: Any) -> None:
    folder = await held(tmp_path)
    (folder / "seal.json").unlink()
    journal = folder / "transcript.jsonl"
    journal.write_bytes(change(before := journal.read_bytes()))
    assert journal.read_bytes() != before
    assert [each.document for each in directory_breaches(folder)] == ["transcript.jsonl"]


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("name", ["artifact.json", "manifest.json", "config.json", "selector_output.json", "seal.json"])
async def test_no_content_of_any_file_makes_it_fail(name: str, content: bytes, tmp_path: Path) -> None:
    folder = await held(tmp_path)
    (folder / name).write_bytes(content)
    assert directory_breaches(folder)


@pytest.mark.parametrize("name", ["artifact.json", "transcript.jsonl", "seal.json"])
async def test_a_file_of_holes_is_told_by_its_size_and_not_read(name: str, tmp_path: Path) -> None:
    folder = await held(tmp_path)
    os.truncate(folder / name, MAX_BYTES + 1)
    assert any(f"it is larger than {MAX_BYTES} bytes" in each.message for each in directory_breaches(folder))


@pytest.mark.parametrize(
    "name", ["artifact.json", "manifest.json", "config.json", "selector_output.json", "seal.json", "transcript.jsonl"]
)
async def test_a_pipe_in_the_place_of_a_file_is_seen_and_not_waited_for(name: str, tmp_path: Path) -> None:
    folder = await held(tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert directory_breaches(folder)


@pytest.mark.parametrize(("name", "member"), [("seal.json", "files"), ("transcript.jsonl", "speaker")])
async def test_a_file_with_two_readings_is_a_breach(tmp_path: Path, name: str, member: str) -> None:
    folder = await held(tmp_path)
    if name != "seal.json":
        (folder / "seal.json").unlink()
    written = (folder / name).read_bytes()
    (folder / name).write_bytes(b'{"%b":"other",' % member.encode() + written.removeprefix(b"{"))
    [breach] = directory_breaches(folder)
    assert (breach.document, f"{member!r} stands twice" in breach.message) == (name, True)


def test_a_directory_that_is_none_is_a_breach_and_no_crash(tmp_path: Path) -> None:
    assert len(directory_breaches(tmp_path)) == 1
    shutil.rmtree(tmp_path)
    assert len(directory_breaches(tmp_path)) == 1
