"""What a provider may know: the question that it is asked and the answer that it gives.

A failure is a value of the answer, never an exception. Providers have never heard of a plan, a panel or a ledger; what they
may want to tell apart travels as metadata.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from hansard.domain.value import value

MessageRole = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_call", "content_filter", "error"]
CostBasis = Literal["reported", "price_table", "estimate", "unmetered", "unknown"]
ErrorKind = Literal[
    "timeout",
    "network",
    "rate_limit",
    "quota_exhausted",
    "auth_failure",
    "model_unavailable",
    "context_length_exceeded",
    "content_filter",
    "invalid_request",
    "malformed_response",
    "tool_failure",
    "internal",
]
Schema = Mapping[str, Any]
"""A JSON Schema (draft 2020-12, the subset of providers/schema)."""

RETRYABLE: frozenset[ErrorKind] = frozenset({"timeout", "network", "rate_limit", "malformed_response"})
"""The kinds that a caller may try again; malformed_response with a correction, the others after a pause."""


@value
class Tool:
    """What a model may ask for while it answers. Whoever offers it runs it; a provider never does."""

    name: str
    description: str
    input_schema: Schema


@value
class ToolCall:
    """What a model asks for. The arguments are a JSON value, or a text where what came is none."""

    id: str
    name: str
    arguments: Any


@value
class Message:
    """One message of the conversation. At most one system message, and it comes first.

    `calls` are what an assistant's message asks for, and `thought` is what was thought before them, as the completion has it; a
    tool's message is the answer to the call of its `call_id`.
    """

    role: MessageRole
    content: str
    name: str | None = None
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    thought: Any = None


@value
class Sampling:
    """How to sample; None leaves a choice to the model's server. What a provider does not know it passes over silently."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: str | None = None


@value
class Limits:
    """What one answer may take. The timeout covers the whole call."""

    timeout_s: float = 600.0
    max_output_tokens: int | None = None
    max_output_bytes: int = 10 * 1024 * 1024


@value
class Exchange:
    """One question. `schema` asks for a JSON object of that shape; `metadata` says who asks and at which turn.

    Whoever offers `tools` may be answered with calls for them, and asks again with their results.
    """

    messages: tuple[Message, ...]
    model: str | None = None
    schema: Schema | None = None
    schema_name: str = "answer"
    sampling: Sampling = Sampling()
    limits: Limits = Limits()
    tools: tuple[Tool, ...] = ()
    metadata: Mapping[str, str | int] = field(default_factory=dict)


@value
class Usage:
    """Tokens as reported, or estimated where the provider reported none. Cached ones are part of the input."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@value
class Cost:
    """What it cost in billionths of a dollar, and how that is known. An estimate is never called a bill."""

    usd_nano: int = 0
    basis: CostBasis = "unknown"


@value
class Failure:
    """Why there is no usable answer."""

    kind: ErrorKind
    message: str
    retryable: bool
    retry_after_s: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@value
class ToolEvent:
    """A tool that the model's side used while it answered."""

    name: str
    arguments: Mapping[str, Any]
    result: str | None = None
    error: str | None = None
    latency_us: int = 0


@value
class Completion:
    """One answer, good or bad. On success `failure` is None and, where a schema was asked for, `structured` is valid.

    `text` is what others are told and keeps the limits of the question; `output` is for the record, and holds all that was
    kept of what a program printed. With `calls`, and then alone, it ends with `tool_call`: the model wants their results before
    it answers; `thought` is then what the model's server wants to see again beside them, JSON in a form that is the server's own.
    `refused` says that nobody was asked, because what may be spent is used up: that is no call.
    """

    provider: str
    requested_model: str
    returned_model: str
    text: str = ""
    structured: Any = None
    finish: Finish = "stop"
    usage: Usage = Usage()
    cost: Cost = Cost()
    latency_us: int = 0
    raw: bytes | None = None
    calls: tuple[ToolCall, ...] = ()
    thought: Any = None
    tool_events: tuple[ToolEvent, ...] = ()
    failure: Failure | None = None
    refused: bool = False
    exit_code: int | None = None
    output: bytes | None = None
    stderr: bytes | None = None
    diff: bytes | None = None
    argv: tuple[str, ...] = ()
    fingerprint: str | None = None

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def is_priced(self) -> bool:
        """Whether anybody knows what it cost."""
        return is_priced(self.usage.total, self.cost.basis)


def is_priced(tokens: int, basis: object) -> bool:
    """Whether anybody knows what a call cost, by its tokens and by how its cost is known: what took no tokens cost nothing."""
    return basis != "unknown" or not tokens
