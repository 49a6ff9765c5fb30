"""Our runtime beside the reference runtime: its tools on our directories, ours on its, and both schedulers on random scripts."""

import asyncio
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import reference_runtime
from deliberating import PANEL, Heard, Room, config, fails, play, says, script, synthesis, turn, verdict
from hansard.deliberation.afterwards.replay import transcript_replay
from hansard.deliberation.afterwards.validate import directory_breaches
from hansard.deliberation.documents import Config
from hansard.deliberation.metrics import metrics_of
from hansard.deliberation.protocol.moves import Ask
from hansard.deliberation.protocol.rules import Rules
from hansard.domain.exchange import ErrorKind

requirement = pytest.mark.requirement
PRODUCER = {"name": "symposium-py", "version": "1.0.0"}
Case = tuple[Config, list[Heard]]
ROUND: list[Heard] = [turn(), turn(), turn()]
CASES: dict[str, Case] = {
    "plain": (config(), [*ROUND, verdict("finalize"), synthesis()]),
    "fork, defer, drain": (
        config(),
        [turn("ben", "cyd"), turn(), turn(), turn(), verdict(), turn(), *ROUND, verdict("finalize"), synthesis()],
    ),
    "overflow": (
        config(max_deferred_queue_length=1),
        [turn("ben", "cyd", "ben", "cyd"), *ROUND, verdict("finalize"), synthesis()],
    ),
    "unroutable": (config(), [turn("nobody", "chair", "ada"), turn(), turn(), verdict("finalize"), synthesis()]),
    "rounds are over": (config(budget={"max_rounds": 1}), [*ROUND, verdict()]),
    "asks the user": (config(), [*ROUND, verdict("request_user_input")]),
    "asks for research": (config(), [*ROUND, verdict("request_external_research")]),
}


def figures(path: Path) -> dict[str, Any]:
    """What was measured; it counts requests in the queue that could never be routed."""
    return {name: value for name, value in json.loads(path.read_bytes()).items() if name != "deferred_queue_length_max"}


@requirement("R-7.5-2", "R-7.7-3", "R-9.3-1")
@pytest.mark.parametrize(
    "name",
    ["fork, defer, drain", *(pytest.param(name, marks=pytest.mark.long) for name in CASES if "fork" not in name)],
)
def test_its_tools_accept_our_directories(name: str, tmp_path: Path) -> None:
    wanted, heard = CASES[name]
    room, answers = Room(), tmp_path / "script.json"
    held = room.hold(wanted, heard, setting={"shape": "reference"}, runs=tmp_path, producer=PRODUCER)
    asyncio.run(held)
    answers.write_text(json.dumps(script(heard).as_data()))
    # Two of its commands write into the directory that they look at.
    folder = Path(shutil.copytree(tmp_path / "s-1", tmp_path / "copy" / "s-1"))
    told = [
        reference_runtime.command("validate", folder / "artifact.json"),
        reference_runtime.command("replay", folder),
        reference_runtime.command("metrics", folder, "--output", tmp_path / "metrics.json"),
        reference_runtime.command(
            *("execution-replay", folder, "--script", answers, "--output", tmp_path / "again"), "--assume-cache-cleared"
        ),
    ]
    assert [each.returncode for each in told] == [0] * 4, [each.stderr for each in told]
    assert figures(tmp_path / "metrics.json") == figures(folder / "metrics.json")


def chosen_by(strategy: str) -> dict[str, Any]:
    """A configuration whose panel is selected, for a problem that calls for evidence."""
    data = config().as_data()
    data["selector"] |= {"strategy": strategy, "selector_budget": {"max_tokens": 500}}
    data["problem_statement"] = "What is the evidence for this risk?"
    for agent in data["agents"][:2]:
        agent["persona_ref"]["reasoning_scope"] = "evidence-based"
    return data


@pytest.mark.parametrize(
    "strategy",
    ["fixed", pytest.param("rules", marks=pytest.mark.long), pytest.param("llm", marks=pytest.mark.long)],
)
def test_our_tools_agree_with_its_directories(strategy: str, tmp_path: Path) -> None:
    open_ = [{"topic": "cost", "positions": [{"agent": "ada", "claim": "high"}]}]
    first = (
        [turn("ben", "cyd", "nobody"), turn(), turn(), turn()]
        if strategy == "fixed"
        else [turn("ben", "cyd"), turn(), turn()]
    )
    second = [turn(), turn(), turn(), turn()] if strategy == "fixed" else [turn(), turn()]
    answers = [*first, verdict(unresolved=open_), *second, verdict("finalize"), synthesis()]
    choice = says({"strategy": "llm", "selected_agents": ["ada", "ben"], "coordinator_agent": "chair"})
    files = {
        "config.json": chosen_by(strategy),
        "script.json": script(answers).as_data(),
        "selector.json": script([choice]).as_data(),
    }
    for name, data in files.items():
        (tmp_path / name).write_text(json.dumps(data))
    told = reference_runtime.command(
        *("run", "--config", tmp_path / "config.json", "--output", tmp_path / "runs"),
        *("--script", tmp_path / "script.json", "--selector-script", tmp_path / "selector.json"),
    )
    assert told.returncode == 0, told.stderr
    folder = tmp_path / "runs" / "s-1"
    artifact = json.loads((folder / "artifact.json").read_bytes())
    assert artifact["outcome"]["kind"] == "synthesis"
    assert transcript_replay(artifact).matches
    assert reference_runtime.command("metrics", folder).returncode == 0
    assert metrics_of(artifact).items() >= figures(folder / "metrics.json").items()
    # It sums up disagreements that were settled since; its own schema says that the two lists mirror each other [W-30].
    assert {each.path for each in directory_breaches(folder)} <= {"/cumulative_unresolved"}


