"""What both HTTP and MCP take and show. Views go out as the service makes them: tests hold them against this."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
State = Literal[
    "requested",
    "planned",
    "running",
    "waiting",
    "interrupted",
    "answered",
    "partial",
    "failed",
    "stopped",
    "cancelled",
]
"""What a run can be in, for whoever lists runs by it."""


def whole(value: object) -> object:
    """To JSON, 1.0 is a whole number too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(whole)
"""Behind whatever else is asked of a whole number."""
MAX_SEQ = 2**53 - 1
Seq = Annotated[int, Field(ge=0, le=MAX_SEQ), WHOLE]
Limit = Annotated[int, Field(ge=0, lt=10**15), WHOLE]


Pin = Annotated[
    str,
    Field(
        max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]+$", description="The log's pin, which you have from elsewhere."
    ),
]
MOST_MEMBERS = 1_000


def few(given: object) -> object:
    """Of members without number each wrong one would be told of, and everybody else would wait for that."""
    if isinstance(given, dict) and len(given) > MOST_MEMBERS:
        raise ValueError(f"it has {len(given):,} members; at most {MOST_MEMBERS:,} are read")
    return given


class Incoming(BaseModel):
    """Nothing is guessed: unknown members and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)
    _few = model_validator(mode="before")(few)


class Limited(BaseModel):
    """What a run may spend, as the flags of the command line take it; 0 is nothing at all."""

    max_calls: Limit | None = None
    max_tokens: Limit | None = None
    max_usd: Annotated[str, Field(pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})?$")] | None = Field(None, examples=["0.50"])
    max_seconds: Annotated[float, Field(ge=0, lt=1e9)] | None = None

    def wished(self) -> dict[str, Any]:
        """What it says of a run's configuration, but for whom to ask; None leaves it to the settings."""
        return {name: getattr(self, name) for name in Limited.model_fields}


class Shaped(Limited):
    """How a request is done, as the flags of the command line take it."""

    plan: dict[str, Any] | None = Field(None, description="A plan of yours, as planning gives it.")
    lane: Name | None = Field(None, description="One task, in this lane.")
    single: bool = Field(False, description="One task, in the lane that the router picks.")
    judge: Literal["model", "checks"] | None = None
    answer: Literal["synthesize", "join"] | None = None
    max_parallel: Annotated[int, Field(ge=1, le=10_000), WHOLE] | None = Field(None, description="Tasks at once.")
    gates: Annotated[list[Name], Field(max_length=100)] = Field([], description="plan, task:ID or lane:NAME")
    context: Annotated[list[Name], Field(max_length=20)] = Field([], description="Runs whose capsules are given along.")
    judge_intent: bool = Field(False, description="A model says whether the answer serves what was asked for.")
    revise: bool = Field(False, description="Let the answer be shortened once where it is not concise.")
    profile: Name | None = Field(
        None, description="How long the answer may be: brief, normal (the default), thorough, report."
    )

    def wished(self) -> dict[str, Any]:
        names = ("judge", "answer", "max_parallel", "judge_intent", "revise", "profile")
        shape = {name: getattr(self, name) for name in names}
        return super().wished() | shape | {"gates": tuple(self.gates), "context": tuple(self.context)}


class Capped(BaseModel):
    """What a session may use, beneath what its configuration says."""

    max_total_tokens: Annotated[int, Field(ge=1, le=10**12), WHOLE] | None = None
    max_total_cost_usd: Annotated[float, Field(gt=0, le=1e9)] | None = None
    max_wallclock_seconds: Annotated[int, Field(ge=1, le=10**12), WHOLE] | None = None

    def caps(self) -> dict[str, Any]:
        """The members of a configuration's budget that it names."""
        return {name: value for name in Capped.model_fields if (value := getattr(self, name)) is not None}


class Shown(BaseModel):
    """A view. More members may come with time, so nobody may refuse them."""

    model_config = ConfigDict(extra="allow")


def _without_default(schema: dict[str, Any]) -> None:
    del schema["default"]


MAYBE: Any = Field(None, json_schema_extra=_without_default)
"""Behind a member that is not always there."""


class SpentView(Shown):
    """What it took so far. Money is in billionths of a dollar; it cost more than that where `priced` is false."""

    calls: int
    tokens: int
    cost_usd_nano: int
    elapsed_us: int | None
    priced: bool | None


class BudgetView(Shown):
    """What it may take; null where nothing limits it."""

    max_calls: int | None
    max_tokens: int | None
    max_cost_usd_nano: int | None
    max_seconds: float | None


class RunView(Shown):
    """One run, as the record tells it."""

    run: str
    state: State
    reason: str | None
    mode: str | None
    request: str | None
    started: str
    last: str
    entries: int
    first_seq: int
    last_seq: int
    spent: SpentView
    budget: BudgetView
    open_gates: list[str]


class RoutedView(Shown):
    """Where the request belongs, and who said so: 0 is the router, 2 the classifier."""

    seq: int
    tier: int
    lane: str | None
    runner_up: str | None
    confidence_ppm: int | None


class PlannedView(Shown):
    """The newest plan, in figures."""

    seq: int
    by: str
    tasks: int
    edges: int
    waves: int


