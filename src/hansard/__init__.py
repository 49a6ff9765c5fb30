"""Hansard runs teams of AI agents and keeps the verbatim record.

This is the face: public names resolve on first use, so that importing one floor does not pull in the others.
"""

from hansard.__about__ import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hansard.app.service import Hansard as Hansard
    from hansard.domain.roster import Lane as Lane
    from hansard.domain.roster import Policy as Policy
    from hansard.domain.roster import Roster as Roster

__all__ = ["Hansard", "Lane", "Policy", "Roster", "__version__"]

_WHERE = {
    "Hansard": "hansard.app.service",
    "Lane": "hansard.domain.roster",
    "Policy": "hansard.domain.roster",
    "Roster": "hansard.domain.roster",
}


def __getattr__(name: str) -> object:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'hansard' has no attribute {name!r}")
