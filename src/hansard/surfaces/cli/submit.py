"""`hansard submit` and `hansard plan`: hand in a request, see it through, print the answer or the plan."""

import argparse
import asyncio
import json
import os
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hansard.app.driving.runs import mode_of, read_plan
from hansard.app.service import Hansard
from hansard.app.serving.worker import is_alive
from hansard.app.settings import Settings, read_roster, read_settings
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.app.wiring import ledger_exists
from hansard.errors import Fenced, UsageError
from hansard.surfaces.cli.driving import (
    EXIT,
    conclude,
    handed_in,
    note,
    opened,
    refuse_early,
    see_run_through,
    typed,
    watched,
)
from hansard.surfaces.cli.output import new_file, refuse_dash
from hansard.surfaces.cli.show import as_json, say
from hansard.surfaces.cli.streams import text_of


def submit(args: argparse.Namespace) -> int:
    request, plan = text_of(args.request), read_plan(Path(args.plan)) if args.plan is not None else None
    return asyncio.run(_submit(args, request, plan))


def plan(args: argparse.Namespace) -> int:
    request = text_of(args.request)
    if args.output is not None:
        # Before anybody is asked: what cannot be written would be paid for in vain.
        _refuse_place(Path(args.output))
    return asyncio.run(_plan(args, request))


def wishes(args: argparse.Namespace) -> Wishes:
    """What the flags say."""
    asking = ("provider", "cmd", "chat_url", "model", "api", "max_calls", "max_tokens", "max_usd", "max_seconds")
    shape = ("judge", "answer", "max_parallel", "judge_intent", "revise", "verifier", "profile")
    given = {name: getattr(args, name) for name in asking + shape}
    roster = read_roster(Path(args.roster)) if args.roster is not None else None
    return Wishes(**given, typed=True, roster=roster, gates=tuple(args.gate), context=tuple(args.context_run))


async def _submit(args: argparse.Namespace, request: str, plan: Any) -> int:
    settings, wished = read_settings(args.ledger), wishes(args)

    async def hand_in(hansard: Hansard) -> str:
        mode = "single" if args.single else "request"
        config = run_config(settings, hansard.pool, wished, mode=mode_of(mode, plan, args.lane))
        return await hansard.runs.submit(request, config, mode=mode, plan=plan, lane=args.lane, surface="cli")

    if args.detach:
        return await _detached(args, settings, hand_in)
    await refuse_early(settings, hand_in)
    async with Hansard.open(settings=settings) as hansard:
        async with watched(hansard, args):
            run, told = await handed_in(hansard, hand_in(hansard))
            try:
                ended = None if told else await see_run_through(hansard, args, run, hansard.runs.drive(run))
            except Fenced:
                note(f"a worker has taken the run; {typed(args, 'runs follow', run)} shows it")
                return EXIT["interrupted"]
        return conclude(hansard, run, args, ended)


async def _detached(args: argparse.Namespace, settings: Settings, hand_in: Callable[[Hansard], Awaitable[str]]) -> int:
    """Put it on the record, for a worker."""
    nobody = f"no worker is alive on this ledger, so nobody would do it; {typed(args, 'worker')} starts one"
    if not ledger_exists(settings.ledger):
        raise UsageError(nobody)
    async with opened(settings, writing=True) as hansard:
        if not is_alive(hansard.store):
            raise UsageError(nobody)
        # What is on the record a worker does: whoever hears a signal then is told of the run all the same.
        run, _ = await handed_in(hansard, hand_in(hansard))
        if args.json:
            as_json(hansard.runs.show(run))
        else:
            say(run)
    return 0


async def _plan(args: argparse.Namespace, request: str) -> int:
    settings, wished = read_settings(args.ledger), wishes(args)

    async def hand_in(hansard: Hansard) -> str:
        config = run_config(settings, hansard.pool, wished, mode="plan_only")
        return await hansard.runs.submit(request, config, mode="plan_only", surface="cli")

    await refuse_early(settings, hand_in)
    async with Hansard.open(settings=settings) as hansard:
        async with watched(hansard, args):
            run, told = await handed_in(hansard, hand_in(hansard))
            ended = None if told else await see_run_through(hansard, args, run, hansard.runs.drive(run))
        made = hansard.runs.plan(run)
        if made is None:
            return conclude(hansard, run, args, ended)
        args.shown_by = typed(args, f"ledger get {hansard.runs.show(run)['plan']['seq']} --part plan")
    if args.output:
        new_file(args.output, json.dumps(made, indent=2, ensure_ascii=False) + "\n")
        if not args.quiet:
            note(f"wrote {args.output}; {typed(args, f'submit REQUEST --plan {shlex.quote(args.output)}')} runs it")
    if args.json or not args.output:
        as_json(made)
    return 0


def _refuse_place(path: Path) -> None:
    refuse_dash(str(path))
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already; choose another name")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {path}: {path.parent} is no folder that can be written to; choose another")
