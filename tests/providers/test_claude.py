"""Claude Code: asked with exactly these arguments, and understood in everything that it prints."""

import json
from pathlib import Path
from typing import Any

import pytest

from hansard.domain.exchange import Completion, Cost, Exchange, Limits, Message, Sampling, ToolEvent, Usage
from hansard.errors import UsageError
from hansard.providers.agents import cli as agent_cli
from hansard.providers.agents.claude import open_claude
from providers.pretend_clis import (
    VERSION,
    PretendCli,
    claude_fails,
    claude_init,
    claude_result,
    claude_says,
    failure_of,
    lines,
    pretend,
)
from providers.programs import SEES, VERDICT, asked

ISOLATION = [
    "--setting-sources",
    "",
    "--disable-slash-commands",
    "--strict-mcp-config",
    "--mcp-config",
    '{"mcpServers":{}}',
]
BEGINNING = ["-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"]
PARIS = lines(
    claude_init(), claude_says({"type": "text", "text": "Paris."}), claude_result("Paris.", stop_reason="end_turn")
)
STRUCTURED = {"type": "tool_use", "id": "t1", "name": "StructuredOutput", "input": {"verdict": "pass", "score": 7}}


@pytest.fixture
def cli(tmp_path: Path) -> PretendCli:
    claude = pretend(tmp_path / "claude", "claude")
    claude.says(PARIS)
    return claude


async def answer(cli: PretendCli, exchange: Exchange | None = None, **options: Any) -> Completion:
    environment = {**cli.environment, **options.pop("environment", {})}
    return await open_claude("mine", options, environment).complete(exchange or asked())


