"""What may be spent, as hansard.toml and flags say it, and whether a model costs anything."""

from dataclasses import replace
from decimal import Decimal, DecimalException
from typing import Any

from hansard.app.pool import Pool
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.domain.budget import NANO_PER_USD, Budget
from hansard.domain.exchange import Usage
from hansard.domain.fields import Fields
from hansard.errors import UsageError
from hansard.orchestration.config import read_budget
from hansard.providers.base import Provider

MOST_USD = (2**53 - 1) // NANO_PER_USD


def allowed(settings: Settings, wishes: Wishes) -> Budget:
    """What one run may spend: as `[budget]` says, and flags before it."""
    where, table = str(settings.config or "hansard.toml"), dict(settings.budget)
    if "max_usd" in table:
        table["max_cost_usd_nano"] = nano_usd(str(table.pop("max_usd")), f"{where} [budget] max_usd")
    budget = read_budget(Fields(table, f"{where} [budget]"))
    wanted: dict[str, Any] = {
        "max_calls": wishes.max_calls,
        "max_tokens": wishes.max_tokens,
        "max_cost_usd_nano": (
            nano_usd(wishes.max_usd, wishes.named("max_usd")) if wishes.max_usd is not None else None
        ),
        "max_seconds": wishes.max_seconds,
    }
    return replace(budget, **{name: value for name, value in wanted.items() if value is not None})


def of_server(settings: Settings, flags: Wishes) -> Wishes:
    """The flags of a server, with what the file allows where they say nothing: its callers get no more, and type no flags."""
    most = allowed(settings, flags)
    nano = most.max_cost_usd_nano
    return replace(
        flags,
        typed=False,
        bare=(flags.provider.partition(":")[0],) if flags.provider else (),
        max_calls=most.max_calls,
        max_tokens=most.max_tokens,
        max_usd=None if nano is None else f"{Decimal(nano) / NANO_PER_USD:f}",
        max_seconds=most.max_seconds,
        max_parallel=flags.max_parallel or settings.policy.max_parallel,
    )


def nano_usd(text: str, where: str) -> int:
    """Dollars as billionths."""
    try:
        amount = Decimal(text)
        if 0 <= amount <= MOST_USD:
            return int(amount * NANO_PER_USD)
    except DecimalException as error:
        raise UsageError(f"{where}: {text!r:.40} is no amount of dollars, such as 0.50") from error
    raise UsageError(f"{where}: {text!r:.40} is no amount of dollars from 0 to {MOST_USD:,}, such as 0.50")


def check_price(pool: Pool, provider: Provider, model: str) -> None:
    """UsageError where nobody knows what a model costs, and somebody sends a bill for it."""
    if not provider.unmetered and pool.prices.find(model) is None:
        raise UsageError(
            f"there is a limit of money, and the price of {model!r} ({provider.id}) is not known; "
            f'write [prices."{model}"] with input and output in dollars per million tokens, or unmetered = true into the '
            f"provider's table where nobody sends a bill for it"
        )


def costs_some(pool: Pool, provider: Provider, model: str) -> bool:
    """Whether somebody sends a bill for a model, as far as its price is known."""
    price = None if provider.unmetered else pool.prices.find(model)
    return price is not None and price.of(Usage(input_tokens=1, output_tokens=1)) > 0
