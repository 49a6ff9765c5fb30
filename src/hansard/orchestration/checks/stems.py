"""The keys under which two forms of a word meet, for scripts that write spaces. Pure, and blind to what a word means.

Light on purpose: endings of many languages are cut by one list, the same for both texts, so a stem need not be pretty.
"""

import re
from functools import lru_cache
from itertools import chain

from hansard.orchestration.checks.scripts import fold, script

_LATIN = """ization isation ational izing ising ating ations ation ition ments ment ness ities ity ies ings ing ized ised
ated ize ise ate edly ally ion ions ed ers er es ly al able ible ance ence ive ful ungen ung keit heit lich
isch ern en em ement ements euse eurs eur ant ons ez ir ee ees aux ciones cion mente ando iendo iert ieren
ados adas ado ada ar os as coes cao zione zioni ego ach ami ych s e a o i y u n"""
_CYRILLIC = """ированию ирование ировать ованию ование ования ением ения ение ениям аниям ания ание анием остью ости ость
иями ями ами иях ях ах ием ов ев ей ий ый ой ая яя ое ее ые ие ого его ому ему ым им ых их ую юю ешь ает яет
ет ют ут ит ят ат ться ется ть тся ла ло ли ів ння ість ості ти ють ає є ї і а я о е и ы у ю ь ом ем ам ям"""
_GREEK = "ουσ ων οσ ου οι ησ ασ εσ α η ο ι υ ε"
_VOWEL = re.compile("[aeiouyаеиоуыэюяєіїαεηιουω]")
_HEAD = re.compile("^(?:وال|بال|كال|فال|لل|ال|[وفبلك](?=.{4}))")
_TAIL = re.compile("(?:يات|ات|ون|ين|ان|ها|هم|نا|يه|ه|ي|ا)$")
_LONG = re.compile("(?<!^)[اويه]")
_INDIC_END = re.compile("(?:\u092f\u094b\u0902|\u0913\u0902|\u090f\u0902|\u0928[\u093e\u0947\u0940])$")
_INDIC_SIGNS = re.compile(
    "[\u0901-\u0903\u093e-\u094d\u0981-\u0983\u09be-\u09cd\u0a3e-\u0a4d\u0b3e-\u0b4d\u0bbe-\u0bcd\u0c3e-\u0c4d]+$"
)
_HEBREW = re.compile("^(?:וה|שה|[הובלמשכ])(?=.{3})")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^A-Za-z\d_]+")


def _endings(words: str) -> frozenset[str]:
    return frozenset(fold(word) for word in words.split())


_ENDINGS = {"latin": _endings(_LATIN), "cyrillic": _endings(_CYRILLIC), "greek": _endings(_GREEK)}


@lru_cache(maxsize=20_000)
def keys(word: str) -> tuple[str, ...]:
    """The keys of a word, the best one first. Two words are the same when they share one."""
    folded = fold(word)
    match script(folded):
        case "latin" | "cyrillic" | "greek" as name:
            return (_cut(_cut(folded, _ENDINGS[name]), _ENDINGS[name]),)
        case "arabic":
            return _arabic(folded)
        case "indic":
            return (_indic(folded),)
        case "hebrew":
            return tuple(dict.fromkeys((_HEBREW.sub("", folded), folded)))
        case _:
            return (folded,)


def parts(identifier: str) -> tuple[str, ...]:
    """The words of an identifier such as `parse_config` or `ConfigError`; a plain word has one."""
    found = _PART.findall(identifier)
    return tuple(found) if len(found) < 12 else (identifier,)


def beginnings(key: str) -> tuple[str, ...]:
    """What a longer form of the same word would begin with, long enough to tell it from others."""
    return tuple(key[:length] for length in range(5, min(len(key), 24) + 1))


def beginning(key: str) -> str | None:
    """The part of a key that must come back; None when it is too short to be sure."""
    if len(key) < 5:
        return None
    ninths = 7 if script(key) == "latin" else 6
    return key[: max(5, -(-len(key) * ninths // 9))]


def _cut(word: str, endings: frozenset[str]) -> str:
    """The word without the longest ending that leaves something one can say."""
    for length in range(min(len(word) - 3, 8), 0, -1):
        rest, ending = word[:-length], word[-length:]
        if ending in endings and _VOWEL.search(rest):
            # `running` and `run` meet.
            return rest[:-1] if len(rest) > 3 and rest[-1] == rest[-2] and ending in {"ing", "ed", "er"} else rest
    return word


def _arabic(word: str) -> tuple[str, ...]:
    head = _HEAD.sub("", word) if len(word) > 4 else word
    light = _TAIL.sub("", head) if len(head) > 4 else head
    bones = _LONG.sub("", light)
    # Verbal nouns and participles put one letter before the root.
    root = bones[1:] if len(bones) > 3 and bones[0] in "متينا" else bones
    return tuple(dict.fromkeys(key for key in chain((light, word), (bones, root)) if len(key) > 2)) or (word,)


def _indic(word: str) -> str:
    short = _INDIC_END.sub("", word) if len(word) > 5 else word
    bare = _INDIC_SIGNS.sub("", short)
    return bare if len(bare) > 1 else word
