"""The closed sets of words of the protocol, and the kinds of text and number that its documents share."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from hansard.deliberation.documents.breach import Invalid
from hansard.deliberation.documents.shape import (
    DateTime,
    Definitions,
    Number,
    Open,
    Plain,
    Text,
    Whole,
)
from hansard.domain.council import TerminationReason, TurnType
from hansard.domain.exchange import ErrorKind, Finish, MessageRole

NextAction = Literal["continue", "finalize", "request_user_input", "request_external_research"]
ContractionReason = Literal["provider_unrecoverable", "schema_error"]
Strategy = Literal["fixed", "rules", "llm"]
PersonaClass = Literal["horizontal", "domain"]
PersonaStatus = Literal["experimental", "stable", "deprecated", "archived"]
OnAgentFailure = Literal["terminate", "continue_without"]
OnBudgetExceeded = Literal["stop"]
ObservabilityLevel = Literal["mvp", "verbose"]
ManifestStatus = Literal["in_progress", "complete", "terminated", "crashed"]
OutcomeKind = Literal["synthesis", "termination"]
OutputSchema = Literal["turn_structured_output", "verdict", "synthesis_content"]
OnExhaustion = Literal["error", "loop"]
AssertionCategory = Literal["scheduler_invariant", "budget_cap", "failure_kind", "replay", "schema_semantic"]
PinningCondition = Literal[
    "runtime",
    "adapter",
    "provider",
    "model",
    "sampling",
    "cache",
    "tool_env",
    "wallclock",
    "persona",
    "transcript_prefix",
]

__all__ = [
    "AssertionCategory",
    "ContractionReason",
    "ErrorKind",
    "Finish",
    "ManifestStatus",
    "MessageRole",
    "NextAction",
    "ObservabilityLevel",
    "OnAgentFailure",
    "OnBudgetExceeded",
    "OnExhaustion",
    "OutcomeKind",
    "OutputSchema",
    "PersonaClass",
    "PersonaStatus",
    "PinningCondition",
    "Strategy",
    "TerminationReason",
    "TurnType",
]

SCHEMA_VERSION = "1.0.0"
SEMVER = r"[0-9]+\.[0-9]+\.[0-9]+"
NAME = r"[A-Za-z0-9_-]{1,64}"


@dataclass(frozen=True, slots=True)
class Version(Plain):
    """A version of the schemas: three numbers, and of those only the version that we know (§5.1)."""

    kinds = ("string",)

    def read(self, value: object) -> str:
        said = Text(pattern=SEMVER).read(value)
        if said == SCHEMA_VERSION:
            return said
        if re.split(r"\.", said)[0] != SCHEMA_VERSION.split(".")[0]:
            raise Invalid(f"is {said}, a major version that we do not know; we read {SCHEMA_VERSION}", rule="R-5.1-3")
        raise Invalid(
            f"is {said}; we read {SCHEMA_VERSION} only, so upgrade Hansard or migrate the file", rule="R-5.1-2"
        )

    def schema(self, definitions: Definitions) -> dict[str, Any]:
        return Text(pattern=SEMVER).schema(definitions)


NonEmpty = Annotated[str, Text(1)]
Word = Annotated[str, Text(pattern=NAME)]
"""An id that may name a directory (§7.1)."""
Sha256 = Annotated[str, Text(pattern="[0-9a-f]{64}")]
SchemaVersion = Annotated[str, Version()]
SemVer = Annotated[str, Text(pattern=SEMVER)]
ReleaseVersion = Annotated[str, Text(pattern=SEMVER + r"(?:[-+][0-9A-Za-z.-]+)?")]
Time = Annotated[str, DateTime()]
Positive = Annotated[int, Whole(1)]
Share = Annotated[float, Number(1)]
OpenObject = Annotated[dict[str, Any], Open()]
Usd = float
