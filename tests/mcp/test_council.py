"""Deliberations over MCP that experts join as they are needed."""

from pathlib import Path
from typing import Any

import pytest

from deliberating import config
from hansard.app.setup.wishes import Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted
from mcp_clients import called, client_of, desk_in, refused

NONE: dict[str, Any] = {"resolved_disagreements": [], "unresolved_disagreements": []}
SETTLED = {"rationale": "r", "confidence": 0.5, "focus": "the soil", "next_agents": [], **NONE}
EXPERT = {
    "id": "Soil Scientist",
    "reasoning_scope": "what the soil bears",
    "reasoning_style": "measures first",
    "behavioral_constraints": ["Give numbers."],
    "failure_modes": ["Forgets the weather."],
    "output_requirements": ["A number."],
    "domain_scope": ["soil"],
    "delegates": [],
}


def answers(*actions: dict[str, Any]) -> Scripted:
    """Everybody says something; the coordinator's verdicts are these, one after another."""
    said = {"structured": {"text": "I think so."}}
    turns = [{"match": {"schema": "turn_structured_output"}, **said} for _ in range(40)]
    verdicts = [{"match": {"schema": "verdict"}, "structured": {**SETTLED, **each}} for each in actions]
    experts = [{"match": {"schema": "expert"}, "structured": EXPERT} for _ in range(4)]
    ends = [{"match": {"schema": "synthesis_content"}, "structured": {"integrated_answer": "Dig.", **NONE}}]
    return Scripted(Script.of({"entries": [*turns, *verdicts, *experts, *ends]}), id="panel")


RESEARCH = {"next_action": "request_external_research", "external_research_request": {"query": "How deep is the soil?"}}
QUESTION = {"next_action": "request_user_input", "user_input_request": {"question": "How wide?"}}
FINALIZE = {"next_action": "finalize"}


async def test_a_session_that_asks_for_research_goes_on_with_an_expert(tmp_path: Path) -> None:
    asked = {"problem": "Where to build?", "panel": ["critic", "engineer"], "experts": ["somebody for bridges"]}
    async with desk_in(tmp_path, answers(RESEARCH, FINALIZE)) as desk, client_of(desk) as client:
        held = await called(client, "deliberate_adaptive", asked)
        assert (held["outcome"], held["expansions"]) == ("synthesis", 1)
        first, second = held["sessions"]
        assert first["termination_reason"] == "external_research_required"
        assert first["selected_agents"] == ["critic", "engineer", "soil-scientist"]
        assert second["selected_agents"] == ["critic", "engineer", "soil-scientist", "soil-scientist-2"]
        assert held["final"] == second
        assert second["synthesis_answer"] == "Dig."
        surfaces = [desk.hansard.runs.views(each["run"])[0]["data"]["surface"] for each in held["sessions"]]
        assert surfaces == ["mcp", "mcp"]


async def test_a_session_that_asks_a_person_is_answered_and_another_goes_on_from_it(tmp_path: Path) -> None:
    asked = {"problem": "Where to build?", "panel": ["critic"]}
    async with desk_in(tmp_path, answers(QUESTION, FINALIZE)) as desk, client_of(desk) as client:
        first = await called(client, "deliberate", asked)
        assert (first["termination_reason"], first["pending"]) == ("user_input_required", {"question": "How wide?"})
        assert "give answer, or experts" in await refused(client, "deliberate_continue", {"run": first["run"]})
        second = await called(client, "deliberate_continue", {"run": first["run"], "answer": "Nine metres."})
        assert (second["outcome"], "> Nine metres." in second["problem"]) == ("synthesis", True)
        assert desk.hansard.runs.views(second["run"])[0]["data"]["surface"] == "mcp"
        over = await refused(client, "deliberate_continue", {"run": second["run"], "answer": "x"})
        assert "asks for nothing" in over


async def test_a_chain_ends_when_it_has_gone_on_often_enough(tmp_path: Path) -> None:
    asked = {"problem": "Where to build?", "panel": ["critic"], "max_expansions": 1}
    steps: list[float] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with desk_in(tmp_path, answers(RESEARCH, RESEARCH, FINALIZE)) as desk, client_of(desk) as client:
        held = await called(client, "deliberate_adaptive", asked, progress_callback=told)
        assert (held["expansions"], held["termination_reason"]) == (1, "external_research_required")
    assert sorted(steps) == [float(each) for each in range(1, len(steps) + 1)], "it grows from one session to the next"


async def test_a_session_stays_under_what_the_flags_allow(tmp_path: Path) -> None:
    wishes = Wishes(provider="rehearsal", max_tokens=1000, max_usd="0.50", max_seconds=90.5)
    async with desk_in(tmp_path, wishes=wishes) as desk, client_of(desk) as client:
        for asked, tokens in (({}, 1000), ({"max_total_tokens": 10**9}, 1000), ({"max_total_tokens": 500}, 500)):
            run = (await called(client, "deliberate", {"problem": "Where to build?", **asked}))["run"]
            given = (await called(client, "run_show", {"run": run}))["budget"]
            assert given == {
                "max_calls": None,
                "max_tokens": tokens,
                "max_cost_usd_nano": 500_000_000,
                "max_seconds": 90,
            }


