"""Facts of a deliberation: the panel, each turn, its end, its archive."""

from typing import ClassVar, Literal

from hansard.domain.exchange import CostBasis, ErrorKind
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value

TurnType = Literal[
    "problem_statement", "primary_turn", "coordination_turn", "branch_turn", "synthesis", "panel_contraction"
]
TerminationReason = Literal[
    "budget_exceeded",
    "schema_error",
    "provider_unrecoverable",
    "user_cancel",
    "timeout",
    "user_input_required",
    "external_research_required",
]


@value
class SessionConvened(Fact):
    """A session begins: its id, and its whole configuration as a part."""

    KIND: ClassVar[str] = "session.convened"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.requested",
        "run.configured",
        "task.attempted",
        "role.asked",
        "session.ended",
        "ensemble.answered",
        "persona.made",
    )
    session: str
    agents: int
    problem: Body
    config: Body


@value
class PanelSelected(Fact):
    """Who sits on the panel, by which strategy; where a model chose, what that call took, `latency_us` among it."""

    KIND: ClassVar[str] = "panel.selected"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("session.convened", "turn.asked", "turn.failed")
    strategy: Literal["fixed", "rules", "llm"]
    agents: tuple[str, ...]
    coordinator: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost_usd_nano: int | None = None
    cost_basis: CostBasis | None = None
    latency_us: int | None = None
    selection: Body


@value
class PersonaMade(Fact):
    """A persona was generated for a session that has not begun."""

    KIND: ClassVar[str] = "persona.made"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.configured", "session.ended", "role.answered")
    persona: str
    accepted: bool
    definition: Body


@value
class EnsembleAnswered(Fact):
    """One independent first answer, given without sight of the others."""

    KIND: ClassVar[str] = "ensemble.answered"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.configured", "turn.asked")
    agent: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd_nano: int
    cost_basis: CostBasis | None = None
    answer: Body


@value
class TurnAsked(Fact):
    """A panel agent, the coordinator or the selector is about to be asked: the exact request, before the call.

    Where a content is a list, its pieces stand one behind the other: a text, or an object that says which messages it quotes.
    """

    KIND: ClassVar[str] = "turn.asked"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.requested",
        "run.configured",
        "session.convened",
        "panel.selected",
        "turn.taken",
        "turn.failed",
        "turn.amended",
    )
    session: str
    agent: str
    round: int
    turn_index: int
    branch_depth: int
    attempt: int
    provider: str
    model: str
    script_position: int | None = None
    jitter_seed: int | None = None
    prompt: Body


@value
class ToolsCalled(Fact):
    """A model wants tools of the host before it answers; none of them has run yet. What that call took counts here."""

    KIND: ClassVar[str] = "tools.called"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("turn.asked", "tools.returned")
    agent: str
    iteration: int
    tools: tuple[str, ...]
    prompt_tokens: int
    completion_tokens: int
    cost_usd_nano: int | None = None
    cost_basis: CostBasis | None = None
    latency_us: int | None = None
    calls: Body


@value
class ToolsReturned(Fact):
    """What came of a batch of tools, in the order in which they ran."""

    KIND: ClassVar[str] = "tools.returned"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("tools.called",)
    agent: str
    iteration: int
    failed: int
    results: Body


@value
class TurnFailed(Fact):
    """An attempt that gave no usable turn, with what it cost all the same, besides what `tools.called` counts.

    `calls` is 0 where no model was asked since; otherwise the attempt is one call. `pause_us`: the pause before the next one.
    `latency_us`: how long that call took.
    """

    KIND: ClassVar[str] = "turn.failed"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("turn.asked", "tools.called", "tools.returned")
    agent: str
    attempt: int
    error: ErrorKind
    retriable: bool
    prompt_tokens: int
    completion_tokens: int
    cost_usd_nano: int
    elapsed_us: int
    cost_basis: CostBasis | None = None
    calls: int | None = None
    pause_us: int | None = None
    latency_us: int | None = None
    result: Body


@value
class TurnTaken(Fact):
    """A message entered the transcript; the part `message` holds its RFC 8785 bytes, and `result` what the model wrote.

    Where the `text` of `result` is a list, its pieces stand one behind the other: a text, or an object that says which part of the
    message stands there.

    Its figures are those of the last call, and `latency_us` how long that took: what calls for tools took stands in `tools.called`.
    """

    KIND: ClassVar[str] = "turn.taken"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "session.convened",
        "panel.selected",
        "turn.asked",
        "turn.failed",
        "turn.taken",
        "tools.returned",
    )
    type: TurnType
    speaker: str
    round: int
    turn_index: int
    branch_depth: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd_nano: int
    elapsed_us: int
    cost_basis: CostBasis | None = None
    confidence_ppm: int | None = None
    tools: int | None = None
    latency_us: int | None = None
    message: Body
    result: Body | None = None


@value
class TurnAmended(Fact):
    """A late annotation of an earlier message; the part holds the whole message again."""

    KIND: ClassVar[str] = "turn.amended"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("turn.taken", "turn.amended")
    amends: int
    what: Literal["dropped_deferred", "schema_failure", "suggested_followups"]
    message: Body


@value
class SessionEnded(Fact):
    """The session's outcome; the artifact, with its transcript digest, is a part, and names its messages instead of holding them. `why`
    says which cap ended it, or what kept a panel from sitting.
    """

    KIND: ClassVar[str] = "session.ended"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "turn.taken",
        "turn.amended",
        "turn.failed",
        "panel.selected",
        "session.convened",
        "run.cancel_asked",
        "budget.breached",
    )
    session: str
    outcome: Literal["synthesis", "termination"]
    reason: TerminationReason | None = None
    rounds: int
    why: str | None = None
    artifact: Body


@value
class SessionArchived(Fact):
    """The run directory is complete; the part holds the hash of every file in it."""

    KIND: ClassVar[str] = "session.archived"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("session.ended",)
    session: str
    files: int
    manifest: Body
