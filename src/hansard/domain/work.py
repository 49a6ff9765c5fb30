"""Facts of a run: the request, its plan, the attempts, what was judged, the answer."""

from typing import ClassVar, Literal

from hansard.domain.exchange import CostBasis, Finish
from hansard.domain.fact import Body, Fact
from hansard.domain.value import value

Surface = Literal["cli", "http", "mcp", "python"]
Role = Literal[
    "coordinator",
    "classifier",
    "validator",
    "synthesizer",
    "intent_judge",
    "reviser",
    "verifier",
    "context",
    "persona_maker",
]
EndState = Literal["answered", "partial", "failed", "stopped", "cancelled"]
BudgetUnit = Literal["calls", "tokens", "cost_usd_nano", "seconds"]


@value
class RunRequested(Fact):
    """Somebody asked for a run. Written by the surface, before any driver claims it."""

    KIND: ClassVar[str] = "run.requested"
    CAUSES: ClassVar[tuple[str, ...]] = ("task.attempted", "run.ended", "session.ended")
    mode: Literal["request", "single", "plan", "deliberation", "persona", "plan_only"]
    surface: Surface
    request: Body
    plan: Body | None = None


@value
class RunConfigured(Fact):
    """Everything that decides how the run goes, fixed before its first step. Limits of None are not set."""

    KIND: ClassVar[str] = "run.configured"
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested",)
    nonce: str
    software: str
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd_nano: int | None = None
    max_seconds: int | None = None
    config: Body


@value
class RunClaimed(Fact):
    """A driver took the run; later entries of driven kinds carry this epoch or are refused."""

    KIND: ClassVar[str] = "run.claimed"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.claimed", "run.resume_asked", "run.retry_asked")
    epoch: int
    because: Literal["new", "resumed", "expired", "dead"]


@value
class RouteGiven(Fact):
    """Somebody asked where a request would go, and was told; no run follows from it."""

    KIND: ClassVar[str] = "route.given"
    surface: Surface
    tier: int
    lane: str | None = None
    runner_up: str | None = None
    confidence_ppm: int
    request: Body
    evidence: Body


@value
class RunRouted(Fact):
    """One rung of the router spoke; lane is None where it left the request undecided."""

    KIND: ClassVar[str] = "run.routed"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.configured", "run.routed", "role.answered")
    tier: int
    lane: str | None = None
    runner_up: str | None = None
    confidence_ppm: int
    evidence: Body


@value
class ContextGiven(Fact):
    """A context source offered text, and this much of it was admitted."""

    KIND: ClassVar[str] = "context.given"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.configured", "plan.made", "role.answered")
    source: str
    task: str | None = None
    offered_tokens: int
    admitted_tokens: int
    failed: bool
    context: Body


@value
class PlanMade(Fact):
    """The whole plan with every instruction, before the first task starts."""

    KIND: ClassVar[str] = "plan.made"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.requested",
        "run.configured",
        "run.routed",
        "context.given",
        "role.answered",
        "gate.decided",
    )
    by: Literal["coordinator", "user", "router", "edit"]
    tasks: int
    edges: int
    waves: int
    plan: Body


@value
class TaskAttempted(Fact):
    """A task is about to be given to a model or program: the exact prompt, before it is asked."""

    KIND: ClassVar[str] = "task.attempted"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "plan.made",
        "task.judged",
        "results.joined",
        "task.escalated",
        "task.returned",
        "context.given",
        "gate.closed",
        "run.retry_asked",
        "task.restarted",
    )
    task: str
    lane: str
    attempt: int
    rung: str
    provider: str
    model: str
    template: str
    prompt: Body
    argv: Body | None = None


@value
class TaskReturned(Fact):
    """What came back for an attempt, good or bad, with what it cost. `elapsed_us`, where the run's seconds are limited: how long
    its drivers have worked on it so far. `pause_us`: the pause before another attempt, where the server failed in passing.
    """

    KIND: ClassVar[str] = "task.returned"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("task.attempted",)
    task: str
    attempt: int
    ok: bool
    finish: Finish
    error: str | None = None
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tokens_estimated: bool
    cost_usd_nano: int
    cost_basis: CostBasis
    latency_us: int
    exit_code: int | None = None
    elapsed_us: int | None = None
    pause_us: int | None = None
    output: Body
    stderr: Body | None = None
    raw: Body | None = None
    diff: Body | None = None


@value
class TaskJudged(Fact):
    """The verdict on a result. Consumers are started by this entry, never by the result.

    Without reasons it says that a whole answer came, and nothing else was to be checked.
    """

    KIND: ClassVar[str] = "task.judged"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("task.returned", "role.answered", "session.ended", "task.attempted")
    task: str
    attempt: int
    ok: bool
    score_ppm: int | None = None
    by: Literal["checks", "model", "panel", "engine"]
    same_model: bool
    reasons: Body | None = None


@value
class TaskEscalated(Fact):
    """A rejected result climbs one rung of the ladder."""

    KIND: ClassVar[str] = "task.escalated"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("task.judged",)
    task: str
    from_rung: str
    to_rung: str


