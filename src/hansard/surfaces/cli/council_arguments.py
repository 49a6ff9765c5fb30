"""The flags of `deliberate` and `session`, built when one of them is named. Imports nothing but argparse."""

import argparse

from hansard.surfaces.cli.arguments import add_watching, count
from hansard.surfaces.cli.command import add_command

CONDITIONS = (
    *("runtime", "adapter", "provider", "model", "sampling", "cache", "tool_env", "wallclock", "persona"),
    "transcript_prefix",
)
EXAMPLES = {
    "deliberate": """\
examples:
  hansard deliberate "should we keep our own mail server?"
  hansard deliberate problem.md --panel logician,critic --api gpt-4.1-mini
  hansard deliberate "…" --expert "a lawyer for data protection" --ensemble
  hansard deliberate --continue last --answer "we have 40 users"
  hansard deliberate --config config.json --script answers.json

Without a flag that says whom to ask: who is configured, else an agent CLI.

exit codes: 0 synthesis, 11 schema or provider failure, 12 budget or timeout,
            13 cancelled (Ctrl-C), 14 user input or research required
""",
    "session": """\
examples:
  hansard session replay runs/ID > transcript.json  # 0 as digested, 4 not
  hansard session validate runs/ID                  # 0 no rule is broken, 1 not
  hansard session export last --html -o page.html   # the debate as one page
  hansard session eval problems.txt --panel panel:bench
  hansard session execution-replay runs/ID --script s.json --output again

DIR is a session's directory, or its id under --runs (default: runs). Where the
record is enough (metrics, export, postmortem, questions, compare), a run or
`last` will do too, also a run with a panel in it.
""",
    "panel": """\
examples:
  hansard panel check bench             # 0 nothing to say, 1 overlaps or gaps

A panel is a table [panels.NAME] in hansard.toml, or a file panels/NAME.toml
beside it; a persona is a table [personas.NAME], or a file personas/NAME.toml.
""",
}


def add_deliberate(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "problem",
        metavar="PROBLEM",
        nargs="?",
        help="a file, - for standard input, or the text itself; not needed when the configuration has one",
    )
    command.add_argument("--config", metavar="FILE", help="a configuration of the protocol, YAML or JSON")
    _add_seats(command, "who sits on the panel, in this order; or panel:NAME (repeatable)")
    command.add_argument("--max-rounds", type=count, metavar="N", help="rounds at most")
    command.add_argument("--output", metavar="DIR", help="the folder of sessions (default: runs)")
    _add_adapting(command)
    _add_scripts(command)
    _add_shape(command)
    _add_asking(command)
    add_watching(command)


_LAST_HELD = "`last`, the newest deliberation"
_ENDED = "a session's directory or id, a run of the ledger, or `last`, the newest session that has ended"


def add_session(command: argparse.ArgumentParser) -> None:
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    replay = add_command(
        verbs,
        "replay",
        "the transcript's canonical bytes, and whether its digest is right",
        "session:replay",
        ledger=True,
    )
    again = add_command(verbs, "execution-replay", "hold the session again", "session:execution_replay", ledger=True)
    validate = add_command(
        verbs, "validate", "every rule that a document or a directory breaks", "session:validate", ledger=True
    )
    metrics = add_command(verbs, "metrics", "the figures of a session, as JSON", "session:metrics", ledger=True)
    metrics.add_argument(
        "--v1", action="store_true", help="with role purity, disagreements, interaction, retries, failures"
    )
    resume = add_command(verbs, "resume", "go on with a session that was cut short", "session:resume", ledger=True)
    export = add_command(
        verbs, "export", "the debate as Markdown, or as a page of its own", "session:export", ledger=True
    )
    export.add_argument("--html", action="store_true", help="one HTML page that needs nothing else")
    for each in (replay, again, resume):
        each.add_argument("directory", metavar="DIR", help=f"a session's directory or id, or {_LAST_HELD}")
    for each in (metrics, export):
        each.add_argument("directory", metavar="DIR", help=_ENDED)
    for each in (replay, again, validate, metrics, resume, export):
        each.add_argument("--runs", metavar="DIR", default="runs", help="where ids are looked up (default: runs)")
    validate.add_argument("path", metavar="PATH", help=f"a session's directory or id, one document, or {_LAST_HELD}")
    for each in (metrics, export):
        each.add_argument("--output", "-o", metavar="FILE", help="write it here (default: standard output)")
    _add_again(again)
    add_watching(resume)
    _add_looking_back(verbs)
    golden = add_command(
        verbs, "golden", "run a golden case; 0 the digest is as expected, 4 it is not", "session:golden"
    )
    golden.add_argument("case", metavar="CASE", help="a file, or a directory with the parts of a case")
    golden.add_argument("--record", action="store_true", help="make what comes out the expectation of the case")
    add_command(
        verbs, "conformance", "the shipped cases through our documents, with both counts", "session:conformance"
    )


