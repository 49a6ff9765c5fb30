"""A text as terms that can be looked for in another text, in any script. Pure; judges nothing.

A term is a word, a number, an identifier, or a piece of text without spaces. Words that only ask (`please explain`) weigh little.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise

from hansard.domain.value import value
from hansard.orchestration.checks import words as known
from hansard.orchestration.checks.scripts import fold, normal, script, tokens
from hansard.orchestration.checks.stems import beginning, beginnings, keys, parts

HEAVY, LIGHT = 10, 1
# Only at the beginning: inside a word it means to ask for leave, or to invite.
_PLEASE = "请請"
_BY_CHARACTERS = {"han", "hangul", "south-east"}
_PIECE = re.compile("[\u3040-\u309f]+|[\u30a0-\u30ff]+|[^\u3040-\u30ff]+")
_HIRAGANA = re.compile("[\u3040-\u309f]+")
KANA = re.compile("[\u3040-\u30ff]")


@value
class Term:
    """Something a text speaks of. `by_characters` when it is looked for pair by pair and not as a word."""

    shown: str
    keys: tuple[str, ...]
    weight: int
    by_characters: bool = False


class Index:
    """What a text can be asked for."""

    def __init__(self, text: str) -> None:
        self._keys: set[str] = set()
        self._beginnings: set[str] = set()
        self._pairs: set[str] = set()
        self._single: set[str] = set()
        for token in set(tokens(normal(text))):
            folded = fold(token)
            if script(token) in _BY_CHARACTERS:
                self._pairs.update(_pairs(folded))
                self._single.update(folded)
                continue
            for part in {token, *parts(token)}:
                found = keys(part)
                self._keys.update((fold(part), *found))
                self._beginnings.update(beginnings(found[0]))

    def share(self, term: Term) -> float:
        """How much of a term the text speaks of, from 0 to 1."""
        if term.by_characters:
            return self._characters(term.shown) / max(len(term.shown), 1)
        if not self._keys.isdisjoint(term.keys):
            return 1.0
        start = beginning(term.keys[0])
        if start is not None and start in self._beginnings:
            return 1.0
        inner = [part for part in parts(term.shown) if len(part) > 1]
        if len(inner) > 1:
            return 0.7 * sum(not self._keys.isdisjoint(keys(part)) for part in inner) / len(inner)
        # `Datenbankreplikation` is half said by `Datenbank`, and `Apfelkuchen` by `Kuchen`.
        halves = (*beginnings(term.keys[0]), *(term.shown[at:] for at in range(3, len(term.shown) - 4)))
        return 0.0 if self._keys.isdisjoint(halves) else 0.5

    def _characters(self, run: str) -> int:
        """How many characters of a run stand in a pair that the text has too."""
        if len(run) == 1:
            return int(run in self._single)
        hits = [pair in self._pairs for pair in _pairs(run)]
        return sum(left or right for left, right in pairwise([False, *hits, False]))


def terms(text: str) -> Iterator[Term]:
    """The terms of a text in order, with repetitions; words without a meaning of their own are left out."""
    for token in tokens(normal(text)):
        if script(token) in _BY_CHARACTERS:
            yield from _run_terms(token)
        elif (term := _word_term(token)) is not None:
            yield term


def heavy(found: Iterable[Term]) -> list[Term]:
    return [term for term in found if term.weight > LIGHT]


def language(text: str) -> Mapping[str, int]:
    """How many common words of each language a text has."""
    votes: dict[str, int] = {}
    tongues = _tongues()
    for token in tokens(normal(text)):
        for name in tongues.get(fold(token), ()):
            votes[name] = votes.get(name, 0) + 1
    return votes


@lru_cache(maxsize=20_000)
def _word_term(token: str) -> Term | None:
    folded = fold(token)
    kind = script(folded)
    if kind == "number":
        return Term(shown=folded, keys=(folded,), weight=HEAVY if len(folded) > 2 else HEAVY // 2)
    if len(folded) < 2 or folded in _stop_words():
        return None
    named = len(parts(token)) > 1 and not token.isalpha()
    found = (folded,) if named else keys(folded)
    light = folded in _light_words() or (found[0] in _light_keys() and not named)
    return Term(shown=token if named else folded, keys=found, weight=LIGHT if light else HEAVY)


def _run_terms(run: str) -> Iterator[Term]:
    for cut in _cuts(KANA.search(run) is not None).split(fold(run).lstrip(_PLEASE)):
        for piece in _PIECE.findall(cut):
            if _HIRAGANA.fullmatch(piece):
                # Written so are endings and particles, and few nouns.
                if len(piece) > 3:
                    yield Term(shown=piece, keys=(piece,), weight=LIGHT, by_characters=True)
            elif len(piece) > 1:
                yield Term(shown=piece, keys=(piece,), weight=min(len(piece), 12) * HEAVY // 2, by_characters=True)
            else:
                yield Term(shown=piece, keys=(piece,), weight=LIGHT, by_characters=True)


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(max(len(run) - 1, 1))]


def _all(lists: Mapping[str, str]) -> frozenset[str]:
    return frozenset(fold(word) for each in lists.values() for word in each.split())


@cache
def _stop_words() -> frozenset[str]:
    return _all(known.STOP)


@cache
def _light_words() -> frozenset[str]:
    return _all(known.LIGHT)


@cache
def _light_keys() -> frozenset[str]:
    return frozenset(keys(word)[0] for word in _light_words() if len(word) > 4)


@cache
def _cuts(japanese: bool) -> re.Pattern[str]:
    # What is a particle in Chinese is a part of nouns in Japanese.
    found = _all({name: each for name, each in known.CUT.items() if name != ("zh" if japanese else "ja")})
    return re.compile("|".join(sorted(map(re.escape, found), key=len, reverse=True)))


@cache
def _tongues() -> dict[str, frozenset[str]]:
    """The languages that each common word belongs to."""
    found: dict[str, set[str]] = {}
    for lists in (known.STOP, known.LIGHT):
        for name, each in lists.items():
            for word in each.split():
                found.setdefault(fold(word), set()).add(name)
    return {word: frozenset(names) for word, names in found.items()}