async def test_a_program_that_does_not_say_its_version_is_asked_all_the_same(
    cli: PretendCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = cli.folder / "bin" / "claude"
    program.write_text(program.read_text().replace(f'echo "{VERSION}"', "sleep 600"))
    monkeypatch.setattr(agent_cli, "VERSION_TIMEOUT_S", 0.3)
    done = await answer(cli)
    assert (done.text, done.fingerprint) == ("Paris.", "unknown (it did not say within 0.3 s)")


async def test_by_default_it_is_only_a_model(cli: PretendCli) -> None:
    await answer(cli, asked("Which city?"))
    assert cli.argv == [*BEGINNING, *ISOLATION, "--tools", ""]
    assert cli.stdin == b"Which city?"


async def test_model_effort_system_prompt_and_schema_are_told(cli: PretendCli) -> None:
    exchange = Exchange(
        messages=(Message(role="system", content="Be brief. SECRET PLAN."), Message(role="user", content="Judge.")),
        model="opus",
        schema={"$schema": "https://json-schema.org/draft/2020-12/schema", **VERDICT},
        sampling=Sampling(reasoning_effort="high", temperature=0.1),
        limits=Limits(timeout_s=20, max_output_tokens=77),
    )
    await answer(cli, exchange, model="sonnet")
    *begin, option, path, flag, schema = cli.argv
    assert begin == [*BEGINNING, *ISOLATION, "--tools", "", "--model", "opus", "--effort", "high"]
    assert (option, Path(path).name, flag) == ("--system-prompt-file", "system.txt", "--json-schema")
    # With "$schema" in it the real one passes over the schema without a word.
    assert json.loads(schema) == VERDICT
    assert cli.files["system.txt"] == "Be brief. SECRET PLAN."
    assert cli.stdin == b"Judge."
    assert "SECRET" not in " ".join(cli.argv)
    assert cli.saw["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "77"


async def test_an_effort_that_it_does_not_know_is_passed_over(cli: PretendCli) -> None:
    await answer(cli, asked(sampling=Sampling(reasoning_effort="minimal")))
    assert "--effort" not in cli.argv


async def test_isolation_can_be_switched_off(cli: PretendCli) -> None:
    await answer(cli, asked(system="Be brief."), isolation=False)
    assert cli.argv[:-1] == [*BEGINNING, "--tools", "", "--append-system-prompt-file"]
    assert "CLAUDE_CODE_SAFE_MODE" not in cli.saw


async def test_bare_is_opted_into(cli: PretendCli) -> None:
    await answer(cli, bare=True)
    assert cli.argv == [*BEGINNING, "--bare", *ISOLATION, "--tools", ""]


async def test_as_an_agent_it_has_tools_and_keeps_its_own_instructions(cli: PretendCli) -> None:
    await answer(
        cli, asked(system="Be brief."), tools=["Read", "Edit"], permission_mode="acceptEdits", args=["--betas", "x"]
    )
    assert cli.argv[:-4] == [*BEGINNING, *ISOLATION, "--tools", "Read,Edit", "--permission-mode", "acceptEdits"]
    assert cli.argv[-4] == "--append-system-prompt-file"
    assert cli.argv[-2:] == ["--betas", "x"]


async def test_a_prompt_that_begins_with_a_slash_is_no_command_of_its_own(cli: PretendCli) -> None:
    await answer(cli, asked(" /logout now"))
    assert cli.stdin == b"[USER]\n /logout now"


async def test_a_schema_that_is_too_long_for_an_argument_is_told_in_words(cli: PretendCli) -> None:
    schema = {"type": "object", "description": "a" * 120_000, "properties": {"p": {"type": "string"}}}
    cli.says(lines(claude_init(), claude_result("{}")))
    done = await answer(cli, asked(schema=schema))
    assert done.structured == {}
    assert "--json-schema" not in cli.argv
    assert b'"description"' in cli.stdin


async def test_it_sees_its_own_vendors_variables_and_nothing_else(cli: PretendCli) -> None:
    theirs = {
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "HTTPS_PROXY": "http://proxy",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "ANTHROPIC_API_KEY": "sk-ant",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "CLAUDE_CODE_OAUTH_TOKEN": "oauth",
        "CLAUDE_CONFIG_DIR": "/config",
        "AWS_PROFILE": "work",
    }
    others = {
        "OPENAI_API_KEY": "sk-openai",
        "OPENAI_BASE_URL": "x",
        "CODEX_HOME": "x",
        "GEMINI_API_KEY": "x",
        "GITHUB_TOKEN": "x",
        "DATABASE_URL": "x",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_EXECPATH": "x",
        "CLAUDE_CODE_SESSION_ID": "x",
        "CLAUDE_CODE_EFFORT_LEVEL": "x",
        "CLAUDE_EFFORT": "x",
        "CLAUDE_CODE_SIMPLE": "1",
        "CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1",
        "AI_AGENT": "1",
    }
    await answer(cli, environment={**theirs, **others}, env=["AWS_PROFILE", "CLAUDECODE"])
    assert theirs.items() <= cli.saw.items()
    assert not others.keys() & cli.saw.keys()
    forced = {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "MAX_STRUCTURED_OUTPUT_RETRIES": "1",
        "CLAUDE_CODE_SAFE_MODE": "1",
        **{
            f"CLAUDE_CODE_DISABLE_{what}": "1"
            for what in (
                *("ATTACHMENTS", "CLAUDE_MDS", "AUTO_MEMORY", "NONESSENTIAL_TRAFFIC", "BACKGROUND_TASKS"),
                *("NONSTREAMING_FALLBACK", "REFUSAL_FALLBACK"),
            )
        },
    }
    shell = {"PATH", "LANG", "PWD", "SHLVL", "_", "OLDPWD"}
    assert cli.saw.keys() - shell == {*theirs, *forced}
    assert forced.items() <= cli.saw.items()


async def test_an_answer_is_read_with_its_model_its_tokens_and_an_estimate_of_its_cost(cli: PretendCli) -> None:
    done = await answer(cli, asked(model="sonnet"))
    assert done.ok
    assert (done.text, done.finish) == ("Paris.", "stop")
    assert (done.requested_model, done.returned_model) == ("sonnet", "claude-sonnet-5-20260901")
    assert done.usage == Usage(input_tokens=30, output_tokens=15, cached_tokens=3)
    assert done.cost == Cost(usd_nano=308_400, basis="estimate")
    assert done.fingerprint == VERSION
    assert done.output == PARIS.encode()


async def test_its_version_is_asked_once_and_described(cli: PretendCli) -> None:
    provider = open_claude("mine", {"model": "opus"}, cli.environment)
    assert "version" not in provider.describe()
    await provider.complete(asked())
    await provider.complete(asked())
    said = provider.describe()
    assert (said["version"], said["kind"], said["model"]) == (VERSION, "claude-cli", "opus")
    assert (said["isolation"], said["tools"]) == ("isolated", "none")
    assert cli.versions_asked == 1
    assert provider.unmetered


async def test_a_program_that_was_replaced_meanwhile_is_asked_its_version_again(cli: PretendCli) -> None:
    provider = open_claude("mine", {}, cli.environment)
    before = await provider.complete(asked())
    program = cli.folder / "bin" / "claude"
    newer = program.with_name("newer")
    newer.write_text(program.read_text().replace(VERSION, "10.0.0 (pretended)"))
    newer.chmod(0o755)
    newer.replace(program)
    after = await provider.complete(asked())
    assert (before.fingerprint, after.fingerprint) == (VERSION, "10.0.0 (pretended)")
    assert provider.describe()["version"] == "10.0.0 (pretended)"


async def test_structured_output_is_taken_and_checked(cli: PretendCli) -> None:
    result = claude_result('{"verdict":"pass","score":7}', structured_output={"verdict": "pass", "score": 7})
    cli.says(lines(claude_init(), claude_says(STRUCTURED), result))
    done = await answer(cli, asked(schema=VERDICT))
    assert done.structured == {"verdict": "pass", "score": 7}
    assert done.tool_events == ()


async def test_an_answer_that_is_missing_in_its_result_is_what_was_said_last(cli: PretendCli) -> None:
    said = claude_says({"type": "text", "text": "\n\nParis."})
    noted = claude_says({"type": "tool_use", "id": "a", "name": "TodoWrite", "input": {}})
    for result in (claude_result(""), claude_result(None)):
        cli.says(lines(claude_init(), claude_says({"type": "text", "text": "Let me see."}), said, noted, result))
        done = await answer(cli)
        assert (done.failure, done.text) == (None, "Paris.")
    cli.says(lines(claude_init(), said, claude_result("", structured_output={"verdict": "pass", "score": 7})))
    assert (await answer(cli, asked(schema=VERDICT))).text == '{"verdict": "pass", "score": 7}'


async def test_what_it_could_not_get_into_shape_is_ours_to_judge(cli: PretendCli) -> None:
    attempt = {**STRUCTURED, "input": {"verdict": "maybe"}}
    nothing = {"input_tokens": 0, "output_tokens": 0}
    result = claude_result(
        None, subtype="error_max_structured_output_retries", is_error=True, stop_reason=None, total_cost_usd=0,
        usage=nothing, modelUsage={}, errors=["Failed to provide valid structured output after 1 attempts"],
    )  # fmt: skip
    cli.says(lines(claude_init(), claude_says(attempt), result), exit_code=1)
    done = await answer(cli, asked(schema=VERDICT))
    assert done.failure is not None
    assert (done.failure.kind, done.failure.retryable) == ("malformed_response", True)
    assert done.failure.details["raw_attempt"] == '{"verdict": "maybe"}'
    assert done.usage.estimated


async def test_what_it_did_with_tools_is_kept(cli: PretendCli) -> None:
    uses = [
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"file_path": "/x"}},
        {"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "false"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "text of x"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "1"}], "is_error": True},
    ]
    brought = {"type": "user", "message": {"role": "user", "content": results}}
    cli.says(lines(claude_init(), claude_says(*uses), brought, claude_result("Done.")))
    done = await answer(cli, tools=["Read", "Bash"])
    assert done.tool_events == (
        ToolEvent(name="Read", arguments={"file_path": "/x"}, result="text of x"),
        ToolEvent(name="Bash", arguments={"command": "false"}, error='[{"type": "text", "text": "1"}]'),
    )


@pytest.mark.parametrize(("id", "result"), [(None, None), (7, "x"), (["a"], "x"), ({"a": 1}, "x")])
async def test_a_tool_whose_id_is_no_text_costs_nobody_the_answer(cli: PretendCli, id: Any, result: str | None) -> None:
    use = {"type": "tool_use", "id": id, "name": "Read", "input": {}}
    brought = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}}
    cli.says(lines(claude_init(), claude_says(use), brought, claude_result("Done.")))
    done = await answer(cli, tools=["Read"])
    assert (done.ok, done.text, done.tool_events) == (
        True,
        "Done.",
        (ToolEvent(name="Read", arguments={}, result=result),),
    )


