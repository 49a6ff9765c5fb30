"""Text that anybody may have written, as one that drives no terminal, hides nothing and turns nothing round."""

# Controls, line ends that terminals disagree about, and what Unicode calls format characters: they hide text or turn it round.
_UNSAFE_RANGES = (
    *((0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F)),
    *((0x890, 0x891), (0x8E2, 0x8E2), (0x180E, 0x180E), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F)),
    *((0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F)),
    *((0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0001, 0xE007F)),
)
_UNSAFE = {
    code: chr(code).encode("ascii", "backslashreplace").decode() if code > 0x7F else f"\\x{code:02x}"
    for first, last in _UNSAFE_RANGES
    for code in range(first, last + 1)
}


def plain(text: str) -> str:
    return text.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode()
