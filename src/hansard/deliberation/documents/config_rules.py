"""The rules of a configuration that its schema cannot say. A breach ends the session with schema_error (§4.1)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from hansard.deliberation.documents.breach import Breach, Invalid
from hansard.deliberation.documents.config import AgentConfig, Config
from hansard.deliberation.documents.exchange import Tool
from hansard.deliberation.documents.persona import Persona


def config_breaches(
    config: Config, *, providers: Collection[str] | None = None, personas: Collection[str] | None = None
) -> list[Breach]:
    """Every rule that this configuration breaks. Ids of providers and personas are checked where they are given."""
    agents = config.everybody
    return [
        *_panel(config),
        *_budget(config),
        *(breach for agent in agents for breach in _tools(agent)),
        *(breach for agent in agents for breach in _persona(agent, personas)),
        *(
            _breach(f"agent {agent.id}", "R-6.11-1", f"names the provider {agent.provider!r}, which is not configured")
            for agent in agents
            if providers is not None and agent.provider not in providers
        ),
    ]


def config_warnings(config: Config) -> list[str]:
    """What is allowed and probably a mistake."""
    known = {agent.id for agent in config.everybody}
    named = config.budget.per_agent_token_budget or {}
    return [f"per_agent_token_budget names {id!r}, which is no agent" for id in named if id not in known]


def _breach(where: str, rule: str, message: str) -> Breach:
    return Breach(document="Config", path=f" {where}", rule=rule, message=message)


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _panel(config: Config) -> Iterator[Breach]:
    panel, ids = config.selector.default_deliberation_panel, [agent.id for agent in config.agents]
    for id in _twice(panel):
        yield _breach("panel", "R-4.1-4", f"names {id!r} twice")
    for id in _twice(ids):
        yield _breach("agents", "R-4.1-4", f"{id!r} stands twice")
    for id in panel:
        if id not in ids:
            yield _breach("panel", "R-4.1-4", f"names {id!r}, which is no agent")
    coordinator = config.coordinator.id
    if coordinator in ids or coordinator in panel:
        yield _breach("coordinator", "R-4.1-4", f"{coordinator!r} must not sit on the panel")
    if config.selector.coordinator_agent != coordinator:
        yield _breach("selector", "R-4.1-4", f"coordinator_agent must be {coordinator!r}, the coordinator's id")


def _budget(config: Config) -> Iterator[Breach]:
    one, other = config.selector.selector_budget, config.budget.selector_budget
    if one is not None and other is not None and one != other:
        yield _breach("budget", "R-8.1-2", "selector_budget stands twice and says two things")


def _tools(agent: AgentConfig) -> Iterator[Breach]:
    names = []
    for data in agent.tools or ():
        try:
            names.append(Tool.parse(data).name)
        except Invalid as error:
            yield _breach(f"agent {agent.id}", error.rule, f"has a tool that is none: {error}")
    for name in _twice(names):
        yield _breach(f"agent {agent.id}", "§6.4", f"has two tools named {name!r}")


def _persona(agent: AgentConfig, known: Collection[str] | None) -> Iterator[Breach]:
    persona = agent.persona_ref
    if isinstance(persona, str):
        if known is not None and persona not in known:
            yield _breach(f"agent {agent.id}", "R-9.4.1-2", f"names the persona {persona!r}, which nobody knows")
        return
    yield from persona_breaches(persona)


def persona_breaches(persona: Persona) -> Iterator[Breach]:
    """The one rule of a persona that its schema cannot say: each forbidden domain is delegated to somebody."""
    forbidden, delegated = set(persona.forbidden_domains or ()), set(persona.must_delegate or {})
    if forbidden != delegated:
        odd = ", ".join(sorted(forbidden ^ delegated))
        message = f"forbidden_domains and must_delegate must name the same domains; only one of them names {odd}"
        yield Breach(document=f"Persona {persona.id}", path="", rule="§5.3", message=message)
