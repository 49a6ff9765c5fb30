"""From what a body says to what a run is configured with. Callers choose among what is configured; they bring no programs."""

from dataclasses import replace
from typing import Any

from hansard.app.configuring import Wishes
from hansard.surfaces.http.bodies import Budgeted
from hansard.surfaces.http.desk import Desk
from hansard.surfaces.http.problems import Refused


def wishes_of(desk: Desk, body: Budgeted) -> Wishes:
    """What is asked for, over what the flags of the daemon say."""
    base = desk.wishes
    if body.provider is not None:
        base = replace(base, provider=body.provider, cmd=None, chat_url=None, model=None, api=None)
    return replace(
        base,
        max_calls=body.max_calls or base.max_calls,
        max_tokens=body.max_tokens or base.max_tokens,
        max_usd=body.max_usd or base.max_usd,
        max_seconds=body.max_seconds or base.max_seconds,
    )


def refuse_commands(desk: Desk, plan: Any) -> None:
    """A check that runs a program would run it here, as the daemon: only where that was allowed."""
    if desk.commands or not isinstance(plan, dict) or not isinstance(tasks := plan.get("tasks"), list):
        return
    for task in tasks:
        checks = task.get("checks") if isinstance(task, dict) else None
        for check in checks if isinstance(checks, list) else ():
            if isinstance(check, dict) and "command" in check:
                raise Refused(403, "this daemon runs no programs for plans; start it with --allow-commands to let it")
