"""What a session leaves behind: its artifact, and the manifest of its directory (§5.8, §5.10, §7.2)."""

from typing import Annotated, ClassVar

from hansard.deliberation.documents.config import Config
from hansard.deliberation.documents.document import ABSENT, Absent, Document, NotEmpty, When
from hansard.deliberation.documents.exchange import Usage
from hansard.deliberation.documents.message import Message
from hansard.deliberation.documents.shape import Choice
from hansard.deliberation.documents.turns import ExternalResearchRequest, Unresolved, UserInputRequest, Verdict
from hansard.deliberation.documents.vocabulary import (
    ErrorKind,
    ManifestStatus,
    NonEmpty,
    OpenObject,
    OutcomeKind,
    ReleaseVersion,
    SchemaVersion,
    SemVer,
    Sha256,
    TerminationReason,
    Time,
    Word,
)
from hansard.domain.value import value

_INPUT, _RESEARCH = "pending_user_input_request", "pending_external_research_request"


@value
class ProviderFailure(Document):
    """The failure that a session ended with."""

    SECTION: ClassVar[str] = "§5.8"
    agent_id: NonEmpty
    provider: NonEmpty
    kind: ErrorKind
    message: NonEmpty
    model: str | Absent | None = ABSENT
    details: OpenObject | Absent | None = ABSENT


@value
class TerminationArtifact(Document):
    """Why a session ended without a synthesis, and what was open."""

    SECTION: ClassVar[str] = "§5.8"
    RULES: ClassVar[tuple[When, ...]] = (
        When(
            rule="R-5.8-1",
            member="reason",
            values=("user_input_required",),
            required=(_INPUT,),
            forbidden=(_RESEARCH,),
        ),
        When(
            rule="R-5.8-1",
            member="reason",
            values=("external_research_required",),
            required=(_RESEARCH,),
            forbidden=(_INPUT,),
        ),
        When(
            rule="R-5.8-1",
            member="reason",
            values=("budget_exceeded", "schema_error", "provider_unrecoverable", "user_cancel", "timeout"),
            forbidden=(_INPUT, _RESEARCH),
        ),
    )
    schema_version: SchemaVersion
    reason: TerminationReason
    final_round: int
    cumulative_usage: Usage
    unresolved_disagreements: tuple[Unresolved, ...]
    transcript_digest: Sha256
    most_recent_verdict: Verdict | Absent | None = ABSENT
    pending_user_input_request: UserInputRequest | None = None
    pending_external_research_request: ExternalResearchRequest | None = None
    last_provider_failure: ProviderFailure | None = None


@value
class Outcome(Document):
    """How a session ended: by a synthesis, which is a message, or by a termination."""

    SECTION: ClassVar[str] = "§5.10"
    RULES: ClassVar[tuple[When, ...]] = (
        When(
            rule="§5.10 outcome",
            member="kind",
            values=("synthesis",),
            required=("synthesis_message_id",),
            forbidden=("termination_artifact",),
        ),
        When(
            rule="§5.10 outcome",
            member="kind",
            values=("termination",),
            required=("termination_artifact",),
            forbidden=("synthesis_message_id",),
        ),
    )
    kind: OutcomeKind
    synthesis_message_id: NonEmpty | None = None
    termination_artifact: TerminationArtifact | None = None


@value
class RecordedArtifact(Document):
    """A finished session as the record has it: it names its messages, which earlier records have in it once more."""

    SECTION: ClassVar[str] = "§5.10"
    schema_version: SchemaVersion
    session_id: NonEmpty
    config: Config
    canonical_transcript: Annotated[tuple[Message, ...], NotEmpty] | OpenObject
    outcome: Outcome
    cumulative_usage: Usage
    cumulative_unresolved: tuple[Unresolved, ...]
    transcript_digest: Sha256
    started_at: Time
    ended_at: Time


@value
class Artifact(RecordedArtifact):
    """A finished session, whole."""

    canonical_transcript: Annotated[tuple[Message, ...], NotEmpty]


@value
class Producer(Document):
    """The program that ran the session."""

    SECTION: ClassVar[str] = "§7.2"
    name: NonEmpty
    version: ReleaseVersion


@value
class RunManifest(Document):
    """What stands in a run directory, and how far the session has come."""

    SECTION: ClassVar[str] = "§7.2"
    RULES: ClassVar[tuple[When, ...]] = (
        When(
            rule="R-7.2-1",
            member="status",
            values=("complete",),
            required=("transcript_digest", "outcome_kind"),
            shapes={"outcome_kind": Choice(("synthesis",))},
        ),
        When(
            rule="R-7.2-1",
            member="status",
            values=("terminated",),
            required=("transcript_digest", "outcome_kind"),
            shapes={"outcome_kind": Choice(("termination",))},
        ),
        When(
            rule="R-7.2-1",
            member="status",
            values=("in_progress", "crashed"),
            required=("updated_at",),
            forbidden=("transcript_digest", "outcome_kind"),
        ),
    )
    schema_version: SchemaVersion
    manifest_version: SemVer
    session_id: Word
    status: ManifestStatus
    producer: Producer
    created_at: Time
    artifact_path: NonEmpty
    config_path: NonEmpty
    updated_at: Time | None = None
    journal_path: NonEmpty | None = None
    observability_log_path: NonEmpty | None = None
    transcript_digest: Sha256 | None = None
    outcome_kind: OutcomeKind | None = None
    notes: str | None = None
