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
from hansard.errors import MISNAMED, HansardError, Unavailable, UsageError
from hansard.surfaces.cli.command import UNSAID, add_command, add_verify
from hansard.surfaces.cli.streams import settled, show_traceback, standard_streams

EXIT_USAGE, EXIT_FAILED, EXIT_BUG, EXIT_INTERRUPTED = 2, 11, 70, 130

_EXAMPLES = """\
examples:
  hansard demo                          # a run, verified, then tampered with
  hansard submit "compare three queues" --provider rehearsal
  hansard runs show last                # how its answer came about
  hansard deliberate "keep our own mail server?" --provider rehearsal
  hansard verify ledger.db --deep       # check a ledger and every body in it
  hansard ledger show --limit 20        # the last entries
  hansard ledger get 9 --part output    # the body of one part
  hansard doctor                        # what works on this machine
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
            top = parser(words)
            if (misplaced := _misplaced(top, words)) is not None:
                _tell(misplaced)
                return EXIT_USAGE
            args, strange = top.parse_known_args(words)
            if strange:
                args.parser.error(f"unrecognized arguments: {' '.join(strange)}{_hint(args, strange)}")
            if (empty := _empty(args)) is not None:
                _tell(f"{empty} is empty; leave it out, or write what is meant")
                return EXIT_USAGE
            return settled(_done(args), args.shown_by)
        except SystemExit as ended:
            # Help, the version, or what argparse refuses: it has printed what there is to say.
            raise SystemExit(settled(int(ended.code or 0))) from None


def _misplaced(top: argparse.ArgumentParser, words: Sequence[str]) -> str | None:
    """What is wrong with words of which argparse would say something else."""
    if not words:
        return None
    from hansard.surfaces.cli.misplaced import before_all, misplaced, misspelt

    if words[0].startswith("-"):
        return before_all(top, words)
    # The verbs of a verb are the deepest that there are.
    behind = any(word.startswith("-") for word in words[1:3])
    return (misplaced(top, words) if behind else None) or misspelt(top, words)


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
            show_traceback(error)
        _tell(str(error))
        if args.goes_on is not None and isinstance(error, Unavailable):
            _tell(f"once the ledger takes entries again, {args.goes_on} goes on from where it stopped")
        elif args.shown_by is not None:
            _tell(f"the run stands on the record all the same; {args.shown_by} shows it")
        return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED
    except KeyboardInterrupt:
        print("hansard: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        if args.debug:
            show_traceback(error)
        if isinstance(error, OSError) and error.errno in MISNAMED and error.filename is not None:
            _tell(f"cannot use {error.filename!s:.200}: {error.strerror}")
            return EXIT_USAGE
        _tell(f"a bug of ours: {type(error).__name__}: {error}")
        report = "report this" if args.debug else "run it again with --debug and report what it prints"
        print(f"hansard: nothing more was done; {report}", file=sys.stderr)
        return EXIT_BUG


def _tell(text: str) -> None:
    """What went wrong. It may quote a file or a record of somebody else's, which must not drive the terminal."""
    from hansard.surfaces.plain import plain

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
    top.set_defaults(handler="show:help_text", parser=top, shown_by=None, goes_on=None, **UNSAID)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _add_named(commands, words)
    add_verify(commands, words[1:], "check a ledger, an export or a receipt")
    _add_ledger(commands, words)
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
    init.epilog = "With --ledger, that ledger alone is made, and no hansard.toml."
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


def _add_ledger(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", words: Sequence[str]) -> None:
    ledger = commands.add_parser("ledger", help="read, explain and look after a ledger")
    if words[:1] == ["ledger"]:
        from hansard.surfaces.cli.ledger_arguments import add_ledger

        add_ledger(ledger, words[1:])


def _add_route(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", rest: Sequence[str]) -> None:
    """`route TEXT`, or `route eval FILE`; to route the word eval itself, write `route -- eval`."""
    evaluates = _first(rest) == "eval"
    help_text = "where a request would go, and why; `route eval FILE` measures it on labelled requests"
    route = add_command(commands, "route", help_text, "route:evaluate" if evaluates else "route:route")
    if evaluates:
        route.add_argument("verb", choices=["eval"])
        route.add_argument(
            "file", metavar="FILE", help='JSON lines of {"id", "text", "lane", "also"}; lane "none" fits no lane'
        )
    else:
        route.add_argument("text", metavar="TEXT", nargs="+", help="the request; @FILE reads a file, - standard input")
    route.add_argument(
        "--roster", metavar="FILE", help="a roster in TOML (default: that of hansard.toml, else 24 lanes)"
    )


def _first(rest: Sequence[str]) -> str | None:
    """The first word behind `route` that is neither a flag nor what belongs to one; None behind `--`, where all is text."""
    words = iter(rest)
    for word in words:
        if word == "--":
            return None
        if word.startswith("--r") and "--roster".startswith(word):
            # Options may be shortened.
            next(words, None)
        elif word == "-" or not word.startswith("-"):
            return word
    return None


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
