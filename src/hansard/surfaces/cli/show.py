"""How the command line prints: JSON for programs, one line per thing for people, nothing that could drive a terminal."""

import argparse
import json
import sys
from typing import Any

from hansard.app.views import whole

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


def help_text(args: argparse.Namespace) -> int:
    """A command that needs a word more: show what there is."""
    args.parser.print_help(sys.stderr)
    return 2


def as_json(value: Any) -> None:
    print(_json(value, indent=2))


def as_json_line(value: Any) -> None:
    """One line of many, at once: whoever reads them follows."""
    print(_json(value), flush=True)


def _json(value: Any, indent: int | None = None) -> str:
    """JSON in letters that standard output can write: another encoding than UTF-8 gets escapes, which mean the same."""
    written_as_utf_8 = (sys.stdout.encoding or "").lower().replace("-", "") in {"utf8", "utf8sig"}
    text = whole(json.dumps(value, indent=indent, ensure_ascii=False))
    return text if written_as_utf_8 else json.dumps(json.loads(text), indent=indent)


def say(text: str = "", *, at_once: bool = False) -> None:
    """Print a line of text whose parts may come from a record: characters that drive a terminal or hide text are spelled out.

    `at_once` is for whoever goes on for long: into a file or a pipe the line would come with the end.
    """
    print(plain(text), flush=at_once)


def plain(text: str) -> str:
    return text.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode()
