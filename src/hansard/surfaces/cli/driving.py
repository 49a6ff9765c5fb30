"""What submit, resume, retry and plan share: a run driven here and watched, its answer on standard output, the rest on standard error.

Ctrl-C and SIGTERM interrupt the run in good order: the record says so, and it can go on from there.
"""

import argparse
import asyncio
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from hansard.app.opened import Opened
from hansard.app.service import Hansard
from hansard.app.settings import Settings, read_settings
from hansard.app.telling.recorded import ENDED, STATES
from hansard.app.views import View
from hansard.app.wiring import ledger_exists, open_ledger, place_of
from hansard.surfaces.cli.progress import ticking, watcher
from hansard.surfaces.cli.show import as_json, put, tell_broken
from hansard.surfaces.hearing import Nobody, Watcher, listener
from hansard.surfaces.leaving import when_told_to_end
from hansard.surfaces.narrate import against, duration, spent
from hansard.surfaces.plain import plain

T = TypeVar("T")
EXIT = {"answered": 0, "partial": 10, "failed": 11, "stopped": 12, "cancelled": 13, "waiting": 14, "interrupted": 130}
ASKS = frozenset({"user_input_required", "external_research_required"})
"""Why a deliberation ended that asks for something: it waits for people, as a run at a gate does."""
SHORT = 13
"""A run's id up to here is its time in milliseconds."""
VALIDATOR = '"check":"validator"'
WITHOUT = {
    "classifier_silent": "`--lane NAME`, and nobody need choose one",
    "coordinator_silent": "`--single` for one task, or a plan of yours, and nobody need make one",
    "validator_silent": "`--judge checks`, and no model need judge it",
}


@asynccontextmanager
async def opened(settings: Settings, *, writing: bool) -> AsyncIterator[Hansard]:
    """A ledger that is there already, with its runs."""
    found: Opened = open_ledger(settings, writing=writing)
    tell_broken(found.store.broken)
    async with Hansard(found, settings) as hansard:
        yield hansard


def with_ledger(ledger: str | None, work: Callable[[Hansard], Awaitable[T]], *, writing: bool = False) -> T:
    """Do this with such a ledger."""

    async def body() -> T:
        async with opened(read_settings(ledger), writing=writing) as hansard:
            return await work(hansard)

    return asyncio.run(body())


async def refuse_early(settings: Settings, hand_in: Callable[[Hansard], Awaitable[object]]) -> None:
    """Where there is no ledger yet, hand in to one in memory first: what is refused must not leave a new ledger and its keys."""
    if not ledger_exists(settings.ledger):
        async with Hansard.open(settings=replace(settings, ledger="memory:")) as trial:
            await hand_in(trial)


@asynccontextmanager
async def watched(hansard: Hansard, args: argparse.Namespace) -> AsyncIterator[Watcher]:
    """Show what is recorded meanwhile."""
    watching = watcher(args)
    if type(watching) is Nobody:
        yield watching
        return
    stop = hansard.runs.listen(listener(watching))
    try:
        async with ticking(watching):
            yield watching
    finally:
        stop()


async def see_through(hansard: Hansard, work: Awaitable[T]) -> T | None:
    """Wait for the work and give what it gives; None when a signal interrupted it, and that is on the record."""
    task = asyncio.ensure_future(work)
    undo = when_told_to_end(task.cancel, hansard.store.place)
    try:
        await asyncio.wait([task])
        return None if task.cancelled() else task.result()
    finally:
        undo()


async def handed_in(hansard: Hansard, hand_in: Awaitable[T]) -> tuple[T, bool]:
    """Hand a run in; gives what that gives, and whether a signal came meanwhile. It waits until the run stands on the record:
    whoever only heard that he was interrupted would not know that there is one, and that a worker will take it."""
    told = list[bool]()
    undo = when_told_to_end(lambda: told.append(True), hansard.store.place)
    try:
        given = await hand_in
    finally:
        undo()
    # What was heard is told by the loop.
    await asyncio.sleep(0)
    return given, bool(told)


async def see_run_through(hansard: Hansard, args: argparse.Namespace, run: str, work: Awaitable[T]) -> T | None:
    """The same for the work on a run, which goes on later where the ledger refuses for now."""
    args.goes_on = typed(args, "runs resume", run)
    return await see_through(hansard, work)


