"""Limits on what a run may spend, and what it has spent. Pure sums: nothing here looks at a clock."""

from hansard.domain.exchange import Completion
from hansard.domain.value import value


@value
class Spend:
    """Calls, tokens, money and time used so far."""

    calls: int = 0
    tokens: int = 0
    cost_usd_nano: int = 0
    elapsed_us: int = 0

    def plus(self, completion: Completion, took_us: int = 0) -> "Spend":
        return Spend(
            calls=self.calls + 1,
            tokens=self.tokens + completion.usage.total,
            cost_usd_nano=self.cost_usd_nano + completion.cost.usd_nano,
            elapsed_us=self.elapsed_us + took_us,
        )


@value
class Budget:
    """What may be spent; None means no limit of that kind."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd_nano: int | None = None
    max_seconds: float | None = None
