"""How the command line prints: JSON for programs, one line per thing for people, nothing that could drive a terminal."""

import argparse
import json
import sys
from typing import Any

_UNSAFE = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {0x2028: "\\u2028", 0x2029: "\\u2029"}


def help_text(args: argparse.Namespace) -> int:
    """A command that needs a word more: show what there is."""
    args.parser.print_help(sys.stderr)
    return 2


def as_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())


def as_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode())


def say(text: str = "") -> None:
    """Print a line of text whose parts may come from a record: control characters are shown, not obeyed."""
    print(plain(text))


def plain(text: str) -> str:
    return text.translate(_UNSAFE).encode("utf-8", "backslashreplace").decode()
