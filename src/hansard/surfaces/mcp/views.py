"""What the tools give back, for their output schemas. Views go out as the service makes them: tests hold them against this."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Shown(BaseModel):
    """A view. More members may come with time, so nobody may refuse them."""

    model_config = ConfigDict(extra="allow")


class RunView(Shown):
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


class RunsView(Shown):
    runs: list[RunView]
    before: int | None


class EventsView(Shown):
    run: str
    state: str
    entries: list[dict[str, Any]]
    after: int


class PlanView(Shown):
    run: str
    state: str
    plan: dict[str, Any] | None


class RouteView(Shown):
    lane: str | None
    confidence_ppm: int
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


class ReportView(Shown):
    ok: bool


class EntryView(Shown):
    seq: int
    kind: str
    run: str
    actor: str
    time: str
    causes: list[int]
    data: dict[str, Any]
    body: dict[str, Any]
    leaf: str
    broken: str | None


class FullEntryView(EntryView):
    effects: list[int]
    parts: list[dict[str, Any]]


class EntriesView(Shown):
    entries: list[EntryView]


class SummaryView(Shown):
    entries: int
    broken_at: int | None
    origin: str
    runs: int
    run_states: dict[str, int]
    kinds: dict[str, int]
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


class GatesView(Shown):
    gates: list[FullGateView]


class DeliberationView(Shown):
    run: str
    session_id: str
    state: str
    problem: str
    selected_agents: list[str]
    coordinator: str
    run_dir: str | None
    outcome: str | None


class ChainView(Shown):
    sessions: list[DeliberationView]
    final: DeliberationView
    outcome: str | None
    expansions: int
    tokens: int


class SessionView(Shown):
    run_dir: str
    outcome: str
    transcript_digest: str
    digest_replay_ok: bool
    rounds: int
    selected_agents: list[str]
    cumulative_usage: dict[str, Any]


class PersonaView(Shown):
    id: str
    persona_class: str
    reasoning_scope: str
    reasoning_style: str


class PersonasView(Shown):
    personas: list[PersonaView]
