"""`hansard deliberate`: put a problem to a panel, watch the debate, see how it ended.

Ctrl-C and SIGTERM end the session in good order, with user_cancel; a second one leaves it to be resumed.
"""

import argparse
import asyncio
import os
import shlex
import signal
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from hansard.app.archived.documents import read_document
from hansard.app.driving.chaining import Continuation, continuation, expansion, go_on
from hansard.app.driving.deliberations import Sat
from hansard.app.service import Hansard
from hansard.app.settings import read_settings, read_text
from hansard.app.setup.convening import DEFAULT_EXPANSIONS, Call, Convening, convening
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.deliberationviews import ENDS, asked_for, deliberation_view
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.cli.arguments import listed
from hansard.surfaces.cli.debate import debate
from hansard.surfaces.cli.driving import ASKS, EXIT, handed_in, note, opened, refuse_early, typed
from hansard.surfaces.cli.show import GONE, as_json, say, tell
from hansard.surfaces.cli.streams import read_input
from hansard.surfaces.narrate import many, spent

RUNS = "runs"
SETTLED = ("config", "panel", "ensemble", "message-shape", "producer")
"""Flags about what the session before has settled for whoever goes on from it."""


def deliberate(args: argparse.Namespace) -> int:
    if args.continues:
        return asyncio.run(_continue(args))
    if args.answer is not None:
        raise UsageError("--answer belongs to --continue RUN: it answers what that session asked for")
    return asyncio.run(_deliberate(args, call_of(args, read_problem(args.problem), Path(args.output or RUNS))))


async def _deliberate(args: argparse.Namespace, call: Call) -> int:
    settings = read_settings(args.ledger)

    async def hand_in(hansard: Hansard) -> tuple[Convening, str]:
        made = convening(settings, hansard.pool, call)
        return made, await hansard.deliberations.convene(made, surface="cli")

    await refuse_early(settings, hand_in)
    async with Hansard.open(settings=settings) as hansard:
        (made, run), told = await handed_in(hansard, hand_in(hansard))
        forewarn(made)
        return await _held(hansard, args, run, told=told)


async def _continue(args: argparse.Namespace) -> int:
    answer = read_problem(args.answer) if args.answer is not None else None
    if args.problem or (answer is None and not args.expert):
        raise UsageError(
            "--continue takes its problem from the session before; add --answer TEXT|FILE, or --expert NEED"
        )
    for flag in SETTLED:
        if getattr(args, flag.replace("-", "_")) not in (None, False):
            raise UsageError(f"--continue goes on with the panel of the session before and does not take --{flag}")
    call = call_of(args, None, Path(args.output) if args.output else None)
    async with opened(read_settings(args.ledger), writing=True) as hansard:
        found = continuation(
            hansard.store,
            hansard.pool,
            hansard.runs.find(args.continues),
            answer,
            call=call,
            experts=args.expert,
            max_expansions=args.max_expansions,
        )
        run, told = await handed_in(hansard, go_on(hansard.deliberations, found, surface="cli"))
        forewarn(found.made)
        return await _held(hansard, args, run, told=told)


async def _held(hansard: Hansard, args: argparse.Namespace, run: str, *, told: bool) -> int:
    """Hold a session, with what goes on from it by itself where that is wanted. `told`: to end it, before it began."""
    stop = hansard.deliberations.listen(debate(args))
    sat = await see_out(hansard, args, run, hansard.deliberations.hold(run), told=told)
    while args.adaptive and (found := _expansion(hansard, run)) is not None:
        _warn(_view(hansard, run, sat), args)
        run, told = await handed_in(hansard, go_on(hansard.deliberations, found, surface="cli"))
        forewarn(found.made)
        sat = await see_out(hansard, args, run, hansard.deliberations.hold(run), told=told)
    stop()
    return conclude(hansard, run, args, sat)


def forewarn(made: Convening) -> None:
    """Say before a session what is not as it was asked for."""
    for warning in made.warnings:
        note(warning)


def _expansion(hansard: Hansard, run: str) -> Continuation | None:
    try:
        return expansion(hansard.store, hansard.pool, run, call=Call(wishes=Wishes(typed=True)))
    except UsageError as error:
        note(f"nothing goes on by itself: {error}")
        return None


def read_problem(word: str | None) -> str | None:
    """The problem: a file (also a pipe that the shell made, and `@FILE` as `submit` has it), `-` for standard input, or the
    text itself. Whatever bears its name is read, so that nobody deliberates on the name of a folder."""
    if word is None:
        return None
    path, one_word = Path(word), not word.split(None, 1)[1:]
    if word == "-":
        text = read_input()
    elif _is_there(word):
        text = read_text(path)
    elif word.startswith("@") and one_word:
        text = read_text(Path(word[1:]))
    elif path.suffix in {".md", ".txt"} and one_word:
        raise UsageError(f"there is no file {word}; write the problem itself in quotes, or the name of a file")
    else:
        text = word
    if not text.strip():
        raise UsageError("the problem is empty; say what is to be deliberated")
    return text.strip()


def _is_there(name: str) -> bool:
    """Whether something bears this name, or may. A text that is no name at all, or longer than one can be, is a text."""
    try:
        os.stat(name)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
    return True


