"""What a run may still spend. A call reserves before it is made and settles after; nothing here looks at a clock.

A run's seconds are its driver's affair. A lane's are the seconds that its calls took, and bound how long the next may take.

Tokens and money are reserved by estimate: what the prompt holds, and what the answer may have at most. Where less is left than
an answer may cost, the answer is bounded to what is left.
"""

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from hansard.domain.budget import Budget, Spend, of_limit
from hansard.domain.exchange import Completion, Exchange, Usage
from hansard.domain.work import BudgetUnit
from hansard.providers.checks import BYTES_PER_TOKEN
from hansard.providers.hosted.shapes import told
from hansard.providers.prices import Price

USUAL_OUTPUT_TOKENS = 4_096
LEAST_OUTPUT_TOKENS = 16


class Reserved(NamedTuple):
    """What was set aside for one call, and the exchange as it may be asked."""

    exchange: Exchange
    tokens: int
    cost_usd_nano: int
    calls: int = 1
    share: Budget | None = None
    """What a session may take, where the answer is one."""


class Breach(Exception):
    """A limit is reached: the call is not made. `passing` says that calls are under way which may cost less than set aside."""

    def __init__(self, unit: BudgetUnit, limit: int, spent: int, lane: str | None, *, passing: bool = False) -> None:
        super().__init__(f"{of_limit(unit, spent, limit)} spent")
        self.unit, self.limit, self.spent, self.lane, self.passing = unit, limit, spent, lane, passing


