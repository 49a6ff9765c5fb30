"""Who has which sessions open at /mcp. Clients of the older generations often leave theirs without a word: each caller has room for
so many, and the one that he used longest ago makes room for the next. Whoever comes back to it is told that it is over, and opens another.
"""

from collections.abc import Iterator
from contextlib import contextmanager

MOST = 1_000
"""Sessions of one caller. The library has room for ten times as many, and then turns everybody away."""


class Sessions:
    """Counts sessions, and ends none itself."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: dict[str, dict[str, int]] = {}
        """By caller: his sessions with their requests under way, the one that was used last at the end."""

    @contextmanager
    def used(self, who: str, session: str) -> Iterator[None]:
        """A request in a session lasts as long as this."""
        here = self._of.get(who, {})
        if session not in here:
            yield
            return
        here[session] = here.pop(session) + 1
        try:
            yield
        finally:
            if session in here:
                here[session] -= 1

    def opened(self, who: str, session: str) -> list[str]:
        """A session is there. Gives what of his has to end for it: one that nobody uses, if there is one."""
        here = self._of.setdefault(who, {})
        idle = [each for each, requests in here.items() if not requests][:1] if len(here) >= self._most else []
        for each in idle:
            del here[each]
        here[session] = 0
        return idle

    def ended(self, who: str, session: str) -> None:
        here = self._of.get(who, {})
        here.pop(session, None)
        if not here:
            self._of.pop(who, None)
