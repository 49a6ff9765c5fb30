"""A whole run on a real model: a plan and verdicts in the shape that was asked for, an answer, a proof, and the same again from the record.

The model is small and knows hardly anything. What it says is not asserted; that it stands on the record is.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansard.app.ledgers.verifying import verify_apart
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.roster import Lane, Roster
from providers.small_model import KEY, Served, model_server

pytestmark = pytest.mark.real_model

ROSTER = Roster(
    name="small",
    lanes=(
        Lane(name="writing", category="text", domain="Short texts"),
        Lane(name="facts", category="text", domain="Facts in one sentence"),
    ),
)
TRIES = 5
QUESTION = "What is the capital of France? Answer in one sentence."


@pytest.fixture(scope="module")
def model() -> Iterator[Served]:
    with model_server() as served:
        yield served


def settings(folder: Path, served: Served) -> Settings:
    table = {
        "kind": "openai",
        "base_url": f"{served.url}/v1",
        "model": "smollm2",
        "server": "llama.cpp",
        "api_key_env": "KEY",
        "unmetered": True,
        "max_concurrent": 2,
    }
    return Settings(
        ledger=str(folder / "l.db"),
        state=folder / "state",
        providers={"small": table},
        # One task: a model of this size cannot keep two apart.
        run={"max_tasks": 1, "max_output_tokens": 500, "timeout_s": 300},
        environment={"KEY": KEY},
    )


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("a re-run went to the network")


async def re_run(hansard: Hansard, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same decisions from the record alone, with the network refused."""
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        report = await hansard.runs.rerun(run)
    assert report["identical"] is True, report


async def test_a_request_becomes_a_plan_in_its_shape_that_can_be_proven_and_re_run(
    model: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path, model)
    async with Hansard.open(settings=found) as hansard:
        for _ in range(TRIES):
            run = await hansard.submit(QUESTION, wishes=Wishes(roster=ROSTER, max_calls=20))
            await run.ended()
            entries = {entry.kind: entry for entry in hansard.runs.entries(run.id)}
            # It may happen that this model does not come to an end within its tokens; then nothing was planned.
            if "plan.made" in entries:
                break
        assert entries["plan.made"].data["by"] == "coordinator"
        assert "task.returned" in entries
        await re_run(hansard, run.id, monkeypatch)
    assert verify_apart(found.ledger, deep=True)["ok"] is True


async def test_a_result_is_judged_by_a_verdict_in_its_shape_and_the_run_ends(
    model: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path, model)
    async with Hansard.open(settings=found) as hansard:
        for _ in range(TRIES):
            run = await hansard.submit(QUESTION, lane="facts", wishes=Wishes(roster=ROSTER))
            ended = await run.ended()
            entries = hansard.runs.entries(run.id)
            verdicts = [entry for entry in entries if entry.kind == "task.judged" and entry.data["by"] == "model"]
            if verdicts:
                break
        assert verdicts, ended
        assert all(entry.data["same_model"] is True for entry in verdicts)
        assert ended.state == ("answered" if verdicts[-1].data["ok"] else "failed")
        answers = [entry for entry in entries if entry.kind in ("role.answered", "task.returned")]
        assert all(entry.data["tokens_estimated"] is False for entry in answers)
        await re_run(hansard, run.id, monkeypatch)
    assert verify_apart(found.ledger, deep=True)["ok"] is True
