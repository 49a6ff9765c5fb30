"""Hansard runs teams of AI agents and keeps the verbatim record.

This is the face: public names resolve on first use, so that importing one floor does not pull in the others.
"""

from hansard.__about__ import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hansard.app.deliberating import PinningViolation as PinningViolation
    from hansard.app.deliberating import execution_replay as execution_replay
    from hansard.app.deliberating import execution_replay_async as execution_replay_async
    from hansard.app.deliberating import run_session as run_session
    from hansard.app.deliberating import run_session_async as run_session_async
    from hansard.app.deliberating import transcript_replay as transcript_replay
    from hansard.app.service import Hansard as Hansard
    from hansard.app.service import Run as Run
    from hansard.app.settings import Settings as Settings
    from hansard.app.setup.wishes import Wishes as Wishes
    from hansard.domain.roster import Lane as Lane
    from hansard.domain.roster import Policy as Policy
    from hansard.domain.roster import Roster as Roster
    from hansard.orchestration.ending import Ended as Ended

__all__ = [
    "Ended",
    "Hansard",
    "Lane",
    "PinningViolation",
    "Policy",
    "Roster",
    "Run",
    "Settings",
    "Wishes",
    "__version__",
    "execution_replay",
    "execution_replay_async",
    "run_session",
    "run_session_async",
    "transcript_replay",
]

_WHERE = {
    "Ended": "hansard.orchestration.ending",
    "Hansard": "hansard.app.service",
    "Lane": "hansard.domain.roster",
    "Policy": "hansard.domain.roster",
    "Roster": "hansard.domain.roster",
    "Run": "hansard.app.service",
    "Settings": "hansard.app.settings",
    "Wishes": "hansard.app.setup.wishes",
    **dict.fromkeys(
        (
            *("PinningViolation", "transcript_replay", "run_session", "run_session_async"),
            *("execution_replay", "execution_replay_async"),
        ),
        "hansard.app.deliberating",
    ),
}


def __getattr__(name: str) -> object:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'hansard' has no attribute {name!r}")


def __dir__() -> list[str]:
    """For help() and whoever completes names: what is resolved later is here too."""
    return sorted({*globals(), *__all__})
