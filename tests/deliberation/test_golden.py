"""The protocol's own golden case, its worked example and its budget breach come out of our scheduler, digest by digest."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import symposium
from deliberating import Room, agent, config, fails, result, script, synthesis, turn, verdict
from hansard.deliberation.afterwards.golden import GoldenRun, read_case, recorded, run_case
from hansard.deliberation.afterwards.replay import transcript_replay
from hansard.errors import UsageError
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

requirement = pytest.mark.requirement
GOLDEN = "66db8894ca3eee7335b4ffe87006957b972efc1de1b948171d15c8942ebbb654"
WORKED = "f26b6aad4de1860893eab0a177330c9fb564b18f7011598ea968da3d306e7270"
BREACH = "4c70f86e970e98ecf118d2a85f5ee2df0b6c56d097036fc26cc4982074293294"


def fake(given: Script) -> Scripted:
    return Scripted(given, id="fake", one_at_a_time=True)


async def run(case: dict[str, Any]) -> GoldenRun:
    async with Room() as pen:
        return await run_case(case, fake, pen)


def as_case(artifact: dict[str, Any]) -> dict[str, Any]:
    """An artifact as a golden case: the script is what its messages say."""
    entries = [
        {
            "result": {
                "messages": [],
                "tool_events": [],
                "usage": message["usage"],
                "finish_reason": "stop",
                "structured_output": message["content"],
                "raw": None,
                "error": None,
            }
        }
        for message in artifact["canonical_transcript"][1:]
    ]
    return {
        "schema_version": "1.0.0",
        "case_id": artifact["session_id"],
        "problem_statement": artifact["config"]["problem_statement"],
        "config": artifact["config"],
        "fake_script": {"schema_version": "1.0.0", "entries": entries},
        "expected_artifact": artifact,
    }


@requirement("R-2.11-1", "R-9.3-1", "R-9.4-1", "R-9.4.1-1", "R-9.4.1-2")
async def test_the_published_golden_case_comes_out_with_its_digest() -> None:
    case = symposium.example("golden_test_case_example.json")
    done = await run(case)
    assert done.differs is None
    assert done.produced.digest == GOLDEN
    assert done.produced.artifact == case["expected_artifact"]


@requirement("R-9.3-1", "R-7.7-3", "R-9.9-1")
@pytest.mark.parametrize(
    ("name", "digest"), [("worked_example_artifact.json", WORKED), ("budget_breach_artifact.json", BREACH)]
)
async def test_the_published_artifacts_come_out_of_their_own_answers(name: str, digest: str) -> None:
    artifact = symposium.example(name)
    done = await run(as_case(artifact))
    assert done.differs is None
    assert done.produced.digest == digest
    expected = {name: value for name, value in artifact["cumulative_usage"].items() if name != "estimated"}
    assert done.produced.artifact["cumulative_usage"] == expected
    assert done.produced.artifact["outcome"]["kind"] == artifact["outcome"]["kind"]


async def ours() -> dict[str, Any]:
    """A golden case of our own, which needs nobody's files."""
    answers = [turn("ben"), turn("cyd"), turn(), turn(), verdict("finalize"), synthesis()]
    sitting = await Room().hold(config(), answers)
    return {**as_case(sitting.artifact), "fake_script": script(answers).as_data()}


@requirement("R-9.3-1", "R-4.10-7", "R-9.1-1")
async def test_a_case_of_ours_comes_out_twice_with_the_same_digest() -> None:
    case = await ours()
    assert (await run(case)).matches
    assert (await run(case)).differs is None


async def test_a_case_that_expects_something_else_shows_the_first_difference_and_can_be_recorded_anew() -> None:
    case = await ours()
    case["fake_script"]["entries"][1] = {"result": result(turn(text="Something else."))}
    done = await run(case)
    assert not done.matches
    assert "message 2" in str(done.differs)
    assert (await run(recorded(case, done))).matches


def write_case(folder: Path, data: dict[str, Any]) -> None:
    folder.mkdir()
    parts = {name: data[name] for name in ("config", "fake_script", "expected_artifact")}
    rest = {name: value for name, value in data.items() if name not in parts}
    for name, written in {"case": rest, **parts}.items():
        (folder / f"{name}.json").write_text(json.dumps(written, ensure_ascii=False), "utf-8")


@requirement("R-9.4-3")
async def test_a_case_as_a_directory_is_the_same_case(tmp_path: Path) -> None:
    case = await ours()
    write_case(tmp_path / "case", case)
    assert read_case(tmp_path / "case") == case


async def test_a_case_with_two_readings_or_a_pipe_in_it_is_refused(tmp_path: Path) -> None:
    case = await ours()
    folder = tmp_path / "case"
    write_case(folder, case)
    whole = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(whole.replace(b"{", b'{"session_id": "other",', 1))
    with pytest.raises(UsageError, match="'session_id' stands twice"):
        read_case(folder)
    (folder / "config.json").write_bytes(b"[]")
    with pytest.raises(UsageError, match=r"config\.json: it holds no object"):
        read_case(folder)
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match=r"config\.json: No such file"):
        read_case(folder)
    os.mkfifo(folder / "config.json")
    with pytest.raises(UsageError, match=r"config\.json: it is no file"):
        read_case(folder)


@requirement("R-9.4-2")
async def test_a_case_that_contradicts_itself_is_refused() -> None:
    case = await ours()
    with pytest.raises(UsageError, match="problem_statement"):
        await run({**case, "problem_statement": "Another one?"})
    wrong = {**case["expected_artifact"], "transcript_digest": "0" * 64}
    with pytest.raises(UsageError, match="expected artifact"):
        await run({**case, "expected_artifact": wrong})


@requirement("R-9.2-1", "R-9.1-1")
async def test_a_scripted_answer_that_misses_the_schema_is_malformed_like_any_other() -> None:
    bad = turn()
    bad.content["text"] = 7  # type: ignore[index]
    sitting = await Room().hold(config(per_agent_retry_budget=0), [bad])
    assert sitting.reason == "schema_error"


@requirement("R-7.5-1", "R-7.5-2", "R-9.8-1", "R-7.7-1")
async def test_a_published_transcript_is_replayed_to_its_digest() -> None:
    for name, digest in (("worked_example_artifact.json", WORKED), ("budget_breach_artifact.json", BREACH)):
        replayed = transcript_replay(symposium.example(name))
        assert replayed.matches
        assert replayed.digest == digest


def test_agents_of_the_tests_are_agents_of_the_protocol() -> None:
    assert config().agents[0].as_data() == agent("ada")


async def test_a_case_whose_looping_script_leads_to_no_end_is_refused() -> None:
    """Its clock is pinned, so no time ends it."""
    artifact = (await Room().hold(config(("ada",)), [turn(), verdict("finalize"), synthesis()])).artifact
    case = as_case(artifact)
    case["config"] = config(("ada",), per_agent_retry_budget=10**9).as_data()
    case["fake_script"] = script([fails("network")], on_exhaustion="loop").as_data()
    with pytest.raises(UsageError, match="loops"):
        await run(case)
