"""What the calls of one session may take at most, and providers that are not asked beyond it. The protocol has no cap on calls."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from hansard.domain.exchange import Completion, Exchange, Failure
from hansard.orchestration.purse import LEAST_OUTPUT_TOKENS as LEAST
from hansard.orchestration.purse import USUAL_OUTPUT_TOKENS as USUAL
from hansard.orchestration.purse import estimated_tokens
from hansard.providers.base import Provider, Wrapper, failed, failure, held
from hansard.providers.prices import Price


class Allowance:
    """What is left for the calls of a session; None is no limit. `whose` says in a refusal who has set it."""

    def __init__(
        self,
        *,
        calls: int | None,
        tokens: int | None = None,
        cost_usd_nano: int | None = None,
        left_s: Callable[[], float] | None = None,
        most_output: int | None = None,
        charge: Callable[[Completion], None] | None = None,
        whose: str = "this session may make",
    ) -> None:
        self.calls, self.tokens, self.cost_usd_nano, self.whose = calls, tokens, cost_usd_nano, whose
        self._left_s, self._charge, self._most_output = left_s, charge, most_output

    def used_up(self, exchange: Exchange) -> str | None:
        """What this call would go beyond; None where it may be made."""
        if self.calls is not None and self.calls <= 0:
            return "calls"
        if self.tokens is not None and self.tokens - estimated_tokens(exchange) < LEAST:
            return "tokens"
        return self.overdrawn()

    def overdrawn(self) -> str | None:
        """What the calls that are back took more of than there was. What one costs is known only then."""
        if self.tokens is not None and self.tokens < 0:
            return "tokens"
        if self._left_s is not None and self._left_s() <= 0:
            return "seconds"
        return "dollars" if self.cost_usd_nano is not None and self.cost_usd_nano < 0 else None

    def why(self, used_up: str) -> Failure:
        """The failure of a call for which this is used up."""
        return failure("quota_exhausted", f"the {used_up} that {self.whose} are used up")

    def take(self) -> None:
        """Count a call. Now and not when it is back: first answers are asked for at once."""
        if self.calls is not None:
            self.calls -= 1

    def bounded(self, exchange: Exchange) -> Exchange:
        """The question with its answer bounded to what is left."""
        output, timeout_s = (self._most_output, exchange.limits.max_output_tokens), exchange.limits.timeout_s
        most = min((each for each in output if each is not None), default=None)
        # Where nobody said how much, only where that is little: a server refuses a bound beyond what its model can say.
        if self.tokens is not None and (left := self.tokens - estimated_tokens(exchange)) < (most or USUAL):
            most = max(LEAST, left)
        if self._left_s is not None:
            timeout_s = min(timeout_s, self._left_s())
        return replace(exchange, limits=replace(exchange.limits, max_output_tokens=most, timeout_s=timeout_s))

    def charge(self, completion: Completion) -> None:
        """What a call took."""
        if self._charge is not None:
            self._charge(completion)
        if self.tokens is not None:
            self.tokens -= completion.usage.total
        if self.cost_usd_nano is not None:
            self.cost_usd_nano -= completion.cost.usd_nano


class Charged(Wrapper):
    """A provider that is asked within an allowance. What nobody knows the cost of costs what `prices` say, by PROVIDER:MODEL."""

    def __init__(
        self, inner: Provider, allowance: Allowance, prices: Mapping[str, Price] = MappingProxyType({})
    ) -> None:
        super().__init__(held(inner))
        self._allowance, self._prices = allowance, prices

    def refusal(self, exchange: Exchange) -> Completion | None:
        """The answer to a call that is not made; None where it may be."""
        used_up = self._allowance.used_up(exchange)
        return replace(failed(self, exchange, self._allowance.why(used_up)), refused=True) if used_up else None

    async def complete(self, exchange: Exchange) -> Completion:
        if refusal := self.refusal(exchange):
            return refusal
        self._allowance.take()
        return await self._made(exchange)

    # What is charged is what the one inside has answered within its contract.
    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def _made(self, exchange: Exchange) -> Completion:
        """A call that was let through and counted."""
        allowance = self._allowance
        try:
            completion = await self.inner.complete(allowance.bounded(exchange))
        except asyncio.CancelledError:
            # It was made, whatever it cost: the record counts it too.
            allowance.charge(failed(self, exchange, failure("internal", "cancelled")))
            raise
        price = self._prices.get(f"{self.id}:{completion.requested_model}")
        if price is not None:
            completion = price.where_unknown(completion)
        allowance.charge(completion)
        return completion


class Counted(Charged):
    """A provider whose one call is counted from the beginning: who asks while its question is recorded does not get it."""

    def __init__(self, inner: Provider, allowance: Allowance) -> None:
        super().__init__(inner, allowance)
        allowance.take()

    async def complete(self, exchange: Exchange) -> Completion:
        return await self._made(exchange)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]
