"""The flags of `witness`, built when it is named. Imports nothing but argparse."""

import argparse

from hansard.surfaces.cli.arguments import count
from hansard.surfaces.cli.command import add_command

EXAMPLES = {
    "witness": """\
examples:
  hansard witness --name example.org/witness     # on a machine of somebody else
  hansard witness trust PIN                      # the pin of each log to cosign
  hansard witness key                            # what goes to the log's keeper

  hansard ledger witness https://example.org --key KEY    # the log's side, and
  hansard verify ledger.db --witness KEY                  # the auditor's
""",
}


def add_witness(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", help="a new witness's public name, such as example.org/witness")
    command.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where to listen (default: 127.0.0.1)")
    command.add_argument("--port", type=count, default=7412, metavar="N", help="default: 7412; 0 takes a free one")
    _add_folder(command)
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    trust = add_command(verbs, "trust", "cosign this log from now on", "witness:trust")
    trust.add_argument("pin", metavar="PIN", help="the log's pin (`hansard ledger pin`), or a file that holds it")
    known = add_command(verbs, "logs", "every log that is cosigned, and how far", "witness:logs")
    key = add_command(verbs, "key", "the key that its cosignatures are checked with", "witness:key")
    for verb in (trust, known, key):
        # Left out here, it is what was said before the verb.
        _add_folder(verb, default=argparse.SUPPRESS)


def _add_folder(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument(
        "--folder",
        metavar="DIR",
        default=default,
        help="where it keeps its key and what it saw (default: the state folder)",
    )
