"""Panels and personas by name: read from hansard.toml and from the folders beside it, checked, and made ready for a session.

What a run or a session is configured with holds its personas whole: no file is read a second time.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from hansard.app.pool import PANEL_KIND
from hansard.app.settings import Settings
from hansard.app.setup.tooltables import ToolTable, tool_of
from hansard.deliberation.documents import SCHEMA_VERSION, Config, Persona
from hansard.deliberation.personas import COORDINATOR, DEFAULT_PANEL, DEFAULTS, Personas
from hansard.domain.budget import MOST_SPENT, NANO_PER_USD, Budget
from hansard.domain.fields import Fields
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.ledger.canonical import MAX_INT
from hansard.orchestration.nested import PANEL, is_panel

ASKER = "hansard"
MAX_AGENTS = 32
UNSAID = "(what it is asked)"
"""In place of the problem until there is one."""


@value
class Seat:
    """One agent of a panel: its persona, and whom it asks (`provider` or `provider:model`); None: whoever is usual."""

    persona: Persona
    target: str | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    """The tools that it may use, as a configuration declares them."""


@value
class PanelPlan:
    """A panel as somebody wrote it down."""

    name: str
    seats: tuple[Seat, ...]
    coordinator: Seat
    max_rounds: int = 3
    max_calls: int | None = None
    max_tokens: int = 200_000
    max_usd: float = 5.0
    max_seconds: int = 1800
    on_agent_failure: str = "continue_without"
    ensemble: bool = False
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What runs the tools of its agents, by name."""

    @property
    def targets(self) -> tuple[str, ...]:
        """Whom its agents ask by name."""
        return tuple(dict.fromkeys(seat.target for seat in (*self.seats, self.coordinator) if seat.target))

    def config(self, resolve: Callable[[str | None], tuple[str, str]]) -> dict[str, Any]:
        """The protocol's configuration of a session of this panel. `resolve` gives provider and model of a target."""
        agents = [self._agent(seat, resolve) for seat in (*self.seats, self.coordinator)]
        return {
            "schema_version": SCHEMA_VERSION,
            "session_id": self.name,
            "originator": ASKER,
            "problem_statement": UNSAID,
            "selector": {
                "strategy": "fixed",
                "default_deliberation_panel": [agent["id"] for agent in agents[:-1]],
                "coordinator_agent": agents[-1]["id"],
            },
            "agents": agents[:-1],
            "coordinator": agents[-1],
            "budget": {
                "max_total_tokens": self.max_tokens,
                "max_total_cost_usd": self.max_usd,
                "max_rounds": self.max_rounds,
                "max_wallclock_seconds": self.max_seconds,
            },
            "runtime": {"on_agent_failure": self.on_agent_failure},
        }

    @property
    def most_calls(self) -> int:
        """As many calls as are written down, else every turn with a branch in every round; retries come out of it too."""
        return self.max_calls or min(MOST_SPENT, self.max_rounds * (2 * len(self.seats) + 2) + 1)

    def _agent(self, seat: Seat, resolve: Callable[[str | None], tuple[str, str]]) -> dict[str, Any]:
        provider, model = resolve(seat.target)
        return {
            "id": seat.persona.id,
            "persona_ref": seat.persona.as_data(),
            "provider": provider,
            "model": model,
            **({"tools": list(seat.tools)} if seat.tools else {}),
        }

    def as_table(self, resolve: Callable[[str | None], tuple[str, str]]) -> dict[str, Any]:
        """The panel as it stands among the providers of a run's configuration."""
        if self.ensemble:
            raise UsageError(
                f"panel {self.name!r} gathers first answers, which a panel inside of a run does not; take ensemble out, "
                f"or put the problem to it with `hansard deliberate --panel panel:{self.name}`"
            )
        config = Config.parse(self.config(resolve)).as_data()
        tools = {"tools": dict(self.tools)} if self.tools else {}
        return {"kind": PANEL_KIND, "config": config, "max_calls": self.most_calls, **tools}


def share_of(table: Mapping[str, Any]) -> Budget:
    """What one session of a panel may take at most."""
    caps = table["config"]["budget"]
    return Budget(
        max_calls=table.get("max_calls"),
        max_tokens=caps["max_total_tokens"],
        max_cost_usd_nano=round(caps["max_total_cost_usd"] * NANO_PER_USD),
        max_seconds=caps["max_wallclock_seconds"],
    )


def personas_of(settings: Settings) -> Personas:
    """The personas of this project, and the default ones where it has none of that name."""
    own = {name: _persona(name, table, where) for name, (table, where) in settings.written("personas").items()}
    return Personas(({persona.id: persona for persona in DEFAULTS} | own).values())


