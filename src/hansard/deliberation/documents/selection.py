"""Who was chosen for the panel, and who was not (§5.11)."""

from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import Document, NotEmpty
from hansard.deliberation.documents.vocabulary import NonEmpty, Strategy
from hansard.domain.value import value


@value
class Excluded(Document):
    """An agent that does not speak, and why."""

    SECTION: ClassVar[str] = "§5.11"
    id: NonEmpty
    reason: NonEmpty


@value
class MissingCapability(Document):
    """What the problem asks for and no agent offers."""

    SECTION: ClassVar[str] = "§5.11"
    capability: NonEmpty
    reason: NonEmpty
    suggested_persona: str | None = None


@value
class SelectorOutput(Document):
    """The chosen panel, in the order in which it speaks."""

    SECTION: ClassVar[str] = "§5.11"
    strategy: Strategy
    selected_agents: Annotated[tuple[NonEmpty, ...], NotEmpty]
    coordinator_agent: NonEmpty
    excluded_agents: tuple[Excluded, ...] | None = None
    missing_capabilities: tuple[MissingCapability, ...] | None = None
    reasoning: str | None = None
