"""What a run or a session took beside what it may take, as the rows of a page."""

from typing import Any

from hansard.app.views import View, price_basis, usd


def spend(view: View) -> list[dict[str, Any]]:
    """What was taken of what may be taken, a row each. A limit that the budget does not name is not known."""
    spent, budget = view["spent"], view["budget"]
    elapsed = spent["elapsed_us"]
    rows = (
        ("calls", spent["calls"], "max_calls", _figure),
        ("tokens", spent["tokens"], "max_tokens", _figure),
        (f"US$, {price_basis(view)}", spent["cost_usd_nano"], "max_cost_usd_nano", usd),
        ("seconds", None if elapsed is None else elapsed / 1e6, "max_seconds", _figure),
    )
    return [
        {
            "name": name,
            "used": None if used is None else said(used),
            "known": named in budget,
            "limit": None if budget.get(named) is None else said(budget[named]),
            "share": _share(used, budget.get(named)),
        }
        for name, used, named, said in rows
    ]


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}".rstrip("0").rstrip(".")


def _share(used: float | None, limit: float | None) -> float | None:
    return None if used is None or not limit else min(1.0, used / limit)
