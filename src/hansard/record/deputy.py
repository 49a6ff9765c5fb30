"""The sealing of a process that stays: for as long as it may, and again as soon as it may, or by another process alone.

Belongs to one writer thread at a time, as the sealer does.
"""

import time
from collections.abc import Callable

from hansard.errors import StoreError, Unavailable
from hansard.record.sealer import Sealer
from hansard.seal.anchors import Superseded
from hansard.store.base import Seal

AGAIN_S = 4.0
GONE_S = 60.0
"""Whoever seals may be started anew meanwhile."""


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
        """The seal of the next commit, where it is ours; Superseded where the log was adopted, and takes nothing more."""
        if isinstance(trouble := self.trouble, Superseded):
            raise trouble
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


class Onlooker:
    """Of a process that cannot sign a signed log: it writes as long as another one seals that, and a while longer ([C11]).

    `check` raises StoreError where nobody does.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._seen_s = self._looked_s = time.monotonic()
        self.trouble: StoreError | None = None

    def seal(self) -> Seal | None:
        """Nothing; Unavailable where nobody has sealed the log for too long."""
        self.upkeep()
        if self.trouble and time.monotonic() - self._seen_s > GONE_S:
            raise Unavailable(str(self.trouble))
        return None

    def committed(self) -> None:
        return

    def upkeep(self) -> None:
        """Look, now and then, whether somebody seals. A store that does not say so is heard of by whoever writes to it."""
        now = time.monotonic()
        if now - self._looked_s < AGAIN_S:
            return
        self._looked_s = now
        try:
            self._check()
        except Unavailable:
            return
        except StoreError as error:
            self.trouble = error
        else:
            self._seen_s, self.trouble = now, None
