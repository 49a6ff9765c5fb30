"""`hansard runs …`: what runs there are, how one stands, and what people may do to it."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from hansard.app.service import Hansard
from hansard.app.telling.checks import BY_RULE, said_of_answer
from hansard.app.telling.recorded import ENDED
from hansard.app.telling.runviews import of_which, said_of_context
from hansard.app.views import View, positions, sum_known
from hansard.errors import StoreError
from hansard.surfaces.cli.driving import (
    EXIT,
    SHORT,
    conclude,
    exit_code,
    note,
    see_run_through,
    typed,
    watched,
    with_ledger,
    words,
)
from hansard.surfaces.cli.progress import Lines
from hansard.surfaces.cli.show import GONE, as_json, as_json_line, say, tell
from hansard.surfaces.cli.streams import has_reader
from hansard.surfaces.hearing import Event, Watcher
from hansard.surfaces.narrate import against, dollars, duration, first_line, many, spent

MARKS = {"passed": "+", "rejected": "x", "skipped": "-", "waiting": "."}


def listed(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        views = hansard.runs.listed(limit=args.limit, state=args.state)
        if args.json:
            as_json(views)
            return 0
        money = [sum_known(view["spent"], "$") for view in views]
        widest = max(map(len, money), default=0)
        for view, costs in zip(views, money, strict=True):
            cost = view["spent"]
            calls = "call " if cost["calls"] == 1 else "calls"
            said = f"{cost['calls']:>5,} {calls}  {cost['tokens']:>9,} tokens  {costs:<{widest}}"
            row = f"{view['run'][:SHORT]}  {view['state']:<12}{_ago(view['last']):>9}  {said}"
            tell(f"{row}  {first_line(view['request'] or GONE, 60)}", SHORT + 2)
        if not views and args.state and hansard.runs.listed(limit=1):
            note(f"no run is {args.state}; {typed(args, 'runs list')} shows the others")
        elif not views:
            note(f"there are no runs yet; {typed(args, 'submit REQUEST')} starts one")
        return 0

    return with_ledger(args.ledger, work)


def show(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        view = hansard.runs.show(args.run)
        if args.json:
            as_json(view)
        else:
            _tell(view, args)
            _tell_gates(hansard, view, args)
        return 0

    return with_ledger(args.ledger, work)


def follow(args: argparse.Namespace) -> int:
    """Until the run ends. Whoever leaves earlier changes nothing for it, unless it went on here: gates are kept meanwhile."""
    began = False

    async def gated(hansard: Hansard) -> bool:
        return hansard.runs.has_gates(hansard.runs.find(args.run))

    async def work(hansard: Hansard) -> int:
        nonlocal began
        began, run = True, hansard.runs.find(args.run)
        lines = Lines(sys.stdout)
        keeping = asyncio.ensure_future(hansard.runs.keep(run)) if writing else None
        try:
            async for view in hansard.runs.follow(run):
                if args.json:
                    as_json_line(view)
                else:
                    lines.take(_event(hansard, view))
                if not has_reader():
                    break
        finally:
            if keeping:
                keeping.cancel()
                await asyncio.gather(keeping, return_exceptions=True)
        view = hansard.runs.show(run)
        return exit_code(view) if view["state"] in EXIT else 0

    writing = with_ledger(args.ledger, gated)
    try:
        return with_ledger(args.ledger, work, writing=writing)
    except StoreError as error:
        if began or not writing:
            raise
        writing = False
        note(f"deadlines of gates are not kept from here: {error}")
        return with_ledger(args.ledger, work)


def cancel(args: argparse.Namespace) -> int:
    async def work(hansard: Hansard) -> int:
        run = hansard.runs.find(args.run)
        await hansard.runs.cancel(run, surface="cli")
        view = hansard.runs.show(run)
        if args.json:
            as_json(view)
        elif view["state"] in ENDED:
            note(f"run {run[:SHORT]} is {view['state']}")
        else:
            note(f"run {run[:SHORT]} was asked to stop; the process that drives it has not done so yet")
        return 0

    return with_ledger(args.ledger, work, writing=True)


def resume(args: argparse.Namespace) -> int:
    return _driven(args, lambda hansard, run: hansard.runs.resume(run, surface="cli"))


def retry(args: argparse.Namespace) -> int:
    return _driven(args, lambda hansard, run: hansard.runs.retry(run, args.task, surface="cli"))


def _driven(args: argparse.Namespace, go: Callable[[Hansard, str], Awaitable[object]]) -> int:
    async def work(hansard: Hansard) -> int:
        run = hansard.runs.find(args.run)
        async with watched(hansard, args) as watching:
            _recall(hansard, run, watching)
            ended = await see_run_through(hansard, args, run, go(hansard, run))
        return conclude(hansard, run, args, ended)

    return with_ledger(args.ledger, work, writing=True)


def _recall(hansard: Hansard, run: str, watching: Watcher) -> None:
    """Tell a screen what was recorded before; lines begin with what is new."""
    if isinstance(watching, Lines):
        return
    for view in hansard.runs.views(run):
        watching.take(_event(hansard, view))


def _event(hansard: Hansard, view: View) -> Event:
    def text(part: str) -> str | None:
        return hansard.runs.text(view["seq"], part)

    return Event(view["run"], view["kind"], view["data"], text, view["ts"])


def _tell(view: View, args: argparse.Namespace) -> None:
    cost, limits = view["spent"], {name: value for name, value in view["budget"].items() if value is not None}
    took = f", {duration(cost['elapsed_us'] / 1e6)}" if cost["elapsed_us"] is not None else ""
    why = f": {words(view['reason'])}" if view["reason"] not in (None, view["state"]) else ""
    say(f"run      {view['run']}")
    say(f"state    {view['state']}{why}")
    if view.get("why"):
        say(f"why      {view['why']}")
    if unusable := view["unusable"]:
        found = (
            f"{words(unusable['error'])} (entry {unusable['seq']}): {first_line(unusable['said'] or '(nothing)', 200)}"
        )
        say(f"why      the {unusable['role']} gave no usable answer: {found}")
    if left := view["interrupted"]:
        tell(f"why      {first_line(left['why'], 300)} (entry {left['seq']})", 9)
    tell(f"request  {first_line(view['request'] or GONE, 200)}", 9)
    say(f"started  {view['started']}, last entry {_ago(view['last'])} ago")
    say(f"spent    {spent(cost['calls'], cost['tokens'], cost['cost_usd_nano'], view['unpriced'])}{took}")
    if limits:
        say(f"limits   {', '.join(_limit(name, value) for name, value in limits.items())}")
    if route := view["route"]:
        lane = route["lane"] or "no lane is certain"
        say(f"route    {lane}, {route['confidence_ppm'] / 10_000:.0f} % (tier {route['tier']}, entry {route['seq']})")
    for context in view["contexts"]:
        if context["failed"]:
            tell(f"context  {first_line(said_of_context(context), 300)}", 9)
    if plan := view["plan"]:
        size = f"{many(plan['tasks'], 'task')} in {many(plan['waves'], 'wave')}"
        say(f"plan     {size}, by the {plan['by']} (entry {plan['seq']})")
    for task in view["tasks"]:
        _tell_task(task, cut_short=view["state"] in ("interrupted", *ENDED))
    if plan and (unnamed := plan["tasks"] - len(view["tasks"])) > 0:
        say(f"  - {many(unnamed, 'task')} that nobody began: {GONE}")
    if folder := view.get("run_dir"):
        say(f"folder   {folder}")
    if view["answer_seq"] is not None:
        missing = f", without {', '.join(view['missing'])}" if view["missing"] else ""
        say(f"answer   entry {view['answer_seq']}{missing}")
        answer = view["answer"] or GONE
        for line in answer.rstrip("\n").replace("\t", "    ").split("\n"):
            say(f"         {line}")
    for check in view["checks"]:
        tell(f"checked  {_check(check, view['answer_seq'])}", 9)


def _check(check: View, answer_seq: int) -> str:
    """What a check came to, and why. What passed by rule has measures and nothing to say."""
    said = f"{words(check['check'])}: {check['outcome']} (entry {check['seq']}{of_which(check, answer_seq)})"
    if check["check"] in BY_RULE and check["outcome"] == "passed":
        return said
    why = first_line(said_of_answer(check["check"], check["detail"]) or "", 100)
    return f"{said}: {why}" if why else said


def _tell_gates(hansard: Hansard, view: View, args: argparse.Namespace) -> None:
    """Where the run stands still: a gate that has got the words it needs waits for a driver, and for no decision."""
    waiting = {each["gate"] for each in hansard.gates.listed(run=view["run"])} if view["open_gates"] else set()
    for gate in view["open_gates"]:
        if gate in waiting:
            say(f"gate     {gate} waits for a decision: {typed(args, 'gates show', task=gate)}")
        else:
            goes_on = f"where nobody drives the run, {typed(args, 'runs resume', view['run'])} goes on"
            say(f"gate     {gate} is decided; {goes_on}")


def _tell_task(task: View, *, cut_short: bool) -> None:
    needs = f", after {', '.join(task['needs'])}" if task["needs"] else ""
    because = f" ({task['because']})" if task["because"] else ""
    state = "cut short" if cut_short and task["state"] == "running" else task["state"]
    say(f"  {MARKS.get(task['state'], '>')} {task['task']}  {task['lane'] or ''}{needs}: {state}{because}")
    for attempt in task["attempts"]:
        tell(f"      {_attempt(attempt, awaited=not cut_short and attempt is task['attempts'][-1])}", 8)
        for panel in (attempt.get("panel"), (attempt["verdict"] or {}).get("panel")):
            _tell_panel(panel)


def _tell_panel(panel: View | None) -> None:
    if panel is None:
        return
    say(f"        panel {panel['session']}: {panel['outcome'] or 'sits'} after {many(panel['rounds'] or 0, 'round')}")
    for each in panel["unresolved"]:
        tell(f"        dissent on {first_line(each['topic'], 60)} ({first_line(positions(each), 100)})", 10)


def _attempt(attempt: View, *, awaited: bool) -> str:
    said = f"attempt {attempt['attempt']}, {attempt['rung']} ({attempt['provider']} {attempt['model']}), entry {attempt['seq']}"
    verdict, returned = attempt["verdict"], attempt["returned"]
    if verdict is None:
        silent = "no answer yet" if awaited else "no answer came"
        return f"{said}: {returned['error'] or 'not judged' if returned else silent}"
    score = f", score {verdict['score_ppm'] / 1e6:.2f}" if verdict["score_ppm"] is not None else ""
    why = "" if verdict["ok"] else f": {against(verdict)}"
    return f"{said}: {'passed' if verdict['ok'] else 'rejected'} by {verdict['by']}{score}{why}"


def _limit(name: str, value: Any) -> str:
    if name == "max_cost_usd_nano":
        return dollars(value)
    return many(value, name.removeprefix("max_").removesuffix("s"))


def _ago(moment: str) -> str:
    """How long ago a time of the record was."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except ValueError:
        return "?"
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
