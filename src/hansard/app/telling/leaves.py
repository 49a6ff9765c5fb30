"""Where drivers left a run, so that nobody waits longer than that for what they had asked. From entries alone."""

from bisect import bisect_right
from collections.abc import Iterable

from hansard.domain.kinds import DRIVEN

LEAVES = ("run.claimed", "run.ended")
"""Behind these nobody waits for an answer to what was asked before."""


class Leaves:
    """The moments at which a driver was gone, from the seq, the kind and the time of each entry of a run."""

    def __init__(self, entries: Iterable[tuple[int, str, int]]) -> None:
        self._seqs: list[int] = []
        self._last_us: list[int] = []
        worked_us = 0
        for seq, kind, ts in entries:
            if kind in LEAVES:
                self._seqs.append(seq)
                self._last_us.append(worked_us)
            if kind in DRIVEN:
                worked_us = ts

    def until_us(self, asked: int, answered: int | None = None) -> int | None:
        """When the driver who asked this last gave a sign of life, where it was gone before the answer was written; None
        where it was not. What lies between two drivers is nobody's work.
        """
        at = bisect_right(self._seqs, asked)
        if at == len(self._seqs) or (answered is not None and answered < self._seqs[at]):
            return None
        return self._last_us[at]
