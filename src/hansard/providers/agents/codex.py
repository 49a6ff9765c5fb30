"""Codex without its screen: `codex exec`, asked once, read from its stream of events.

By default in a sandbox that can only read, without a session on disk and without the user's configuration and rules. It
still reads AGENTS.md from its home, which no option keeps it from, and retries a lost connection by itself.
"""

import json
from collections.abc import Mapping
from typing import Any

from hansard.domain.exchange import Exchange, Failure, ToolEvent
from hansard.domain.value import value
from hansard.providers import parse
from hansard.providers.agents.cli import AgentCli, Asking, Told, as_user, complaint, counted, events_of, opened
from hansard.providers.agents.faults import complained, kind_of
from hansard.providers.hosted.strict import relaxed, strictified
from hansard.providers.options import Options
from hansard.providers.prices import Prices
from hansard.providers.programs.process import Ran, encoded
from hansard.providers.programs.workspace import Place
from hansard.providers.prompt import prompt_of

ITS_OWN_CHOICE = frozenset({"", "auto", "default", "codex-default"})
_SANDBOXES = ("read-only", "workspace-write", "danger-full-access")
_TOOLS: Mapping[str, str] = {
    "command_execution": "aggregated_output",
    "mcp_tool_call": "result",
    "web_search": "results",
    "file_change": "status",
}
"""Items that are something it did, and where the outcome stands."""


@value
class Codex:
    """How Codex is asked. `sandbox` is what the commands that it runs may do."""

    isolated: bool = True
    sandbox: str = "read-only"
    extra: tuple[str, ...] = ()

    kind = "codex-cli"
    program = "codex"
    install = "npm install -g @openai/codex"
    variables = frozenset({"OPENAI_", "CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"})

    def describe(self) -> Mapping[str, str]:
        return {"isolation": "isolated" if self.isolated else "the user's settings", "sandbox": self.sandbox}

    def call(self, exchange: Exchange, model: str, place: Place) -> Asking:
        strict = strictified(exchange.schema) if exchange.schema is not None else None
        said = ["exec", "--json", "--color", "never", "--skip-git-repo-check", "-s", self.sandbox]
        if self.isolated:
            said += ["--ephemeral", "--ignore-user-config", "--ignore-rules"]
        # Else it waits for a network for as long as it lives.
        said += ["-C", str(place.folder), "-c", "features.unbounded_connection_retries=false"]
        said += ["-m", model] if model not in ITS_OWN_CHOICE else []
        if effort := exchange.sampling.reasoning_effort:
            said += ["-c", f"model_reasoning_effort={json.dumps(effort)}"]
        if strict is not None:
            path = place.beside / "schema.json"
            path.write_text(json.dumps(strict), encoding="utf-8")
            said += ["--output-schema", str(path)]
        prompt = as_user(prompt_of(exchange, schema=strict is None))
        return Asking(arguments=(*said, *self.extra, "-"), stdin=encoded(prompt))

    def read(self, ran: Ran, exchange: Exchange) -> Told:
        events = events_of(ran.stdout)
        items = [each["item"] for each in events if _is_done(each)]
        texts = [item["text"] for item in items if item.get("type") == "agent_message" and _is_text(item.get("text"))]
        ended: dict[str, Any] = next((each for each in reversed(events) if each.get("type") == "turn.completed"), {})
        why = _failure(events, ran)
        return Told(
            text="" if why or not texts else texts[-1],
            structured=None if why or not texts else _structured(texts[-1], exchange),
            finish="error" if why else "stop",
            # Cached tokens are part of its input, and those of reasoning of its output.
            usage=counted(
                ended.get("usage"), fresh=("input_tokens",), output=("output_tokens",), cached="cached_input_tokens"
            ),
            tool_events=tuple(_tool_event(item) for item in items if str(item.get("type")) in _TOOLS),
            failure=why,
        )


def open_codex(
    id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, prices: Prices | None = None
) -> AgentCli:
    """A provider from its table in hansard.toml."""
    read = Options(id, options)
    cli = Codex(
        isolated=read.flag("isolation", True), sandbox=read.one_of("sandbox", _SANDBOXES), extra=read.texts("args")
    )
    return opened(id, cli, read, environment, prices)


def _is_done(event: Mapping[str, Any]) -> bool:
    return event.get("type") == "item.completed" and isinstance(event.get("item"), dict)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _structured(text: str, exchange: Exchange) -> Any:
    """What was answered in strict form, in the form that was asked for; None leaves the reading to the contract."""
    if exchange.schema is None or strictified(exchange.schema) is None:
        return None
    reading = parse.read(text)
    return None if reading.breach else relaxed(reading.value, exchange.schema)


def _failure(events: list[dict[str, Any]], ran: Ran) -> Failure | None:
    """Why there is no answer. Errors before a turn that was completed were overcome by Codex itself."""
    ends = [each for each in events if each.get("type") in ("turn.completed", "turn.failed")]
    if ends and ends[-1]["type"] == "turn.completed" and ran.exit_code == 0:
        return None
    told = [each for each in events if each.get("type") in ("turn.failed", "error", "stream.error")]
    said = _sentence(told[-1]) if told else ran.stderr.decode("utf-8", "replace").strip()[-2000:]
    kind = kind_of(said)
    hint = "; log in with `codex login`, or set CODEX_API_KEY" if kind == "auth_failure" else ""
    return complained(said, complaint(ran, said, "codex") + hint, kind=kind)


def _sentence(event: Mapping[str, Any]) -> str:
    """What an error event says; sometimes that is itself the JSON of a server's error."""
    error = event.get("error")
    said = str((error.get("message") if isinstance(error, Mapping) else None) or event.get("message") or "")
    inner = events_of(said.encode("utf-8", "replace").replace(b"\n", b" "))
    body = inner[0].get("error") if inner else None
    if not isinstance(body, Mapping):
        return said[:2000]
    return f"{body.get('message') or said} ({body.get('code') or body.get('type')})"[:2000]


def _tool_event(item: Mapping[str, Any]) -> ToolEvent:
    kind = str(item.get("type"))
    outcome = item.get(_TOOLS[kind])
    said = outcome if isinstance(outcome, str) or outcome is None else json.dumps(outcome, ensure_ascii=False)
    failed = item.get("status") == "failed" or item.get("error") or item.get("exit_code") not in (None, 0)
    hidden = {"id", "type", "status", "error", _TOOLS[kind]}
    return ToolEvent(
        name=kind,
        arguments={name: value for name, value in item.items() if name not in hidden},
        result=None if failed else said,
        error=str(item.get("error") or said or "failed") if failed else None,
    )
