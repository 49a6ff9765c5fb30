"""Does an answer speak of what was asked? A share of the request's terms, found again in the answer. Pure.

It reads words and no meaning: a good paraphrase may be flagged, and a judge model decides then. Where words cannot tell, it
abstains: the answer is in another script or language, a translation was asked for, or the answer is a bare value.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from math import sqrt
from typing import Literal

from hansard.domain.value import value
from hansard.orchestration.checks import words as known
from hansard.orchestration.checks.markdown import code_blocks, prose
from hansard.orchestration.checks.scripts import fold, folded, normal, script, shares, tokens, words
from hansard.orchestration.checks.stems import keys
from hansard.orchestration.checks.terms import KANA, Index, Term, heavy, language, terms

Outcome = Literal["passed", "flagged", "abstained"]

# One term of four: a good answer in other words keeps at least so much of the request.
BAR_PPM = 240_000
# Of a long request only the terms that stand at its ends or come again are looked for, and fewer of them must be found.
MOST_TERMS, FEW_TERMS, EDGE = 40, 20, 25
OPENING = 300
NOVEL_IN_A_REFUSAL, NOVEL_IN_A_PARROT = 10, 2
BARE_VALUE_WORDS = 5
_ENDS_AS_QUESTION = re.compile(r"[?？؟]\W*$")
_SPACES = re.compile(r"\s+")
_UNSPACED = frozenset({"han", "hangul", "south-east"})


@value
class Coverage:
    """What of a request comes back in an answer, and what that means."""

    score_ppm: int
    covered: tuple[str, ...]
    missing: tuple[str, ...]
    outcome: Outcome
    why: str

    @property
    def flagged(self) -> bool:
        return self.outcome == "flagged"


def intent(request: str, answer: str) -> Coverage:
    """Whether an answer covers its request."""
    request, answer = normal(request), normal(answer)
    asked = _asked(list(terms(request)))
    index = Index(answer)
    found = [(term, index.share(term)) for term in asked]
    whole = sum(term.weight for term in asked)
    score_ppm = round(1_000_000 * sum(term.weight * share for term, share in found) / whole) if whole else 1_000_000
    outcome, why = _outcome(request, answer, asked, score_ppm)
    return Coverage(
        score_ppm=score_ppm,
        covered=tuple(term.shown for term, share in found if share >= 0.5),
        missing=tuple(term.shown for term, share in found if share < 0.5),
        outcome=outcome,
        why=why,
    )


def _outcome(request: str, answer: str, asked: Sequence[Term], score_ppm: int) -> tuple[Outcome, str]:
    if not answer.strip():
        return "flagged", "the answer is empty"
    said = heavy(terms(answer))
    novel = _novel(request, said)
    if novel < NOVEL_IN_A_REFUSAL and _refuses(answer):
        return "flagged", "the answer refuses and adds nothing"
    if not heavy(asked):
        return "abstained", "the request names nothing that could be looked for"
    if novel < NOVEL_IN_A_PARROT and _parrots(request, answer, said):
        return "flagged", "the answer repeats the request and adds nothing"
    if not _share_a_script(request, answer):
        return "abstained", "request and answer are written in different scripts"
    bar_ppm = BAR_PPM if len(asked) <= FEW_TERMS else round(BAR_PPM * sqrt(FEW_TERMS / len(asked)))
    if score_ppm >= bar_ppm:
        return "passed", "the answer speaks of what was asked"
    if reason := _cannot_tell(request, answer):
        return "abstained", reason
    return "flagged", f"the answer speaks of {score_ppm // 10_000} % of what was asked"


def _asked(found: Sequence[Term]) -> list[Term]:
    """The distinct terms of a request; of many, those that matter most, in their order."""
    seen: dict[str, tuple[int, Term]] = {}
    for at, term in enumerate(found):
        edge = 4 if at < EDGE or at >= len(found) - EDGE else 0
        before = seen.get(term.keys[0], (edge, term))
        seen[term.keys[0]] = (min(before[0] + 1, 8), before[1])
    if len(seen) > MOST_TERMS:
        best = set(sorted(seen, key=lambda key: -seen[key][0] * seen[key][1].weight)[:MOST_TERMS])
        seen = {key: pair for key, pair in seen.items() if key in best}
    return [term for _, term in seen.values()]


def _novel(request: str, said: Sequence[Term]) -> int:
    """How many distinct things an answer says that its request did not."""
    there = Index(request)
    polite = _chatter()
    fresh = {term.keys[0] for term in said if there.share(term) < 0.5 and not polite & {term.keys[0], fold(term.shown)}}
    # A piece of text without spaces may hold several words.
    long = {term.keys[0]: len(term.shown) // 4 for term in said if term.by_characters and term.keys[0] in fresh}
    return len(fresh) + sum(long.values())


def _refuses(answer: str) -> bool:
    opening = _SPACES.sub(" ", folded(answer[:OPENING].replace("’", "'")))
    return _refusals().search(opening) is not None


def _parrots(request: str, answer: str, said: Sequence[Term]) -> bool:
    """Whether the whole request, or all that it speaks of in the same order, comes back."""
    if _sequence(tokens(request)) in _sequence(tokens(answer)):
        return True
    wanted = [term.keys[0] for term in heavy(terms(request))]
    enough = not code_blocks(answer) and (len(wanted) > 2 or sum(map(len, wanted)) > 5)
    is_question = _ENDS_AS_QUESTION.search(request) is not None
    return enough and not is_question and _sequence(wanted) in _sequence(term.keys[0] for term in said)


def _sequence(found: Iterable[str]) -> str:
    return "\x1f" + "\x1f".join(keys(each)[0] for each in found) + "\x1f"


def _share_a_script(request: str, answer: str) -> bool:
    """Whether the answer's main script is one that the request is written in too; code counts for no script."""
    there, here = shares(request), shares(prose(answer))
    if not there or not here:
        return bool(there) and not prose(answer).strip() and "latin" in there
    # Names keep their Latin letters in any text.
    main = max(here, key=lambda name: here[name] * (1 if name == "latin" else 2))
    return there.get(main, 0) * 10 >= 3 * sum(there.values())


