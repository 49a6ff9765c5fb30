"""Codex: asked with exactly these arguments, and understood in everything that it prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Cost, Exchange, Sampling, ToolEvent, Usage
from hansard.errors import UsageError
from hansard.providers.agents.codex import open_codex
from hansard.providers.prices import Price, Prices
from providers.pretend_clis import PretendCli, codex_answers, codex_fails, failure_of, lines, pretend
from providers.programs import SEES, VERDICT, asked

OPTIONAL = {**VERDICT, "required": ["verdict"]}


@pytest.fixture
def cli(tmp_path: Path) -> PretendCli:
    codex = pretend(tmp_path / "codex", "codex")
    codex.says(codex_answers("Paris."))
    return codex


async def answer(cli: PretendCli, exchange: Exchange | None = None, **options: Any) -> Completion:
    environment = {**cli.environment, **options.pop("environment", {})}
    prices = options.pop("prices", None)
    return await open_codex("mine", options, environment, prices=prices).complete(exchange or asked())


def arguments(cli: PretendCli, *, isolated: bool = True, sandbox: str = "read-only") -> list[str]:
    isolation = ["--ephemeral", "--ignore-user-config", "--ignore-rules"] if isolated else []
    begin = ["exec", "--json", "--color", "never", "--skip-git-repo-check", "-s", sandbox, *isolation]
    return [*begin, "-C", cli.cwd, "-c", "features.unbounded_connection_retries=false"]


async def test_by_default_it_reads_only_and_leaves_nothing(cli: PretendCli) -> None:
    await answer(cli, asked("Which city?", system="Be brief."))
    assert cli.argv == [*arguments(cli), "-"]
    assert cli.stdin == b"[SYSTEM]\nBe brief.\n\n[USER]\nWhich city?"


async def test_model_effort_and_schema_are_told(cli: PretendCli) -> None:
    cli.says(codex_answers('{"verdict": "pass", "score": null}'))
    exchange = asked(schema=OPTIONAL, model="gpt-5.5", sampling=Sampling(reasoning_effort="xhigh"))
    done = await answer(cli, exchange, args=["--strict-config"])
    *begin, option, path, extra, last = cli.argv
    assert begin == [*arguments(cli), "-m", "gpt-5.5", "-c", 'model_reasoning_effort="xhigh"']
    assert (option, Path(path).name, extra, last) == ("--output-schema", "schema.json", "--strict-config", "-")
    told = json.loads(cli.files["schema.json"])
    assert (told["required"], told["additionalProperties"]) == (["verdict", "score"], False)
    # What had to be said as null was left out.
    assert done.structured == {"verdict": "pass"}


@pytest.mark.parametrize("model", ["auto", "default", "codex-default"])
async def test_its_own_choice_of_model_is_left_to_it(cli: PretendCli, model: str) -> None:
    await answer(cli, asked(model=model))
    assert cli.argv == [*arguments(cli), "-"]


async def test_a_schema_without_a_strict_form_is_told_in_words(cli: PretendCli) -> None:
    cli.says(codex_answers('Here: {"anything": 1}'))
    done = await answer(cli, asked(schema={"type": "object", "additionalProperties": {"type": "integer"}}))
    assert done.structured == {"anything": 1}
    assert "--output-schema" not in cli.argv
    assert b'"additionalProperties"' in cli.stdin


async def test_isolation_and_sandbox_can_be_changed(cli: PretendCli) -> None:
    await answer(cli, isolation=False, sandbox="workspace-write")
    assert cli.argv == [*arguments(cli, isolated=False, sandbox="workspace-write"), "-"]


async def test_it_sees_its_own_vendors_variables_and_nothing_else(cli: PretendCli) -> None:
    theirs = {"HOME": "/h", "OPENAI_API_KEY": "a", "OPENAI_BASE_URL": "b", "CODEX_API_KEY": "c", "CODEX_HOME": "d"}
    others = {
        **dict.fromkeys(
            ("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "GEMINI_API_KEY"), "x"
        ),
        **dict.fromkeys(("CLAUDECODE", "AI_AGENT", "CODEX_SANDBOX", "CODEX_THREAD_ID", "AWS_SECRET_ACCESS_KEY"), "x"),
    }
    await answer(cli, environment={**theirs, **others})
    shell = {"PATH", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    assert cli.saw.keys() - shell == theirs.keys()


async def test_an_answer_is_read_with_its_tokens_each_counted_once(cli: PretendCli) -> None:
    done = await answer(cli, asked(model="gpt-5.5"))
    assert (done.text, done.finish, done.requested_model) == ("Paris.", "stop", "gpt-5.5")
    assert done.usage == Usage(input_tokens=30, output_tokens=9, cached_tokens=4)
    assert done.cost.basis == "unmetered"


async def test_of_a_model_with_a_known_price_the_cost_is_estimated(cli: PretendCli) -> None:
    prices = Prices({"gpt-5.5": Price(input=10**9, output=2 * 10**9, cached=10**9)})
    done = await answer(cli, asked(model="gpt-5.5"), prices=prices)
    assert done.cost == Cost(usd_nano=48_000, basis="estimate")


@pytest.mark.parametrize("count", [-1, 1.5, "9", 10**10], ids=str)
async def test_tokens_that_nobody_can_have_counted_are_estimated_and_priced_as_nothing(
    cli: PretendCli, count: Any
) -> None:
    usage = {"input_tokens": count, "cached_input_tokens": 0, "output_tokens": 9}
    said = json.loads(codex_answers("Paris.").splitlines()[-1])
    assert said["type"] == "turn.completed"
    cli.says("\n".join([*codex_answers("Paris.").splitlines()[:-1], json.dumps({**said, "usage": usage})]))
    prices = Prices({"gpt-5.5": Price(input=10**9, output=10**9)})
    done = await answer(cli, asked(model="gpt-5.5"), prices=prices)
    assert done.text == "Paris."
    assert done.usage.estimated
    assert done.cost == Cost(basis="unmetered")


async def test_the_last_message_is_the_answer_and_what_it_did_is_kept(cli: PretendCli) -> None:
    items = (
        {"id": "1", "type": "reasoning", "text": "hm"},
        {"id": "2", "type": "agent_message", "text": "I will look."},
        {"id": "3", "type": "command_execution", "command": "ls", "aggregated_output": "a\n", "exit_code": 0, "status": "completed"},
        {"id": "4", "type": "command_execution", "command": "no", "aggregated_output": "?", "exit_code": 127, "status": "failed"},
        {"id": "5", "type": "error", "message": "Falling back from WebSockets"},
        {"id": "6", "type": ["of", "another", "version"]},
    )  # fmt: skip
    cli.says(codex_answers("Paris.", None, *items))
    done = await answer(cli)
    assert (done.ok, done.text) == (True, "Paris.")
    assert done.tool_events == (
        ToolEvent(name="command_execution", arguments={"command": "ls", "exit_code": 0}, result="a\n"),
        ToolEvent(name="command_execution", arguments={"command": "no", "exit_code": 127}, error="?"),
    )


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x/responses", "auth_failure"),
        ("exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"),
        ("Quota exceeded. Check your plan and billing details.", "quota_exhausted"),
        ("You've hit your usage limit. Try again at 4pm.", "quota_exhausted"),
        ("The model `gpt-9` does not exist or you do not have access to it.", "model_unavailable"),
        (
            json.dumps({"error": {"code": "context_length_exceeded", "message": "Your input exceeds the window."}}),
            "context_length_exceeded",
        ),
        ("We’re currently experiencing high demand, which may cause temporary errors.", "rate_limit"),
        ("stream disconnected before completion: error sending request", "network"),
        ("unexpected status 503 Service Unavailable", "network"),
        ("something else", "internal"),
    ],
)
async def test_every_complaint_is_one_of_the_twelve_kinds(cli: PretendCli, said: str, kind: str) -> None:
    cli.says(codex_fails(said), exit_code=1)
    assert failure_of(await answer(cli)).kind == kind


async def test_what_it_overcame_by_itself_is_no_failure(cli: PretendCli) -> None:
    cli.says(lines({"type": "error", "message": "Reconnecting... 2/5 (stream disconnected)"}) + codex_answers("Paris."))
    assert (await answer(cli)).ok


async def test_an_answer_whose_turn_was_not_completed_is_no_answer(cli: PretendCli) -> None:
    cli.says("".join(codex_answers("Paris.").splitlines(keepends=True)[:-1]))
    assert not (await answer(cli)).ok


async def test_what_is_printed_before_any_event_is_quoted(cli: PretendCli) -> None:
    cli.says("", stderr="error: unexpected argument '--bogus' found", exit_code=2)
    why = failure_of(await answer(cli))
    assert (why.kind, why.message) == ("invalid_request", "codex: error: unexpected argument '--bogus' found")


async def test_a_pause_that_is_asked_for_is_handed_on(cli: PretendCli) -> None:
    cli.says(codex_fails("Rate limit reached for gpt-5.5. Please try again in 11.054s."), exit_code=1)
    assert failure_of(await answer(cli)).retry_after_s == 11.054


def test_without_the_program_it_says_how_to_install_it() -> None:
    with pytest.raises(UsageError, match="npm install -g @openai/codex"):
        open_codex("mine", {}, {**SEES, "PATH": "/no/such/place"})
