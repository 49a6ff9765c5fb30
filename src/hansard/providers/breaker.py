"""Stops asking a provider that keeps saying that the key is wrong or the money is gone.

Such answers do not get better by asking, and asking costs time and sometimes the account. While the circuit is open,
calls are answered with the same kind of failure and nobody is asked; after a pause one call probes. Failures that pass
by themselves (a timeout, a rate limit) never open it.
"""

import time
from collections.abc import Callable

from hansard.domain.exchange import Completion, ErrorKind, Exchange, Failure
from hansard.errors import UsageError
from hansard.providers.base import Provider, Wrapper, failed, failure

OPENS: frozenset[ErrorKind] = frozenset({"auth_failure", "quota_exhausted"})
SAYS_NOTHING: frozenset[ErrorKind] = frozenset({"timeout", "network", "rate_limit", "internal", "tool_failure"})
"""Kinds after which nobody knows whether the key would have been accepted."""


class Breaker(Wrapper):
    """A provider with a circuit that opens after `after` such failures in a row, for `cool_down_s`."""

    def __init__(
        self,
        inner: Provider,
        *,
        after: int = 3,
        cool_down_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inner)
        if after < 1 or not cool_down_s >= 0:
            raise UsageError(
                f"a breaker opens after 1 or more failures for 0 s or more, not {after} and {cool_down_s} s"
            )
        self._after, self._cool_down_s, self._clock = after, cool_down_s, clock
        self._in_a_row = 0
        self._last: Failure | None = None
        self._probe_at = 0.0
        self._probing = False

    @property
    def is_open(self) -> bool:
        """Whether calls are refused, but for the one that probes."""
        return self._in_a_row >= self._after

    async def complete(self, exchange: Exchange) -> Completion:
        if not self.is_open:
            return self._noted(await self.inner.complete(exchange))
        if self._probing or self._clock() < self._probe_at:
            return failed(self, exchange, self._refusal())
        self._probing = True
        try:
            return self._noted(await self.inner.complete(exchange))
        finally:
            self._probing = False

    def _noted(self, completion: Completion) -> Completion:
        why = completion.failure
        if why is not None and why.kind in OPENS:
            self._in_a_row += 1
            self._last = why
            self._probe_at = self._clock() + self._cool_down_s
        elif why is None or why.kind not in SAYS_NOTHING:
            self._in_a_row, self._last = 0, None
        return completion

    def _refusal(self) -> Failure:
        kind, said = (self._last.kind, self._last.message) if self._last else ("auth_failure", "")
        wait_s = max(0.0, self._probe_at - self._clock())
        message = f"not asked: {self._in_a_row} calls in a row failed with {kind}; the next try is in {wait_s:.0f} s. Last: {said}"
        return failure(kind, message, retryable=False, circuit="open", retry_after_s=wait_s)
