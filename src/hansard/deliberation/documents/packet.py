"""What an agent is shown before its turn (§5.9). It is derived anew each time and never stored."""

from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import ABSENT, Absent, Document
from hansard.deliberation.documents.message import Message
from hansard.deliberation.documents.persona import Persona
from hansard.deliberation.documents.shape import Whole
from hansard.deliberation.documents.turns import DirectRequest, Resolved, Unresolved, Verdict
from hansard.deliberation.documents.vocabulary import NonEmpty
from hansard.domain.value import value


@value
class Disclosed(Document):
    """Who else sits on the panel."""

    SECTION: ClassVar[str] = "§4.3"
    id: NonEmpty
    role_summary: NonEmpty


@value
class BranchOrigin(Document):
    """The request that a branch turn answers, and the message in which it stands."""

    SECTION: ClassVar[str] = "§4.5"
    direct_request: DirectRequest
    parent_message: Message


@value
class QueuedRequest(Document):
    """A deferred request without its content."""

    SECTION: ClassVar[str] = "§4.6"
    target: NonEmpty
    originator: NonEmpty
    type: NonEmpty


@value
class Disagreements(Document):
    """What was settled and what was not, over all rounds."""

    SECTION: ClassVar[str] = "§5.9"
    resolved: tuple[Resolved, ...] | None = None
    unresolved: tuple[Unresolved, ...] | None = None


@value
class ContextPacket(Document):
    """All that an agent is shown."""

    SECTION: ClassVar[str] = "§5.9"
    problem_statement: NonEmpty
    round: Annotated[int, Whole(1)]
    persona: Persona
    panel_disclosure: tuple[Disclosed, ...]
    current_round_messages: tuple[Message, ...]
    most_recent_verdict: Verdict | Absent | None = ABSENT
    branch_origin: BranchOrigin | None = None
    deferred_queue_summary: tuple[QueuedRequest, ...] | None = None
    cumulative_disagreements: Disagreements | None = None
    compression_note: str | None = None
