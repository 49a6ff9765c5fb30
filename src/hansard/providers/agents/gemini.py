"""Gemini CLI without its screen: `gemini -o json`, asked once. It takes no schema, so that is described in words."""

import json
from collections.abc import Mapping
from typing import Any

from hansard.domain.exchange import ErrorKind, Exchange, Usage
from hansard.domain.value import value
from hansard.providers.agents.cli import AgentCli, Asking, Told, as_user, complaint, counted, opened
from hansard.providers.agents.faults import complained, kind_of
from hansard.providers.checks import count
from hansard.providers.options import Options
from hansard.providers.prices import Prices
from hansard.providers.programs.process import Ran, encoded
from hansard.providers.programs.workspace import Place
from hansard.providers.prompt import prompt_of

MOST_BEGINNINGS = 10
_MODES = ("plan", "default", "auto_edit", "yolo")
_BY_EXIT_CODE: Mapping[int, ErrorKind] = {41: "auth_failure", 42: "invalid_request", 53: "tool_failure"}


@value
class Gemini:
    """How Gemini CLI is asked. `approval_mode` plan lets it read and nothing else."""

    isolated: bool = True
    approval_mode: str = "plan"
    extra: tuple[str, ...] = ()

    kind = "gemini-cli"
    program = "gemini"
    install = "npm install -g @google/gemini-cli"
    variables = frozenset(
        {
            *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA"),
            *("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"),
            *("GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"),
        }
    )

    def describe(self) -> Mapping[str, str]:
        isolation = "no extensions and no servers" if self.isolated else "the user's settings"
        return {"isolation": isolation, "approval_mode": self.approval_mode}

    def call(self, exchange: Exchange, model: str, place: Place) -> Asking:
        said = ["-o", "json", "--approval-mode", self.approval_mode, "--skip-trust"]
        if self.isolated:
            # A name that nothing has: it knows no other way to say "none".
            said += ["-e", "none", "--allowed-mcp-server-names", "none"]
        said += ["-m", model] if model else []
        return Asking(arguments=(*said, *self.extra), stdin=encoded(as_user(prompt_of(exchange))))

    def read(self, ran: Ran, exchange: Exchange) -> Told:
        # An answer comes on stdout and an error on stderr, behind whatever else was printed there.
        told = _last_object(ran.stdout) or _last_object(ran.stderr)
        model, usage = _counted(told.get("stats"))
        error = told.get("error")
        if ran.exit_code == 0 and not error and isinstance(told.get("response"), str):
            return Told(text=told["response"], usage=usage, model=model)
        said = str(error.get("message") or "") if isinstance(error, Mapping) else ""
        said = said or ran.stderr.decode("utf-8", "replace").strip()
        status = error.get("code") if isinstance(error, Mapping) else None
        known = isinstance(status, int) and 400 <= status < 600
        kind = _BY_EXIT_CODE.get(ran.exit_code or 0) or kind_of(said[-4000:], status=status if known else None)
        why = complained(said[-4000:], complaint(ran, said[-2000:], "gemini"), kind=kind)
        return Told(finish="error", usage=usage, model=model, failure=why)


def open_gemini(
    id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, prices: Prices | None = None
) -> AgentCli:
    """A provider from its table in hansard.toml."""
    read = Options(id, options)
    cli = Gemini(
        isolated=read.flag("isolation", True),
        approval_mode=read.one_of("approval_mode", _MODES),
        extra=read.texts("args"),
    )
    return opened(id, cli, read, environment, prices)


def _last_object(data: bytes) -> dict[str, Any]:
    """The JSON object that ends an output and begins at the start of a line: one of the last such lines, however many."""
    text = data.decode("utf-8", "replace").rstrip()
    at = len(text)
    for _ in range(MOST_BEGINNINGS):
        at = text.rfind("\n{", 0, at)
        try:
            found = json.loads(text[at + 1 :])
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        if at < 0:
            break
    return {}


def _counted(stats: Any) -> tuple[str, Usage | None]:
    """The model that said most, and the tokens of all of them. Thoughts are output, and what its tools brought is input."""
    models = stats.get("models") if isinstance(stats, Mapping) else None
    used = {
        name: each.get("tokens")
        for name, each in (models.items() if isinstance(models, Mapping) else ())
        if isinstance(each, Mapping)
    }
    names = ("prompt", "tool", "candidates", "thoughts", "cached")
    total = {name: sum(count(tokens, name) for tokens in used.values()) for name in names}
    usage = counted(total, fresh=("prompt", "tool"), output=("candidates", "thoughts"), cached="cached")
    return max(used, key=lambda name: count(used[name], "candidates"), default=""), usage
