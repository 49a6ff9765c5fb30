"""The flags of the commands that run something, built when one of them is named. Imports nothing but argparse."""

import argparse
from collections.abc import Iterable
from typing import Any

from hansard.surfaces.cli.command import add_command

NO_WISHES: dict[str, Any] = {
    **dict.fromkeys(("judge", "answer", "verifier", "profile", "max_parallel")),
    "gate": [],
    "context_run": [],
    "judge_intent": False,
    "revise": False,
}
"""What commands that make runs for others leave open."""

EXAMPLES = {
    "submit": """\
examples:
  hansard submit "compare three queue libraries" --provider rehearsal
  hansard submit @request.md --api gpt-4.1-mini --max-usd 0.50
  echo "explain this log" | hansard submit - --cmd "my-agent --stdin" --single
  hansard submit "ship it" --plan plan.json --max-calls 40 --json

exit codes: 0 answered, 10 partial, 11 failed, 12 stopped by budget or deadline,
            13 cancelled, 14 waiting at a gate, 130 interrupted (Ctrl-C;
            `hansard runs resume last` goes on)
""",
    "plan": """\
examples:
  hansard plan "ship a login API" -o plan.json    # look at it, change it, then:
  hansard submit "ship a login API" --plan plan.json
""",
    "runs": """\
examples:
  hansard runs                          # the newest runs
  hansard runs show last                # one run: tasks, verdicts, answer
  hansard runs follow 01a1ddc5-6d11     # what is recorded, as it is recorded
  hansard runs resume last              # go on after Ctrl-C or a crash
  hansard runs retry last schema        # the task `schema` once more
  hansard runs rerun last               # 0 the same decisions, 4 not
  hansard runs compare RUN RUN          # two runs side by side

RUN is an id, the beginning or the end of one, or `last`.
""",
    "gates": """\
examples:
  hansard gates                         # what waits for a decision
  hansard gates show GATE               # exactly what is to be decided on
  hansard gates approve GATE --resume   # decide, and go on with the run here
""",
    "worker": """\
examples:
  hansard worker &                      # then: hansard submit "…" --detach
""",
}


STATES = (
    *("requested", "planned", "running", "waiting", "interrupted"),
    *("answered", "partial", "failed", "stopped", "cancelled"),
)
"""What a run can be in."""


def add_submit(command: argparse.ArgumentParser) -> None:
    command.add_argument("request", metavar="REQUEST", help="what is wanted; @FILE reads a file, - standard input")
    shape = command.add_argument_group("how it is done")
    shape.add_argument("--plan", metavar="FILE", help="a plan of yours (JSON or TOML) instead of the coordinator's")
    shape.add_argument("--single", action="store_true", help="one task, in the lane that the router picks")
    shape.add_argument("--lane", metavar="NAME", help="one task, in this lane")
    shape.add_argument("--detach", action="store_true", help="put it on the record for a worker, print the run's id")
    _add_shape(shape)
    shape.add_argument(
        "--gate",
        action="append",
        default=[],
        metavar="WHERE",
        help="wait for a person at plan, task:ID or lane:NAME (repeatable)",
    )
    shape.add_argument("--judge", choices=("model", "checks"), help="who judges results (default: model)")
    shape.add_argument("--answer", choices=("synthesize", "join"), help="how the answer is made (default: synthesize)")
    shape.add_argument(
        "--context-run",
        action="append",
        default=[],
        metavar="RUN",
        help="an earlier run, told in short to whoever plans and works: an id, or `last` (repeatable)",
    )
    _add_checking(command.add_argument_group("what looks at the answer (it never blocks)"))
    add_asking(command)
    add_watching(command)


def _add_checking(looks: "argparse._ArgumentGroup") -> None:
    looks.add_argument("--judge-intent", action="store_true", help="a model says whether it serves what was asked for")
    looks.add_argument("--revise", action="store_true", help="let it be shortened once where it is not concise")
    looks.add_argument("--verifier", metavar="WHAT", help="who else judges it: a command, a URL, an entry point")
    looks.add_argument("--profile", metavar="NAME", help="how long it may be: brief, normal, thorough, report")


def add_plan(command: argparse.ArgumentParser) -> None:
    command.add_argument("request", metavar="REQUEST", help="what is wanted; @FILE reads a file, - standard input")
    command.add_argument("--output", "-o", metavar="FILE", help="write the plan here (default: standard output)")
    _add_shape(command)
    command.set_defaults(**NO_WISHES)
    add_asking(command)
    add_watching(command)


def add_runs(command: argparse.ArgumentParser) -> None:
    command.set_defaults(handler="runs:listed", limit=20, state=None)
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    listed = _add_verb(verbs, "list", "the newest runs first", "runs:listed")
    listed.add_argument("--limit", type=count, default=20, metavar="N", help="at most this many (default: 20; 0: all)")
    listed.add_argument("--state", choices=STATES, metavar="STATE", help="only runs in this state, such as running")
    show = _add_verb(verbs, "show", "one run: tasks, attempts, verdicts, answer", "runs:show")
    follow = _add_verb(verbs, "follow", "what is recorded, until the run ends; goes on behind its gates", "runs:follow")
    cancel = _add_verb(verbs, "cancel", "stop a run, whoever drives it", "runs:cancel")
    resume = _add_verb(verbs, "resume", "go on with a run that was cut short", "runs:resume")
    retry = _add_verb(verbs, "retry", "do a task again, and what is built on it", "runs:retry")
    for each in (show, follow, cancel, resume, retry):
        each.add_argument("run", metavar="RUN", help="an id, the beginning or the end of one, or `last`")
    retry.add_argument("task", metavar="TASK")
    add_watching(resume)
    add_watching(retry)
    _add_reading(verbs)


