"""What agents and the coordinator say: a turn, a direct request, a verdict, a synthesis."""

from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import Document, NotEmpty, When
from hansard.deliberation.documents.vocabulary import ContractionReason, NextAction, NonEmpty, OpenObject, Share
from hansard.domain.value import value


@value
class DirectRequest(Document):
    """What one agent asks of another."""

    SECTION: ClassVar[str] = "§5.5"
    target: NonEmpty
    type: NonEmpty
    content: NonEmpty | OpenObject


@value
class TurnStructuredOutput(Document):
    """A panel agent's turn."""

    SECTION: ClassVar[str] = "§5.5"
    text: NonEmpty
    direct_requests: tuple[DirectRequest, ...] | None = None


@value
class Resolved(Document):
    """A disagreement that was settled."""

    SECTION: ClassVar[str] = "§5.6"
    topic: NonEmpty
    resolution: NonEmpty
    agents_involved: tuple[NonEmpty, ...] | None = None


@value
class Position(Document):
    """What one agent holds in a disagreement."""

    SECTION: ClassVar[str] = "§5.6"
    agent: NonEmpty
    claim: NonEmpty


@value
class Unresolved(Document):
    """A disagreement that stands."""

    SECTION: ClassVar[str] = "§5.6"
    topic: NonEmpty
    positions: Annotated[tuple[Position, ...], NotEmpty]
    blocker: bool | None = None


@value
class UserInputRequest(Document):
    """What the panel needs to know from the person who asked."""

    SECTION: ClassVar[str] = "§5.6"
    question: NonEmpty
    context: str | None = None
    blocking: bool | None = None


@value
class ExternalResearchRequest(Document):
    """What the panel needs to know from the world."""

    SECTION: ClassVar[str] = "§5.6"
    query: NonEmpty
    rationale: str | None = None
    suggested_sources: tuple[NonEmpty, ...] | None = None


@value
class Verdict(Document):
    """The coordinator's opinion at the end of a round; only the runtime acts on it."""

    SECTION: ClassVar[str] = "§5.6"
    RULES: ClassVar[tuple[When, ...]] = (
        When(
            rule="R-5.6-1",
            member="next_action",
            values=("request_user_input",),
            required=("user_input_request",),
            forbidden=("external_research_request",),
        ),
        When(
            rule="R-5.6-2",
            member="next_action",
            values=("request_external_research",),
            required=("external_research_request",),
            forbidden=("user_input_request",),
        ),
        When(
            rule="R-5.6-1, R-5.6-2",
            member="next_action",
            values=("continue", "finalize"),
            forbidden=("user_input_request", "external_research_request"),
        ),
    )
    next_action: NextAction
    rationale: NonEmpty
    confidence: Share
    focus: NonEmpty
    next_agents: tuple[NonEmpty, ...]
    resolved_disagreements: tuple[Resolved, ...]
    unresolved_disagreements: tuple[Unresolved, ...]
    user_input_request: UserInputRequest | None = None
    external_research_request: ExternalResearchRequest | None = None


@value
class SynthesisContent(Document):
    """The answer of the whole panel."""

    SECTION: ClassVar[str] = "§5.8"
    integrated_answer: NonEmpty
    resolved_disagreements: tuple[Resolved, ...]
    unresolved_disagreements: tuple[Unresolved, ...]
    confidence: Share | None = None
    open_questions: tuple[NonEmpty, ...] | None = None


@value
class Contraction(Document):
    """An agent left the panel, and why."""

    SECTION: ClassVar[str] = "§4.9"
    agent_id: NonEmpty
    reason: ContractionReason


Content = str | TurnStructuredOutput | Verdict | SynthesisContent | Contraction
"""What a message may hold, by its type."""
