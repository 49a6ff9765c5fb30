"""Which tools a session offers to whom: those that an agent declares and a handler of the host runs. Pure."""

from collections.abc import Collection, Iterator

from hansard.deliberation.documents import AgentConfig, Config, Invalid
from hansard.deliberation.documents.exchange import Tool as Declared
from hansard.domain.exchange import Tool
from hansard.errors import UsageError
from hansard.providers.checks import check_tool


def offered(config: Config, handled: Collection[str]) -> dict[str, tuple[Tool, ...]]:
    """The tools of each agent that somebody runs. UsageError where no provider would take one."""
    agents = config.everybody
    return {agent.id: found for agent in agents if (found := tuple(_tools(agent, handled)))}


def unhandled(config: Config, handled: Collection[str]) -> list[str]:
    """The names of tools that agents declare and nobody runs."""
    agents = config.everybody
    names = [str(tool.get("name")) for agent in agents for tool in agent.tools or ()]
    return [name for name in dict.fromkeys(names) if name not in handled]


def _tools(agent: AgentConfig, handled: Collection[str]) -> Iterator[Tool]:
    for data in agent.tools or ():
        try:
            declared = Declared.parse(data)
        except Invalid:
            # The rules of a configuration say so, and the session ends with it.
            continue
        if declared.name not in handled:
            continue
        tool = Tool(name=declared.name, description=declared.description, input_schema=declared.input_schema)
        try:
            check_tool(tool)
        except UsageError as error:
            raise UsageError(f"agent {agent.id}: {error}") from error
        yield tool
