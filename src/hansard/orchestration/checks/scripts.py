"""Which script a text is written in, its tokens, and how many words it has. Pure; knows no language and no meaning.

Scripts without spaces give runs of characters instead of words; `words` puts both on one scale.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache, lru_cache

MAX_CHARACTERS = 200_000
MAX_TOKEN = 200

HAN = "\u3005\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese and Khmer.
SOUTH_EAST = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# Signs that stand inside words and are no word characters to Python.
SIGNS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
_LETTER = rf"(?:(?![{HAN}{SOUTH_EAST}])[^\W_]|[{SIGNS}])"
_DROPPED = re.compile(
    "[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u093c\u200b-\u200f\u2060\ufeff\u00ad]"
)
_ALIKE = str.maketrans({"ى": "ي", "ی": "ي", "ک": "ك", "ة": "ه", "ँ": "ं", "ı": "i", "ø": "o", "ł": "l", "đ": "d"})
_SPECIES = (
    ("latin", re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")),
    ("han", re.compile(f"[{HAN}]")),
    ("cyrillic", re.compile("[\u0400-\u052f]")),
    ("arabic", re.compile("[\u0600-\u06ff\u0750-\u077f]")),
    ("indic", re.compile("[\u0900-\u0dff]")),
    ("hangul", re.compile("[\uac00-\ud7a3]")),
    ("south-east", re.compile(f"[{SOUTH_EAST}]")),
    ("greek", re.compile("[\u0370-\u03ff]")),
    ("hebrew", re.compile("[\u05d0-\u05ea]")),
    ("number", re.compile(r"\d")),
)
_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"']{1,2000}")
# Characters per word, times ten, where no spaces tell.
_TENTHS = {"han": 17, "south-east": 45}


@cache
def _token() -> re.Pattern[str]:
    """Made when it is wanted: it takes longer than all others together."""
    return re.compile(
        rf"\d+(?:[.,:]\d+)+|[A-Za-z0-9]+(?:_+[A-Za-z0-9]+)*(?!{_LETTER})|{_LETTER}+(?:_+{_LETTER}+)*|[{HAN}]+|[{SOUTH_EAST}]+"
    )


def normal(text: str) -> str:
    """The text as the checks read it: without compatibility forms, and not beyond the cap."""
    short = text[:MAX_CHARACTERS]
    return short if short.isascii() else unicodedata.normalize("NFKC", short)[:MAX_CHARACTERS]


def folded(text: str) -> str:
    """The text without case, accents, vowel points and spelling variants."""
    if text.isascii():
        return text.lower()
    plain = _DROPPED.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold()))
    return unicodedata.normalize("NFC", plain).translate(_ALIKE)


@lru_cache(maxsize=20_000)
def fold(token: str) -> str:
    """What `folded` says of a token."""
    return folded(token)


def tokens(text: str) -> Iterator[str]:
    """Words, numbers, identifiers, and runs of text without spaces, as they stand in a normal text; overlong ones in pieces."""
    for found in _token().finditer(text):
        token = found[0]
        if len(token) <= MAX_TOKEN:
            yield token
        else:
            yield from (token[at : at + MAX_TOKEN] for at in range(0, len(token), MAX_TOKEN))


@lru_cache(maxsize=20_000)
def script(token: str) -> str:
    """The script of a token, told by its first letter that tells."""
    for character in token:
        for name, pattern in _SPECIES:
            if pattern.match(character):
                return name
    return "other"


def shares(text: str) -> dict[str, int]:
    """How many tenths of words each script has in a normal text; numbers belong to none."""
    found: Counter[str] = Counter()
    for token in tokens(text):
        name = script(token)
        found[name] += 100 * len(token) // _TENTHS[name] if name in _TENTHS else 10
    return {name: count for name, count in found.items() if name not in {"number", "other"}}


def words(text: str) -> int:
    """How many words a normal text has. An address counts as one."""
    tenths = 0
    for token in tokens(_URL.sub(" address ", text)):
        name = script(token)
        tenths += 100 * len(token) // _TENTHS[name] if name in _TENTHS else 10
    return -(-tenths // 10)


def links(text: str) -> frozenset[str]:
    """The addresses that a text names."""
    return frozenset(found.rstrip(".,;:!?)]}*_`") for found in _URL.findall(text))
