"""What a configuration fixes before the first turn: caps, budgets, policies. Who sits on the panel comes later."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Self

from hansard.deliberation.documents.config import Config
from hansard.domain.budget import MOST_SPENT, in_nano
from hansard.domain.value import value


@value
class Rules:
    """The knobs of one session. Caps count every call; a cap is breached when it is exceeded [A-4]."""

    originator: str
    problem: str
    coordinator: str
    max_rounds: int = 5
    max_total_tokens: int = 500_000
    max_total_cost_usd_nano: int = 5_000_000_000
    max_wallclock_us: int = 1_800_000_000
    agent_tokens: Mapping[str, int] = field(default_factory=dict)
    max_branch_depth: int = 1
    max_queue: int = 8
    drains_per_round: int = 1
    on_agent_failure: Literal["terminate", "continue_without"] = "terminate"
    retries: int = 2
    agent_retries: Mapping[str, int] = field(default_factory=dict)
    synthesize_on_terminate: bool = False

    @classmethod
    def of(cls, config: Config) -> Self:
        """The rules that a configuration asks for, with the protocol's defaults where it says nothing."""
        budget, knobs = config.budget, config.runtime.knobs
        return cls(
            originator=config.originator,
            problem=config.problem_statement,
            coordinator=config.coordinator.id,
            max_rounds=budget.max_rounds,
            max_total_tokens=min(budget.max_total_tokens, MOST_SPENT),
            max_total_cost_usd_nano=in_nano(budget.max_total_cost_usd),
            max_wallclock_us=budget.max_wallclock_seconds * 1_000_000,
            agent_tokens=budget.per_agent_token_budget or {},
            max_branch_depth=knobs.max_branch_depth,
            max_queue=knobs.max_deferred_queue_length,
            drains_per_round=knobs.max_deferred_drains_per_round,
            on_agent_failure=knobs.on_agent_failure,
            retries=knobs.per_agent_retry_budget,
            agent_retries={each.id: config.retry_budget(each) for each in config.everybody},
            synthesize_on_terminate=knobs.synthesize_on_terminate,
        )

    def retries_of(self, agent: str) -> int:
        """How many more calls after the first one an agent has for one turn [R-6.7-3]."""
        return self.agent_retries.get(agent, self.retries)
