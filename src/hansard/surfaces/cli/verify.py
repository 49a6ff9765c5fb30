"""`hansard verify`: the standard-library verifier, given faster tools where they are installed."""

import argparse

from hansard.app.settings import read_settings
from hansard.app.verifying import tools
from hansard.ledger import command


def verify(args: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser(
        prog="hansard verify",
        description=command.DESCRIPTION,
        epilog=command.EXAMPLES.replace("verify.pyz", "hansard verify"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser, default_path=read_settings().ledger)
    return command.run(parser.parse_args(args.rest), tools())
