"""From what a body says to what a run is configured with. Callers choose among what is configured; they bring no programs."""

from hansard.app.setup.wishes import BOUNDED, Wishes
from hansard.surfaces.http.bodies import Budgeted
from hansard.surfaces.http.desk import Desk


def wishes_of(desk: Desk, body: Budgeted) -> Wishes:
    """What is asked for, within what the flags of the daemon say."""
    limits = {name: getattr(body, name, None) for name in BOUNDED}
    return desk.wishes.for_caller(body.provider, **limits)
