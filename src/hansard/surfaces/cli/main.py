"""The command line: what there is, and how errors are told. Each command's work is imported when it is asked for.

Exit codes: 0 done as asked, 1 done and not printed, 2 usage, 10 to 14 how a run ended, 20 to 23 from verify, 70 a bug of
ours, 130 interrupted. Commands that compare have 1, 3 and 4 of their own.
"""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from hansard.__about__ import __version__
from hansard.errors import MISNAMED, HansardError, UsageError
from hansard.surfaces.cli.command import add_command, add_verify
from hansard.surfaces.cli.streams import settled, standard_streams

EXIT_USAGE, EXIT_FAILED, EXIT_BUG, EXIT_INTERRUPTED = 2, 11, 70, 130

_EXAMPLES = """\
examples:
  hansard demo                          a run, verified, then tampered with
  hansard submit "compare three queues" --provider rehearsal
  hansard runs show last                how its answer came about
  hansard deliberate "keep our own mail server?" --provider rehearsal
  hansard verify ledger.db --deep       check a ledger and every body in it
  hansard ledger show --limit 20        the last entries
  hansard ledger get 9 --part output    the body of one part
  hansard doctor                        what works on this machine
"""

_LEDGER_EXAMPLES = """\
examples:
  hansard ledger show --run RUN --ledger ledger.db
  hansard ledger causes 12              everything that led to entry 12
  hansard ledger replay --at 40         what the record said at entry 40
  hansard ledger redact 8 prompt --reason personal_data
"""


def collect_seldom() -> None:
    """For a process that is ours alone: runs leave little for the collector, and looking for it takes a tenth of their time."""
    gc.set_threshold(100_000, 10, 20)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    with standard_streams():
        if (unreadable := next((word for word in words if not _is_text(word)), None)) is not None:
            _tell(_unreadable(unreadable))
            return EXIT_USAGE
        try:
            args, strange = parser(words).parse_known_args(words)
            if strange:
                args.parser.error(f"unrecognized arguments: {' '.join(strange)}{_hint(args, strange)}")
            if (empty := _empty(args)) is not None:
                _tell(f"{empty} is empty; leave it out, or write what is meant")
                return EXIT_USAGE
            return settled(_done(args), args.shown_by)
        except SystemExit as ended:
            # Help, the version, or what argparse refuses: it has printed what there is to say.
            raise SystemExit(settled(int(ended.code or 0))) from None


def _hint(args: argparse.Namespace, strange: Sequence[str]) -> str:
    """What was probably meant by words that a command does not know."""
    from difflib import get_close_matches

    flag = next((word.partition("=")[0] for word in strange if word.startswith("-")), None)
    if flag is not None:
        near = get_close_matches(flag, args.parser._option_string_actions, 1)
        return f"; did you mean {near[0]}?" if near else ""
    return "; text of several words goes in quotes" if {"request", "problem"} & vars(args).keys() else ""


def _empty(args: argparse.Namespace) -> str | None:
    """An option that was given an empty word, as by a variable of a script that is not set; to pass it over would do something else."""
    for action in args.parser._actions:
        given = getattr(args, action.dest, None)
        if action.option_strings and (given == "" or (isinstance(given, list) and "" in given)):
            return "/".join(action.option_strings)
    return None