def _cannot_tell(request: str, answer: str) -> str | None:
    """Why few shared terms need not mean that the answer went astray."""
    folded = {fold(token) for token in tokens(request[:OPENING])}
    if folded & _translating() or any(word in request[:OPENING] for word in _translating_in_runs()):
        return "a translation was asked for"
    if _other_language(request, answer):
        return "request and answer are written in different languages"
    if _ENDS_AS_QUESTION.search(request) and words(answer) <= BARE_VALUE_WORDS:
        return "the answer is a bare value"
    return None


def _other_language(request: str, answer: str) -> bool:
    if bool(KANA.search(request)) != bool(KANA.search(answer)):
        return True
    there, here = language(request), language(prose(answer))
    if not there or not here:
        return False
    asked_in, said_in = max(there, key=there.__getitem__), max(here, key=here.__getitem__)
    clear = there.get(said_in, 0) * 2 <= there[asked_in] and here.get(asked_in, 0) * 3 <= here[said_in]
    return clear and here[said_in] >= 3


@cache
def _refusals() -> re.Pattern[str]:
    phrases = [folded(_SPACES.sub(" ", phrase)).strip() for phrase in known.REFUSALS.split("|")]
    ends = (("", "") if script(each) in _UNSPACED else (r"(?<!\w)", r"(?!\w)") for each in phrases)
    return re.compile(
        "|".join(f"{left}{re.escape(each)}{right}" for each, (left, right) in zip(phrases, ends, strict=True))
    )


@cache
def _chatter() -> frozenset[str]:
    return frozenset(form for word in known.CHATTER.split() for form in (fold(word), keys(word)[0]))


@cache
def _translating() -> frozenset[str]:
    return frozenset(fold(word) for word in known.TRANSLATE.split())


@cache
def _translating_in_runs() -> tuple[str, ...]:
    return tuple(word for word in known.TRANSLATE.split() if script(word) in _UNSPACED)
