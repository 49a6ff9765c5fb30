"""Where a session stands: the transcript so far, the queue, the counters. Changed by the rules only.

It is a function of the events that were heard: whoever sends them again has the same state.
"""

from dataclasses import dataclass, field
from typing import Any

from hansard.deliberation.protocol.moves import Cap, Draft, Json, Reading, Spent, Stopped
from hansard.deliberation.protocol.rules import Rules
from hansard.domain.council import TerminationReason
from hansard.domain.value import replace, value


@value
class Deferred:
    """A direct request that waits for the opening of a later round [R-4.6-1]."""

    originator: str
    request: Json
    parent: int
    deferred_at_round: int
    deferred_at_turn_index: int

    @property
    def target(self) -> str:
        return str(self.request["target"])


@dataclass(slots=True, kw_only=True)
class State:
    """One session in the middle of its life."""

    rules: Rules
    panel: tuple[str, ...] = ()
    active: tuple[str, ...] = ()
    """Who of the panel is on it still, in the order in which they speak."""
    transcript: list[Draft] = field(default_factory=list)
    queue: list[Deferred] = field(default_factory=list)
    round: int = 0
    opened: int = 1
    """The ordinal at which the running round begins."""
    turn: int = 0
    last_turn: int = 0
    last_verdict: Json | None = None
    verdict_at: int | None = None
    """The ordinal of the message that it is."""
    resolved: dict[str, Json] = field(default_factory=dict)
    unresolved: dict[str, Json] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost_usd_nano: int = 0
    agent_tokens: dict[str, int] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    new: list[int] = field(default_factory=list)
    changed: dict[int, None] = field(default_factory=dict)

    def append(self, draft: Draft) -> Draft:
        """Put a message at the end of the transcript, the only place there is [R-4.1-1]."""
        self.transcript.append(draft)
        self.new.append(draft.ordinal)
        self.last_turn = draft.turn_index
        return draft

    def annotate(self, ordinal: int, **added: tuple[Json, ...]) -> None:
        """Add to the annotations of a message; nothing else of it can change [R-4.10-6]."""
        draft = self.transcript[ordinal]
        grown: dict[str, Any] = {name: getattr(draft, name) + more for name, more in added.items()}
        self.transcript[ordinal] = replace(draft, **grown)
        if ordinal not in self.new:
            self.changed[ordinal] = None

    def spend(self, agent: str, spent: Spent) -> None:
        """Count a call, whatever came of it [A-3]."""
        self.calls += spent.calls
        self.tokens += spent.tokens
        self.cost_usd_nano += spent.cost_usd_nano
        self.agent_tokens[agent] = self.agent_tokens.get(agent, 0) + spent.tokens

    def note_verdict(self, verdict: Json, ordinal: int) -> None:
        """Merge the disagreements by topic: the latest word on each one counts [A-6]."""
        self.last_verdict, self.verdict_at = verdict, ordinal
        for each in verdict["resolved_disagreements"]:
            self.unresolved.pop(each["topic"], None)
            self.resolved[each["topic"]] = each
        for each in verdict["unresolved_disagreements"]:
            self.resolved.pop(each["topic"], None)
            self.unresolved[each["topic"]] = each


def gate(state: State) -> Stopped | None:
    """Why the session may not go on, or None: asked before and after each call and at each transition [R-4.7-3].

    The host's wish comes before any cap [A-30]; a cap comes before any verdict [R-4.10-8].
    """
    if state.reading.cancelled:
        return Stopped(reason="user_cancel")
    rules = state.rules
    if state.tokens > rules.max_total_tokens:
        return _breached("budget_exceeded", "max_total_tokens")
    if state.cost_usd_nano > rules.max_total_cost_usd_nano:
        return _breached("budget_exceeded", "max_total_cost_usd")
    if state.reading.elapsed_us > rules.max_wallclock_us:
        return _breached("timeout", "max_wallclock_seconds")
    for agent, limit in rules.agent_tokens.items():
        if state.agent_tokens.get(agent, 0) > limit:
            return Stopped(reason="budget_exceeded", cap="per_agent_token_budget", agent=agent)
    return None


def _breached(reason: TerminationReason, cap: Cap) -> Stopped:
    return Stopped(reason=reason, cap=cap)
