"""What goes to a provider and what comes back, as the protocol writes it down (§6)."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.document import ABSENT, Absent, Document, NotEmpty, When
from hansard.deliberation.documents.shape import Definitions, ListOf, Open
from hansard.deliberation.documents.vocabulary import (
    ErrorKind,
    Finish,
    MessageRole,
    NonEmpty,
    OpenObject,
    OutputSchema,
    Usd,
)
from hansard.domain.value import value


@value
class Usage(Document):
    """Tokens and dollars. `estimated` is None where nobody said."""

    SECTION: ClassVar[str] = "§6.9"
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_usd: Usd
    estimated: bool | None = None


NO_USAGE = Usage(prompt_tokens=0, completion_tokens=0, total_tokens=0, cost_usd=0.0)


@value
class CallError(Document):
    """Why a call gave nothing usable."""

    SECTION: ClassVar[str] = "§6.6"
    kind: ErrorKind
    message: NonEmpty
    retriable: bool
    details: OpenObject | Absent | None = ABSENT


@value
class ToolEvent(Document):
    """One use of a tool, in the order in which it happened."""

    SECTION: ClassVar[str] = "§6.4"
    name: NonEmpty
    arguments: OpenObject
    error: CallError | None
    result: OpenObject | str | Absent | None = ABSENT
    latency_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Said(Open):
    """A message of a result: an open object that has a role and a content."""

    def read(self, value: object) -> dict[str, Any]:
        found = Open.read(self, value)
        for name in ("role", "content"):
            if name not in found:
                raise Invalid(f"must have {name}")
        if not isinstance(found["role"], str) or not found["role"]:
            raise Invalid("must be a text that is not empty", steps=["role"])
        return found

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        role = {"type": "string", "minLength": 1}
        return {"type": "object", "properties": {"role": role, "content": True}, "required": ["role", "content"]}


@value
class ProviderResult(Document):
    """What a provider answered. `messages` are open objects with a role and a content."""

    SECTION: ClassVar[str] = "§5.7"
    messages: Annotated[tuple[dict[str, Any], ...], ListOf(Said())]
    tool_events: tuple[ToolEvent, ...]
    usage: Usage
    finish_reason: Finish
    structured_output: OpenObject | None
    raw: OpenObject | None
    error: CallError | None


@value
class RequestMessage(Document):
    """One message of a request."""

    SECTION: ClassVar[str] = "§6.3"
    RULES: ClassVar[tuple[When, ...]] = (
        When(rule="§6.4 tool_call_id", member="role", values=("tool",), required=("tool_call_id",)),
    )
    role: MessageRole
    content: NonEmpty | OpenObject
    name: NonEmpty | None = None
    tool_call_id: NonEmpty | None = None


@value
class Tool(Document):
    """A tool that an agent may use."""

    SECTION: ClassVar[str] = "§6.4"
    name: NonEmpty
    description: NonEmpty
    input_schema: OpenObject
    metadata: OpenObject | None = None


@value
class ProviderRequest(Document):
    """What a provider is asked. It is never stored."""

    SECTION: ClassVar[str] = "§6.2"
    agent_id: NonEmpty
    provider: NonEmpty
    model: NonEmpty
    messages: Annotated[tuple[RequestMessage, ...], NotEmpty]
    tools: tuple[Tool, ...]
    expected_output_schema: OutputSchema | None
    reasoning_effort: str | None = None
    sampling: OpenObject | None = None
    metadata: OpenObject | None = None
