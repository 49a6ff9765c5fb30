"""`hansard verify`: the standard-library verifier, given faster tools where they are installed."""

import argparse

from hansard.app.ledgers.verifying import tools, verifiable
from hansard.app.settings import ledger_settings
from hansard.ledger import command

PATHS = (
    "a ledger (.db, .jsonl, postgresql://…), an export folder or a receipt (.tlog-proof, or its page); "
    "default: the ledger that `hansard doctor` names"
)


def verify(args: argparse.Namespace) -> int:
    parser = argparse.ArgumentParser(
        prog="hansard verify",
        description="Verify a ledger, an export folder or a receipt.\nThe standard library is enough for it.",
        epilog=command.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser, needs_path=False, paths=PATHS)
    asked, strange = parser.parse_known_args(args.words)
    if strange:
        named = any(word.partition("=")[0] == "--ledger" for word in strange)
        meant = "; the ledger stands there by itself: hansard verify PATH" if named else ""
        parser.error(f"unrecognized arguments: {' '.join(strange)}{meant}")
    location = ledger_settings(asked.path).ledger
    lent = tools(all_signatures=asked.all_signatures)
    with verifiable(location) as (asked.path, odd):
        if asked.path == location:
            return command.run(asked, lent)
        from hansard.app.wiring import place_of

        return command.run(asked, lent, shown=place_of(location), odd=odd)