class Purse:
    """One budget with what was spent and what is set aside. `lane` names it where it is a lane's."""

    def __init__(self, budget: Budget, spent: Spend | None = None, lane: str | None = None) -> None:
        self.budget, self.lane = budget, lane
        self.spent = spent or Spend()
        self._calls = self._tokens = self._cost = 0

    def reserve(self, exchange: Exchange, price: Price | None) -> Reserved:
        """Set aside what this call may cost. Breach when a limit would be passed."""
        budget = self.budget
        if budget.max_calls is not None and self.spent.calls + self._calls >= budget.max_calls:
            raise self._breach("calls", budget.max_calls, self.spent.calls)
        exchange = self._within_time(exchange)
        if budget.max_tokens is None and budget.max_cost_usd_nano is None:
            self._calls += 1
            return Reserved(exchange, 0, 0)
        asked = estimated_tokens(exchange)
        wanted = exchange.limits.max_output_tokens or USUAL_OUTPUT_TOKENS
        output = min(wanted, self._affordable_tokens(asked), self._affordable_money(asked, price))
        # While others are asked, what they leave over may still be enough for a whole answer: better wait than cut it short.
        if output < wanted and (output < LEAST_OUTPUT_TOKENS or self._calls):
            raise self._short(asked)
        binds = budget.max_tokens is not None or price is not None
        if output < wanted or (binds and exchange.limits.max_output_tokens is None):
            # What is set aside is also the most that the answer may have: otherwise it would be a guess, and no limit.
            exchange = replace(exchange, limits=replace(exchange.limits, max_output_tokens=output))
        cost = price.of(Usage(input_tokens=asked, output_tokens=output)) if price else 0
        self._calls += 1
        self._tokens += asked + output
        self._cost += cost
        return Reserved(exchange, asked + output, cost)

    def carve(self, exchange: Exchange, share: Budget, *, metered: bool, goes_on: bool = False) -> Reserved:
        """Set aside what a session may take at most, or what is left of it where that is less. Breach where nothing is; but
        one that `goes_on` has begun within the budget, and gets nothing then: it may have its answer already.
        """
        budget, spent, free = self.budget, self.spent, goes_on and not self._calls
        calls = self._left("calls", share.max_calls, budget.max_calls, spent.calls + self._calls, free)
        tokens = self._left("tokens", share.max_tokens, budget.max_tokens, spent.tokens + self._tokens, free)
        limit = budget.max_cost_usd_nano if metered else None
        cost = self._left("cost_usd_nano", share.max_cost_usd_nano, limit, spent.cost_usd_nano + self._cost, free)
        # How long one call may take is no limit of a session, which makes many.
        seconds = min((each for each in (share.max_seconds, self._left_s(free)) if each is not None), default=None)
        carved = Budget(max_calls=calls, max_tokens=tokens, max_cost_usd_nano=cost, max_seconds=seconds)
        reserved = Reserved(
            exchange, max(0, tokens or 0), max(0, cost or 0), 1 if calls is None else max(0, calls), carved
        )
        self._calls += reserved.calls
        self._tokens += reserved.tokens
        self._cost += reserved.cost_usd_nano
        return reserved

    def _left(self, unit: BudgetUnit, wanted: int | None, limit: int | None, used: int, free: bool) -> int | None:
        if limit is None:
            return wanted
        if limit - used <= 0 and not free:
            raise self._breach(unit, limit, getattr(self.spent, unit))
        return min(limit - used, wanted) if wanted is not None else limit - used

    def settle(self, reserved: Reserved, completion: Completion | None) -> None:
        """The call is over; None: it was never made, nobody knows what it cost, or that was charged already."""
        self._calls -= reserved.calls
        self._tokens -= reserved.tokens
        self._cost -= reserved.cost_usd_nano
        if completion is not None:
            self.charge(completion)

    def charge(self, completion: Completion) -> None:
        """Count what a call took."""
        self.count(Spend().plus(completion, completion.latency_us))

    def count(self, took: Spend) -> None:
        """Count what was spent, wherever that was."""
        took_us = took.elapsed_us if self.lane else 0
        self.spent = self.spent.more(took.calls, took.tokens, took.cost_usd_nano, took_us, priced=took.priced)

    def _within_time(self, exchange: Exchange) -> Exchange:
        left_s = self._left_s()
        if left_s is None:
            return exchange
        return replace(exchange, limits=replace(exchange.limits, timeout_s=min(exchange.limits.timeout_s, left_s)))

    def _left_s(self, free: bool = False) -> float | None:
        """The seconds that are left of a lane's, None where it has no limit. Breach where none are, and that is not free."""
        limit = self.budget.max_seconds
        if self.lane is None or limit is None:
            return None
        left_s = limit - self.spent.elapsed_us / 1e6
        if left_s <= 0 and not free:
            raise self._breach("seconds", ceil(limit), self.spent.elapsed_us // 1_000_000)
        return max(0.0, left_s)

    def _affordable_tokens(self, asked: int) -> int:
        if self.budget.max_tokens is None:
            return 1 << 60
        return self.budget.max_tokens - self.spent.tokens - self._tokens - asked

    def _affordable_money(self, asked: int, price: Price | None) -> int:
        if self.budget.max_cost_usd_nano is None or price is None:
            return 1 << 60
        left = self.budget.max_cost_usd_nano - self.spent.cost_usd_nano - self._cost
        left -= price.of(Usage(input_tokens=asked))
        if left < 0:
            return -1
        return left * 1_000_000 // price.output if price.output else 1 << 60

    def _short(self, asked: int) -> Breach:
        budget = self.budget
        if budget.max_tokens is not None and self._affordable_tokens(asked) < LEAST_OUTPUT_TOKENS:
            return self._breach("tokens", budget.max_tokens, self.spent.tokens)
        return self._breach("cost_usd_nano", budget.max_cost_usd_nano or 0, self.spent.cost_usd_nano)

    def _breach(self, unit: BudgetUnit, limit: int, spent: int) -> Breach:
        return Breach(unit, limit, spent, self.lane, passing=self._calls > 0)


def estimated_tokens(exchange: Exchange) -> int:
    """About how many tokens the question has: its messages, and the shape of the answer, which most servers are told in words."""
    return -(-sum(len(message.content.encode("utf-8", "replace")) for message in told(exchange)) // BYTES_PER_TOKEN)
