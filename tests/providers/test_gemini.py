"""Gemini CLI: asked with exactly these arguments, and understood in what it prints."""

from pathlib import Path

import pytest

from hansard.domain.exchange import Usage
from hansard.providers.agents.gemini import open_gemini
from providers.pretend_clis import PretendCli, gemini_answers, gemini_fails, pretend
from providers.programs import VERDICT, asked

ISOLATION = ["-e", "none", "--allowed-mcp-server-names", "none"]


@pytest.fixture
def cli(tmp_path: Path) -> PretendCli:
    gemini = pretend(tmp_path / "gemini", "gemini")
    gemini.says(gemini_answers("Paris."), stderr="Ripgrep is not available.\n")
    return gemini


async def test_it_is_asked_on_its_standard_input_and_may_only_read(cli: PretendCli) -> None:
    done = await open_gemini("mine", {"model": "gemini-2.5-flash"}, cli.environment).complete(asked("Which city?"))
    begin = ["-o", "json", "--approval-mode", "plan", "--skip-trust"]
    assert cli.argv == [*begin, *ISOLATION, "-m", "gemini-2.5-flash"]
    assert cli.stdin == b"Which city?"
    assert (done.text, done.returned_model) == ("Paris.", "gemini-2.5-flash")
    assert done.usage == Usage(input_tokens=31, output_tokens=10, cached_tokens=5)


async def test_what_its_tools_brought_counts_as_input(cli: PretendCli) -> None:
    tokens = {"prompt": 31, "candidates": 4, "total": 141, "cached": 5, "thoughts": 6, "tool": 100}
    cli.says(gemini_answers("Paris.", tokens))
    done = await open_gemini("mine", {}, cli.environment).complete(asked())
    assert done.usage == Usage(input_tokens=131, output_tokens=10, cached_tokens=5)
    assert done.usage.total == tokens["total"]


async def test_a_schema_is_told_in_words(cli: PretendCli) -> None:
    cli.says(gemini_answers('```json\n{"verdict": "pass", "score": 1}\n```'))
    done = await open_gemini("mine", {}, cli.environment).complete(asked(schema=VERDICT))
    assert done.structured == {"verdict": "pass", "score": 1}
    assert b'"verdict"' in cli.stdin


async def test_noise_that_looks_like_many_beginnings_does_not_keep_it(cli: PretendCli) -> None:
    noise = "{\n" * 1_000_000
    cli.says(noise)
    done = await open_gemini("mine", {}, cli.environment).complete(asked())
    assert not done.ok
    cli.says(noise + gemini_answers("Paris."))
    assert (await open_gemini("mine", {}, cli.environment).complete(asked())).text == "Paris."


@pytest.mark.parametrize(
    ("said", "code", "exit_code", "kind"),
    [
        ("Invalid auth method selected.", 41, 41, "auth_failure"),
        ('{"error":{"code":400,"message":"API key not valid."}}', 400, 144, "invalid_request"),
        ("Resource has been exhausted (e.g. check quota).", 429, 173, "quota_exhausted"),
        ("Reached max session turns.", 53, 53, "tool_failure"),
        ("It broke", 1, 1, "internal"),
    ],
)
async def test_a_complaint_is_read_behind_the_noise(
    cli: PretendCli, said: str, code: int, exit_code: int, kind: str
) -> None:
    cli.says("", stderr=gemini_fails(said, code), exit_code=exit_code)
    done = await open_gemini("mine", {}, cli.environment).complete(asked())
    assert done.failure is not None
    assert (done.failure.kind, done.text) == (kind, "")
    assert said in done.failure.message
