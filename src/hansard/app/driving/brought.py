"""Plans that somebody brings along, with a request or at a gate."""

from hansard.errors import NotAllowed
from hansard.orchestration.config import RunConfig
from hansard.orchestration.plan import Plan, parse_plan


def brought_plan(data: object, config: RunConfig, *, where: str, commands: bool) -> Plan:
    """The plan, held against what the run is configured with. `commands`: whether its checks may run programs here."""
    plan = parse_plan(data, config.roster, config.policy, where=where, commands=True)
    if not commands and any(check.kind == "command" for task in plan.tasks for check in task.checks):
        raise NotAllowed(f"{where} has a check that runs a program here; --allow-commands lets the server do that")
    return plan
