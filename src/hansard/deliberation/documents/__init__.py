"""The sixteen documents of the protocol as frozen values: `X.parse(data)`, `x.as_data()`, `X.schema()`.

Strict: nothing unknown passes, and a breach quotes its path and rule. Rules over a whole artifact are in `semantics`.
"""

from hansard.deliberation.documents.artifact import (
    Artifact,
    Outcome,
    Producer,
    ProviderFailure,
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

parse_artifact = Artifact.parse
parse_config = Config.parse
parse_context_packet = ContextPacket.parse
parse_direct_request = DirectRequest.parse
parse_fake_provider_script = FakeProviderScript.parse
parse_golden_test_case = GoldenTestCase.parse
parse_message = Message.parse
parse_persona = Persona.parse
parse_provider_request = ProviderRequest.parse
parse_provider_result = ProviderResult.parse
parse_run_manifest = RunManifest.parse
parse_selector_output = SelectorOutput.parse
parse_synthesis = SynthesisContent.parse
parse_termination_artifact = TerminationArtifact.parse
parse_turn_structured_output = TurnStructuredOutput.parse
parse_verdict = Verdict.parse

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
    "parse_artifact",
    "parse_config",
    "parse_context_packet",
    "parse_direct_request",
    "parse_fake_provider_script",
    "parse_golden_test_case",
    "parse_message",
    "parse_persona",
    "parse_provider_request",
    "parse_provider_result",
    "parse_run_manifest",
    "parse_selector_output",
    "parse_synthesis",
    "parse_termination_artifact",
    "parse_turn_structured_output",
    "parse_verdict",
    "transcript_bytes",
    "transcript_digest",
    "unrepresentable",
]
