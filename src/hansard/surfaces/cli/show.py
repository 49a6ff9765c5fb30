"""How the command line prints: JSON for programs, one line per thing for people, nothing that could drive a terminal."""

import argparse
import json
import shutil
import sys
import textwrap
from typing import Any, TextIO

from hansard.app.views import whole
from hansard.surfaces.plain import plain, plain_json

GONE = "(not in the ledger any more)"


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
    """JSON in letters that standard output can write: another encoding than UTF-8 gets escapes, which mean the same.

    So does a terminal, for what would drive it or hide something.
    """
    written_as_utf_8 = (sys.stdout.encoding or "").lower().replace("-", "") in {"utf8", "utf8sig"}
    text = whole(json.dumps(value, indent=indent, ensure_ascii=False))
    if not written_as_utf_8:
        text = json.dumps(json.loads(text), indent=indent)
    return plain_json(text) if sys.stdout.isatty() else text


def tell_broken(why: str | None) -> None:
    """Say of a ledger that it is broken, where it is, beside whatever is read from it."""
    if why:
        print(f"hansard: BROKEN: {plain(why)}; it can be read, not extended", file=sys.stderr)


def say(text: str = "", *, at_once: bool = False) -> None:
    """Print a line of text whose parts may come from a record: characters that drive a terminal or hide text are spelled out.

    `at_once` is for whoever goes on for long: into a file or a pipe the line would come with the end.
    """
    print(plain(text), flush=at_once)


def tell(text: str, under: int, to: TextIO | None = None) -> None:
    """Say something that may be longer than a line: a terminal gets it in lines that end between words, and begin below one another."""
    to = to or sys.stdout
    if not to.isatty():
        print(plain(text), file=to)
        return
    width = max(under + 20, shutil.get_terminal_size().columns)
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * under, break_long_words=False, break_on_hyphens=False)
    print("\n".join(wrapper.wrap(plain(text))), file=to)


def put(data: bytes) -> None:
    """Print what was asked for itself: byte for byte into a file or a pipe, whatever its encoding is, made harmless for a terminal."""
    if sys.stdout.isatty():
        for line in data.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n"):
            say(line.replace("\t", "    "))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
