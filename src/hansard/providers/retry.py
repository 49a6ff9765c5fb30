"""Whether to try again and after how long. Pure: chance and the time that is left are passed in, and nobody sleeps here.

The driver asks after each failed attempt, and records and charges each new one. No provider retries by itself.
"""

from collections.abc import Callable
from math import isfinite

from hansard.domain.exchange import RETRYABLE, Failure
from hansard.domain.value import value

# A tool may know that another try helps; its provider says so [deliberation 4.3].
_MAY_BE_RETRIED = RETRYABLE | {"tool_failure"}


@value
class Retries:
    """At most `retries` more attempts after the first, with full jitter between them [R-6.7-3, R-6.7-5]."""

    retries: int = 2
    base_s: float = 0.5
    factor: float = 2.0
    cap_s: float = 30.0
    longest_s: float = 600.0

    def interval_s(self, made: int) -> float:
        """The widest pause after this many attempts."""
        # Bounded before it is raised to a power: a thousand attempts must not overflow.
        return min(self.cap_s, self.base_s * self.factor ** min(max(made - 1, 0), 64))

    def pause_s(
        self, failure: Failure, made: int, *, random: Callable[[], float], remaining_s: float | None = None
    ) -> float | None:
        """How long to wait before the next attempt, when `made` were made; None when there shall be none.

        A server's own wish is honoured, and never beyond the time that the caller has left [R-6.7-1]. A malformed
        answer is corrected without waiting. `random` gives a number from 0 to 1.
        """
        if made > self.retries or not may_retry(failure):
            return None
        if remaining_s is not None and remaining_s <= 0:
            return None
        if failure.kind == "malformed_response":
            return 0.0
        pause = max(random() * self.interval_s(made), _asked_for(failure))
        return min(pause, self.longest_s, self.longest_s if remaining_s is None else remaining_s)


def may_retry(failure: Failure) -> bool:
    """Whether the kind allows another attempt and the provider does not advise against it."""
    return failure.retryable and failure.kind in _MAY_BE_RETRIED


def _asked_for(failure: Failure) -> float:
    wish = failure.retry_after_s
    return wish if wish is not None and isfinite(wish) else 0.0
