"""Seals for as long as this process may, and again as soon as it may: when whoever sealed before is gone, or has let go.

Belongs to one writer thread at a time, as the sealer does.
"""

import time
from collections.abc import Callable

from hansard.errors import StoreError
from hansard.record.sealer import Sealer
from hansard.store.base import Seal

AGAIN_S = 4.0


class Deputy:
    """The sealing of a process that stays. `take` gives a sealer, or None while another process has the claim."""

    def __init__(self, sealer: Sealer | None, take: Callable[[], Sealer | None]) -> None:
        self._sealer, self._take = sealer, take
        self._next_s = time.monotonic() + AGAIN_S
        self._hindered: StoreError | None = None

    @property
    def trouble(self) -> StoreError | None:
        """Why the log is not sealed as it should be; None where it is, or another process sees to it."""
        return self._sealer.trouble if self._sealer and self._sealer.holds else self._hindered

    def seal(self) -> Seal | None:
        return self._sealer.seal() if self._sealer else None

    def committed(self) -> None:
        if self._sealer and self._sealer.holds:
            self._sealer.committed()
        else:
            self._look()

    def upkeep(self) -> None:
        if self._sealer and self._sealer.holds:
            self._sealer.upkeep()
        else:
            self._look()

    def _look(self) -> None:
        """Whether the place is free by now, where it was another's. What stands in the way then is kept in `trouble`."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + AGAIN_S
        try:
            self._sealer, self._hindered = self._take(), None
        except StoreError as error:
            self._hindered = error
