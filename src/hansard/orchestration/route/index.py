"""Lane documents as weights: which term speaks for which lane, and how strongly. Pure; decides nothing.

A term counts by how often a lane's document uses it, and far more by how few lanes use it: a word that half the roster
shares says little, whoever wrote it. Words that stand only in examples count less than vocabulary, which was meant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from hansard.domain.lane import Lane
from hansard.orchestration.route.spelling import Spelling
from hansard.orchestration.route.terms import pairs, words, words_of_each

# How much one mention is worth, by where it stands. Chosen by leaving each example of the default roster out once.
VOCABULARY, VOCABULARY_WORD, EXAMPLE, PROSE = 3.0, 1.2, 1.0, 0.5
PAIR = 0.6
_FILLER_MASS, _RARE, _HALF, _POWER = 3.0, 0.2, 0.6, 1.5
_MAX_LIKES = 10_000

Weights = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A term of a request that some lanes know: what was typed, what it was taken for, and its weight per lane."""

    typed: str
    known: str
    weights: Weights


class Index:
    """Weights by term over documents. `filler` holds words that say nothing about what is wanted."""

    def __init__(self, documents: Sequence[Lane], filler: frozenset[str]) -> None:
        self.size = len(documents)
        self._filler = filler
        self._mentions = [_mentions(lane, filler) for lane in documents]
        sizes = [sum(worth for term, worth in each.items() if " " not in term) or 1.0 for each in self._mentions]
        # Long documents are kept from shouting.
        self._scale = [math.sqrt(sum(sizes) / len(sizes) / size) for size in sizes]
        self._weights: dict[str, Weights] = {}
        self._spelling: Spelling | None = None
        self._likes: dict[str, tuple[str, float]] = {}

    def matches(self, text: str) -> list[Match]:
        """What the index knows of a text, each term once."""
        stems = words(text)
        found = []
        for word in dict.fromkeys(stems):
            known, worth = word, 1.0
            if not self._weigh(word) and word not in self._filler:
                known, worth = self._like(word)
            found.append(self._match(word, known, worth))
        found += [self._match(pair, pair, PAIR) for pair in dict.fromkeys(pairs(stems))]
        return [match for match in found if match.weights]

    def _match(self, typed: str, known: str, worth: float) -> Match:
        return Match(typed, known, tuple((place, weight * worth) for place, weight in self._weigh(known)))

    def _weigh(self, term: str) -> Weights:
        """What a term is worth to each lane that uses it; nothing where none does."""
        if term in self._weights:
            return self._weights[term]
        uses = {place: each[term] for place, each in enumerate(self._mentions) if term in each}
        if not uses:
            return ()
        self._weights[term] = self._weights_of(uses, term in self._filler)
        return self._weights[term]

    def _weights_of(self, uses: dict[int, float], is_filler: bool) -> Weights:
        scaled = {place: count * self._scale[place] for place, count in uses.items()}
        noise = _FILLER_MASS if is_filler else 0.0
        mass = sum(scaled.values()) + noise
        # The inverse Simpson index: by how many lanes the term is in effect shared.
        shared_by = mass * mass / (sum(count * count for count in scaled.values()) + noise * noise)
        lanes = max(self.size, 2)
        rarity = max(0.0, math.log(lanes / shared_by) / math.log(lanes))
        worth = rarity**_POWER * (mass - noise) / (mass + _HALF)
        return tuple((place, worth * math.log1p(count / _RARE)) for place, count in scaled.items())

    def _like(self, word: str) -> tuple[str, float]:
        """The known word that an unknown one was probably meant to be, and what it is worth then."""
        if self._spelling is None:
            self._spelling = Spelling(chain(*self._mentions, self._filler))
        if word not in self._likes:
            if len(self._likes) >= _MAX_LIKES:
                self._likes.clear()
            self._likes[word] = self._spelling.nearest(word)
        return self._likes[word]


def _mentions(lane: Lane, filler: frozenset[str]) -> dict[str, float]:
    """How much a lane's document says each term."""
    found: dict[str, float] = {}
    for stems in words_of_each(lane.vocabulary):
        if len(stems) == 1:
            found[stems[0]] = found.get(stems[0], 0.0) + VOCABULARY
            continue
        for word in set(stems):
            found[word] = found.get(word, 0.0) + VOCABULARY_WORD
        for pair in pairs(stems):
            if len(stems) == 2 or filler.isdisjoint(pair.split()):
                found[pair] = found.get(pair, 0.0) + VOCABULARY
    prose = (lane.name.replace("-", " "), lane.domain, lane.description)
    for worth, texts in ((PROSE, prose), (EXAMPLE, lane.examples)):
        for stems in words_of_each(texts):
            for word in set(stems):
                found[word] = found.get(word, 0.0) + worth
            for pair in set(pairs(stems)):
                if not filler.issuperset(pair.split()):
                    found[pair] = found.get(pair, 0.0) + worth
    return found
