"""How many files the daemon may have open, and how many callers there is room for then: each of them is a file.

Where there is no file left nobody can connect, whoever asks whether the daemon is well neither, and runs begin no program.
"""

import resource

FOR_EACH_REQUEST = 4
"""Two connections, of which one may be idle; the rest is for runs, the ledger, and whoever is about to be refused."""
ROUNDS = 16
MOST_WAITING = 2048
"""Callers whom the system keeps until they are let in."""


def files_for(requests: int) -> int:
    """How many files may be open, once the system was asked for as many as so many requests at once need."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = map(_counted, limits)
    wanted = min(FOR_EACH_REQUEST * requests, hard)
    if wanted <= soft:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, limits[1]))
    except (OSError, ValueError):
        # Some systems say more than they give.
        return soft
    return wanted


def requests_within(files: int) -> int:
    """For how many requests at once there are files."""
    return max(1, files // FOR_EACH_REQUEST)


def at_once_within(files: int) -> int:
    """How many callers are let in at once: that happens several times before the first one too many is refused."""
    return max(1, min(MOST_WAITING, files // ROUNDS))


def _counted(limit: int) -> int:
    """A limit as a number: no limit is more than anybody needs."""
    return 1 << 31 if limit == resource.RLIM_INFINITY else limit
