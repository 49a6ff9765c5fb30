"""The process that has opened a store. A forked child has its connections, and not the right to use them. Knows no store."""

import os

from hansard.errors import StoreError

ANEW = "open it in a process that is started anew (multiprocessing: spawn)"


class Opener:
    """This process, until it is asked in a child of it."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    def is_here(self) -> bool:
        """False in a forked child."""
        return os.getpid() == self._pid

    def check(self, place: str) -> None:
        """StoreError in a forked child."""
        if not self.is_here():
            raise StoreError(f"{place} was opened by another process before a fork; {ANEW}")
