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


class RunView(Shown):
    """One run, as the record tells it."""

    run: str
    state: str
    reason: str | None
    mode: str | None
    request: str | None
    started: str
    last: str
    entries: int
    first_seq: int
    last_seq: int
    spent: dict[str, Any]
    budget: dict[str, Any]
    open_gates: list[str]


class FullRunView(RunView):
    route: dict[str, Any] | None
    plan: dict[str, Any] | None
    tasks: list[dict[str, Any]]
    answer: str | None
    answer_seq: int | None
    missing: list[str]
    checks: list[dict[str, Any]]
    unusable: dict[str, Any] | None
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


class GateView(Shown):
    gate: str
    run: str
    seq: int
    rule: str
    before: str
    task: str | None
    needed: int
    opened: str
    deadline: str | None
    on_expiry: str
    shown: list[str]
    state: str
    expired: bool
    decisions: list[dict[str, Any]]


class FullGateView(GateView):
    question: str | None


class DeliberationView(Shown):
    run: str
    session_id: str | None
    state: str
    spent: dict[str, Any]
    unpriced: list[str]
    budget: dict[str, Any]
    problem: str | None
    selected_agents: list[str]
    coordinator: str | None
    run_dir: str | None
    fault: str | None
    refused_experts: list[str]
    cut: list[str]
    outcome: str | None
    why: str | None
    rounds: int = MAYBE
    messages: int = MAYBE
    transcript_digest: str = MAYBE
    cumulative_usage: dict[str, Any] = MAYBE
    unresolved: list[Any] = MAYBE
    synthesis_answer: str | None = MAYBE
    termination_reason: str = MAYBE
    pending: dict[str, Any] = MAYBE
    last_provider_failure: dict[str, Any] = MAYBE
