"""How a command is added to the command line: with what it says of itself, and with the flags that all have.

Imports nothing but argparse.
"""

import argparse
from collections.abc import Sequence

UNSAID = {"ledger": None, "json": False, "debug": False}
"""The flags that all have, where nobody says them."""


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    handler: str,
    *,
    ledger: bool = False,
) -> argparse.ArgumentParser:
    """Verbs leave alone what was said before them, as in `runs --ledger x.db show last`: what nobody says is in UNSAID."""
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    unsaid = argparse.SUPPRESS
    if ledger:
        command.add_argument(
            "--ledger",
            metavar="PATH",
            default=unsaid,
            help="a ledger: x.db, x.jsonl or postgresql://… (default: see `hansard doctor`)",
        )
    command.add_argument("--json", action="store_true", default=unsaid, help="print JSON")
    command.add_argument("--debug", action="store_true", default=unsaid, help="show the traceback of an error")
    command.set_defaults(handler=handler, parser=command)
    return command


def add_verify(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", rest: Sequence[str], text: str) -> None:
    """`verify` mounts the standard-library verifier, which reads the words behind it."""
    command = commands.add_parser("verify", help=text, add_help=False, prefix_chars="\0")
    command.add_argument("rest", nargs="*")
    command.set_defaults(handler="verify:verify", words=rest)