@value
class TaskSkipped(Fact):
    """A task that will not run, and which upstream or limit is the reason."""

    KIND: ClassVar[str] = "task.skipped"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "plan.made",
        "task.judged",
        "task.skipped",
        "gate.closed",
        "budget.breached",
        "run.cancel_asked",
    )
    task: str
    because: Literal["upstream", "gate", "budget", "cancelled"]
    upstream: str | None = None


@value
class TaskRestarted(Fact):
    """An attempt was cut short by a crash and is made again, within bounds."""

    KIND: ClassVar[str] = "task.restarted"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("task.attempted", "run.claimed")
    task: str
    attempt: int
    restarts: int


@value
class ResultsJoined(Fact):
    """Stands for up to 1,000 verdicts where one entry would have more causes ([E8])."""

    KIND: ClassVar[str] = "results.joined"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("task.judged", "results.joined")
    count: int


@value
class RoleAsked(Fact):
    """A control role is about to be asked: the exact prompt, before the call."""

    KIND: ClassVar[str] = "role.asked"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.requested",
        "run.configured",
        "run.routed",
        "context.given",
        "plan.made",
        "task.returned",
        "task.judged",
        "results.joined",
        "role.answered",
        "run.answered",
        "answer.checked",
    )
    role: Role
    task: str | None = None
    attempt: int
    turn: int
    provider: str
    model: str
    template: str
    prompt: Body


@value
class RoleAnswered(Fact):
    """What a control role said, and whether it parsed. `elapsed_us` and `pause_us` as of `task.returned`."""

    KIND: ClassVar[str] = "role.answered"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("role.asked",)
    role: Role
    ok: bool
    finish: Finish
    error: str | None = None
    model: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tokens_estimated: bool
    cost_usd_nano: int
    cost_basis: CostBasis
    latency_us: int
    exit_code: int | None = None
    elapsed_us: int | None = None
    pause_us: int | None = None
    output: Body
    stderr: Body | None = None
    raw: Body | None = None


@value
class BudgetBreached(Fact):
    """A limit was reached: which one, and what had been spent."""

    KIND: ClassVar[str] = "budget.breached"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.configured",
        "task.returned",
        "role.answered",
        "turn.taken",
        "turn.failed",
    )
    unit: BudgetUnit
    lane: str | None = None
    limit: int
    spent: int


@value
class RunAnswered(Fact):
    """The one answer, caused by every result it was made from."""

    KIND: ClassVar[str] = "run.answered"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "task.judged",
        "results.joined",
        "role.answered",
        "answer.revised",
        "session.ended",
    )
    complete: bool
    missing: tuple[str, ...] = ()
    answer: Body


@value
class AnswerChecked(Fact):
    """One check of the answer. Checks never block."""

    KIND: ClassVar[str] = "answer.checked"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.answered", "answer.revised", "answer.checked", "role.answered")
    check: Literal["intent", "intent_judge", "delivery", "code", "verifier"]
    outcome: Literal["passed", "flagged", "refused", "abstained", "crashed"]
    score_ppm: int | None = None
    detail: Body


@value
class AnswerRevised(Fact):
    """A reviser's proposal, and whether it was accepted."""

    KIND: ClassVar[str] = "answer.revised"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.answered", "answer.checked", "role.answered")
    accepted: bool
    words_before: int
    words_after: int
    coverage_before_ppm: int
    coverage_after_ppm: int
    answer: Body
    why: Body | None = None


@value
class RunInterrupted(Fact):
    """The driver stopped in good order before the end; the run can be resumed. By a signal he was told to stop, by a shutdown
    his process closed; `why` is the error that ended him. `elapsed_us` as of `task.returned`."""

    KIND: ClassVar[str] = "run.interrupted"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = ("run.claimed",)
    by: Literal["signal", "shutdown", "error"]
    elapsed_us: int | None = None
    why: Body | None = None


@value
class RunEnded(Fact):
    """The run's last word: how it ended and what it spent; `priced`: whether it is known what each of its calls cost."""

    KIND: ClassVar[str] = "run.ended"
    DRIVEN: ClassVar[bool] = True
    CAUSES: ClassVar[tuple[str, ...]] = (
        "run.answered",
        "plan.made",
        "task.judged",
        "task.skipped",
        "budget.breached",
        "run.cancel_asked",
        "gate.closed",
        "role.answered",
        "results.joined",
        "session.ended",
        "run.routed",
        "run.claimed",
        "persona.made",
    )
    state: EndState
    reason: str
    calls: int
    tokens: int
    cost_usd_nano: int
    elapsed_us: int
    priced: bool | None = None


@value
class CancelAsked(Fact):
    """Somebody wants the run to stop; the driver notices."""

    KIND: ClassVar[str] = "run.cancel_asked"
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested",)
    surface: Surface


@value
class ResumeAsked(Fact):
    """Somebody wants an unfinished run to go on."""

    KIND: ClassVar[str] = "run.resume_asked"
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested",)
    surface: Surface


@value
class RetryAsked(Fact):
    """Somebody wants one task, and what was built on it, done again."""

    KIND: ClassVar[str] = "run.retry_asked"
    CAUSES: ClassVar[tuple[str, ...]] = ("run.requested", "run.ended")
    task: str
    surface: Surface