class ReturnedView(Shown):
    """What came of an attempt."""

    seq: int
    ok: bool
    finish: str | None
    error: str | None
    model: str | None
    latency_us: int | None
    exit_code: int | None
    pause_us: int | None
    tokens: int
    cost_usd_nano: int
    cost_basis: str


class VerdictView(Shown):
    """What was thought of it. The reasons are JSON as it was recorded; null where they were redacted."""

    seq: int
    ok: bool
    by: str
    score_ppm: int | None
    same_model: bool | None
    reasons: str | None
    panel: dict[str, Any] | None = MAYBE


class AttemptView(Shown):
    """One time that somebody was asked to do a task."""

    attempt: int
    seq: int
    rung: str
    provider: str
    model: str
    returned: ReturnedView | None
    verdict: VerdictView | None
    panel: dict[str, Any] | None = MAYBE


class TaskView(Shown):
    """One task of the plan, and what became of it."""

    task: str
    lane: str | None
    needs: list[str]
    state: Literal["waiting", "running", "returned", "passed", "rejected", "escalated", "skipped"]
    attempts: list[AttemptView]
    because: str | None


class ContextView(Shown):
    """What a context source gave, for the request or for a task."""

    seq: int
    task: str | None
    source: str
    offered_tokens: int
    admitted_tokens: int
    failed: bool
    why: str | None


class CheckView(Shown):
    """What was found of the answer in entry `of`. The detail is JSON as it was recorded."""

    seq: int
    of: int | None
    check: str
    outcome: str
    score_ppm: int | None
    detail: str | None


class UnusableView(Shown):
    """The answer of a role without which the run could not go on."""

    seq: int
    role: str
    error: str | None
    said: str


class InterruptedView(Shown):
    """What interrupted a run that nobody has taken up since."""

    seq: int
    by: Literal["signal", "shutdown", "error"]
    why: str


class FullRunView(RunView):
    route: RoutedView | None
    contexts: list[ContextView]
    plan: PlannedView | None
    tasks: list[TaskView]
    answer: str | None
    answer_seq: int | None
    missing: list[str]
    checks: list[CheckView]
    unusable: UnusableView | None
    interrupted: InterruptedView | None
    unpriced: list[str]
    run_dir: str | None = MAYBE
    why: str | None = MAYBE


class RouteView(Shown):
    lane: str | None
    confidence: float
    runner_up: str | None
    tier: int
    evidence: list[dict[str, Any]]
    scores: list[dict[str, Any]]


class StatusView(Shown):
    software: str
    origin: str
    entries: int
    root: str
    broken: str | None
    signed: int
    custody: str


class EntryView(Shown):
    seq: int
    time: str
    ts: int
    run: str
    kind: str
    actor: str
    causes: list[int]
    data: dict[str, Any]
    body: dict[str, str]
    prev: str
    leaf: str
    broken: str | None


class PartView(Shown):
    part: str
    commitment: str
    state: str
    media: str = MAYBE
    bytes: int = MAYBE


class FullEntryView(EntryView):
    effects: list[int]
    parts: list[PartView]


class SummaryView(Shown):
    entries: int
    broken_at: int | None
    origin: str
    key_epoch: int
    parts: int
    redacted: int
    runs: int
    run_states: dict[str, int]
    calls: int
    tokens: int
    cost_usd_nano: int
    unpriced: list[str]
    verdicts: dict[str, int]
    calls_by_model: dict[str, int]
    kinds: dict[str, int]
    actors: dict[str, int]
    checkpoints: int
    broken: str | None


class StateView(Shown):
    at: int
    broken_at: int | None
    origin: str
    key_epoch: int
    runs: list[dict[str, Any]]


class ReceiptView(Shown):
    seq: int
    disclosed: list[str]
    receipt: str
    unsigned_because: str | None


class DecisionView(Shown):
    """A word at a gate. One of somebody who may not decide there does not count."""

    seq: int
    time: str
    by: str
    decision: Literal["approve", "edit", "reject"]
    authenticated: bool
    counts: bool


class GateView(Shown):
    gate: str
    run: str
    seq: int
    rule: str
    before: Literal["plan", "task"]
    task: str | None
    needed: int
    opened: str
    deadline: str | None
    on_expiry: Literal["approve", "reject"]
    shown: list[str]
    state: str
    expired: bool
    decisions: list[DecisionView]


class BuiltOnView(Shown):
    """A result that the task would be given; null where it is not in the ledger any more. Of a long one `left_out` characters
    are only in entry `seq`."""

    task: str
    seq: int
    text: str | None
    left_out: int


class FullGateView(GateView):
    question: str | None
    built_on: list[BuiltOnView]


class DeliberationView(Shown):
    run: str
    session_id: str | None
    state: State
    spent: SpentView
    unpriced: list[str]
    budget: BudgetView
    problem: str | None
    selected_agents: list[str]
    coordinator: str | None
    run_dir: str | None
    fault: str | None
    refused_experts: list[str]
    cut: list[str]
    outcome: str | None
    why: str | None
    interrupted: InterruptedView | None
    rounds: int = MAYBE
    messages: int = MAYBE
    transcript_digest: str = MAYBE
    cumulative_usage: dict[str, Any] = MAYBE
    unresolved: list[Any] = MAYBE
    synthesis_answer: str | None = MAYBE
    termination_reason: str = MAYBE
    pending: dict[str, Any] = MAYBE
    last_provider_failure: dict[str, Any] = MAYBE
