"""From what a body says to what a run is configured with. Callers choose among what is configured; they bring no programs."""

from hansard.app.setup.wishes import Wishes
from hansard.surfaces.http.bodies import Budgeted
from hansard.surfaces.http.desk import Desk


def wishes_of(desk: Desk, body: Budgeted) -> Wishes:
    """What is asked for, within what the flags of the daemon say."""
    return desk.wishes.for_caller(body.provider, **body.wished())
