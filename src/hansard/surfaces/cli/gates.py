"""`hansard gates …`: what waits for people, and what they decide."""

import argparse

from hansard.app.driving.gates import Decision, approvals
from hansard.app.people import human
from hansard.app.service import Hansard
from hansard.app.views import View
from hansard.errors import Fenced
from hansard.surfaces.cli.driving import SHORT, conclude, note, see_run_through, typed, watched, with_ledger
from hansard.surfaces.cli.show import as_json, say
from hansard.surfaces.cli.streams import text_of

EXIT_VOID = 2
"""Of a word that does not count: the same as of one that is refused."""


def listed(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        run = hansard.runs.find(args.run) if args.run else None
        views = hansard.gates.listed(run=run, closed=args.all)
        if args.json:
            as_json(views)
            return 0
        for view in views:
            say(_line(view))
        if not views:
            gates = "no gate" if run is None else f"no gate of run {run[:SHORT]}"
            note(f"there is {gates}" if args.all else f"{gates} waits for anybody")
        return 0

    return with_ledger(args.ledger, work)


def show(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        view = hansard.gates.show(args.gate)
        if args.json:
            as_json(view)
            return 0
        say(_line(view))
        for decision in view["decisions"]:
            said = "" if decision["authenticated"] else " (nobody checked who this is)"
            void = "" if decision["counts"] else " (does not count)"
            say(f"  {decision['by']}: {decision['decision']}, {decision['time']}{said}{void}")
        _quote(view["question"])
        for each in view["built_on"]:
            say(f"  built on the result of {each['task']} (entry {each['seq']}):")
            _quote(each["text"])
            if each["left_out"]:
                whole = typed(args, f"ledger get {each['seq']} --part output")
                say(f"  {each['left_out']:,} more characters: {whole}")
        return 0

    return with_ledger(args.ledger, work)


def _quote(text: str | None) -> None:
    for line in ("(not in the ledger any more)" if text is None else text).splitlines():
        say(f"  | {line}")


def approve(args: argparse.Namespace) -> int:
    return _decide(args, "approve", None)


def reject(args: argparse.Namespace) -> int:
    return _decide(args, "reject", None)


def edit(args: argparse.Namespace) -> int:
    return _decide(args, "edit", text_of(args.text))


def _decide(args: argparse.Namespace, decision: Decision, text: str | None) -> int:
    async def work(hansard: Hansard) -> int:
        by = args.by or human()
        view = await hansard.gates.decide(args.gate, decision, actor=by, note=args.note, edit=text)
        run, waits = view["run"], view["state"] == "open"
        counts = any(each["counts"] and each["by"] == by for each in view["decisions"])
        said = f"gate {args.gate}: {decision} is on the record; it {_stands(view, by, counts=counts)}"
        goes_on = f"whoever drives the run goes on; where nobody does, {typed(args, 'runs resume', run)} does"
        if args.resume:
            try:
                async with watched(hansard, args):
                    ended = await see_run_through(hansard, args, run, hansard.runs.drive(run))
                if waits and not args.json:
                    note(said)
                return conclude(hansard, run, args, ended)
            except Fenced:
                goes_on = f"another process drives the run, and goes on; {typed(args, 'runs follow', run)} shows how"
        if args.json:
            as_json(view)
        elif waits:
            note(said)
        elif not args.quiet:
            note(said)
            note(goes_on)
        # Of two who approve at one moment, the one behind has got what he wanted.
        return EXIT_VOID if waits and not counts else 0

    return with_ledger(args.ledger, work, writing=True)


def _stands(view: View, by: str, *, counts: bool) -> str:
    """What has become of a gate with the word of this one."""
    if view["state"] != "open":
        return f"is {view['state']}"
    waits = f"still waits for others ({view['needed']} needed)"
    return waits if counts else f"{waits}: {by} is none of those who may decide there, and this does not count"


def _line(view: View) -> str:
    where = f"task {view['task']}" if view["task"] else "the plan"
    until = (
        f", until {view['deadline']} (then {view['on_expiry']})" if view["deadline"] and view["state"] == "open" else ""
    )
    expired = " by expiry" if view["expired"] else ""
    count = f"{approvals(view)} of {view['needed']} approved"
    return f"{view['gate']}  {view['state']}{expired}  run {view['run'][:SHORT]}  before {where}  {count}{until}"
