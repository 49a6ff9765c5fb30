"""From what a body says to what a run is configured with. Callers choose among what is configured; they bring no programs."""

from typing import Any

from hansard.app.setup.wishes import BOUNDED, Wishes
from hansard.surfaces.http.bodies import Budgeted
from hansard.surfaces.http.desk import Desk
from hansard.surfaces.http.problems import Refused
from hansard.surfaces.programs import runs_programs


def wishes_of(desk: Desk, body: Budgeted) -> Wishes:
    """What is asked for, within what the flags of the daemon say."""
    limits = {name: getattr(body, name, None) for name in BOUNDED}
    return desk.wishes.for_caller(body.provider, **limits)


def refuse_commands(desk: Desk, plan: Any) -> None:
    """A check that runs a program would run it here, as the daemon: only where that was allowed."""
    if not desk.commands and runs_programs(plan):
        raise Refused(403, "this daemon runs no programs for plans; start it with --allow-commands to let it")