def call_of(args: argparse.Namespace, problem: str | None, runs: Path | None, config: Any = None) -> Call:
    """What the flags of `deliberate` and `session execution-replay` say."""
    panel = getattr(args, "panel", None)
    return Call(
        problem=problem,
        config=read_document(args.config) if getattr(args, "config", None) else config,
        panel=list(listed(panel)) if panel else None,
        max_rounds=getattr(args, "max_rounds", None),
        runs=runs,
        script=read_document(args.script) if args.script else None,
        selector_script=read_document(args.selector_script) if args.selector_script else None,
        shape=args.message_shape or "golden",
        producer=tuple(args.producer) if args.producer else None,
        experts=getattr(args, "expert", ()),
        ensemble=getattr(args, "ensemble", False),
        max_expansions=DEFAULT_EXPANSIONS if (most := getattr(args, "max_expansions", None)) is None else most,
        wishes=Wishes(
            provider=args.provider, cmd=args.cmd, chat_url=args.chat_url, model=args.model, api=args.api, typed=True
        ),
    )


async def see_out(
    hansard: Hansard, args: argparse.Namespace, run: str, work: Awaitable[Sat], *, told: bool = False
) -> Sat | None:
    """Wait for a session and give it; the first signal ends it with user_cancel, the second one interrupts it: None.

    `told`: the first one came while the session was put on the record.
    """
    args.goes_on = typed(args, "runs resume", run)
    task = asyncio.ensure_future(work)
    loop, asked = asyncio.get_running_loop(), list[asyncio.Future[None]]()

    def interrupt() -> None:
        if asked:
            task.cancel()
            return
        note("ending the session; once more to leave it as it is")
        asked.append(asyncio.ensure_future(hansard.deliberations.cancel(run, surface="cli")))

    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, interrupt)
    if told:
        interrupt()
    try:
        await asyncio.wait([task])
        await asyncio.gather(*asked, return_exceptions=True)
        return None if task.cancelled() else task.result()
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(each)


def conclude(hansard: Hansard, run: str, args: argparse.Namespace, sat: Sat | None) -> int:
    """Print how a deliberation stands; gives the exit code. `sat` is the session, where it was held to its end."""
    view, args.shown_by = _view(hansard, run, sat), typed(args, "runs show", run)
    _warn(view, args)
    # Its session may be over, and the run not yet.
    is_left = view["outcome"] is None or view["state"] == "interrupted"
    if args.json:
        as_json(view)
    elif is_left:
        note(f"interrupted; {typed(args, 'runs resume', run)} goes on from where it stopped")
    else:
        _tell(view, args)
    reason = reason_of(view)
    return EXIT["interrupted" if is_left else "waiting" if reason in ASKS else ENDS[reason]]


def reason_of(view: View) -> str:
    return str(view.get("termination_reason") or view["outcome"])


def _view(hansard: Hansard, run: str, sat: Sat | None) -> View:
    """A deliberation, with the reason why its directory is not complete where it was held here."""
    view = deliberation_view(hansard.store, run)
    fault = sat.sitting.fault if sat else None
    return view | ({"fault": fault} if fault else {})


def _warn(view: View, args: argparse.Namespace) -> None:
    """What is not as it was asked for, and changes no outcome."""
    for need in view["refused_experts"]:
        follow = typed(args, "runs follow", view["run"])
        note(f"no expert was made for {need!r}, and the panel sat without one; {follow} shows what was said")
    if view["fault"]:
        note(f"{view['run_dir']} is not complete: {view['fault']}; {_completing(view, args)} completes it")


def _completing(view: View, args: argparse.Namespace) -> str:
    return typed(args, f"session resume {shlex.quote(view['run_dir'])}")


def _tell(view: View, args: argparse.Namespace) -> None:
    cost, reason = view["spent"], reason_of(view)
    answer = view.get("synthesis_answer", "")
    if answer := GONE if answer is None else answer:
        for line in answer.rstrip("\n").split("\n"):
            say(line.replace("\t", "    "))
        say()
    say(f"outcome  {reason}, after {many(view['rounds'], 'round')} and {many(view['messages'], 'message')}")
    if view["why"]:
        tell(f"why      {view['why']}", 9)
    tell(f"panel    {', '.join(view['selected_agents']) or 'nobody'}; coordinator {view['coordinator']}", 9)
    say(f"spent    {spent(cost['calls'], cost['tokens'], cost['cost_usd_nano'], view['unpriced'])}")
    for each in view["unresolved"][:5]:
        tell(f"open     {each['topic']}", 9)
    if pending := view.get("pending"):
        first, *more = asked_for(pending)
        tell(f"asks     {first}", 9)
        for line in more:
            tell(f"         {line}", 9)
        goes_on = f'deliberate --continue {view["run"]} --answer "…"'
        say(f"         {typed(args, goes_on)} goes on from here")
    if failure := view.get("last_provider_failure"):
        tell(
            f"failed   {failure['agent_id']} ({failure['provider']}): {failure['kind']}: {failure['message'][:300]}", 9
        )
    say(f"digest   {view['transcript_digest']}")
    say(f"folder   {view['run_dir'] or 'none'}")
    if view["fault"]:
        say(f"fault    the folder is not complete: {view['fault']}")
        say(f"         {_completing(view, args)} completes it")
    say(f"run      {view['run']}")
