"""Panels for every surface: which there are, who sits on each and who pays, and what is wrong with one.

The check is by rule: personas that say about the same, and ways of reasoning or delegations that nobody is there for.
"""

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hansard.app.pool import CLI_KINDS
from hansard.app.settings import Settings
from hansard.app.setup.panels import PanelPlan, Seat, panel_names, panel_of, personas_of, usual_provider
from hansard.app.views import View
from hansard.deliberation.documents import Persona
from hansard.deliberation.selector import TRIGGERS
from hansard.orchestration.nested import is_panel
from hansard.providers.prices import Prices

SIMILAR = 0.5
_WORD = re.compile(r"[^\W\d_]{4,}")
_PAID = {
    "openai": "billed by the token",
    "anthropic": "billed by the token",
    "local": "runs on this machine; nobody sends a bill",
    "command": "a program of yours; what it costs is not known here",
    "scripted": "answers from a script; nobody is asked",
    "replayed": "answers from a recording; nobody is asked",
    "rehearsal": "canned answers; nobody is asked",
}
_WITHOUT_A_TABLE = ("openai", "anthropic", "rehearsal", *CLI_KINDS)
"""Who can be named without being configured."""
UNMETERED = "nobody sends a bill for it, as its table says"
THROUGH_A_CLI = "through the CLI's own login: its subscription or key pays, and costs shown are estimates, not bills"


def panels_view(settings: Settings) -> list[View]:
    """The panels in short."""
    return [
        {
            "name": plan.name,
            "agents": [seat.persona.id for seat in plan.seats],
            "coordinator": plan.coordinator.persona.id,
            "max_rounds": plan.max_rounds,
            "ensemble": plan.ensemble,
        }
        for plan in (panel_of(settings, name) for name in panel_names(settings))
    ]


def personas_list(settings: Settings) -> list[View]:
    """Who can sit on a panel here."""
    own = settings.written("personas")
    return [
        {"id": each.id, "class": each.persona_class, "scope": each.reasoning_scope, "shipped": each.id not in own}
        for each in personas_of(settings)
    ]


def panel_view(settings: Settings, name: str) -> View:
    """Everything about one panel: its seats, whom each asks, and who pays."""
    plan = panel_of(settings, name)
    return {
        "name": plan.name,
        "seats": [_seat(settings, seat) for seat in plan.seats],
        "coordinator": _seat(settings, plan.coordinator),
        "max_rounds": plan.max_rounds,
        "max_calls": plan.most_calls,
        "max_tokens": plan.max_tokens,
        "max_usd": plan.max_usd,
        "max_seconds": plan.max_seconds,
        "on_agent_failure": plan.on_agent_failure,
        "ensemble": plan.ensemble,
    }


def _seat(settings: Settings, seat: Seat) -> View:
    persona = seat.persona
    return {
        "agent": persona.id,
        "class": persona.persona_class,
        "scope": persona.reasoning_scope,
        "asks": seat.target or _by_default(settings),
        "billing": billing(settings, seat),
    }


def _by_default(settings: Settings) -> str:
    """Whom a seat asks for which nobody is named."""
    usual = usual_provider(settings)
    # Panels are not answered by panels.
    return (
        "whomever a run or a flag names"
        if usual is None or is_panel(usual)
        else f"{usual}, unless a run or a flag names another"
    )


def billing(settings: Settings, seat: Seat) -> str:
    """Who pays for what a seat asks, in plain words."""
    target = seat.target or usual_provider(settings)
    if target is None or is_panel(target):
        return "so who pays is not known here"
    id, _, model = target.partition(":")
    table: Any = settings.providers.get(id, {})
    kind = str(table.get("kind", id))
    if id not in settings.providers and id not in _WITHOUT_A_TABLE:
        return f"nobody yet: it is not configured; write [providers.{id}] into hansard.toml"
    if kind == "cli-auto":
        voice = "Codex" if seat.persona.id == "visionary" else "Claude"
        return f"{voice}, where it is installed; {THROUGH_A_CLI}"
    if kind in CLI_KINDS:
        return THROUGH_A_CLI
    if table.get("unmetered") is True:
        return UNMETERED
    said = _PAID.get(kind, f"a provider of kind {kind!r}; who pays is not known here")
    if kind in ("openai", "anthropic"):
        prices = Prices.read(settings.prices, where=str(settings.config or "hansard.toml"))
        known = prices.find(model or str(table.get("model", ""))) is not None
        said += "; its price is known here" if known else "; its price is not known here, so cost counts as 0"
    return said


def check_view(settings: Settings, name: str) -> View:
    """Where the personas of a panel overlap, and what nobody on it is there for."""
    plan = panel_of(settings, name)
    overlap, gaps = list(_overlaps(plan)), list(_gaps(plan))
    return {
        "name": plan.name,
        "agents": len(plan.seats),
        "overlap": overlap,
        "gaps": gaps,
        "ok": not overlap and not gaps,
    }


def _overlaps(plan: PanelPlan) -> Iterator[View]:
    for one, other in combinations([seat.persona for seat in plan.seats], 2):
        reasons = []
        if one.reasoning_scope == other.reasoning_scope:
            reasons.append(f"both reason within {one.reasoning_scope}")
        if shared := sorted(set(one.domain_scope or ()) & set(other.domain_scope or ())):
            reasons.append(f"both speak for {', '.join(shared)}")
        a, b = _words(one), _words(other)
        alike = len(a & b) / len(a | b) if a | b else 0.0
        if alike >= SIMILAR:
            reasons.append(f"their descriptions share {alike:.0%} of their words")
        if reasons:
            yield {"agents": [one.id, other.id], "reasons": reasons}


def _words(persona: Persona) -> set[str]:
    said = (persona.reasoning_style, *persona.behavioral_constraints, *persona.failure_modes)
    return {word for text in said for word in _WORD.findall(text.lower())}


def _gaps(plan: PanelPlan) -> Iterator[View]:
    personas = [seat.persona for seat in plan.seats]
    ids, scopes = {persona.id for persona in personas}, {persona.reasoning_scope for persona in personas}
    for scope in TRIGGERS:
        if scope not in scopes:
            yield {"missing": scope, "reason": "no persona of the panel reasons this way"}
    covered = {domain for persona in personas for domain in persona.domain_scope or ()}
    for persona in personas:
        for domain, to in (persona.must_delegate or {}).items():
            if to not in ids:
                yield {
                    "missing": to,
                    "reason": f"{persona.id} must leave {domain} to {to}, who does not sit on the panel",
                }
            elif domain not in covered:
                yield {
                    "missing": domain,
                    "reason": f"{persona.id} must leave it to {to}, whose persona does not speak for it",
                }
    if len(personas) < 2:
        yield {"missing": "a second voice", "reason": "one agent alone does not deliberate"}
    if plan.coordinator.persona.reasoning_scope in TRIGGERS:
        scope = plan.coordinator.persona.reasoning_scope
        yield {"missing": "a neutral coordinator", "reason": f"{plan.coordinator.persona.id} has a side: {scope}"}