def some_case(chance: random.Random) -> Case:
    budget: dict[str, Any] = {
        "max_rounds": chance.randrange(1, 5),
        "max_total_tokens": chance.choice([60, 300, 100_000]),
    }
    if chance.random() < 0.3:
        budget["per_agent_token_budget"] = {chance.choice((*PANEL, "chair")): chance.choice([15, 40])}
    given = config(
        budget=budget,
        max_deferred_queue_length=chance.randrange(4),
        max_deferred_drains_per_round=chance.choice([0, 1, 1, 2]),
        on_agent_failure=chance.choice(["terminate", "continue_without"]),
        per_agent_retry_budget=chance.randrange(3),
    )
    kinds: tuple[ErrorKind, ...] = (
        "network",
        "rate_limit",
        "auth_failure",
        "internal",
        "content_filter",
        "malformed_response",
    )

    def answer(ask: Ask) -> Heard:
        tokens = chance.choice([0, 1, 5, 20])
        if chance.random() < 0.08:
            return fails(chance.choice(kinds))
        if ask.expect == "turn_structured_output":
            asked = [chance.choice((*PANEL, "chair", "nobody")) for _ in range(chance.choice([0, 0, 0, 1, 2, 3]))]
            return turn(*asked, tokens=tokens)
        actions = ("continue", "continue", "continue", "finalize", "request_user_input", "request_external_research")
        return verdict(chance.choice(actions), tokens=tokens) if ask.expect == "verdict" else synthesis(tokens=tokens)

    return given, play(Rules.of(given), answer).heard


def comparable(artifact: dict[str, Any], *, places: bool, annotations: bool) -> list[dict[str, Any]]:
    """The messages without what the two runtimes word differently [A-16]."""
    found = []
    for message in artifact["canonical_transcript"]:
        kept = {name: value for name, value in message.items() if name != "timestamp"}
        kept["schema_failure"] = [each["offending_request"] for each in message.get("schema_failure", ())]
        if not places:
            del kept["turn_index"]
        if not annotations:
            for name in ("schema_failure", "dropped_deferred"):
                kept.pop(name, None)
        found.append(kept)
    return found


def reason(artifact: dict[str, Any]) -> str:
    ending = artifact["outcome"].get("termination_artifact")
    return str(ending["reason"]) if ending else "synthesis"


def unexplained(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """How two artifacts differ beyond the known faults of the reference."""
    lost = any(message["type"] == "panel_contraction" for message in ours["canonical_transcript"])
    outcomes = (reason(ours), reason(theirs))
    # It decides on all requests of a turn at once: also where the turn ends the session, or a fork loses a target (§4.11).
    ended = outcomes[0] not in {"synthesis", "user_input_required", "external_research_required"}
    # A lost agent takes two of its turn indices [W-3].
    how = {"places": not lost, "annotations": not ended and not lost}
    said, heard = comparable(ours, **how), comparable(theirs, **how)
    if outcomes == ("budget_exceeded", "synthesis"):
        # It looks at no cap after the synthesis [W-8].
        return None if said == heard[:-1] else "before the synthesis"
    if outcomes == ("schema_error", "provider_unrecoverable"):
        # It has one reason for every failure of the coordinator under continue_without [W-5].
        return None if said == heard else "before the coordinator failed"
    if outcomes[0] != outcomes[1]:
        return f"outcome {outcomes}"
    first = next((at for at, (one, other) in enumerate(zip(said, heard, strict=False)) if one != other), None)
    if first is not None:
        return f"message {first}: {said[first]} / {heard[first]}"
    return None if len(said) == len(heard) else f"{len(said)} messages / {len(heard)}"


@requirement("R-4.10-7", "R-9.3-1")
@pytest.mark.parametrize(
    ("seed", "count"), [(1, 50), pytest.param(2, 450, marks=pytest.mark.long)], ids=["fifty", "the rest"]
)
def test_both_schedulers_make_the_same_of_random_scripts(seed: int, count: int) -> None:
    chance = random.Random(seed)
    cases = [some_case(chance) for _ in range(count)]
    theirs = reference_runtime.schedule(
        [{"config": given.as_data(), "script": script(heard).as_data()} for given, heard in cases]
    )
    same = 0
    for (given, heard), their in zip(cases, theirs, strict=True):
        our = asyncio.run(Room().hold(given, heard, setting={"shape": "reference"})).artifact
        assert unexplained(our, their) is None, given.as_data()
        exact = {"places": True, "annotations": True}
        same += comparable(our, **exact) == comparable(their, **exact)
    # Most of them must be the same to the letter, or the excuses excuse too much.
    assert same > count * 0.6