async def test_a_session_makes_no_more_calls_than_the_flags_allow_and_says_what_was_cut(tmp_path: Path) -> None:
    wishes = Wishes(provider="rehearsal", max_calls=3, max_tokens=100_000)
    async with desk_in(tmp_path, wishes=wishes) as desk, client_of(desk) as client:
        view = await called(client, "deliberate", {"problem": "Where to build?"})
        assert (view["termination_reason"], view["messages"]) == ("provider_unrecoverable", 4)
        assert view["cut"] == ["max_total_tokens is 100,000 and not 500,000: more is not allowed here"]


def experts(*entries: dict[str, Any]) -> Scripted:
    """Makes personas, as these entries say; each takes 1,000 tokens and a tenth of a dollar."""
    usage = {"input_tokens": 900, "output_tokens": 100}
    return Scripted(
        Script.of({"entries": [{"usage": usage, "cost_usd_nano": 10**8, **each} for each in entries]}), id="panel"
    )


WRONG, RIGHT = {"structured": {**EXPERT, "failure_modes": []}}, {"structured": EXPERT}


@pytest.mark.parametrize(
    ("limits", "entries", "unit", "calls"),
    [
        # Nothing is left for the first call.
        ({"max_calls": 0}, [RIGHT], "calls", 0),
        ({"max_tokens": 100}, [RIGHT], "tokens", 0),
        # Something is, and nothing for the correction.
        ({"max_calls": 1}, [WRONG, RIGHT], "calls", 1),
        ({"max_tokens": 1_200}, [WRONG, RIGHT], "tokens", 1),
        ({"max_usd": "0.15"}, [WRONG, WRONG, RIGHT], "dollars", 2),
        # The call itself goes beyond it.
        ({"max_tokens": 999}, [RIGHT], "tokens", 1),
        ({"max_usd": "0.09"}, [RIGHT], "dollars", 1),
        ({"max_seconds": 1}, [{**RIGHT, "latency_s": 60}], "seconds", 1),
    ],
)
async def test_a_persona_is_made_within_every_limit_of_the_host(
    tmp_path: Path, limits: dict[str, Any], entries: list[dict[str, Any]], unit: str, calls: int
) -> None:
    maker = experts(*entries)
    wishes = Wishes(provider="panel", **limits)
    async with desk_in(tmp_path, maker, wishes=wishes) as desk, client_of(desk) as client:
        said = await refused(client, "generate_persona", {"need": "somebody for bridges"})
        assert f"the {unit} that this run may take are used up" in said
        [run] = (await called(client, "runs_list", {}))["runs"]
        shown = desk.hansard.runs.show(run["run"])
        assert (shown["state"], shown["reason"]) == ("stopped", "budget_exceeded")
        entries_ = desk.hansard.runs.views(run["run"])
        asked = [each for each in entries_ if each["kind"] == "role.asked"]
        assert len(asked) == entries_[-1]["data"]["calls"] == shown["spent"]["calls"] == calls
        assert [each["data"]["accepted"] for each in entries_ if each["kind"] == "persona.made"] == [False]


async def test_a_persona_is_made_with_just_enough(tmp_path: Path) -> None:
    wishes = Wishes(provider="panel", max_calls=2, max_tokens=2_000, max_usd="0.2")
    async with desk_in(tmp_path, experts(WRONG, RIGHT), wishes=wishes) as desk, client_of(desk) as client:
        made = await called(client, "generate_persona", {"need": "somebody for bridges"})
        assert made["persona"]["id"] == "soil-scientist"
        spent = desk.hansard.runs.show(made["run"])["spent"]
        assert (spent["calls"], spent["tokens"], spent["cost_usd_nano"]) == (2, 2_000, 2 * 10**8)


async def test_an_id_that_names_no_directory_is_refused_whatever_lies_there(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        for id in ("/etc/shadow", "../out", "x" * 300):
            named = {"config": {**config().as_data(), "session_id": id}}
            assert "cannot be a session's id" in await refused(client, "deliberate", named)
        assert (await called(client, "runs_list", {}))["runs"] == []


async def test_a_summary_follows_no_link_out_of_the_project(tmp_path: Path) -> None:
    inside = tmp_path / "project"
    (inside / "runs" / "evil").mkdir(parents=True)
    (tmp_path / "secret.json").write_text('{"canonical_transcript": [], "outcome": "secret"}')
    (inside / "runs" / "evil" / "artifact.json").symlink_to(tmp_path / "secret.json")
    async with desk_in(inside) as desk, client_of(desk) as client:
        said = await refused(client, "get_run_summary", {"run_dir": "runs/evil"})
        assert "outside of the project's folder" in said


@pytest.mark.parametrize("text", ['{"canonical_transcript":[5],"outcome":5}', "{}", "[]", '{"outcome":{"kind":"x"}}'])
async def test_a_summary_of_what_is_no_artifact_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "runs" / "odd").mkdir(parents=True)
    (tmp_path / "runs" / "odd" / "artifact.json").write_text(text)
    async with desk_in(tmp_path) as desk, client_of(desk) as client:
        assert "is no artifact" in await refused(client, "get_run_summary", {"run_dir": "runs/odd"})
