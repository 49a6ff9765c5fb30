"""What a session takes from the world around it, so that a harness can pin it: ids, time, sleep, chance [R-9.4.1-1].

Ids and timestamps are asked for by the ordinal of the message: a session that goes on after a crash asks for the next ones.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random, SystemRandom
from typing import Any

from hansard.domain.value import value
from hansard.ledger.canonical import MAX_INT

STEP_S = 5
"""Between the messages of a session whose clock is pinned."""


@value
class Pins:
    """One session's ids, clock and chance. Nothing else that decides anything comes from outside."""

    ids: Callable[[int], str]
    stamp: Callable[[int], str]
    elapsed_us: Callable[[], int]
    seed: int
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    def jitter(self, calls: int) -> Callable[[], float]:
        """Chance for the pause after this many calls: the same in every run with this seed."""
        return Random(f"{self.seed}|{calls}").random


def numbered(ordinal: int) -> str:
    """The id that a message has by its place."""
    return f"msg-{ordinal:03d}"


def live(*, elapsed_before_us: int = 0, seed: int | None = None) -> Pins:
    """The real clock. A resumed session brings the time that it has used up already, and its seed."""
    began = time.monotonic_ns()
    return Pins(
        ids=numbered,
        stamp=_clock(),
        elapsed_us=lambda: elapsed_before_us + (time.monotonic_ns() - began) // 1000,
        seed=SystemRandom().randrange(MAX_INT) if seed is None else seed,
    )


def _clock() -> Callable[[int], str]:
    """The time now, in UTC. The date is put into words once a second."""
    known, words = -1, ""

    def stamp(_: int) -> str:
        nonlocal known, words
        second, rest = divmod(time.time_ns(), 1_000_000_000)
        if second != known:
            known, words = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{words}.{rest // 1000:06d}Z"

    return stamp


def pinned(start: str = "2026-05-25T12:00:00Z", seed: int = 0) -> Pins:
    """A clock that stands still, with timestamps that follow from the place of the message [A-18]. Nobody sleeps."""
    anchor = datetime.fromisoformat(start)

    async def sleep(_: float) -> None:
        return None

    def stamp(ordinal: int) -> str:
        return (anchor + timedelta(seconds=STEP_S * ordinal)).isoformat().replace("+00:00", "Z")

    return Pins(ids=numbered, stamp=stamp, elapsed_us=lambda: 0, seed=seed, sleep=sleep)


def as_recorded(messages: Sequence[Mapping[str, Any]]) -> Pins:
    """The ids and times of an earlier session, so that it can be held again. Behind its end the last time stands still."""

    def known(ordinal: int) -> Mapping[str, Any]:
        return messages[min(ordinal, len(messages) - 1)]

    return replace(
        pinned(),
        ids=lambda ordinal: str(known(ordinal)["id"]) if ordinal < len(messages) else numbered(ordinal),
        stamp=lambda ordinal: str(known(ordinal)["timestamp"]),
    )
