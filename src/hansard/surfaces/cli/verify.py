"""`hansard verify`: the standard-library verifier, given faster tools where they are installed."""

import argparse

from hansard.app.ledgers.verifying import tools, verifiable
from hansard.app.settings import ledger_settings
from hansard.ledger import command

PATHS = (
    "a ledger (.db, .jsonl, postgresql://…), an export folder or a receipt (.tlog-proof); "
    "default: the ledger that `hansard doctor` names"
)


def verify(args: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser(
        prog="hansard verify",
        description="Verify a ledger, an export folder or a receipt. The standard library is enough for it.",
        epilog=command.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser, needs_path=False, paths=PATHS)
    asked = parser.parse_args(args.words)
    location = ledger_settings(asked.path).ledger
    with verifiable(location) as (asked.path, odd):
        if asked.path == location:
            return command.run(asked, tools())
        from hansard.app.wiring import place_of

        return command.run(asked, tools(), shown=place_of(location), odd=odd)
