"""Routing for every surface: where a request would go and why, and how well that works on labelled requests."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from hansard.app.settings import read_text
from hansard.app.views import View
from hansard.domain.roster import Roster
from hansard.orchestration.route import Route, Router, evaluate, parse_rows


def route(text: str, roster: Roster) -> View:
    """Where this request would go, and why; `lane` is None where it is left undecided."""
    return route_view(Router(roster).route(text))


def route_view(found: Route) -> View:
    return {
        "lane": found.lane,
        "confidence": share(found.confidence_ppm),
        "runner_up": found.runner_up,
        "tier": found.tier,
        "evidence": [
            {"term": each.term, "known": each.known, "weight": share(each.weight_ppm)} for each in found.evidence
        ],
        "scores": [{"lane": lane, "share": share(score)} for lane, score in found.scores],
    }


def evaluation(path: str, roster: Roster) -> View:
    """How the router does on a file of labelled requests."""
    rows = parse_rows(read_text(Path(path)).split("\n"), path, roster.names)
    return {"roster": roster.name, **_shares(asdict(evaluate(Router(roster), rows)))}


def share(ppm: int) -> float:
    """Millionths, as the record keeps them, as a share."""
    return ppm / 1_000_000


def _shares(values: View) -> View:
    """The same values with every `…_ppm` as a share under its plain name; what could not be measured stays None."""
    return {name.removesuffix("_ppm"): _plain(name, value) for name, value in values.items()}


def _plain(name: str, value: Any) -> Any:
    if name.endswith("_ppm"):
        return None if value is None else share(value)
    rows = isinstance(value, list | tuple) and all(isinstance(each, dict) for each in value)
    return [_shares(each) for each in value] if rows else value
