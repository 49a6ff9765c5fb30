"""The verifier as a command: standard library only, so that an auditor needs nothing but Python.

Prints a report and gives its exit code ([V6]). `hansard verify` mounts the same arguments with faster tools.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TextIO

from .report import Finding, Report, lines, printable
from .surrogates import whole
from .tools import STANDARD, Tools
from .verify import CannotRead, Options, verify

PATHS = "a ledger (.db, .jsonl), an export folder or a receipt (.tlog-proof, or its page)"
EPILOG = """\
examples:
  %(prog)s ledger.db                         # chain, tree, signatures
  %(prog)s ledger.db --deep --pin PIN        # and every body, and the pin
  %(prog)s export/ --against old.checkpoint  # and that it extends a state
  %(prog)s receipt.tlog-proof --pin PIN      # one entry, without ledger

exit codes:
  0   every grade that was asked for    2   usage, or no verdict
  20  structure or a signature fails    21  contradicts pin or --against
  22  bodies are missing                23  a grade was not reached
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verifier with these arguments. What cannot be printed changes no exit code."""
    parser = _Parser(
        prog="verify",
        description="Verify a ledger, an export folder or a receipt.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    # A file that we open must not become standard output because its number was free.
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    with os.fdopen(number, "w") as nowhere:
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
        try:
            return run(parser.parse_args(argv))
        finally:
            for each in (sys.stdout, sys.stderr):
                _print("", each, end="")


class _Parser(argparse.ArgumentParser):
    """Ends with its own code also where a stream takes nothing, as argparse does by itself, but not yet in Python 3.11.2."""

    def _print_message(self, message: str, file: Any = None) -> None:
        with suppress(OSError):
            super()._print_message(message, file)


def add_arguments(parser: argparse.ArgumentParser, *, needs_path: bool = True, paths: str = PATHS) -> None:
    """The arguments of the verifier, for whoever mounts it."""
    parser.add_argument("path", metavar="PATH", nargs=None if needs_path else "?", help=paths)
    parser.add_argument("--deep", action="store_true", help="open every body")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="ask for sealed to the end, no unsealed rotation, nothing pending (implies --deep)",
    )
    parser.add_argument(
        "--since", metavar="FILE", help="read only what follows this checkpoint, which you verified before"
    )
    parser.add_argument("--pin", metavar="PIN", help="the pin that you kept, or a file that holds it")
    parser.add_argument(
        "--against", metavar="FILE", nargs="+", action="extend", default=[],
        help="checkpoints, receipts or consistency files kept elsewhere, which the log must extend",
    )  # fmt: skip
    parser.add_argument(
        "--witness", metavar="KEY", nargs="+", action="extend", default=[],
        help="ask for the word of these witnesses: their verifier keys, or files that hold them",
    )  # fmt: skip
    parser.add_argument(
        "--all-signatures", action="store_true", help="check every checkpoint's signatures, not only those that seal"
    )
    parser.add_argument(
        "--jobs", metavar="N", type=_positive, help="processes to use (default: all processors for a large ledger)"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(
    args: argparse.Namespace, tools: Tools = STANDARD, shown: str | None = None, odd: Sequence[Finding] = ()
) -> int:
    """Verify what the arguments ask for and print the report.

    Where its path is that of a copy, it is named as `shown`, and `odd` is what was found wrong with what is not in the copy.
    """
    options = Options(
        deep=args.deep,
        strict=args.strict,
        since=args.since,
        pin=args.pin,
        against=tuple(args.against),
        witnesses=tuple(args.witness),
        all_signatures=args.all_signatures,
        jobs=args.jobs,
    )
    if "://" in args.path and not os.path.lexists(args.path):
        # Not quoted: a password may stand in it.
        _print(
            "verify: this reads files; a ledger in a database is verified by an export of it: hansard ledger export",
            sys.stderr,
        )
        return 2
    meter = _Meter() if sys.stderr.isatty() else None
    try:
        report = verify(args.path, options, tools, meter)
    except CannotRead as error:
        _print(f"verify: {printable(str(error))}", sys.stderr)
        return 2
    finally:
        if meter:
            meter.clear()
    if shown:
        report = replace(report, path=shown, findings=(*odd, *report.findings))
    _show(report, as_json=args.json)
    return report.exit_code


def _show(report: Report, *, as_json: bool) -> None:
    text = _json(report) if as_json else "\n".join(lines(report))
    # A terminal that cannot write a name must not hide the verdict.
    encoding = sys.stdout.encoding or "ascii"
    _print(text.encode(encoding, "backslashreplace").decode(encoding), sys.stdout)


def _json(report: Report) -> str:
    """In letters that every encoding has."""
    return json.dumps(json.loads(whole(json.dumps(report.as_json(), ensure_ascii=False))), indent=2)


def _print(text: str, to: TextIO, *, end: str = "\n") -> None:
    """Print where somebody reads. A stream that cannot be written is given up: it must not hide the exit code."""
    try:
        print(text, end=end, file=to, flush=True)
    except OSError as error:
        # What is left in the buffer would fail once more at the exit.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, to.fileno())
        os.close(nowhere)
        # A reader who has seen enough needs no message.
        if to is sys.stdout and not isinstance(error, BrokenPipeError):
            said = f"verify: standard output cannot be written ({error.strerror}); the exit code says what was found"
            _print(said, sys.stderr)


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= 64:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is not a number from 1 to 64")
    return number


class _Meter:
    """One line of progress on a terminal, after the first half second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 0.5
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next, self._shown = now + 0.2, True
            _print(f"\rverifying {done:,} of {total:,}", sys.stderr, end="")

    def clear(self) -> None:
        if self._shown:
            _print("\r\x1b[K", sys.stderr, end="")
