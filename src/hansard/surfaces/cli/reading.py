"""`hansard runs rerun|compare|page|capsule`: what the record of a run still tells."""

import argparse

from hansard.app.service import Hansard
from hansard.app.settings import read_settings
from hansard.app.telling.compare import has_answers, shown
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.cli.driving import note, opened, with_ledger
from hansard.surfaces.cli.output import new_file
from hansard.surfaces.cli.show import as_json, say

EXIT_DIVERGED = 4


def rerun(args: argparse.Namespace) -> int:
    swap = dict(_swap(each) for each in args.swap)

    async def work(hansard: Hansard) -> int:
        view = await hansard.runs.rerun(hansard.runs.find(args.run), swap)
        if args.json:
            as_json(view)
        else:
            _tell_rerun(view)
        return 0 if view["identical"] else EXIT_DIVERGED

    return with_ledger(args.ledger, work)


def compare(args: argparse.Namespace) -> int:
    """Two runs, each maybe in a ledger of its own: RUN@LEDGER."""
    (a, here), (b, there) = _place(args.a, args.ledger), _place(args.b, args.ledger)

    async def work(hansard: Hansard) -> int:
        if here == there:
            return _tell_comparison(hansard.runs.compare(a, b), args)
        async with opened(read_settings(there), writing=False) as other:
            return _tell_comparison(hansard.runs.compare(a, b, other.runs), args)

    return with_ledger(here, work)


def page(args: argparse.Namespace) -> int:
    if args.json:
        raise UsageError(
            "a page is no JSON; `hansard runs show RUN --json` prints the run, `hansard runs capsule RUN` in short"
        )

    async def work(hansard: Hansard) -> int:
        return _write(args, hansard.runs.page(args.run))

    return with_ledger(args.ledger, work)


def capsule(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        as_json(hansard.runs.capsule(args.run))
        return 0

    return with_ledger(args.ledger, work)


def _write(args: argparse.Namespace, text: str) -> int:
    if args.output is None:
        print(text, end="")
        return 0
    new_file(args.output, text)
    note(f"wrote {args.output}")
    return 0


def _swap(word: str) -> tuple[str, str]:
    role, _, provider = word.partition("=")
    if not role or not provider:
        raise UsageError(f"--swap {word!r}: write ROLE=PROVIDER, such as validator=strict")
    return role, provider


def _place(word: str, ledger: str | None) -> tuple[str, str | None]:
    run, _, place = word.partition("@")
    return run, place or ledger


def _tell_rerun(view: View) -> None:
    if view["identical"]:
        but = f" but who was swapped in ({', '.join(view['swapped'])})" if view["swapped"] else ""
        say(
            f"identical  all {view['decisions']} decisions of run {view['run']} came out the same; nobody was asked{but}"
        )
    else:
        say(f"DIVERGED   run {view['run']}, {view['decisions']} recorded decisions")
    if first := view["first_divergence"]:
        where = f" (entry {first['seq']})" if first["seq"] is not None else ""
        say(f"first      {first['decision']}{where}: recorded {first['recorded']}; now {first['now']}")
    if view["miss"]:
        say(f"no answer  {view['miss']}")
    if view["note"]:
        say(f"note       {view['note']}")


def _tell_comparison(view: View, args: argparse.Namespace) -> int:
    if args.json:
        as_json(view)
        return 0
    say(f"{'':<22}{'A':>16}{'B':>16}{'B - A':>14}")
    for name, a, b, more in shown(view):
        say(f"{name:<22}{a:>16}{b:>16}{more:>14}")
    for task, sides in view["tasks_that_differ"].items():
        say(f"task {task}: {sides['a'] or 'no verdict'} in A, {sides['b'] or 'no verdict'} in B")
    if not has_answers(view):
        say("neither has an answer in the ledger")
    else:
        say("the answers are the same" if view["same_answer"] else "the answers differ:")
    for line in view["answer_diff"]:
        say(f"  {line}")
    return 0
