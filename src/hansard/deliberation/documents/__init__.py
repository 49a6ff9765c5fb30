"""The sixteen documents of the protocol as frozen values: `X.parse(data)`, `x.as_data()`, `X.schema()`.

Strict: nothing unknown passes, and a breach quotes its path and rule. Rules over a whole artifact are in `semantics`.
"""

from hansard.deliberation.documents.artifact import (
    Artifact,
    Outcome,
    Producer,
    ProviderFailure,
    RecordedArtifact,
    RunManifest,
    TerminationArtifact,
)
from hansard.deliberation.documents.breach import Breach, Invalid
from hansard.deliberation.documents.config import (
    AgentConfig,
    BudgetConfig,
    Config,
    Knobs,
    RuntimeConfig,
    SelectorBudget,
    SelectorConfig,
)
from hansard.deliberation.documents.document import ABSENT, Absent, Document
from hansard.deliberation.documents.exchange import (
    NO_USAGE,
    CallError,
    ProviderRequest,
    ProviderResult,
    RequestMessage,
    Tool,
    ToolEvent,
    Usage,
)
from hansard.deliberation.documents.golden import (
    ExpectedAssertion,
    FakeProviderScript,
    GoldenTestCase,
    ScriptEntry,
    ScriptMatch,
)
from hansard.deliberation.documents.jcs import (
    content_hash,
    digest_of,
    jcs,
    transcript_bytes,
    transcript_digest,
    unrepresentable,
)
from hansard.deliberation.documents.message import RUNTIME, Message, SchemaFailure
from hansard.deliberation.documents.packet import BranchOrigin, ContextPacket, Disagreements, Disclosed, QueuedRequest
from hansard.deliberation.documents.persona import Persona
from hansard.deliberation.documents.selection import Excluded, MissingCapability, SelectorOutput
from hansard.deliberation.documents.turns import (
    Content,
    Contraction,
    DirectRequest,
    ExternalResearchRequest,
    Position,
    Resolved,
    SynthesisContent,
    TurnStructuredOutput,
    Unresolved,
    UserInputRequest,
    Verdict,
)
from hansard.deliberation.documents.vocabulary import SCHEMA_VERSION

DOCUMENTS: dict[str, type[Document]] = {
    "artifact": Artifact,
    "config": Config,
    "context_packet": ContextPacket,
    "direct_request": DirectRequest,
    "fake_provider_script": FakeProviderScript,
    "golden_test_case": GoldenTestCase,
    "message": Message,
    "persona": Persona,
    "provider_request": ProviderRequest,
    "provider_result": ProviderResult,
    "run_manifest": RunManifest,
    "selector_output": SelectorOutput,
    "synthesis": SynthesisContent,
    "termination_artifact": TerminationArtifact,
    "turn_structured_output": TurnStructuredOutput,
    "verdict": Verdict,
}
"""The sixteen, by the name of their schema."""

__all__ = [
    "ABSENT",
    "DOCUMENTS",
    "NO_USAGE",
    "RUNTIME",
    "SCHEMA_VERSION",
    "Absent",
    "AgentConfig",
    "Artifact",
    "BranchOrigin",
    "Breach",
    "BudgetConfig",
    "CallError",
    "Config",
    "Content",
    "ContextPacket",
    "Contraction",
    "DirectRequest",
    "Disagreements",
    "Disclosed",
    "Document",
    "Excluded",
    "ExpectedAssertion",
    "ExternalResearchRequest",
    "FakeProviderScript",
    "GoldenTestCase",
    "Invalid",
    "Knobs",
    "Message",
    "MissingCapability",
    "Outcome",
    "Persona",
    "Position",
    "Producer",
    "ProviderFailure",
    "ProviderRequest",
    "ProviderResult",
    "QueuedRequest",
    "RecordedArtifact",
    "RequestMessage",
    "Resolved",
    "RunManifest",
    "RuntimeConfig",
    "SchemaFailure",
    "ScriptEntry",
    "ScriptMatch",
    "SelectorBudget",
    "SelectorConfig",
    "SelectorOutput",
    "SynthesisContent",
    "TerminationArtifact",
    "Tool",
    "ToolEvent",
    "TurnStructuredOutput",
    "Unresolved",
    "Usage",
    "UserInputRequest",
    "Verdict",
    "content_hash",
    "digest_of",
    "jcs",
    "transcript_bytes",
    "transcript_digest",
    "unrepresentable",
]