def conclude(hansard: Hansard, run: str, args: argparse.Namespace, ended: Any = None) -> int:
    """Print how a run stands; gives the exit code. `ended` is what its drive gave."""
    view, args.shown_by = hansard.runs.show(run), typed(args, "runs show", run)
    if view["state"] in ENDED:
        # What fails from here on is the last signature: there is nothing left to go on with.
        args.goes_on = None
    if args.json:
        as_json(view)
    else:
        answer = hansard.runs.answer(run) if view["state"] in ("answered", "partial") else None
        if answer is not None:
            put(answer if answer.endswith(b"\n") else answer + b"\n")
        if view["mode"] == "deliberation" and (fault := hansard.deliberations.show(run)["fault"]):
            note(fault)
        _remark(view, args, getattr(ended, "detail", "") or words(view["reason"]))
    return exit_code(view)


def exit_code(view: View) -> int:
    """How a run stands, as an exit code: a deliberation ends with the code that `deliberate` has for it ([D41]).

    One that a signal stopped before anybody had taken it is interrupted too, although nothing says so but that it has not ended.
    """
    if view["reason"] in ASKS:
        return EXIT["waiting"]
    return EXIT.get(view["state"], EXIT["interrupted"] if view["state"] in STATES else EXIT["failed"])


def words(reason: str | None) -> str:
    """A reason of the record, which is a closed word, as people write it."""
    return (reason or "").replace("_", " ")


def _remark(view: View, args: argparse.Namespace, why: str) -> None:
    """What else there is to say, where somebody reads it or something went wrong."""
    run, state = view["run"], view["state"]
    match state:
        case "answered":
            if not args.quiet and (sys.stderr.isatty() or args.progress == "plain"):
                cost = view["spent"]
                said = spent(cost["calls"], cost["tokens"], cost["cost_usd_nano"], view["unpriced"])
                took = duration((cost["elapsed_us"] or 0) / 1e6)
                note(f"{said}, {took}; {typed(args, 'runs show', run)} tells how it came about")
        case "interrupted" | "running" | "planned" | "requested":
            note(f"interrupted; {typed(args, 'runs resume', run)} goes on from where it stopped")
        case "waiting":
            note(f"waiting at a gate; {typed(args, 'gates list')} shows what is to be decided")
        case _:
            note(f"{state}{f': {why}' if why not in ('', state) else ''}; {typed(args, 'runs show', run)} tells more")
            for more in (_why_lost(view), _what_now(view, args)):
                if more:
                    note(more)


def _what_now(view: View, args: argparse.Namespace) -> str | None:
    """What can be done about a run that has come to no whole answer."""
    run, short = view["run"], view["run"][:SHORT]
    lost = [task["task"] for task in view["tasks"] if task["state"] in ("rejected", "skipped")]
    if view["reason"] in ASKS:
        goes_on = f'deliberate --continue {short} --answer "…"'
        return f"{typed(args, goes_on)} goes on from here"
    if view["state"] == "stopped" and view["mode"] != "deliberation":
        return f"its limits stay as they are; submit it again with higher ones, and `--context-run {short}` to build on this"
    if way := _way_round(view):
        return f"submit it with {way}"
    if lost and view["state"] != "cancelled":
        return f"{typed(args, 'runs retry', run, lost[0])} does a task again, and what is built on it"
    return None


def _why_lost(view: View) -> str | None:
    """What was said against the first task that did not pass."""
    for task in view["tasks"]:
        if task["state"] == "rejected" and (verdict := task["attempts"][-1]["verdict"]):
            return f"{task['task']}: {against(verdict)}"
    return None


def _way_round(view: View) -> str | None:
    """What does without a role that gave no usable answer: a program that can only work cannot plan or judge."""
    verdicts = [attempt["verdict"] for task in view["tasks"] for attempt in task["attempts"][-1:]]
    unjudged = any(each and each["by"] == "engine" and VALIDATOR in (each["reasons"] or "") for each in verdicts)
    # Whoever cannot be reached does not do the work either.
    if (view["unusable"] or {}).get("error") not in (None, "malformed_response"):
        return None
    return WITHOUT.get("validator_silent" if unjudged else view["reason"])


def typed(args: argparse.Namespace, words: str, run: str | None = None, task: str | None = None) -> str:
    """What to type, for the ledger that this command was given."""
    more = [run[:SHORT]] if run else []
    more += [shlex.quote(task)] if task else []
    more += ["--ledger", shlex.quote(place_of(args.ledger))] if args.ledger else []
    return f"`{' '.join(['hansard', words, *more])}`"


def note(text: str) -> None:
    print(f"hansard: {plain(text)}", file=sys.stderr)
