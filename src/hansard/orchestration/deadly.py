"""Runs at which drivers die one after the other, whatever they are at: after so many nobody goes on with one by himself."""

from shlex import quote

from hansard.orchestration.progress import Progress
from hansard.store.base import Claim

MORE = 1
"""How often it is tried again once everything is given up at which nobody is asked."""


def is_told_first(progress: Progress, claim: Claim, restarts: int) -> bool:
    """Whether whoever comes says first of all that he is there: somebody died at it, maybe without a word, or so many did that he may
    be the next."""
    return claim.because in ("dead", "expired") or (_is_deadly(progress, restarts) and _is_asked_for(progress))


def too_deadly(progress: Progress, restarts: int, place: str) -> str | None:
    """Why nobody goes on with it, where too many have died at it and no person has asked for another try since."""
    if not _is_deadly(progress, restarts) or _is_asked_for(progress):
        return None
    ledger = f"--ledger {quote(place)}"
    return (
        f"run {progress.run} ended whoever drove it {progress.died} times, and nothing else came of that, so nobody goes on with it "
        f"by himself any more; `hansard runs resume {progress.run} {ledger}` tries once more"
    )


def _is_deadly(progress: Progress, restarts: int) -> bool:
    return progress.died > restarts + MORE


def _is_asked_for(progress: Progress) -> bool:
    return progress.resumed_by is not None and progress.resumed_by > max(progress.claims, default=-1)
