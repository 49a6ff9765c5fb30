"""The configuration of a session (§5.2)."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from hansard.deliberation.documents.document import Document, NotEmpty, When
from hansard.deliberation.documents.persona import Persona
from hansard.deliberation.documents.vocabulary import (
    NonEmpty,
    ObservabilityLevel,
    OnAgentFailure,
    OnBudgetExceeded,
    OpenObject,
    Positive,
    SchemaVersion,
    Strategy,
    Usd,
)
from hansard.domain.value import value


@value
class SelectorBudget(Document):
    """What choosing the panel may cost."""

    SECTION: ClassVar[str] = "§8.1"
    max_tokens: int | None = None
    max_cost_usd: Usd | None = None


@value
class SelectorConfig(Document):
    """How the panel is chosen."""

    SECTION: ClassVar[str] = "§5.2"
    RULES: ClassVar[tuple[When, ...]] = (
        When(rule="§5.2 selector_budget", member="strategy", values=("llm",), required=("selector_budget",)),
    )
    strategy: Strategy
    default_deliberation_panel: Annotated[tuple[NonEmpty, ...], NotEmpty]
    coordinator_agent: NonEmpty
    selector_budget: SelectorBudget | None = None


@value
class AgentConfig(Document):
    """An agent: a persona on a provider's model."""

    SECTION: ClassVar[str] = "§5.2"
    id: NonEmpty
    persona_ref: NonEmpty | Persona
    provider: NonEmpty
    model: NonEmpty
    reasoning_effort: str | None = None
    tools: tuple[OpenObject, ...] | None = None
    output_requirements: tuple[NonEmpty, ...] | None = None
    retry_budget: int | None = None


@value
class BudgetConfig(Document):
    """What the session may use."""

    SECTION: ClassVar[str] = "§8.1"
    max_total_tokens: Positive
    max_total_cost_usd: Usd
    max_rounds: Positive
    max_wallclock_seconds: Positive
    per_agent_token_budget: Mapping[str, Positive] | None = None
    selector_budget: SelectorBudget | None = None


@value
class Knobs:
    """The settings of the runtime with the protocol's defaults filled in."""

    max_branch_depth: int = 1
    max_deferred_queue_length: int = 8
    max_deferred_drains_per_round: int = 1
    on_agent_failure: OnAgentFailure = "terminate"
    per_agent_retry_budget: int = 2
    synthesize_on_terminate: bool = False
    on_budget_exceeded: OnBudgetExceeded = "stop"
    observability_level: ObservabilityLevel = "mvp"
    max_tool_iterations: int = 8


@value
class RuntimeConfig(Document):
    """The settings of the runtime as written; `knobs` has them all."""

    SECTION: ClassVar[str] = "§5.2"
    max_branch_depth: Positive | None = None
    max_deferred_queue_length: int | None = None
    max_deferred_drains_per_round: int | None = None
    on_agent_failure: OnAgentFailure | None = None
    per_agent_retry_budget: int | None = None
    synthesize_on_terminate: bool | None = None
    on_budget_exceeded: OnBudgetExceeded | None = None
    observability_level: ObservabilityLevel | None = None
    max_tool_iterations: Positive | None = None

    @property
    def knobs(self) -> Knobs:
        return Knobs(**self.as_data())


@value
class Config(Document):
    """Everything that a session is started with."""

    SECTION: ClassVar[str] = "§5.2"
    schema_version: SchemaVersion
    session_id: NonEmpty
    originator: NonEmpty
    problem_statement: NonEmpty
    selector: SelectorConfig
    agents: Annotated[tuple[AgentConfig, ...], NotEmpty]
    coordinator: AgentConfig
    budget: BudgetConfig
    runtime: RuntimeConfig

    @property
    def everybody(self) -> tuple[AgentConfig, ...]:
        """The agents, and the coordinator."""
        return *self.agents, self.coordinator

    def agent(self, id: str) -> AgentConfig | None:
        """The agent or coordinator of this id."""
        return next((each for each in self.everybody if each.id == id), None)

    def retry_budget(self, agent: AgentConfig) -> int:
        """How many retries this agent has: its own number, or everybody's."""
        return self.runtime.knobs.per_agent_retry_budget if agent.retry_budget is None else agent.retry_budget

    @property
    def selector_budget(self) -> SelectorBudget | None:
        return self.selector.selector_budget or self.budget.selector_budget
