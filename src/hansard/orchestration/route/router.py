"""Tier 0 of routing: which lane a request belongs to, without a model. Pure, deterministic, total for any text.

Lanes compete with everyday topics (cooking, travel, small talk) that no lane serves; where one of those wins, where two
lanes are near each other or where too little was recognised, the request is left undecided and a later tier may ask.
"""

import math
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pkgutil import get_data
from typing import Any

from hansard.domain.lane import Lane
from hansard.domain.roster import Roster, parse_roster
from hansard.domain.value import value
from hansard.orchestration.route.index import Index, Match
from hansard.orchestration.route.terms import spellings, words_of_each

TIER = 0
DECIDED_PPM = 600_000
MAX_EVIDENCE, MAX_SCORES = 8, 5
# Fitted on labelled requests by logistic regression: how evidence beyond the strongest term, the lead over the runner-up and
# the lead over everyday talk turn into the chance of being right. See docs/routing.md.
_BIAS, _BY_REST, _BY_LEAD, _BY_TOPIC, _DOUBT = -4.0, 1.0, 6.0, 6.4, 3.0


@value
class Evidence:
    """One term that spoke for the lane. `known` is what it was taken for, another word where it is misspelt."""

    term: str
    known: str
    weight_ppm: int


@value
class Route:
    """What a rung decided. `runner_up` is the lane that came nearest without being chosen; scores are shares in ppm."""

    lane: str | None
    confidence_ppm: int
    runner_up: str | None
    evidence: tuple[Evidence, ...]
    tier: int
    scores: tuple[tuple[str, int], ...]


def recorded_route(data: Mapping[str, Any]) -> Route:
    """What a router said, as the record keeps it."""
    evidence = tuple(Evidence(**each) for each in data["evidence"])
    scores = tuple((str(lane), int(score)) for lane, score in data["scores"])
    return Route(**{**data, "evidence": evidence, "scores": scores})


class Router:
    """Routes requests over one roster; building it reads every lane document once."""

    def __init__(self, roster: Roster) -> None:
        topics, filler = _everyday()
        served = _subjects(roster) - filler
        unserved = [topic for topic, about in topics if served.isdisjoint(about)]
        self._names = roster.names
        self._index = Index((*roster.lanes, *unserved), filler)

    def route(self, text: str) -> Route:
        """The lane this text asks for, or None with the nearest lane as runner-up."""
        matches = self._index.matches(text)
        scores = [0.0] * self._index.size
        for match in matches:
            for place, weight in match.weights:
                scores[place] += weight
        lanes = len(self._names)
        order = sorted((place for place in range(lanes) if scores[place] > 0), key=lambda place: -scores[place])
        if not order:
            return Route(lane=None, confidence_ppm=0, runner_up=None, evidence=(), tier=TIER, scores=())
        best, second = scores[order[0]], scores[order[1]] if len(order) > 1 else 0.0
        strongest = max(dict(match.weights).get(order[0], 0.0) for match in matches)
        confidence = _confidence(best, best - strongest, second, max(scores[lanes:], default=0.0))
        decided = confidence >= DECIDED_PPM
        next_best = order[1:2] if decided else order[:1]
        return Route(
            lane=self._names[order[0]] if decided else None,
            confidence_ppm=confidence,
            runner_up=self._names[next_best[0]] if next_best else None,
            evidence=_evidence(matches, order[0], spellings(text)),
            tier=TIER,
            scores=tuple((self._names[place], _ppm(scores[place] / sum(scores))) for place in order[:MAX_SCORES]),
        )


def _confidence(best: float, rest: float, second: float, topic: float) -> int:
    lead = (best - second) / (best + _DOUBT)
    over_topics = (best - topic) / (best + topic + _DOUBT)
    raw = _BIAS + _BY_REST * math.log1p(max(rest, 0.0)) + _BY_LEAD * lead + _BY_TOPIC * over_topics
    return _ppm(1 / (1 + math.exp(-raw)))


def _evidence(matches: list[Match], lane: int, typed: dict[str, str]) -> tuple[Evidence, ...]:
    found = [(dict(match.weights).get(lane, 0.0), match) for match in matches]
    strongest = sorted((each for each in found if each[0] > 0), key=lambda each: (-each[0], each[1].typed))
    spelt = [(weight, match, _spelt(match.typed, typed)) for weight, match in strongest[:MAX_EVIDENCE]]
    return tuple(
        Evidence(term=term, known=term if match.known == match.typed else match.known, weight_ppm=_ppm(weight))
        for weight, match, term in spelt
    )


def _spelt(term: str, typed: dict[str, str]) -> str:
    return " ".join(typed.get(stem, stem) for stem in term.split())


def _subjects(roster: Roster) -> frozenset[str]:
    """What the lanes call themselves: an everyday topic that a lane serves must not compete with it."""
    return frozenset(chain.from_iterable(words_of_each(f"{lane.name} {lane.domain}" for lane in roster.lanes)))


def _ppm(share: float) -> int:
    return round(share * 1_000_000)


@cache
def _everyday() -> tuple[tuple[tuple[Lane, frozenset[str]], ...], frozenset[str]]:
    """Topics that people also write about, each with its single words; and the words that say nothing."""
    text = get_data(__package__, "everyday.toml") or b""
    topics, filler = [], frozenset[str]()
    for topic in parse_roster(text.decode(), "everyday.toml").lanes:
        stems = words_of_each(topic.vocabulary)
        if topic.category == "filler":
            filler |= frozenset(chain.from_iterable(stems))
        else:
            topics.append((topic, frozenset(each[0] for each in stems if len(each) == 1)))
    return tuple(topics), filler