def _is_text(word: str) -> bool:
    """Whether an argument is text: bytes that are not UTF-8 arrive as lone surrogates."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unreadable(word: str) -> str:
    """What is wrong with an argument that did not arrive as text: itself, or how Python was told to read it."""
    try:
        text = os.fsencode(word).decode()
    except UnicodeError:
        return f"the argument {word!r} is not UTF-8 text; write it in UTF-8"
    reads = sys.getfilesystemencoding()
    return f"the argument {text!r} is not {reads}, as which Python reads it here; set PYTHONUTF8=1, or LC_ALL=C.UTF-8"


def _done(args: argparse.Namespace) -> int:
    try:
        module, _, function = args.handler.partition(":")
        code: int = getattr(import_module(f"hansard.surfaces.cli.{module}"), function)(args)
        return code
    except HansardError as error:
        if args.debug:
            raise
        _tell(str(error))
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    except KeyboardInterrupt:
        print("hansard: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        if args.debug:
            raise
        if isinstance(error, OSError) and error.errno in MISNAMED and error.filename is not None:
            _tell(f"cannot use {error.filename!s:.200}: {error.strerror}")
            return EXIT_USAGE
        _tell(f"a bug of ours: {type(error).__name__}: {error}")
        print("hansard: nothing more was done; run it again with --debug and report what it prints", file=sys.stderr)
        return EXIT_BUG


def _tell(text: str) -> None:
    """What went wrong. It may quote a file or a record of somebody else's, which must not drive the terminal."""
    from hansard.surfaces.cli.show import plain

    lines = map(plain, text.split("\n"))
    print("hansard: " + "\n".join(lines), file=sys.stderr)


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The command line as a parser, as far as these words need it: the verbs of a command are built when it is named."""
    top = argparse.ArgumentParser(
        prog="hansard",
        description="Runs teams of AI agents and keeps the verbatim record,\n"
        "so that someone who does not trust you can check it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"hansard {__version__}")
    top.set_defaults(handler="show:help_text", debug=False, parser=top, shown_by=None)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _add_named(commands, words)
    add_verify(commands, words[1:], "check a ledger, an export or a receipt")
    _add_ledger(commands, words[1:] if words[:1] == ["ledger"] else None)
    _add_route(commands, words[1:])
    _add_roster(commands, words[:1] == ["roster"])
    doctor = add_command(commands, "doctor", "what works on this machine", "doctor:doctor", ledger=True)
    doctor.description = (
        "Says what works here: the ledger, its keys, SQLite, optional libraries, providers. It changes nothing."
    )
    demo = add_command(commands, "demo", "request to answer, verified; tampering caught", "demo:demo")
    demo.add_argument(
        "--folder", metavar="DIR", help="where to leave the demonstration's files (default: a new temporary folder)"
    )
    demo.add_argument(
        "--local", action="store_true", help="ask a real small model on this machine (needs hansard[local])"
    )
    demo.add_argument("--quiet", "-q", action="store_true", help="no progress")
    demo.set_defaults(progress="auto")
    init = add_command(commands, "init", "make a ledger and a commented hansard.toml here", "init:init", ledger=True)
    init.add_argument(
        "--origin", help="the log's public name, such as example.org/agents (default: hansard.invalid/<nonce>)"
    )
    return top


_NAMED = {
    "submit": ("hand in a request, get one judged answer", "submit:submit", "arguments:add_submit"),
    "plan": ("plan only, as a file that `submit --plan` accepts", "submit:plan", "arguments:add_plan"),
    "runs": ("list, show, follow, cancel, resume, retry, rerun, compare", "runs:listed", "arguments:add_runs"),
    "gates": ("what waits for people, and their decisions", "gates:listed", "arguments:add_gates"),
    "bench": ("two runs side by side, as `runs compare`", "reading:compare", "arguments:add_compare"),
    "worker": ("drive what was submitted with --detach", "worker:worker", "arguments:add_worker"),
    "deliberate": (
        "put a problem to a panel, get one synthesis",
        "deliberate:deliberate",
        "council_arguments:add_deliberate",
    ),
    "session": (
        "replay, validate, measure, resume a deliberation's directory",
        "show:help_text",
        "council_arguments:add_session",
    ),
    "panel": ("panels and personas: list, show, check", "panel:listed", "council_arguments:add_panel"),
    "serve": ("the daemon: HTTP, events, MCP", "serve:serve", "serve_arguments:add_serve"),
    "mcp": ("an MCP server on standard input and output", "mcp:mcp", "mcp_arguments:add_mcp"),
    "witness": (
        "cosign the logs of others: proof that nobody rewrote them",
        "witness:serve",
        "witness_arguments:add_witness",
    ),
}
"""What each is for, what does it, and what adds its flags."""
_OF_NO_LEDGER = ("session", "panel", "witness")


def _add_named(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", words: Sequence[str]) -> None:
    """The commands with many flags, which are built when one of them is named."""
    for name, (text, handler, flags) in _NAMED.items():
        if words[:1] != [name]:
            commands.add_parser(name, help=text)
            continue
        module, _, add = flags.partition(":")
        arguments = import_module(f"hansard.surfaces.cli.{module}")
        command = add_command(commands, name, text, handler, ledger=name not in _OF_NO_LEDGER)
        command.epilog, command.formatter_class = arguments.EXAMPLES.get(name), argparse.RawDescriptionHelpFormatter
        getattr(arguments, add)(command)


def _add_ledger(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", rest: Sequence[str] | None) -> None:
    ledger = commands.add_parser(
        "ledger",
        help="read, explain and look after a ledger",
        epilog=_LEDGER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ledger.set_defaults(parser=ledger)
    if rest is None:
        return
    verbs = ledger.add_subparsers(title="commands", metavar="COMMAND")
    show = add_command(verbs, "show", "list entries", "ledger:show", ledger=True)
    show.add_argument(
        "--limit", type=_count, default=20, metavar="N", help="at most this many, the newest (default: 20; 0: all)"
    )
    show.add_argument("--after", type=_count, metavar="SEQ", help="only entries after this one, oldest first")
    show.add_argument("--run", help="only entries of this run: an id, the beginning of one, or `last`")
    show.add_argument("--kind", help="only entries of this kind")
    show.add_argument("--actor", help="only entries of this actor")
    get = add_command(verbs, "get", "one entry, or the body of one part", "ledger:get", ledger=True)
    get.add_argument("seq", type=_count)
    get.add_argument("--part", help="print this part's body, byte for byte")
    causes = add_command(verbs, "causes", "everything that led to an entry", "ledger:causes", ledger=True)
    causes.add_argument("seq", type=_count)
    replay = add_command(verbs, "replay", "what the record said at an entry", "ledger:replay", ledger=True)
    replay.add_argument("--at", type=_count, metavar="SEQ", help="the entry (default: the last)")
    add_command(verbs, "summary", "counts, runs, spend", "ledger:summary", ledger=True)
    redact = add_command(verbs, "redact", "erase the body of one part, with a tombstone", "ledger:redact", ledger=True)
    redact.add_argument("seq", type=_count)
    redact.add_argument("part")
    redact.add_argument("--reason", required=True, help="personal_data, secret, legal, retention or other")
    redact.add_argument(
        "--by", default="human:operator", metavar="ACTOR", help="opaque id of who asks (default: human:operator)"
    )
    add_command(
        verbs,
        "repair",
        "rebuild what is derived, finish redactions; never touches an entry",
        "ledger:repair",
        ledger=True,
    )
    add_verify(verbs, rest[1:], "the same as `hansard verify`")
    _add_custody(verbs)


def _add_route(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", rest: Sequence[str]) -> None:
    """`route TEXT`, or `route eval FILE`; to route the word eval itself, write `route -- eval`."""
    evaluates = rest[:1] == ["eval"]
    help_text = "where a request would go, and why; `route eval FILE` measures it on labelled requests"
    route = add_command(commands, "route", help_text, "route:evaluate" if evaluates else "route:route")
    if evaluates:
        route.add_argument("verb", choices=["eval"])
        route.add_argument(
            "file", metavar="FILE", help='JSON lines of {"id", "text", "lane", "also"}; lane "none" fits no lane'
        )
    else:
        route.add_argument("text", metavar="TEXT", nargs="+", help="the request; - reads standard input")
    route.add_argument(
        "--roster", metavar="FILE", help="a roster in TOML (default: that of hansard.toml, else 24 lanes)"
    )


def _add_roster(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", named: bool) -> None:
    roster = add_command(commands, "roster", "the lanes that work can be given to", "route:roster_list")
    roster.set_defaults(roster=None)
    if not named:
        return
    verbs = roster.add_subparsers(title="commands", metavar="COMMAND")
    shown = add_command(verbs, "list", "every lane in a line", "route:roster_list")
    one = add_command(verbs, "show", "everything about one lane", "route:roster_show")
    one.add_argument("lane")
    for verb in (shown, one):
        verb.add_argument(
            "--roster", metavar="FILE", help="a roster in TOML (default: that of hansard.toml, else 24 lanes)"
        )
    check = add_command(verbs, "check", "whether a roster file can be used, and what it lacks", "route:roster_check")
    check.add_argument("file", metavar="FILE")


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
    receipt.add_argument("seq", type=_count)
    receipt.add_argument(
        "--disclose", action="append", default=[], metavar="PART", help="open this part in the receipt (repeatable)"
    )
    receipt.add_argument("--cosigned", action="store_true", help="under the newest checkpoint that a witness has seen")
    receipt.add_argument("--html", action="store_true", help="as a page that checks itself in a browser, offline")
    receipt.add_argument("--output", "-o", metavar="FILE", help="write it here (default: standard output)")
    consistency = add_command(
        verbs, "consistency", "a proof that the log extends an older size", "custody:consistency", ledger=True
    )
    consistency.add_argument("old", type=_count, help="the older size")
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
        help="an export or x.jsonl of ours (made anew at --ledger), or a foreign ledger (recorded into it)",
    )
    adopt = add_command(
        verbs, "adopt", "go on in a new log after a genuine restore of an older one", "custody:adopt", ledger=True
    )
    adopt.add_argument("old", help="the restored ledger; it becomes the past of the new one at --ledger")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of 0 or more")
    return int(text)
