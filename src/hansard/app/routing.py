"""Routing for every surface: where a request would go and why, and how well that works on labelled requests."""

from dataclasses import asdict
from pathlib import Path

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
        "confidence_ppm": found.confidence_ppm,
        "runner_up": found.runner_up,
        "tier": found.tier,
        "evidence": [
            {"term": each.term, "known": each.known, "weight_ppm": each.weight_ppm} for each in found.evidence
        ],
        "scores": [{"lane": lane, "share_ppm": share} for lane, share in found.scores],
    }


def evaluation(path: str, roster: Roster) -> View:
    """How the router does on a file of labelled requests."""
    rows = parse_rows(read_text(Path(path)).split("\n"), path, roster.names)
    return {"roster": roster.name, **asdict(evaluate(Router(roster), rows))}
