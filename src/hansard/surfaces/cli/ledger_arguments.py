"""The verbs of `ledger` and their flags, built when it is named. Imports nothing but argparse."""

import argparse
from collections.abc import Sequence

from hansard.surfaces.cli.arguments import count
from hansard.surfaces.cli.command import add_command, add_verify

EXAMPLES = """\
examples:
  hansard ledger show --run RUN --ledger ledger.db
  hansard ledger causes 12              # everything that led to entry 12
  hansard ledger replay --at 40         # what the record said at entry 40
  hansard ledger redact 8 prompt --reason personal_data
"""


def add_ledger(ledger: argparse.ArgumentParser, rest: Sequence[str]) -> None:
    """Its verbs; `rest` are the words behind `ledger`."""
    ledger.epilog, ledger.formatter_class = EXAMPLES, argparse.RawDescriptionHelpFormatter
    ledger.set_defaults(parser=ledger)
    verbs = ledger.add_subparsers(title="commands", metavar="COMMAND")
    show = add_command(verbs, "show", "list entries", "ledger:show", ledger=True)
    show.add_argument(
        "--limit", type=count, default=20, metavar="N", help="at most this many, the newest (default: 20; 0: all)"
    )
    show.add_argument("--after", type=count, metavar="SEQ", help="only entries after this one, oldest first")
    show.add_argument("--run", help="only entries of this run: an id, the beginning or the end of one, or `last`")
    show.add_argument("--kind", help="only entries of this kind")
    show.add_argument("--actor", help="only entries of this actor")
    get = add_command(verbs, "get", "one entry, or the body of one part", "ledger:get", ledger=True)
    get.add_argument("seq", type=count)
    get.add_argument("--part", help="print this part's body, byte for byte")
    causes = add_command(verbs, "causes", "everything that led to an entry", "ledger:causes", ledger=True)
    causes.add_argument("seq", type=count)
    replay = add_command(verbs, "replay", "what the record said at an entry", "ledger:replay", ledger=True)
    replay.add_argument("--at", type=count, metavar="SEQ", help="the entry (default: the last)")
    add_command(verbs, "summary", "counts, runs, spend", "ledger:summary", ledger=True)
    redact = add_command(verbs, "redact", "erase the bodies of parts, with tombstones", "ledger:redact", ledger=True)
    redact.add_argument("seq", type=count)
    redact.add_argument("part")
    redact.add_argument(
        "more", nargs="*", metavar="SEQ PART", help="further parts; erasing them together takes no longer than one"
    )
    redact.add_argument("--reason", required=True, help="personal_data, secret, legal, retention or other")
    redact.add_argument("--by", metavar="ACTOR", help="opaque id of who asks (default: you, as human:NAME)")
    add_command(
        verbs,
        "repair",
        "rebuild what is derived, finish redactions; never touches an entry",
        "ledger:repair",
        ledger=True,
    )
    add_verify(verbs, rest[1:], "the same as `hansard verify`")
    _add_custody(verbs)


def _add_custody(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """What needs keys, or carries the record elsewhere."""
    add_command(
        verbs, "checkpoint", "sign the log as it stands, and print the signed note", "custody:checkpoint", ledger=True
    )
    add_command(verbs, "pin", "print the pin: the one line to keep outside", "custody:pin", ledger=True)
    seal = add_command(
        verbs, "seal", "retire the epoch key now and destroy it: the past is sealed", "custody:seal", ledger=True
    )
    seal.add_argument(
        "--lost-key", action="store_true", help="the epoch key is gone for good: rotate without it (reported for ever)"
    )
    receipt = add_command(
        verbs, "receipt", "a proof of one entry that anyone can check offline", "custody:receipt", ledger=True
    )
    receipt.add_argument("seq", type=count)
    receipt.add_argument(
        "--disclose", action="append", default=[], metavar="PART", help="open this part in the receipt (repeatable)"
    )
    receipt.add_argument(
        "--cosigned", action="store_true", help="under the checkpoint that the most witnesses have seen"
    )
    receipt.add_argument("--html", action="store_true", help="as a page that checks itself in a browser, offline")
    receipt.add_argument("--output", "-o", metavar="FILE", help="write it here (default: standard output)")
    consistency = add_command(
        verbs, "consistency", "a proof that the log extends an older size", "custody:consistency", ledger=True
    )
    consistency.add_argument("old", type=count, help="the older size")
    consistency.add_argument("--output", "-o", metavar="FILE", help="write it here (default: standard output)")
    witness = add_command(verbs, "witness", "have the log cosigned by a witness", "witness:ask", ledger=True)
    witness.add_argument("url", nargs="?", metavar="URL", help="default: every [witnesses.NAME] of hansard.toml")
    witness.add_argument("--key", metavar="KEY", help="the key that its word is checked with, or a file that holds it")
    witness.add_argument("--output", "-o", metavar="FILE", help="write the cosigned checkpoint here")
    export = add_command(
        verbs, "export", "a folder with everything in it, the verifier included", "custody:export", ledger=True
    )
    export.add_argument("folder", help="a folder that does not exist yet")
    export.add_argument("--without-bodies", action="store_true", help="leave every body out")
    bring = add_command(verbs, "import", "an export of ours, or a foreign ledger", "custody:bring", ledger=True)
    bring.add_argument(
        "path",
        help="an export or a ledger of ours (made anew at --ledger), or a foreign ledger (recorded into it)",
    )
    adopt = add_command(
        verbs, "adopt", "go on in a new log after a genuine restore of an older one", "custody:adopt", ledger=True
    )
    adopt.add_argument(
        "old", help="the restored ledger; the past of the new one at --ledger, and only read from then on"
    )