def _add_looking_back(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Sessions afterwards. DIR may also be a session or a run of the ledger, as those that met inside of a run are."""
    postmortem = add_command(
        verbs, "postmortem", "what a session shows about its panel", "evaluating:postmortem", ledger=True
    )
    asked = add_command(
        verbs, "questions", "what each agent was asked, word for word", "evaluating:questions", ledger=True
    )
    postmortem.add_argument("directory", metavar="DIR", help=_ENDED)
    asked.add_argument(
        "directory",
        metavar="DIR",
        help="a session's directory or id, a run of the ledger, or `last`, the newest session, also one that goes on",
    )
    asked.add_argument("--answers", action="store_true", help="and what was answered, word for word")
    compare = add_command(verbs, "compare", "two sessions beside each other", "evaluating:compare", ledger=True)
    compare.add_argument("a", metavar="A", help=_ENDED)
    compare.add_argument("b", metavar="B", help="the other one, named in the same way")
    for each in (postmortem, asked, compare):
        each.add_argument("--runs", metavar="DIR", default="runs", help="where ids are looked up (default: runs)")
    chain = add_command(
        verbs, "chain", "sessions that went on from one another, as one", "evaluating:chain", ledger=True
    )
    chain.add_argument("run", metavar="RUN", help="any run of the chain")
    trial = add_command(verbs, "eval", "a panel on a set of problems, measured", "evaluating:evaluate", ledger=True)
    trial.add_argument("problems", metavar="FILE", help="one problem a line, or JSON lines with problem, id, expect")
    trial.add_argument("--config", metavar="FILE", help="a configuration of the protocol, YAML or JSON")
    _add_seats(trial, "who sits on the panel; or panel:NAME (repeatable)")
    trial.add_argument("--max-rounds", type=count, metavar="N", help="rounds at most")
    trial.add_argument("--output", metavar="DIR", help="the folder of sessions (default: none, the record has them)")
    _add_scripts(trial)
    _add_shape(trial)
    _add_asking(trial)


def _add_seats(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("--panel", action="append", metavar="A,B", help=text)


def add_panel(command: argparse.ArgumentParser) -> None:
    command.set_defaults(handler="panel:listed")
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    add_command(verbs, "list", "the panels and personas there are", "panel:listed")
    show = add_command(verbs, "show", "who sits on a panel, whom each asks, and who pays", "panel:show")
    check = add_command(verbs, "check", "where its personas overlap, and what nobody is there for", "panel:check")
    for each in (show, check):
        each.add_argument("name", metavar="NAME", help="a panel of hansard.toml or panels/NAME.toml")


def _add_again(again: argparse.ArgumentParser) -> None:
    again.add_argument("--output", metavar="DIR", help="the folder for the new session (default: beside the old one)")
    again.add_argument(
        "--assume",
        action="append",
        default=[],
        choices=CONDITIONS,
        metavar="CONDITION",
        help=f"vouch for a condition that cannot be shown (repeatable): {', '.join(CONDITIONS)}",
    )
    _add_scripts(again)
    _add_shape(again)
    _add_asking(again)
    again.epilog = "exit codes: 0 the same digest, 3 a condition does not hold, 4 another digest, 1 anything else"


def _add_adapting(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("before a session, and after one that asks for something")
    group.add_argument(
        "--expert",
        action="append",
        default=[],
        metavar="NEED",
        help="have a persona made for this need before the session begins (repeatable, at most 8)",
    )
    group.add_argument("--ensemble", action="store_true", help="everybody answers alone first; then they deliberate")
    group.add_argument(
        "--adaptive", action="store_true", help="where research is asked for, go on with an expert for it"
    )
    group.add_argument(
        "--max-expansions", type=count, metavar="N", help="how often it may go on (default 2, at most 5)"
    )
    group.add_argument(
        "--continue", dest="continues", metavar="RUN", help="go on from a session that asked for something"
    )
    group.add_argument("--answer", metavar="TEXT|FILE", help="with --continue: what it asked for")


def _add_scripts(command: argparse.ArgumentParser) -> None:
    command.add_argument("--script", metavar="FILE", help="answers from a FakeProviderScript, for every agent")
    command.add_argument("--selector-script", metavar="FILE", help="the same for the llm selector")


def _add_shape(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("for cross-checks with other runtimes")
    group.add_argument(
        "--message-shape", choices=("golden", "reference"), help="how messages are written (default: golden)"
    )
    group.add_argument("--producer", nargs=2, metavar=("NAME", "VERSION"), help="whom the manifest names")


def _add_asking(command: argparse.ArgumentParser) -> None:
    asked = command.add_argument_group("who is asked (one of these for every agent, else as configured)")
    asked.add_argument("--provider", metavar="ID[:MODEL]", help="a provider of hansard.toml, cli-auto, or rehearsal")
    asked.add_argument("--cmd", metavar="COMMAND", help="a program: the prompt on its input, the answer on its output")
    asked.add_argument("--chat-url", metavar="URL", help="a server that speaks Chat Completions; needs --model")
    asked.add_argument("--model", metavar="MODEL", help="the model for --chat-url")
    asked.add_argument(
        "--api", metavar="MODEL", help="a hosted model; its key is in OPENAI_API_KEY or ANTHROPIC_API_KEY"
    )
