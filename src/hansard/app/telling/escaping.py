"""What anybody said, on a page: nothing in it is markup, hides, or turns round what follows."""

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


def spelled(text: str) -> str:
    """The text, with whatever hides or turns round spelled out."""
    # Each character is looked at once, and not wherever it stands: a page has megabytes of them.
    hidden = {ord(each): f"\\u{ord(each):04x}" for each in set(text) if not _is_shown(each)}
    return text.translate(hidden) if hidden else text


def escape(text: str) -> str:
    """The same as markup."""
    return escaped(spelled(text))


def _is_shown(character: str) -> bool:
    return character in "\n\t" or (category(character) not in ("Cc", "Cf", "Cs") and character not in _UNSEEN)