@pytest.mark.parametrize(
    ("said", "status", "more", "kind"),
    [
        ("Invalid API key · Fix external API key", 401, {}, "auth_failure"),
        ("Not logged in · Please run /login", None, {}, "auth_failure"),
        ("API Error: Request rejected (429) · exceeded your rate limit", 429, {}, "rate_limit"),
        ("API Error: 529 Overloaded. This is a server-side issue", 529, {}, "rate_limit"),
        ("Credit balance is too low", 400, {}, "quota_exhausted"),
        ("You've hit your session limit · resets 3pm", 429, {}, "quota_exhausted"),
        ("There's an issue with the selected model (x). It may not exist", 404, {}, "model_unavailable"),
        ("Prompt is too long · the request is ~250000 tokens", 400, {}, "context_length_exceeded"),
        ("It does not fit", 400, {"terminal_reason": "prompt_too_long"}, "context_length_exceeded"),
        ("API Error: 500 Internal server error. This is a server-side issue", 500, {}, "network"),
        ("API Error: Unable to connect to API (ConnectionRefused)", None, {}, "network"),
        ("API Error: Request timed out.", None, {}, "timeout"),
        ("API Error: 400 tools.0: Input should be an object", 400, {}, "invalid_request"),
        ("Reached maximum number of turns", None, {"subtype": "error_max_turns"}, "tool_failure"),
        ("Reached maximum budget", None, {"subtype": "error_max_budget_usd"}, "quota_exhausted"),
        ("It broke", None, {"subtype": "error_during_execution"}, "internal"),
    ],
)
async def test_every_complaint_is_one_of_the_twelve_kinds(
    cli: PretendCli, said: str, status: int | None, more: dict[str, Any], kind: str
) -> None:
    cli.says(claude_fails(said, status, **more), exit_code=1)
    why = failure_of(await answer(cli))
    assert why.kind == kind
    assert said in why.message


