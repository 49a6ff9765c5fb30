"""The suite, on programs: a command, and each agent CLI, played by a program that prints what the real one prints."""

import shlex
from pathlib import Path

import pytest

from hansard.domain.exchange import ErrorKind
from hansard.providers.agents.claude import open_claude
from hansard.providers.agents.codex import open_codex
from hansard.providers.agents.gemini import open_gemini
from hansard.providers.base import Provider
from hansard.providers.command import open_command
from hansard.providers.conformance import Behaviour, ProviderConformance, cannot
from hansard.providers.scrubbed import Scrubbed
from hansard.providers.secrets import Secrets
from providers.pretend_clis import (
    PretendCli,
    claude_fails,
    claude_init,
    claude_result,
    claude_says,
    codex_answers,
    codex_fails,
    gemini_answers,
    gemini_fails,
    lines,
    pretend,
)
from providers.programs import SEES, alive, marked_sleep

KEY = "sk-pretended-0123456789"
SAYINGS: dict[ErrorKind, str] = {
    "timeout": "Request timed out.",
    "network": "Unable to connect to API (ConnectionRefused)",
    "rate_limit": "Request rejected: Number of requests has exceeded your rate limit",
    "quota_exhausted": "Quota exceeded. Check your plan and billing details.",
    "auth_failure": "Invalid API key · Fix external API key",
    "model_unavailable": "There's an issue with the selected model (foo). It may not exist.",
    "context_length_exceeded": "Prompt is too long",
    "content_filter": "Output blocked by content filter",
    "invalid_request": "error: unknown option '--bogus'",
    "internal": "Something went wrong.",
}


class OfPrograms(ProviderConformance):
    """Not collected: what the programs have in common."""

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder, self.made = tmp_path, 0
        self.mark = marked_sleep()

    def pretend(self, name: str) -> PretendCli:
        self.made += 1
        return pretend(self.folder / str(self.made), name)

    def at_work(self) -> int:
        return len(alive(self.mark))

    def said(self, behaviour: Behaviour) -> str:
        """What the program complains of, or answers."""
        text = SAYINGS[behaviour.fails] if behaviour.fails else "ECHO" if behaviour.echoes else behaviour.says
        pause = f" Please try again in {behaviour.retry_after_s:g} seconds." if behaviour.retry_after_s else ""
        return f"{text}{pause}{f' {KEY}' if behaviour.leaks else ''}"


class TestCommand(OfPrograms):
    failures = ("internal",)
    reports_usage = False

    def make(self, behaviour: Behaviour) -> Provider:
        if behaviour.cut_off:
            raise cannot("say that an answer was cut off")
        if behaviour.echoes:
            argv = ["cat"]
        else:
            script = self.folder / "script"
            said = (
                f"exec sleep {self.mark}"
                if behaviour.hangs
                else f"cat > /dev/null; printf %s {shlex.quote(behaviour.says)}"
            )
            script.write_text(f"{said}; exit {1 if behaviour.fails else 0}")
            argv = ["sh", str(script)]
        return open_command("mine", {"argv": argv}, SEES)


class OfClis(OfPrograms):
    """Not collected: the agent CLIs."""

    secrets = (KEY,)
    failures = tuple(SAYINGS)

    def scrubbed(self, provider: Provider) -> Provider:
        return Scrubbed(provider, Secrets({"KEY": KEY}))


class TestClaude(OfClis):
    def make(self, behaviour: Behaviour) -> Provider:
        cli = self.pretend("claude")
        said = self.said(behaviour)
        result = claude_result(said, stop_reason="max_tokens" if behaviour.cut_off else "end_turn")
        used = behaviour.usage
        result["usage"] = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens} if used else {}
        out = lines(claude_init(), claude_says({"type": "text", "text": "…"}), result)
        if behaviour.fails:
            out = claude_fails(said)
        cli.says(
            out,
            exit_code=1 if behaviour.fails else 0,
            echoes=behaviour.echoes,
            sleep=self.mark if behaviour.hangs else "",
        )
        return self.scrubbed(open_claude("mine", {}, {**cli.environment, "ANTHROPIC_API_KEY": KEY}))


class TestCodex(OfClis):
    def make(self, behaviour: Behaviour) -> Provider:
        if behaviour.cut_off:
            raise cannot("say that an answer was cut off")
        cli = self.pretend("codex")
        said, used = self.said(behaviour), behaviour.usage
        counts = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens} if used else {}
        cli.says(
            codex_fails(said) if behaviour.fails else codex_answers(said, counts),
            exit_code=1 if behaviour.fails else 0,
            echoes=behaviour.echoes,
            sleep=self.mark if behaviour.hangs else "",
        )
        return self.scrubbed(open_codex("mine", {}, {**cli.environment, "CODEX_API_KEY": KEY}))


class TestGemini(OfClis):
    def make(self, behaviour: Behaviour) -> Provider:
        if behaviour.cut_off:
            raise cannot("say that an answer was cut off")
        cli = self.pretend("gemini")
        said, used = self.said(behaviour), behaviour.usage
        counts = {"prompt": used.input_tokens, "candidates": used.output_tokens} if used else {}
        cli.says(
            "" if behaviour.fails else gemini_answers(said, counts),
            stderr=gemini_fails(said, 1) if behaviour.fails else "",
            exit_code=1 if behaviour.fails else 0,
            echoes=behaviour.echoes,
            sleep=self.mark if behaviour.hangs else "",
        )
        return self.scrubbed(open_gemini("mine", {}, {**cli.environment, "GEMINI_API_KEY": KEY}))
