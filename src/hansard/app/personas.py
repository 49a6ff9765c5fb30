"""Personas for every surface: who can sit on a panel without being described first."""

from hansard.app.views import View
from hansard.deliberation.personas import DEFAULTS


def personas_view() -> list[View]:
    """The personas that ship, in the order in which they speak; the coordinator is last."""
    return [dict(persona.as_data()) for persona in DEFAULTS]
