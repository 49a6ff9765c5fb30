"""What the calls of one session may take at most, and providers that are not asked beyond it. The protocol has no cap on calls."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from hansard.domain.exchange import Completion, Exchange
from hansard.orchestration.purse import LEAST_OUTPUT_TOKENS as LEAST
from hansard.orchestration.purse import estimated_tokens
from hansard.providers.base import Provider, Wrapper, failed, failure


class Allowance:
    """What is left for the calls of a session; None is no limit. `whose` says in a refusal who has set it."""

    def __init__(
        self,
        *,
        calls: int | None,
        tokens: int | None = None,
        most_output: int | None = None,
        charge: Callable[[Completion], None] | None = None,
        whose: str = "this session may make",
    ) -> None:
        self.calls, self.tokens, self.whose = calls, tokens, whose
        self._charge, self._most_output = charge, most_output

    def refuses(self, exchange: Exchange) -> str | None:
        """What is used up, where this call would go beyond it; otherwise the call counts as made."""
        if self.calls is not None and self.calls <= 0:
            return "calls"
        if self.tokens is not None and self.tokens - estimated_tokens(exchange) < LEAST:
            return "tokens"
        if self.calls is not None:
            # Now and not when it is back: first answers are asked for at once.
            self.calls -= 1
        return None

    def bounded(self, exchange: Exchange) -> Exchange:
        """The question with its answer bounded to what is left."""
        limits = [self._most_output, exchange.limits.max_output_tokens]
        if self.tokens is not None:
            limits.append(self.tokens - estimated_tokens(exchange))
        known = [each for each in limits if each is not None]
        return replace(exchange, limits=replace(exchange.limits, max_output_tokens=min(known, default=None)))

    def charge(self, completion: Completion) -> None:
        """What a call took."""
        if self._charge is not None:
            self._charge(completion)
        if self.tokens is not None:
            self.tokens -= completion.usage.total


class Charged(Wrapper):
    """A provider that is asked within an allowance."""

    def __init__(self, inner: Provider, allowance: Allowance) -> None:
        super().__init__(inner)
        self._allowance = allowance

    async def complete(self, exchange: Exchange) -> Completion:
        allowance = self._allowance
        if used_up := allowance.refuses(exchange):
            why = failure("quota_exhausted", f"the {used_up} that {allowance.whose} are used up")
            return failed(self, exchange, why)
        try:
            completion = await self.inner.complete(allowance.bounded(exchange))
        except asyncio.CancelledError:
            # It was made, whatever it cost: the record counts it too.
            allowance.charge(failed(self, exchange, failure("internal", "cancelled")))
            raise
        allowance.charge(completion)
        return completion
