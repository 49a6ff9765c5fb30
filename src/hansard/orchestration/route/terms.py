"""A text as terms: words for scripts that write spaces, pairs of characters for those that do not. Pure; knows no lane.

Requests are typed in haste and in any language, so case, accents, apostrophes and common endings are folded away.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise

MAX_CHARACTERS, MAX_WORD = 4_000, 40

_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff"
# Vowel signs of Arabic, Hebrew and Indic scripts are no word characters to Python, but they stand inside words.
_SIGNS = "\u0591-\u05c7\u064b-\u065f\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0981-\u0983\u09bc-\u09cd\u0b82-\u0bcd"
_ASCII_TOKEN = re.compile(r"[a-z0-9]+(?:\+\+|#)?")
_ASCII_LINES = re.compile(rf"{_ASCII_TOKEN.pattern}|\n")
_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = re.compile("(?<=\\w)['’ʼ](?=\\w)")
_VOWEL = re.compile("[aeiouy]")
# Scripts of languages that inflect at the end of words, where the beginning carries the meaning.
_ENDS_VARY = re.compile("[\u0370-\u052f]{6,}")


@cache
def _token() -> re.Pattern[str]:
    """Made when it is wanted: few requests need it, and it takes long."""
    return re.compile(rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_]|[{_SIGNS}])+(?:\+\+|#)?")


@cache
def _without_spaces() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")


def words(text: str) -> list[str]:
    """The words in their order: stems, or overlapping pairs of characters where no spaces separate words.

    What lies behind the cap is not looked at.
    """
    return _tokens(_fold(text[:MAX_CHARACTERS]))


def words_of_each(texts: Iterable[str]) -> list[list[str]]:
    """The words of many texts that were written for this and need no cap. Most are a word or two, so they are read as lines
    of one: every submission waits for some twenty thousand."""
    given = list(texts)
    lines = _words_of_lines("\n".join(filter(_is_line, given)))
    return [next(lines) if _is_line(text) else _tokens(_fold(text)) for text in given]


def spellings(text: str) -> dict[str, str]:
    """Each word of a text as it was typed, by its stem, so that an explanation can say it."""
    folded = _fold(text[:MAX_CHARACTERS])
    tokens = (_ASCII_TOKEN if folded.isascii() else _token()).findall(folded)
    return {_stem(token[:MAX_WORD]): token[:MAX_WORD] for token in reversed(tokens) if not is_unspaced(token)}


def pairs(stems: list[str]) -> list[str]:
    """Neighbouring words as one term each: `look over` says what neither of its words does."""
    together: Iterable[tuple[str, str]] = pairwise(stems)
    if not "".join(stems).isascii():
        together = ((first, second) for first, second in together if not (is_unspaced(first) or is_unspaced(second)))
    return [f"{first} {second}" for first, second in together]


def is_unspaced(word: str) -> bool:
    return word[0] > "\u0dff" and _without_spaces().match(word) is not None


def _fold(text: str) -> str:
    """The text without case, accents, apostrophes and compatibility forms."""
    if text.isascii():
        return _APOSTROPHES.sub("", text.lower()) if "'" in text else text.lower()
    short = unicodedata.normalize("NFKC", text).casefold()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", short))
    return (
        _APOSTROPHES.sub("", unicodedata.normalize("NFC", plain)).replace("ı", "i").replace("ø", "o").replace("ł", "l")
    )


def _is_line(text: str) -> bool:
    return text.isascii() and "\n" not in text


def _words_of_lines(text: str) -> Iterator[list[str]]:
    found: list[str] = []
    for token in _ASCII_LINES.findall(_fold(text)):
        if token == "\n":
            yield found
            found = []
        else:
            found.append(_stem(token[:MAX_WORD]))
    yield found


def _tokens(folded: str) -> list[str]:
    if folded.isascii():
        return [_stem(token[:MAX_WORD]) for token in _ASCII_TOKEN.findall(folded)]
    found: list[str] = []
    for token in _token().findall(folded):
        if is_unspaced(token):
            found += [token[i : i + 2] for i in range(max(len(token) - 1, 1))]
        else:
            found.append(_stem(token[:MAX_WORD]))
    return found


@lru_cache(maxsize=20_000)
def _stem(word: str) -> str:
    """A word without its commonest endings; the same for documents and requests, so it need not be pretty."""
    if len(word) < 4 or not word.isascii():
        return _stem_of_another_script(word)
    if word[-1] not in "degs" or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            word = rest[:-1] if rest[-1] == rest[-2] and rest[-1] not in "lsz" else rest
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def _stem_of_another_script(word: str) -> str:
    if _ENDS_VARY.fullmatch(word):
        return word[:5]
    # The Arabic article is written as part of its word.
    return word.removeprefix("ال") if len(word) > 4 else word
