"""Everything that a session is run with, put together before it begins. Chooses no back end and reads no file."""

from collections.abc import Mapping
from dataclasses import field
from typing import Self

from hansard.deliberation.documents import Breach, Config, Persona, jcs, unrepresentable
from hansard.deliberation.documents.config_rules import config_breaches
from hansard.deliberation.experts import MAX_ID, MAX_NEEDS
from hansard.deliberation.offering import offered
from hansard.deliberation.personas import Personas
from hansard.deliberation.protocol.moves import Cap
from hansard.deliberation.turn import MessageShape
from hansard.domain.exchange import Tool
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers.base import Provider, held
from hansard.providers.secrets import Secrets
from hansard.providers.tools import Handler, Toolbox

LONGEST_NAME = 256
"""Names stand in the data of the record, which takes no longer text."""
MOST_AGENTS = 900
MOST_NAMES = 60_000
LONGEST_EXPERT = MAX_ID + len('"",')
"""One entry names everybody who sits on the panel, and one is caused by an answer of each."""


@value
class Setting:
    """A configuration with its personas and providers. `breaches` say why no panel can sit; the session then ends at once."""

    config: Config
    registry: Personas
    personas: Mapping[str, Persona]
    providers: Mapping[str, Provider]
    selector: Provider | None = None
    breaches: tuple[Breach, ...] = ()
    secrets: Secrets = field(default_factory=Secrets)
    tools: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict)
    """What each agent is offered, by agent."""
    toolbox: Toolbox = field(default_factory=lambda: Toolbox(handlers={}))
    shape: MessageShape = "golden"
    used_up: Cap | None = None
    """What those who were asked before the session have left nothing of: nobody is asked in it then."""

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        providers: Mapping[str, Provider],
        registry: Personas | None = None,
        selector: Provider | None = None,
        secrets: Secrets | None = None,
        handlers: Mapping[str, Handler] | None = None,
        shape: MessageShape = "golden",
    ) -> Self:
        """The setting of a configuration. `selector` answers the llm selector where the coordinator's provider should not;
        `handlers` run the tools of their names, and what nobody runs is offered to nobody.
        """
        known, hidden = registry or Personas(), secrets or Secrets()
        clean = Config.parse(hidden.scrub_json(config.as_data())) if hidden else config
        agents = clean.everybody
        _check_recordable(clean)
        check_panel(clean, joined=MAX_NEEDS)
        found = {agent.id: known.resolve(agent) for agent in agents}
        return cls(
            config=clean,
            registry=known,
            personas={id: persona for id, persona in found.items() if persona is not None},
            providers={id: held(provider) for id, provider in providers.items()},
            selector=held(selector) if selector else None,
            breaches=tuple(
                config_breaches(clean, providers=providers.keys(), personas=[persona.id for persona in known])
            ),
            secrets=hidden,
            tools=offered(clean, handlers or {}),
            toolbox=Toolbox(
                handlers=handlers or {},
                most_iterations=clean.runtime.knobs.max_tool_iterations,
                clean=hidden.scrub,
            ),
            shape=shape,
        )

    def provider_of(self, agent: str) -> Provider:
        found = self.config.agent(agent)
        if found is None:
            raise UsageError(f"there is no agent {agent!r} in session {self.config.session_id}")
        return self.providers[found.provider]


def _check_recordable(config: Config) -> None:
    if why := unrepresentable(config.as_data()):
        raise UsageError(f"the configuration of {config.session_id} has no canonical form: it {why}")
    agents = config.everybody
    names = [config.originator, *(name for agent in agents for name in (agent.id, agent.provider, agent.model))]
    for name in names:
        if len(name) > LONGEST_NAME:
            raise UsageError(f"{name[:40]!r}… has {len(name)} characters; a name may have {LONGEST_NAME} at most")


def check_panel(config: Config, *, joined: int = 0) -> None:
    """UsageError where there are more agents than entries can name. So many experts may have joined since it was convened."""
    if len(config.agents) > MOST_AGENTS + joined:
        raise UsageError(
            f"{len(config.agents):,} agents are more than the record can hold; at most {MOST_AGENTS} will do"
        )
    if (together := len(jcs([agent.id for agent in config.agents]))) > MOST_NAMES + joined * LONGEST_EXPERT:
        raise UsageError(
            f"the ids of the agents take {together:,} bytes together, more than the record can hold; "
            f"at most {MOST_NAMES:,} will do"
        )
