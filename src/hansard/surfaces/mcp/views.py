"""What the tools give back besides what HTTP shows too, for their output schemas."""

from typing import Any

from hansard.surfaces import shapes
from hansard.surfaces.shapes import DeliberationView as DeliberationView
from hansard.surfaces.shapes import EntryView as EntryView
from hansard.surfaces.shapes import FullEntryView as FullEntryView
from hansard.surfaces.shapes import FullGateView as FullGateView
from hansard.surfaces.shapes import FullRunView as FullRunView
from hansard.surfaces.shapes import GateView as GateView
from hansard.surfaces.shapes import ReceiptView as ReceiptView
from hansard.surfaces.shapes import RouteView as RouteView
from hansard.surfaces.shapes import RunView as RunView
from hansard.surfaces.shapes import Shown as Shown
from hansard.surfaces.shapes import StatusView as StatusView
from hansard.surfaces.shapes import SummaryView as SummaryView


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
    reason: str | None
    plan: dict[str, Any] | None
    unusable: dict[str, Any] | None


class ReportView(Shown):
    ok: bool


class EntriesView(Shown):
    entries: list[EntryView]


class StateView(shapes.StateView):
    after: int | None


class GatesView(Shown):
    gates: list[FullGateView]
    after: int | None


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


class MadePersonaView(Shown):
    run: str
    persona: PersonaView


class PersonasView(Shown):
    personas: list[PersonaView]
