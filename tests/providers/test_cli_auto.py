"""Which CLI answers whom, with what is installed."""

from pathlib import Path
from typing import Any

import pytest

from hansard.errors import UsageError
from hansard.providers.agents.auto import CliAuto, installed, open_cli_auto
from hansard.providers.agents.claude import open_claude
from hansard.providers.agents.codex import open_codex
from hansard.providers.open import open_providers
from providers.pretend_clis import PretendCli, claude_fails, claude_init, claude_result, codex_answers, lines, pretend
from providers.programs import SEES, asked

CLIS = {"claude-cli": open_claude, "codex-cli": open_codex}


def opened(*clis: PretendCli, **options: Any) -> CliAuto:
    path = ":".join((*(f"{cli.folder}/bin" for cli in clis), "/usr/bin", "/bin"))
    return open_cli_auto("auto", options, {**SEES, "PATH": path}, clis=CLIS, guard=lambda provider: provider)


@pytest.fixture
def claude(tmp_path: Path) -> PretendCli:
    cli = pretend(tmp_path / "claude", "claude")
    cli.says(lines(claude_init(), claude_result("by claude")))
    return cli


@pytest.fixture
def codex(tmp_path: Path) -> PretendCli:
    cli = pretend(tmp_path / "codex", "codex")
    cli.says(codex_answers("by codex"))
    return cli


async def said(provider: CliAuto, **metadata: str | int) -> str:
    return (await provider.complete(asked(metadata=metadata))).text


async def test_the_visionary_speaks_through_codex_and_the_rest_through_claude(
    claude: PretendCli, codex: PretendCli
) -> None:
    provider = opened(claude, codex)
    assert await said(provider, persona="visionary") == "by codex"
    assert await said(provider, agent="visionary") == "by codex"
    assert await said(provider, persona="critic") == "by claude"
    assert await said(provider) == "by claude"
    await provider.close()


async def test_where_one_is_missing_the_other_answers_everybody(claude: PretendCli, codex: PretendCli) -> None:
    assert await said(opened(claude), persona="visionary") == "by claude"
    assert await said(opened(codex), persona="critic") == "by codex"


async def test_each_gets_its_own_model(claude: PretendCli, codex: PretendCli) -> None:
    provider = opened(claude, codex, claude_model="opus", codex_model="gpt-5.5")
    await said(provider)
    await said(provider, persona="visionary")
    assert claude.argv[-2:] == ["--model", "opus"]
    assert codex.argv[-3:] == ["-m", "gpt-5.5", "-"]


async def test_what_one_vendor_refuses_keeps_nobody_from_asking_the_other(
    claude: PretendCli, codex: PretendCli
) -> None:
    claude.says(claude_fails("Not logged in · Please run /login"))
    path = f"{claude.folder}/bin:{codex.folder}/bin:/usr/bin:/bin"
    tables = {"auto": {"kind": "cli-auto", "breaker_after": 1}}
    provider = open_providers(tables, environment={**SEES, "PATH": path})["auto"]
    for refused in ("log in", "not asked: 1 calls in a row failed with auth_failure"):
        failure = (await provider.complete(asked())).failure
        assert failure is not None
        assert refused in failure.message
        assert (await provider.complete(asked(metadata={"persona": "visionary"}))).text == "by codex"
    await provider.close()


def test_it_says_who_answers_whom(claude: PretendCli, codex: PretendCli) -> None:
    description = opened(claude, codex).describe()
    assert (description["kind"], description["rest_kind"]) == ("cli-auto", "claude-cli")
    assert description["visionary_kind"] == "codex-cli"


def test_what_is_installed_is_found_on_the_path_that_is_given(claude: PretendCli, codex: PretendCli) -> None:
    assert installed({"PATH": f"{codex.folder}/bin"}) == ("codex-cli",)
    assert installed({"PATH": f"{codex.folder}/bin:{claude.folder}/bin"}) == ("claude-cli", "codex-cli")
    assert installed({"PATH": "/no/such/place"}) == ()


def test_with_none_installed_it_says_how_to_install_one() -> None:
    with pytest.raises(UsageError, match="npm install -g @anthropic-ai/claude-code"):
        opened()