async def test_an_error_that_comes_with_exit_code_0_is_no_answer(cli: PretendCli) -> None:
    cli.says(claude_fails("Not logged in · Please run /login"))
    assert failure_of(await answer(cli)).kind == "auth_failure"


async def test_an_answer_that_comes_with_another_exit_code_is_no_answer(cli: PretendCli) -> None:
    cli.says(PARIS, exit_code=7)
    done = await answer(cli)
    assert done.failure is not None
    assert "exit code 7" in done.failure.message


async def test_a_refusal_is_told_as_one(cli: PretendCli) -> None:
    cli.says(lines(claude_init(), claude_result("I will not.", stop_reason="refusal")))
    done = await answer(cli)
    assert failure_of(done).kind == "content_filter"
    assert (done.finish, done.usage.output_tokens) == ("content_filter", 15)


async def test_what_is_printed_before_any_event_is_quoted(cli: PretendCli) -> None:
    cli.says("", stderr="error: unknown option '--bogus'", exit_code=1)
    why = failure_of(await answer(cli))
    assert (why.kind, why.message) == ("invalid_request", "claude: error: unknown option '--bogus'")


@pytest.mark.parametrize("noise", ["", "{}", "[]", '{"type":"result"}', "{", '{"type":"assistant","message":7}\nnull'])
async def test_nonsense_is_a_failure_and_no_traceback(cli: PretendCli, noise: str) -> None:
    cli.says(noise)
    assert failure_of(await answer(cli)).kind == "internal"


def test_without_the_program_it_says_how_to_install_it() -> None:
    with pytest.raises(UsageError, match="npm install -g @anthropic-ai/claude-code"):
        open_claude("mine", {}, {**SEES, "PATH": "/no/such/place"})


def test_a_program_that_may_not_be_executed_is_not_to_be_installed(tmp_path: Path) -> None:
    (tmp_path / "claude").write_text("#!/bin/sh\n")
    with pytest.raises(UsageError, match="may not be executed; run: chmod"):
        open_claude("mine", {"program": str(tmp_path / "claude")}, {})


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"tols": []}, "did you mean tools"),
        ({"permission_mode": "yes"}, "permission_mode"),
        ({"bare": "no"}, "true or false"),
        ({"workspace": "worktree"}, "needs `source`"),
    ],
)
def test_a_table_that_cannot_work_is_refused(cli: PretendCli, table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        open_claude("mine", table, cli.environment)
