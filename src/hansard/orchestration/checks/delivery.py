"""Is an answer concise? A floor that reads lists, tables and code for what they are, in any script. Pure.

It measures and judges no content. What counts as too long is a profile: plain data that a caller may bring.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from statistics import median
from types import MappingProxyType

from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.orchestration.checks import words as known
from hansard.orchestration.checks.markdown import Block, blocks
from hansard.orchestration.checks.scripts import HAN, SIGNS, SOUTH_EAST, folded, normal, words

_INLINE = re.compile(r"`[^`\n]{1,500}`|!?\[([^\[\]\n]{0,300})\]\([^)\s\[]{0,2000}\)")
# A full stop ends a sentence before a space, and not after one letter or a number: `e.g.`, `3. May`.
_END = re.compile(
    r"(?<=[!?])[\"'”»)]{0,2}\s+|(?<=[^\W\d_]{2}\.)[\"'”»)]{0,2}\s+|(?<=[\d)\]`\"”»]\.)\s+(?=\w{3})|[。！？؟।॥۔]+|\n\n+"
)
_VERSE = 60
# So many words in a row, or characters where no spaces separate words, count as the same phrase.
SAME, LEAST_PHRASES, REPEATED_PPM = 5, 20, 250_000


@cache
def _unit() -> re.Pattern[str]:
    return re.compile(rf"[{HAN}{SOUTH_EAST}]|(?:(?![{HAN}{SOUTH_EAST}])[^\W_]|[{SIGNS}])+")


@value
class Profile:
    """How long an answer and its parts may be for a kind of reader."""

    words: int
    sentence: int
    paragraph: int
    filler_ppm: int
    least_filler: int = 4


@value
class Delivery:
    """The measures of an answer, and what is wrong with it."""

    words: int
    longest_sentence: int
    longest_paragraph: int
    filler: int
    reasons: tuple[str, ...]

    @property
    def flagged(self) -> bool:
        return bool(self.reasons)


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        "brief": Profile(words=150, sentence=35, paragraph=80, filler_ppm=30_000, least_filler=2),
        "normal": Profile(words=1_500, sentence=60, paragraph=180, filler_ppm=40_000),
        "thorough": Profile(words=5_000, sentence=70, paragraph=250, filler_ppm=40_000),
        "report": Profile(words=20_000, sentence=70, paragraph=300, filler_ppm=30_000, least_filler=8),
    }
)


def profile(name: str) -> Profile:
    """A profile by name."""
    if name not in PROFILES:
        raise UsageError(f"there is no delivery profile {name!r}; choose one of {', '.join(PROFILES)}")
    return PROFILES[name]


def delivery(answer: str, measure: Profile | str = "normal") -> Delivery:
    """The measures of an answer against a profile."""
    limits = profile(measure) if isinstance(measure, str) else measure
    parts = [block for block in blocks(normal(answer)) if block.kind != "code"]
    texts = [_INLINE.sub(_shown, block.text) for block in parts]
    sentences = [each for block, text in zip(parts, texts, strict=True) for each in _sentences(block, text)]
    lengths = [words(each) for each in sentences]
    found = Delivery(
        words=sum(lengths),
        longest_sentence=max(lengths, default=0),
        longest_paragraph=max(map(words, texts), default=0),
        filler=sum(map(_filler, texts)),
        reasons=(),
    )
    return _judged(found, limits, _repeated_ppm(parts, texts))


def _judged(found: Delivery, limits: Profile, repeated_ppm: int) -> Delivery:
    reasons = [
        f"{what} {value} words, more than {most}"
        for what, value, most in (
            ("the answer has", found.words, limits.words),
            ("a sentence has", found.longest_sentence, limits.sentence),
            ("a paragraph has", found.longest_paragraph, limits.paragraph),
        )
        if value > most
    ]
    if found.filler >= limits.least_filler and found.filler * 1_000_000 > limits.filler_ppm * found.words:
        reasons.append(f"{found.filler} phrases in {found.words} words say nothing")
    if repeated_ppm > REPEATED_PPM:
        reasons.append(f"{repeated_ppm // 10_000} % of the prose has been said before")
    return Delivery(
        words=found.words,
        longest_sentence=found.longest_sentence,
        longest_paragraph=found.longest_paragraph,
        filler=found.filler,
        reasons=tuple(reasons),
    )


def _sentences(block: Block, text: str) -> Iterator[str]:
    pieces = text.split("\n") if block.kind == "prose" and _is_verse(text) else _END.split(text)
    yield from (each for each in pieces if each and each.strip())


def _is_verse(text: str) -> bool:
    """Verse, addresses and signatures are made of short lines."""
    lines = [line for line in text.split("\n") if line.strip()]
    return len(lines) > 2 and median(map(len, lines)) < _VERSE


def _repeated_ppm(parts: list[Block], texts: list[str]) -> int:
    """How much of the running prose has been said before, word for word. Lists, tables and verse may repeat themselves."""
    said: Counter[tuple[str, ...]] = Counter()
    for block, text in zip(parts, texts, strict=True):
        if block.kind == "prose" and not _is_verse(text):
            units = _unit().findall(folded(text))
            said.update(zip(*(units[at:] for at in range(SAME)), strict=False))
    whole = said.total()
    return 1_000_000 * (whole - len(said)) // whole if whole >= LEAST_PHRASES else 0


def _filler(text: str) -> int:
    """How many phrases say nothing."""
    whole, cut = _phrases()
    flat = " ".join(folded(text).split())
    return sum(1 for pattern in (whole, cut) for _ in pattern.finditer(flat))


@cache
def _phrases() -> tuple[re.Pattern[str], re.Pattern[str]]:
    whole, cut = (
        "|".join(sorted((re.escape(folded(" ".join(each.split()))) for each in text.split("|")), key=len, reverse=True))
        for text in (known.FILLER, known.FILLER_CUT)
    )
    return re.compile(rf"(?<!\w)[و]?(?:{whole})(?!\w)"), re.compile(cut)


def _shown(inline: re.Match[str]) -> str:
    """An inline piece of code is one word; of a link its words are read."""
    return "code" if inline[1] is None else inline[1]