def _persona(name: str, table: Mapping[str, Any], where: str) -> Persona:
    if (id := table.get("id", name)) != name:
        raise UsageError(f"{where}: this persona is called {name}, and its id is {id!r:.80}; leave the id out")
    try:
        return Persona.parse({"persona_class": "horizontal", "id": name, **table})
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def usual_provider(settings: Settings) -> str | None:
    """Whom hansard.toml has asked where nobody else is named; None where it names nobody."""
    return settings.roles.get("default") or next(iter(settings.providers), None)


def panel_names(settings: Settings) -> list[str]:
    return sorted(settings.written("panels"))


def panel_of(settings: Settings, name: str) -> PanelPlan:
    """The panel of this name, with or without `panel:` before it."""
    name = name.removeprefix(PANEL)
    found = settings.written("panels")
    if name not in found:
        known = ", ".join(sorted(found)) or "none are written down"
        raise UsageError(
            f"there is no panel {name!r} ({known}); write [panels.{name}] into hansard.toml, or panels/{name}.toml beside it"
        )
    table, where = found[name]
    return read_panel(name, Fields(table, where), personas_of(settings), lambda tool: tool_of(settings, tool))


def read_panel(name: str, fields: Fields, personas: Personas, tool: Callable[[str], ToolTable]) -> PanelPlan:
    """A panel from its table, strictly."""
    usual = fields.text("provider") or None
    apart = fields.table("providers")
    ids = _ids(fields)
    chair = fields.text("coordinator", COORDINATOR.id)
    for id, target in apart.items():
        if id not in (*ids, chair) or not isinstance(target, str):
            raise UsageError(f"{fields.where}: providers must name agents of the panel and a provider each, not {id!r}")
    if chair in ids:
        raise UsageError(
            f"{fields.where}: {chair!r} is the coordinator, who must not be among the agents; take one out"
        )
    used = _tools(fields, (*ids, chair))
    tables = {name: tool(name) for names in used.values() for name in names}

    def seat(id: str) -> Seat:
        declared = tuple(tables[each].declared for each in used.get(id, ()))
        return Seat(persona=_known(personas, id, fields), target=apart.get(id, usual), tools=declared)

    for target in (usual, *apart.values()):
        if is_panel(target):
            raise UsageError(f"{fields.where}: {target!r} is a panel, and a panel is not answered by another one")
    plan = PanelPlan(
        name=name,
        seats=tuple(map(seat, ids)),
        coordinator=seat(chair),
        tools={name: table.runs for name, table in tables.items()},
        max_rounds=_count(fields, "max_rounds", 3),
        max_calls=_count(fields, "max_calls") if fields.has("max_calls") else None,
        max_tokens=_count(fields, "max_tokens", 200_000),
        max_usd=_usd(fields),
        max_seconds=_count(fields, "max_seconds", 1800),
        on_agent_failure=fields.choice("on_agent_failure", ("terminate", "continue_without"), "continue_without"),
        ensemble=fields.flag("ensemble"),
    )
    fields.done()
    return plan


def _count(fields: Fields, name: str, usual: int = 0) -> int:
    return fields.count(name, usual, least=1, most=MOST_SPENT)


def _usd(fields: Fields) -> float:
    amount = fields.number("max_usd", 5.0) or 0.0
    if amount * NANO_PER_USD > MAX_INT:
        raise UsageError(f"{fields.where}: max_usd is {amount:g}; write at most {MAX_INT // NANO_PER_USD:,}")
    return amount


def _tools(fields: Fields, members: Collection[str]) -> dict[str, list[str]]:
    """Who may use which tools."""
    found = dict(fields.table("tools"))
    for id, names in found.items():
        if id not in members or not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise UsageError(f'{fields.where}: tools must name agents of the panel, such as {{critic = ["almanac"]}}')
    return found


def _ids(fields: Fields) -> list[str]:
    ids = fields.any("agents", [persona.id for persona in DEFAULT_PANEL])
    if not isinstance(ids, list) or not ids or not all(isinstance(id, str) for id in ids):
        raise UsageError(f'{fields.where}: agents must be a list of personas, such as ["logician", "critic"]')
    if len(ids) > MAX_AGENTS:
        raise UsageError(
            f"{fields.where}: {len(ids)} agents are too many for one panel; at most {MAX_AGENTS} sit on one"
        )
    for id in ids:
        if ids.count(id) > 1:
            raise UsageError(f"{fields.where}: {id!r} stands twice among the agents")
    return ids


def _known(personas: Personas, id: str, fields: Fields) -> Persona:
    found = personas.get(id)
    if found is None:
        known = ", ".join(persona.id for persona in personas)
        raise UsageError(f"{fields.where}: there is no persona {id!r} ({known}); write personas/{id}.toml")
    return found
