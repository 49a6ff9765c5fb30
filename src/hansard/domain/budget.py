"""Limits on what a run may spend, and what it has spent. Pure sums: nothing here looks at a clock."""

from hansard.domain.exchange import Completion
from hansard.domain.value import value

NANO_PER_USD = 1_000_000_000
MOST_SPENT = 10**15
"""No sum says more, and no limit allows for more: the record holds no number beyond 2^53 - 1."""


def in_nano(usd: float) -> int:
    """Dollars in billionths. What a stranger says that something cost may be any number, and is MOST_SPENT at most."""
    return round(min(usd, MOST_SPENT / NANO_PER_USD) * NANO_PER_USD)


def usd(nano: int) -> str:
    """Money for people, with as many places as it needs: what was spent is never shown as nothing."""
    if not nano:
        return "0"
    places = next((places for least, places in ((10**9, 2), (10**7, 4), (10**5, 6)) if nano >= least), 9)
    whole, _, rest = f"{nano / 10**9:.{places}f}".partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def of_limit(unit: str, spent: int, limit: int) -> str:
    """What was spent of a limit, for people; money in dollars."""
    if unit == "cost_usd_nano":
        return f"money: ${usd(spent)} of ${usd(limit)}"
    return f"{unit}: {spent:,} of {limit:,}"


@value
class Spend:
    """Calls, tokens, money and time used so far. It is not priced where nobody knows what one of the calls cost."""

    calls: int = 0
    tokens: int = 0
    cost_usd_nano: int = 0
    elapsed_us: int = 0
    priced: bool = True

    def plus(self, completion: Completion, took_us: int = 0) -> "Spend":
        cost = completion.cost.usd_nano
        return self.more(1, completion.usage.total, cost, took_us, priced=completion.is_priced)

    def more(self, calls: int, tokens: int, cost_usd_nano: int, took_us: int = 0, *, priced: bool = True) -> "Spend":
        return Spend(
            calls=self.calls + calls,
            tokens=min(self.tokens + tokens, MOST_SPENT),
            cost_usd_nano=min(self.cost_usd_nano + cost_usd_nano, MOST_SPENT),
            elapsed_us=min(self.elapsed_us + took_us, MOST_SPENT),
            priced=self.priced and priced,
        )


@value
class Budget:
    """What may be spent; None means no limit of that kind."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost_usd_nano: int | None = None
    max_seconds: float | None = None

    def recorded(self) -> dict[str, int | None]:
        """The limits as they stand in data, where numbers are whole."""
        return {
            "max_calls": self.max_calls,
            "max_tokens": self.max_tokens,
            "max_cost_usd_nano": self.max_cost_usd_nano,
            "max_seconds": None if self.max_seconds is None else -(-int(self.max_seconds * 1000) // 1000),
        }
