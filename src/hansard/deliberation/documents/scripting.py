"""Between the protocol's scripted answers and the scripted provider, which has never heard of the protocol (§9.1, §9.2)."""

import json
from functools import lru_cache
from typing import Any

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.exchange import CallError, ProviderResult, ToolEvent, Usage
from hansard.deliberation.documents.golden import FakeProviderScript, ScriptEntry
from hansard.domain import exchange
from hansard.domain.budget import NANO_PER_USD
from hansard.providers.checks import MOST_TOKENS, MOST_USD_NANO
from hansard.providers.reply import Reply
from hansard.providers.script import Entry, Script

NAME = "fake_provider_script"
MOST = {
    "prompt_tokens": MOST_TOKENS,
    "completion_tokens": MOST_TOKENS,
    "total_tokens": 2 * MOST_TOKENS,
    "cost_usd": MOST_USD_NANO / NANO_PER_USD,
}
"""What a result may say that it used."""
NOTHING = "the result holds neither a structured output nor an error"


def neutral_script(script: FakeProviderScript, *, for_selector: bool = False) -> Script:
    """The same answers in the same order for the scripted provider.

    What a turn says must stand in structured_output; only a selector, which asks for no schema, may answer in text. Invalid
    where an answer says that it used more than is believed of any provider: its words go on the record to the letter.
    """
    for number, entry in enumerate(script.entries):
        _check_usage(entry.result.usage, number)
    return Script(
        entries=tuple(_entry(each, for_selector) for each in script.entries),
        mode="sequential",
        on_exhaustion=script.on_exhaustion or "error",
        name=NAME,
    )


def _check_usage(usage: Usage, number: int) -> None:
    for name, limit in MOST.items():
        if getattr(usage, name) > limit:
            error = Invalid(
                f"must be {limit:,.0f} at most", rule="§6.9", steps=["entries", number, "result", "usage", name]
            )
            error.document = FakeProviderScript.__name__
            raise error


def _entry(entry: ScriptEntry, for_selector: bool) -> Entry:
    match = entry.match.as_data() if entry.match else {}
    if "expected_output_schema" in match:
        match["schema"] = match.pop("expected_output_schema")
    return Entry(reply=_reply(entry.result, for_selector), match=match, comment=entry.comment or "")


def _reply(result: ProviderResult, for_selector: bool) -> Reply:
    failure = _failure(result.error) if result.error else None
    if failure is None and result.structured_output is None and not for_selector:
        failure = exchange.Failure(kind="malformed_response", message=NOTHING, retryable=True)
    structured = None if failure else result.structured_output
    return Reply(
        # Put into words now and not at each call, as a provider does that hears no text.
        text=_text(result) or (_as_text(structured) if structured else ""),
        structured=structured,
        finish=result.finish_reason,
        usage=_usage(result.usage),
        cost=exchange.Cost(usd_nano=round(result.usage.cost_usd * NANO_PER_USD), basis="reported"),
        failure=failure,
        tool_events=tuple(_tool_event(event) for event in result.tool_events),
        output=json.dumps(result.usage.as_data()).encode(),
    )


def _text(result: ProviderResult) -> str:
    said = [message["content"] for message in result.messages if message["role"] == "assistant"]
    return _as_text(said[-1]) if said else ""


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _failure(error: CallError) -> exchange.Failure:
    details = error.details or {}
    pause = details.get("retry_after_seconds")
    return exchange.Failure(
        kind=error.kind,
        message=error.message,
        retryable=error.retriable,
        retry_after_s=float(pause) if isinstance(pause, int | float) and not isinstance(pause, bool) else None,
        details=details,
    )


def _usage(usage: Usage) -> exchange.Usage:
    return exchange.Usage(
        input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens, estimated=bool(usage.estimated)
    )


def _tool_event(event: ToolEvent) -> exchange.ToolEvent:
    return exchange.ToolEvent(
        name=event.name,
        arguments=event.arguments,
        result=_as_text(event.result) if event.result else None,
        error=event.error.message if event.error else None,
        latency_us=(event.latency_ms or 0) * 1000,
    )


@lru_cache
def _said_usage(output: bytes) -> Usage | None:
    try:
        return Usage.parse(json.loads(output))
    except (Invalid, ValueError):
        return None


def added(one: Usage, other: Usage) -> Usage:
    """What two calls used together. Money is added in billionths, so that no cent is lost to rounding."""
    return Usage(
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        total_tokens=one.total_tokens + other.total_tokens,
        cost_usd=(round(one.cost_usd * NANO_PER_USD) + round(other.cost_usd * NANO_PER_USD)) / NANO_PER_USD,
        estimated=True if one.estimated or other.estimated else None,
    )


def usage_of(completion: exchange.Completion, *, scripted: bool = False) -> Usage:
    """What a call used, as messages write it. A script's own words are kept to the letter: digests depend on them.

    Say `scripted` only of the scripted provider: any other could write anything into its output.
    """
    if scripted and completion.output and (said := _said_usage(completion.output)):
        return said
    used = completion.usage
    return Usage(
        prompt_tokens=used.input_tokens,
        completion_tokens=used.output_tokens,
        total_tokens=used.total,
        cost_usd=completion.cost.usd_nano / NANO_PER_USD,
        estimated=True if used.estimated or completion.cost.basis in {"estimate", "unknown"} else None,
    )
