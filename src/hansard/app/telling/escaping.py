"""What anybody said, on a page: nothing in it is markup, hides, turns round what follows, or is drawn over what others said."""

import re
from html import escape as escaped
from unicodedata import category

# What Unicode lets a reader leave out without a trace, beside the marks of format; a text can be hidden in them. U+FE0F, which
# many signs carry, stays: alone it says nothing.
_UNSEEN = frozenset(
    chr(each)
    for first, last in (
        *((0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2028, 0x2029), (0x2065, 0x2065)),
        *((0x3164, 0x3164), (0xFE00, 0xFE0E), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF)),
    )
    for each in range(first, last + 1)
)
_JOINER = "[\u200c\u200d]"
_JOINED = "|".join(
    (
        # Persian and Urdu: the end of a letter that would go on into the next one.
        "(?<=[\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a\u066e\u066f\u0679-\u0687\u069a-\u06bf\u06c1\u06c2\u06cc\u06ce\u06d0\u06d1])\u200c(?=[\u0620-\u064a\u066e-\u06d3])",
        # Behind a virama of the Indic scripts: which form a conjunct has.
        "(?<=[\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca])[\u200c\u200d](?=[\u0900-\u0dff])",
        # Signs that are drawn as one: families, professions.
        "(?<=[\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001faff])",
    )
)
"""A joiner where its script needs it, which shows: words would be torn by what it is spelled as. Anywhere else it hides."""
MOST_MARKS = 10
"""Marks on one letter: no script has more, and each of them is drawn above or below the one before, over whatever stands there."""


def spelled(text: str) -> str:
    """The text, with whatever hides or turns round spelled out, and marks that pile up."""
    # Each character is looked at once, and not wherever it stands: a page has megabytes of them.
    kinds = {each: category(each) for each in set(text)}
    if not kinds.keys().isdisjoint("\u200c\u200d"):
        text = re.sub(f"({_JOINED})|{_JOINER}", lambda found: found[1] or _code(found[0]), text)
    hidden = {ord(each): _code(each) for each, kind in kinds.items() if not _is_shown(each, kind)}
    marks = "".join(each for each, kind in kinds.items() if kind in ("Mn", "Me") and ord(each) not in hidden)
    text = text.translate(hidden) if hidden else text
    return re.sub(f"([{marks}]{{{MOST_MARKS}}})([{marks}]+)", _taken_down, text) if marks else text


def escape(text: str) -> str:
    """The same as markup."""
    return escaped(spelled(text))


def _is_shown(character: str, kind: str) -> bool:
    return character in "\n\t\u200c\u200d" or (kind not in ("Cc", "Cf", "Cs") and character not in _UNSEEN)


def _taken_down(pile: re.Match[str]) -> str:
    return pile[1] + "".join(map(_code, pile[2]))


def _code(character: str) -> str:
    return f"\\u{ord(character):04x}"
