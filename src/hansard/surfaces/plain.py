"""Text that anybody may have written, as one that drives no terminal, hides nothing and turns nothing round."""

import re

# Controls, line ends that terminals disagree about, and what Unicode calls format characters or lets a reader leave out without a
# trace: they hide text or turn it round. U+FE0F, which many signs carry, stays: alone it says nothing. As in app/telling/escaping.
_UNSAFE_RANGES = (
    *((0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD)),
    *((0x70F, 0x70F), (0x890, 0x891), (0x8E2, 0x8E2), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F)),
    *((0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFE00, 0xFE0E), (0xFEFF, 0xFEFF)),
    *((0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF)),
)
_UNSAFE = re.compile("[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in _UNSAFE_RANGES) + "]")


def plain(text: str) -> str:
    """The text with whatever is unsafe spelled out, line ends too."""
    return _UNSAFE.sub(_spelled, text).encode("utf-8", "backslashreplace").decode()


def plain_json(text: str) -> str:
    """JSON that means the same. The one control that stands in it is the line end between its members."""
    return _UNSAFE.sub(_escaped, text)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else found[0].encode("ascii", "backslashreplace").decode()


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0] == "\n" else re.sub("....", r"\\u\g<0>", found[0].encode("utf-16-be").hex())
