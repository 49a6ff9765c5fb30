"""Halves of surrogate pairs: Python reads and holds them, and UTF-8 cannot carry them."""

import re

_HALF = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str:
    """JSON text that is UTF-8: half of a surrogate pair is spelled out in its string, as the byte that it stands for in a name."""
    return _HALF.sub(_spelled, text)


def _spelled(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\\\u{code:04x}"
