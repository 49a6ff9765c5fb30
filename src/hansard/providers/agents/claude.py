"""Claude Code without its screen: `claude -p`, asked once, read from its stream of events.

By default it is only a model: no tools, no session on disk, none of the user's settings, memory, hooks or servers, no
retries of its own. Its system prompt is ours where the exchange has one. Never in the arguments: prompt and system prompt.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.budget import NANO_PER_USD
from hansard.domain.exchange import Cost, ErrorKind, Exchange, Finish, ToolEvent
from hansard.domain.value import value
from hansard.providers.agents.cli import AgentCli, Asking, Told, as_user, complaint, counted, events_of, opened
from hansard.providers.agents.faults import complained, kind_of
from hansard.providers.base import failure
from hansard.providers.checks import count
from hansard.providers.options import Options
from hansard.providers.prices import Prices
from hansard.providers.programs.process import Ran, encoded
from hansard.providers.programs.workspace import Place
from hansard.providers.prompt import prompt_of, system_of

MAX_SCHEMA_BYTES = 100_000
"""A schema is an argument, and an argument has at most 128 KiB."""

EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
STRUCTURED = "StructuredOutput"
_NOT_IN_A_SCHEMA = frozenset({"$schema", "$id"})
"""With these Claude Code passes over the whole schema without a word."""

_ALWAYS = {
    # Every attempt comes back to whoever records and charges it.
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "MAX_STRUCTURED_OUTPUT_RETRIES": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    # Else `@/some/file` anywhere in a prompt is replaced by that file, also without tools.
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
}
_ISOLATED = {
    "CLAUDE_CODE_SAFE_MODE": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
}
_FINISH: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_SUBTYPES: Mapping[str, ErrorKind] = {
    "error_max_turns": "tool_failure",
    "error_max_budget_usd": "quota_exhausted",
}
_INPUT = ("cache_read_input_tokens", "cache_creation_input_tokens", "input_tokens")
_MODES = ("", "default", "manual", "plan", "acceptEdits", "dontAsk", "auto", "bypassPermissions")


@value
class Claude:
    """How Claude Code is asked. `tools` are the names of its built-in tools; without any it can only answer."""

    isolated: bool = True
    bare: bool = False
    tools: tuple[str, ...] = ()
    permission_mode: str = ""
    extra: tuple[str, ...] = ()

    kind = "claude-cli"
    program = "claude"
    install = "npm install -g @anthropic-ai/claude-code"
    variables = frozenset(
        {
            *("ANTHROPIC_", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_OAUTH_REFRESH_TOKEN"),
            *("CLAUDE_CODE_OAUTH_SCOPES", "CLAUDE_CODE_API_KEY_HELPER_TTL_MS", "CLAUDE_CODE_USE_BEDROCK"),
            *("CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_SKIP_BEDROCK_AUTH"),
            *("CLAUDE_CODE_SKIP_VERTEX_AUTH", "CLAUDE_CODE_SKIP_FOUNDRY_AUTH", "CLAUDE_CODE_CLIENT_CERT"),
            *("CLAUDE_CODE_CLIENT_KEY", "CLAUDE_CODE_CLIENT_KEY_PASSPHRASE"),
        }
    )

    def describe(self) -> Mapping[str, str]:
        isolation = "bare" if self.bare else "isolated" if self.isolated else "the user's settings"
        return {"isolation": isolation, "tools": ",".join(self.tools) or "none"}

    def call(self, exchange: Exchange, model: str, place: Place) -> Asking:
        schema = _schema(exchange)
        system = system_of(exchange)
        said = ["-p", "--output-format", "stream-json", "--verbose", "--no-session-persistence"]
        said += ["--bare"] if self.bare else []
        if self.isolated:
            said += ["--setting-sources", "", "--disable-slash-commands"]
            said += ["--strict-mcp-config", "--mcp-config", '{"mcpServers":{}}']
        said += ["--tools", ",".join(self.tools)]
        said += ["--permission-mode", self.permission_mode] if self.permission_mode else []
        said += ["--model", model] if model else []
        said += ["--effort", effort] if (effort := exchange.sampling.reasoning_effort) in EFFORTS else []
        if system:
            path = place.beside / "system.txt"
            path.write_bytes(encoded(system))
            # As an agent it needs what Claude Code tells it about its tools.
            only = self.isolated and not self.tools
            said += ["--system-prompt-file" if only else "--append-system-prompt-file", str(path)]
        said += ["--json-schema", schema] if schema else []
        prompt = as_user(prompt_of(exchange, system=False, schema=not schema))
        return Asking(arguments=(*said, *self.extra), stdin=encoded(prompt), environment=self._environment(exchange))

    def _environment(self, exchange: Exchange) -> dict[str, str]:
        limit = exchange.limits.max_output_tokens
        told = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(limit)} if limit is not None else {}
        return {**_ALWAYS, **(_ISOLATED if self.isolated else {}), **told}

    def read(self, ran: Ran, exchange: Exchange) -> Told:
        events = events_of(ran.stdout)
        result = next((each for each in reversed(events) if each.get("type") == "result"), None)
        if result is None:
            said = ran.stderr.decode("utf-8", "replace").strip() or ran.stdout.decode("utf-8", "replace").strip()
            return Told(failure=complained(said[-4000:], complaint(ran, said[-2000:], "claude")))
        blocks = [block for message in _messages(events, "assistant") for block in _blocks(message)]
        attempt = next((b.get("input") for b in reversed(blocks) if b.get("name") == STRUCTURED), None)
        model, tools = _model(events, result), _tool_events(events)
        usage = counted(result.get("usage"), fresh=_INPUT, output=("output_tokens",), cached=_INPUT[0])
        if result.get("subtype") == "error_max_structured_output_retries" and attempt is not None:
            # Ours to judge, and to say in the words in which a correction is asked for.
            text = json.dumps(attempt, ensure_ascii=False)
            return Told(text=text, model=model, tool_events=tools, usage=usage, cost=_cost(result), despite_exit=True)
        text = result.get("result") if isinstance(result.get("result"), str) else ""
        told = Told(
            text=str(text or ""),
            structured=result.get("structured_output"),
            finish=_FINISH.get(str(result.get("stop_reason")), "stop"),
            usage=usage,
            cost=_cost(result),
            model=model,
            tool_events=tools,
        )
        return _judged(told, result, events, ran)


def open_claude(
    id: str, options: Mapping[str, Any], environment: Mapping[str, str], *, prices: Prices | None = None
) -> AgentCli:
    """A provider from its table in hansard.toml."""
    read = Options(id, options)
    cli = Claude(
        isolated=read.flag("isolation", True),
        bare=read.flag("bare", False),
        tools=read.texts("tools"),
        permission_mode=read.one_of("permission_mode", _MODES),
        extra=read.texts("args"),
    )
    return opened(id, cli, read, environment, prices)


def _schema(exchange: Exchange) -> str:
    """The schema as an argument; nothing where there is none, or where it is too long for one."""
    if exchange.schema is None:
        return ""
    said = {name: value for name, value in exchange.schema.items() if name not in _NOT_IN_A_SCHEMA}
    text = json.dumps(said, separators=(",", ":"), default=dict)
    return text if len(text) <= MAX_SCHEMA_BYTES else ""


def _judged(told: Told, result: Mapping[str, Any], events: list[dict[str, Any]], ran: Ran) -> Told:
    if told.finish == "content_filter":
        why = failure("content_filter", f"claude: the model refused: {told.text[:500]}")
        return _failed(told, why)
    subtype = str(result.get("subtype"))
    if subtype == "success" and not result.get("is_error"):
        return told if told.text or told.structured is not None else replace(told, text=_last_text(events))
    status = result.get("api_error_status")
    errors = result.get("errors")
    said = told.text or "; ".join(map(str, errors if isinstance(errors, list) else [])) or subtype
    # The events name some errors by a word that the sentence for people does not hold.
    word = next((str(each["error"]) for each in reversed(events) if each.get("error")), "")
    kind = _SUBTYPES.get(subtype) or kind_of(f"{said}\n{word}", status=status if isinstance(status, int) else None)
    if result.get("terminal_reason") == "prompt_too_long":
        kind = "context_length_exceeded"
    hint = "; log in with `claude`, or set ANTHROPIC_API_KEY" if kind == "auth_failure" else ""
    message = complaint(ran, said[:2000], "claude") + hint
    why = complained(said, message, kind=kind, status=status, vendor_type=word or subtype)
    return _failed(told, why)


def _failed(told: Told, why: Any) -> Told:
    # The text of an error is no answer.
    finish: Finish = "content_filter" if why.kind == "content_filter" else "error"
    return Told(
        finish=finish, usage=told.usage, cost=told.cost, model=told.model, tool_events=told.tool_events, failure=why
    )


def _messages(events: list[dict[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    found = [each.get("message") for each in events if each.get("type") == kind]
    return [message for message in found if isinstance(message, Mapping)]


def _blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def _last_text(events: list[dict[str, Any]]) -> str:
    """What was said last, which some versions leave out of their result."""
    spoken = [_blocks(message) for message in _messages(events, "assistant")]
    texts = ["".join(str(block.get("text") or "") for block in each if block.get("type") == "text") for each in spoken]
    return next((text.strip() for text in reversed(texts) if text.strip()), "")


def _model(events: list[dict[str, Any]], result: Mapping[str, Any]) -> str:
    """The model that answered, as its server named it; or the one that Claude Code counted most tokens of."""
    for message in reversed(_messages(events, "assistant")):
        name = message.get("model")
        if isinstance(name, str) and name and not name.startswith("<"):
            return name
    used = result.get("modelUsage")
    counted = (
        {name: each for name, each in used.items() if isinstance(each, Mapping)} if isinstance(used, Mapping) else {}
    )
    return max(counted, key=lambda name: count(counted[name], "outputTokens"), default="")


def _tool_events(events: list[dict[str, Any]]) -> tuple[ToolEvent, ...]:
    blocks = [block for message in _messages(events, "user") for block in _blocks(message)]
    results = {str(block["tool_use_id"]): block for block in blocks if block.get("tool_use_id") is not None}
    found = []
    for message in _messages(events, "assistant"):
        for block in _blocks(message):
            if block.get("type") == "tool_use" and block.get("name") != STRUCTURED:
                found.append(_tool_event(block, results.get(str(block.get("id")), {})))
    return tuple(found)


def _tool_event(use: Mapping[str, Any], result: Mapping[str, Any]) -> ToolEvent:
    content = result.get("content")
    said = content if isinstance(content, str) or content is None else json.dumps(content, ensure_ascii=False)
    arguments = use.get("input")
    return ToolEvent(
        name=str(use.get("name")),
        arguments=arguments if isinstance(arguments, Mapping) else {},
        result=None if result.get("is_error") else said,
        error=said if result.get("is_error") else None,
    )


def _cost(result: Mapping[str, Any]) -> Cost | None:
    value = result.get("total_cost_usd")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e6:
        return None
    return Cost(usd_nano=round(value * NANO_PER_USD), basis="estimate")
