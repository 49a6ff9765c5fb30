"""What the calls of one session may take at most, and providers that are not asked beyond it. The protocol has no cap on calls."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from hansard.domain.exchange import Completion, Exchange, Failure
from hansard.orchestration.purse import LEAST_OUTPUT_TOKENS as LEAST
from hansard.orchestration.purse import USUAL_OUTPUT_TOKENS as USUAL
from hansard.orchestration.purse import estimated_tokens
from hansard.providers.base import Provider, Wrapper, failed, failure, held, refusal_of
from hansard.providers.prices import Price


class Taken(NamedTuple):
    """A call that is made: the question with its answer bounded to what was left, and the tokens that are set aside for it."""

    exchange: Exchange
    tokens: int


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
        said = f"the {used_up} that {self.whose} are used up"
        if used_up == "tokens" and self.tokens is not None and self.tokens > 0:
            said += f" but for {self.tokens:,}, too few for the next question and its answer"
        return failure("quota_exhausted", said)

    def is_short(self, exchange: Exchange) -> bool:
        """Whether the answer to this would be cut short by the tokens that are left."""
        return self.tokens is not None and self.tokens - estimated_tokens(exchange) < (self._most(exchange) or USUAL)

    def _most(self, exchange: Exchange) -> int | None:
        """How long an answer may be in any case; None where nobody said so."""
        wanted = (self._most_output, exchange.limits.max_output_tokens)
        return min((each for each in wanted if each is not None), default=None)

    def take(self, exchange: Exchange) -> Taken:
        """Count a call. Now and not when it is back: first answers are asked for at once."""
        most, timeout_s, asked = self._most(exchange), exchange.limits.timeout_s, estimated_tokens(exchange)
        # Where nobody said how much, only where that is little: a server refuses a bound beyond what its model can say.
        if self.tokens is not None and self.is_short(exchange):
            most = max(LEAST, self.tokens - asked)
        if self._left_s is not None:
            timeout_s = min(timeout_s, self._left_s())
        taken = Taken(
            replace(exchange, limits=replace(exchange.limits, max_output_tokens=most, timeout_s=timeout_s)),
            asked + (most or USUAL),
        )
        if self.calls is not None:
            self.calls -= 1
        if self.tokens is not None:
            self.tokens -= taken.tokens
        return taken

    def charge(self, taken: Taken, completion: Completion) -> None:
        """What a call took, in place of what was set aside."""
        if self._charge is not None:
            self._charge(completion)
        if self.tokens is not None:
            self.tokens += taken.tokens - completion.usage.total
        if self.cost_usd_nano is not None:
            self.cost_usd_nano -= completion.cost.usd_nano


class Priced(Wrapper):
    """A provider whose answers cost what `prices` say, by PROVIDER:MODEL, where nobody else knows what they cost."""

    def __init__(self, inner: Provider, prices: Mapping[str, Price]) -> None:
        super().__init__(held(inner))
        self._prices = prices

    async def complete(self, exchange: Exchange) -> Completion:
        completion = await self.inner.complete(exchange)
        price = self._prices.get(f"{self.id}:{completion.requested_model}")
        return price.where_unknown(completion) if price else completion

    # Nothing but the cost is another than the one inside has answered within its contract.
    complete.keeps_the_contract = True  # type: ignore[attr-defined]


class Charged(Wrapper):
    """A provider that is asked within an allowance."""

    def __init__(self, inner: Provider, allowance: Allowance) -> None:
        super().__init__(held(inner))
        self._allowance = allowance

    def refusal(self, exchange: Exchange) -> Completion | None:
        """The answer to a call that is not made; None where it may be."""
        if refusal := refusal_of(self.inner, exchange):
            return refusal
        used_up = self._allowance.used_up(exchange)
        return replace(failed(self, exchange, self._allowance.why(used_up)), refused=True) if used_up else None

    async def complete(self, exchange: Exchange) -> Completion:
        if refusal := self.refusal(exchange):
            return refusal
        return await self._made(self._allowance.take(exchange))

    # What is charged is what the one inside has answered within its contract.
    complete.keeps_the_contract = True  # type: ignore[attr-defined]

    async def _made(self, taken: Taken) -> Completion:
        """A call that was let through and counted."""
        allowance = self._allowance
        try:
            completion = await self.inner.complete(taken.exchange)
        except asyncio.CancelledError:
            # It was made, whatever it cost: the record counts it too.
            allowance.charge(taken, failed(self, taken.exchange, failure("internal", "cancelled")))
            raise
        allowance.charge(taken, completion)
        return completion


class Counted(Charged):
    """A provider whose one call is counted from the beginning: who asks while its question is recorded does not get it."""

    def __init__(self, inner: Provider, allowance: Allowance, exchange: Exchange) -> None:
        super().__init__(inner, allowance)
        self._taken = allowance.take(exchange)

    async def complete(self, _: Exchange) -> Completion:
        return await self._made(self._taken)

    complete.keeps_the_contract = True  # type: ignore[attr-defined]