def _add_reading(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """What the record of a run still tells."""
    rerun = _add_verb(verbs, "rerun", "the engine again over the recorded answers", "reading:rerun")
    page = _add_verb(verbs, "page", "one run as a page to read in a browser", "reading:page")
    capsule = _add_verb(verbs, "capsule", "one run in short, as JSON", "reading:capsule")
    for each in (rerun, page, capsule):
        each.add_argument("run", metavar="RUN", help="an id, the beginning or the end of one, or `last`")
    rerun.add_argument(
        "--swap", action="append", default=[], metavar="ROLE=PROVIDER", help="ask this provider instead (repeatable)"
    )
    page.add_argument("--output", "-o", metavar="FILE", help="write it here (default: standard output)")
    add_compare(_add_verb(verbs, "compare", "two runs side by side", "reading:compare"))


def add_compare(command: argparse.ArgumentParser) -> None:
    command.add_argument("a", metavar="RUN[@LEDGER]")
    command.add_argument("b", metavar="RUN[@LEDGER]")


def add_gates(command: argparse.ArgumentParser) -> None:
    command.set_defaults(handler="gates:listed", run=None, all=False)
    verbs = command.add_subparsers(title="commands", metavar="COMMAND")
    listed = _add_verb(verbs, "list", "gates that wait for somebody", "gates:listed")
    listed.add_argument("--run", metavar="RUN", help="only gates of this run")
    listed.add_argument("--all", action="store_true", help="also those that wait no longer")
    show = _add_verb(verbs, "show", "one gate, and what it shows", "gates:show")
    show.add_argument("gate", metavar="GATE")
    for verb, text in (
        ("approve", "let it go on as it is shown"),
        ("edit", "let it go on with another text"),
        ("reject", "do not let it go on"),
    ):
        decide = _add_verb(verbs, verb, text, f"gates:{verb}")
        decide.add_argument("gate", metavar="GATE")
        if verb == "edit":
            decide.add_argument("text", metavar="TEXT", help="the new text; @FILE reads a file, - standard input")
        decide.add_argument("--by", metavar="ACTOR", help="who decides (default: you, as human:NAME)")
        decide.add_argument("--note", metavar="TEXT", help="why, for the record")
        decide.add_argument("--resume", action="store_true", help="then go on with the run here")
        add_watching(decide)


def _add_verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str, handler: str
) -> argparse.ArgumentParser:
    """A verb that works on a ledger."""
    return add_command(verbs, name, text, handler, ledger=True)


def add_worker(command: argparse.ArgumentParser) -> None:
    command.add_argument("--max-runs", type=positive, default=16, metavar="N", help="runs at once (default: 16)")
    command.add_argument("--quiet", "-q", action="store_true", help="say nothing")


def add_watching(command: argparse.ArgumentParser) -> None:
    """How much is shown meanwhile."""
    command.add_argument("--quiet", "-q", action="store_true", help="no progress and no remarks")
    command.add_argument(
        "--progress",
        choices=("auto", "plain", "none"),
        default="auto",
        help="auto shows it on a terminal only; plain prints lines anywhere, on standard error",
    )


def _add_shape(command: "argparse._ActionsContainer") -> None:
    command.add_argument("--roster", metavar="FILE", help="the lanes to work with (default: hansard.toml, else ours)")
    command.add_argument("--max-parallel", type=positive, metavar="N", help="tasks at once")


def add_asking(command: argparse.ArgumentParser) -> None:
    asked = command.add_argument_group("who is asked (one of these, or hansard.toml)")
    asked.add_argument("--provider", metavar="NAME[:MODEL]", help="a provider of hansard.toml, or rehearsal")
    asked.add_argument(
        "--cmd", metavar="COMMAND", help="a program: the prompt on its standard input, the answer on its output"
    )
    asked.add_argument("--chat-url", metavar="URL", help="a server that speaks Chat Completions; needs --model")
    asked.add_argument("--model", metavar="MODEL", help="the model for --chat-url")
    asked.add_argument(
        "--api", metavar="MODEL", help="a hosted model; the key is in OPENAI_API_KEY or ANTHROPIC_API_KEY"
    )
    limits = command.add_argument_group("what it may spend")
    limits.add_argument("--max-calls", type=count, metavar="N")
    limits.add_argument("--max-tokens", type=count, metavar="N")
    limits.add_argument("--max-usd", metavar="AMOUNT", help="dollars, such as 0.50")
    limits.add_argument("--max-seconds", type=limit_s, metavar="S", help="what is in flight then is cancelled")


def listed(words: Iterable[str]) -> tuple[str, ...]:
    """What an option that takes a list with commas names, however often it was said."""
    return tuple(each.strip() for word in words for each in word.split(",") if each.strip())


def count(text: str) -> int:
    return _whole(text, 0)


def positive(text: str) -> int:
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15 or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number from {least} to {10**15 - 1:,}")
    return int(text)


def limit_s(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of seconds from 0 to less than {10**9:,}")
    return value


def seconds(text: str) -> float:
    if not (found := limit_s(text)):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no time at all; write more than 0 seconds")
    return found
