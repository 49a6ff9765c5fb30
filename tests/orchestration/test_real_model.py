"""A whole run on a real model: a plan and verdicts in the shape that was asked for, an answer, a proof, and the same again from the record.

The model is small and knows hardly anything. What it says is not asserted; that it stands on the record is.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hansard.app.configuring import Wishes
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.verifying import verify_apart
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
TRIES = 4


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
        run={"max_tasks": 1, "max_output_tokens": 300, "timeout_s": 300},
        environment={"KEY": KEY},
    )


async def test_a_request_becomes_a_plan_verdicts_and_an_end_that_can_be_proven_and_re_run(
    model: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = settings(tmp_path, model)
    async with Hansard.open(settings=found) as hansard:
        for _ in range(TRIES):
            run = await hansard.submit(
                "Name the capital of France in one sentence.", wishes=Wishes(roster=ROSTER, max_calls=20)
            )
            ended = await run.ended()
            entries = hansard.runs.entries(run.id)
            kinds = [entry.kind for entry in entries]
            # It may happen that this model does not come to an end within its tokens; then nothing was planned.
            if "task.judged" in kinds:
                break
        assert ended.state in ("answered", "partial", "failed"), ended
        assert "plan.made" in kinds, ended
        made = entries[kinds.index("plan.made")]
        assert made.data["by"] == "coordinator"
        verdicts = [entry for entry in entries if entry.kind == "task.judged" and entry.data["by"] == "model"]
        assert verdicts, kinds
        assert all(entry.data["same_model"] is True for entry in verdicts)
        answers = [entry for entry in entries if entry.kind in ("role.answered", "task.returned")]
        assert all(entry.data["input_tokens"] > 0 for entry in answers if entry.data["ok"])
        assert any(entry.data["tokens_estimated"] is False for entry in answers)

        def refuse(*_: object, **__: object) -> None:
            raise AssertionError("a re-run went to the network")

        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", refuse)
            report = await hansard.runs.rerun(run.id)
        assert report["identical"] is True, report
    assert verify_apart(found.ledger, "--deep")["ok"] is True
