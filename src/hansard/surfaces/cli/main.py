"""The command line: what there is, and how errors are told. Each command's work is imported when it is asked for.

Exit codes: 0 done as asked, 2 usage, 11 failed, 20 to 23 from verify, 70 a bug of ours.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from hansard.__about__ import __version__
from hansard.errors import HansardError, UsageError

EXIT_USAGE, EXIT_FAILED, EXIT_BUG, EXIT_INTERRUPTED = 2, 11, 70, 130

_EXAMPLES = """\
examples:
  hansard demo                          record a small run, verify it, tamper with copies, see each one caught
  hansard verify ledger.db --deep       check a ledger and every body in it
  hansard ledger show --limit 20        the last entries
  hansard ledger get 7 --part output    the body of one part
  hansard doctor                        what works on this machine
"""

_LEDGER_EXAMPLES = """\
examples:
  hansard ledger show --run RUN --ledger ledger.db
  hansard ledger causes 12              everything that led to entry 12
  hansard ledger replay --at 40         what the record said at entry 40
  hansard ledger redact 7 prompt --reason personal_data
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    args = parser().parse_args(argv)
    try:
        module, _, function = args.handler.partition(":")
        code: int = getattr(import_module(f"hansard.surfaces.cli.{module}"), function)(args)
        sys.stdout.flush()
        return code
    except HansardError as error:
        if args.debug:
            raise
        print(f"hansard: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    except BrokenPipeError:
        # The reader has seen enough; keep the interpreter from complaining when it flushes on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("hansard: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if args.debug:
            raise
        print(f"hansard: a bug of ours: {type(error).__name__}: {error}", file=sys.stderr)
        print("hansard: nothing more was done; run it again with --debug and report what it prints", file=sys.stderr)
        return EXIT_BUG


def parser() -> argparse.ArgumentParser:
    """The whole command line as a parser."""
    top = argparse.ArgumentParser(
        prog="hansard",
        description="Runs teams of AI agents and keeps the verbatim record, so that someone who does not trust you can check it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hansard {__version__}")
    top.set_defaults(handler="show:help_text", debug=False, parser=top)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _add_verify(commands.add_parser("verify", help="check a ledger, an export or a receipt", add_help=False))
    _add_ledger(commands)
    doctor = _command(commands, "doctor", "what works on this machine", "doctor:doctor", ledger=True)
    doctor.description = "Says what works here: the ledger, its keys, SQLite, optional libraries. It changes nothing."
    demo = _command(commands, "demo", "record, verify, tamper, see it caught", "demo:demo")
    demo.add_argument(
        "--folder", metavar="DIR", help="where to leave the demonstration's files (default: a new temporary folder)"
    )
    init = _command(commands, "init", "make a ledger and a commented hansard.toml here", "init:init", ledger=True)
    init.add_argument(
        "--origin", help="the log's public name, such as example.org/agents (default: hansard.invalid/<nonce>)"
    )
    return top


def _add_verify(command: argparse.ArgumentParser) -> None:
    """`verify` mounts the standard-library verifier; its arguments are read there, when it runs."""
    command.add_argument("rest", nargs=argparse.REMAINDER)
    command.set_defaults(handler="verify:verify")


def _add_ledger(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    ledger = commands.add_parser(
        "ledger",
        help="read, explain and look after a ledger",
        epilog=_LEDGER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ledger.set_defaults(handler="show:help_text", parser=ledger)
    verbs = ledger.add_subparsers(title="commands", metavar="COMMAND")
    show = _command(verbs, "show", "list entries", "ledger:show", ledger=True)
    show.add_argument(
        "--limit", type=_count, default=20, metavar="N", help="at most this many, the newest (default: 20; 0: all)"
    )
    show.add_argument("--after", type=_count, metavar="SEQ", help="only entries after this one, oldest first")
    show.add_argument("--run", help="only entries of this run")
    show.add_argument("--kind", help="only entries of this kind")
    show.add_argument("--actor", help="only entries of this actor")
    get = _command(verbs, "get", "one entry, or the body of one part", "ledger:get", ledger=True)
    get.add_argument("seq", type=_count)
    get.add_argument("--part", help="print this part's body, byte for byte")
    causes = _command(verbs, "causes", "everything that led to an entry", "ledger:causes", ledger=True)
    causes.add_argument("seq", type=_count)
    replay = _command(verbs, "replay", "what the record said at an entry", "ledger:replay", ledger=True)
    replay.add_argument("--at", type=_count, metavar="SEQ", help="the entry (default: the last)")
    _command(verbs, "summary", "counts, runs, spend", "ledger:summary", ledger=True)
    redact = _command(verbs, "redact", "erase the body of one part, with a tombstone", "ledger:redact", ledger=True)
    redact.add_argument("seq", type=_count)
    redact.add_argument("part")
    redact.add_argument("--reason", required=True, help="personal_data, secret, legal, retention or other")
    redact.add_argument(
        "--by", default="human:operator", metavar="ACTOR", help="opaque id of who asks (default: human:operator)"
    )
    _command(
        verbs,
        "repair",
        "rebuild what is derived, finish redactions; never touches an entry",
        "ledger:repair",
        ledger=True,
    )
    _add_verify(verbs.add_parser("verify", help="the same as `hansard verify`", add_help=False))


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    text: str,
    handler: str,
    *,
    ledger: bool = False,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    if ledger:
        command.add_argument(
            "--ledger", metavar="PATH", help="a ledger: x.db, x.jsonl or postgresql://… (default: see `hansard doctor`)"
        )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    command.set_defaults(handler=handler)
    return command


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of 0 or more")
    return int(text)
