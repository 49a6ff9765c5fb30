"""Tools that run something: submit, plan, resume; and look after runs: list, show, follow, cancel, decide at a gate."""

import asyncio
import time
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import Annotated, Literal

from pydantic import Field

from hansard.app.driving.runs import mode_of
from hansard.app.setup.configuring import run_config
from hansard.app.telling.listing import runs_page
from hansard.app.telling.recorded import ENDED
from hansard.app.views import View
from hansard.errors import StoreError, UsageError
from hansard.surfaces.mcp.asking import ask_now, can_be_asked, decide, input_required, questions, taken_up
from hansard.surfaces.mcp.progress import telling
from hansard.surfaces.mcp.tasks import as_task
from hansard.surfaces.mcp.tool import Arguments, Call, Given, Run, Text, Tool, tool
from hansard.surfaces.mcp.views import EventsView, FullGateView, FullRunView, PlanView, RunsView
from hansard.surfaces.shapes import WHOLE, Limited, Name, Seq, Shaped, State

FOLLOW_LOOK_S = 0.2
MAX_FOLLOWED = 200
MODERN = "2026-07-28"


class Budgeted(Arguments, Limited):
    """Who is asked, and what it may spend; null leaves it to the settings."""

    provider: Name | None = Field(None, description="A provider that is configured here: NAME or NAME:MODEL.")


class Submitting(Budgeted, Shaped):
    request: Text
    wait: bool = Field(True, description="False: give the run back at once; run_follow and run_show tell how it goes.")


class Planning(Budgeted):
    request: Text


class Listing(Arguments):
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 20
    state: State | None = Field(None, description="Only runs in this state.")
    before: Seq | None = Field(None, description="Where the page begins: `before` of the page that came first.")


class OfRun(Arguments):
    run: Run


class Following(OfRun):
    after: Annotated[int, Field(ge=-1), WHOLE] = Field(
        -1, description="`after` of the answer before; -1: from the beginning."
    )
    wait_seconds: Annotated[float, Field(ge=0, le=60)] = Field(10.0, description="Wait so long for something new.")


class Deciding(Arguments):
    gate: Name
    decision: Literal["approve", "reject", "edit"]
    note: Annotated[str, Field(max_length=10_000)] | None = None
    edit: Annotated[str, Field(max_length=1_000_000)] | None = Field(None, description="The new text, for an edit.")
    shown: Annotated[list[Name], Field(max_length=1000)] | None = Field(
        None, description="`shown` of the gate as you saw it; refused when it shows something else by now."
    )


@tool("Submit a request", "runs", FullRunView)
async def submit(call: Call, asked: Submitting) -> Given:
    """Hand in a request: it is routed, planned, worked on by a team, judged and answered, all of it on the record.

    Waits for the answer and reports progress; cancelling the call cancels the run. Where a person has to decide at a
    gate first, the run's state is `waiting`.
    """
    if call.state is not None:
        return await answered(call)
    wishes = call.desk.wished(asked.provider, **asked.wished())
    hansard = call.desk.hansard
    mode = "single" if asked.single else "request"
    comes_by = mode_of(mode, asked.plan, asked.lane)
    config = await asyncio.to_thread(run_config, hansard.settings, hansard.pool, wishes, mode=comes_by)
    making = hansard.runs.submit(
        asked.request,
        config,
        mode=mode,
        plan=asked.plan,
        commands=call.desk.commands,
        lane=asked.lane,
        surface="mcp",
        actor=call.actor,
    )
    run = await call.desk.made(making, call.actor)
    if not asked.wait:
        call.desk.drive(run)
        return await call.desk.shown(run)
    return as_task(call, run) or await seen_through(call, run)


@tool("Plan a request", "runs", PlanView)
async def plan(call: Call, asked: Planning) -> View:
    """Let a coordinator plan a request, and give the plan: look at it, change it, and hand it to `submit`."""
    hansard = call.desk.hansard
    wishes = call.desk.wished(asked.provider, **asked.wished())
    config = await asyncio.to_thread(run_config, hansard.settings, hansard.pool, wishes, mode="plan_only")
    making = hansard.runs.submit(asked.request, config, mode="plan_only", surface="mcp", actor=call.actor)
    run = await call.desk.made(making, call.actor)
    with owned(call, run):
        await settled(call, run)
    view = await call.desk.shown(run)
    told = {name: view[name] for name in ("run", "state", "reason", "unusable")}
    return told | {"plan": await asyncio.to_thread(hansard.runs.plan, run)}


@tool("List runs", "reads", RunsView)
async def runs_list(call: Call, asked: Listing) -> View:
    """List runs, the newest first. `before` says where the next page begins, and is null on the last one."""
    hansard = call.desk.hansard
    views, before = await hansard.heavily(
        runs_page, hansard.store, before=asked.before, limit=asked.limit, state=asked.state
    )
    return {"runs": views, "before": before}


@tool("Show a run", "reads", FullRunView)
async def run_show(call: Call, asked: OfRun) -> View:
    """Show one run as the record tells it: route, plan, tasks with attempts and verdicts, spend, answer."""
    return await call.desk.shown(asked.run)


@tool("Follow a run", "reads", EventsView)
async def run_follow(call: Call, asked: Following) -> View:
    """Give what was recorded of a run behind `after`, and its state then; waits a while for something new. Ask again until it has ended."""
    hansard = call.desk.hansard
    run = await asyncio.to_thread(hansard.runs.find, asked.run)
    until = time.monotonic() + asked.wait_seconds

    def look() -> tuple[list[View], int, str, bool]:
        views = list(hansard.ledger.show(run=run, after=asked.after, limit=MAX_FOLLOWED))
        after = views[-1]["seq"] if views else asked.after
        # Of what was given: whoever stops asking at the end has got everything.
        return views, after, *hansard.runs.state(run, after)

    while True:
        views, after, state, over = await asyncio.to_thread(look)
        if views or over or time.monotonic() > until:
            break
        await asyncio.sleep(FOLLOW_LOOK_S)
    return {"run": run, "state": state, "entries": views, "after": after}


@tool("Cancel a run", "changes", FullRunView)
async def run_cancel(call: Call, asked: OfRun) -> View:
    """Stop a run, whoever drives it; the record says so."""
    run = await asyncio.to_thread(call.desk.hansard.runs.find, asked.run)
    await call.desk.cancelled(run, call.actor)
    return await call.desk.shown(run)


@tool("Resume a run", "runs", FullRunView)
async def run_resume(call: Call, asked: OfRun) -> Given:
    """Go on with a run or a deliberation that was interrupted, from the record, and wait for its end."""
    if call.state is not None:
        return await answered(call)
    runs = call.desk.hansard.runs
    run = await asyncio.to_thread(runs.find, asked.run)
    if (await call.desk.shown(run))["state"] in ENDED:
        raise UsageError(f"run {run} has ended; there is nothing to resume")
    if call.desk.draining:
        raise StoreError("the server is shutting down; try again in a moment")
    driven = call.desk.drive(run, runs.resume(run, surface="mcp", actor=call.actor))
    given = as_task(call, run) or await seen_through(call, run)
    if driven.elsewhere and isinstance(given, dict) and given["state"] not in ENDED:
        raise StoreError(f"run {run} is driven by another process, which goes on with it; run_follow tells how it goes")
    return given


@tool("Decide at a gate", "changes", FullGateView)
async def gate_decide(call: Call, asked: Deciding) -> View:
    """Record a person's decision at a gate. Ask the person; do not decide in their place."""
    if call.token is not None and not call.token.may("approver"):
        raise UsageError(f"token {call.token.name!r} may not decide at gates; that needs the role approver")
    view = await call.desk.hansard.gates.decide(
        asked.gate,
        asked.decision,
        actor=call.actor,
        note=asked.note,
        edit=asked.edit,
        commands=call.desk.commands,
        authenticated=call.token is not None,
        shown=None if asked.shown is None else tuple(asked.shown),
    )
    call.desk.nudge(view["run"])
    return view


@contextmanager
def owned(call: Call, run: str) -> Iterator[None]:
    """Whoever cancels his call in here cancels the run. Whose session is over has cancelled nothing."""
    try:
        yield
    except asyncio.CancelledError:
        if call.was_cancelled:
            call.desk.abandon(run, call.actor)
        raise


async def settled(call: Call, run: str, *, aloud: bool = False) -> bool:
    """Wait for a run, telling how it goes. Gives whether it waits at a gate."""
    async with telling(call, run, aloud=aloud):
        return await call.desk.settled(run)


async def seen_through(call: Call, run: str, *, aloud: bool = False) -> Given:
    """Wait for a run, past the gates where the person behind the client can be asked. It is his who waits."""
    with owned(call, run):
        return await _seen_through(call, run, aloud)


async def _seen_through(call: Call, run: str, aloud: bool) -> Given:
    while True:
        waits = await settled(call, run, aloud=aloud)
        view = await call.desk.shown(run)
        if not waits or not can_be_asked(call):
            return view
        asked = await asyncio.to_thread(questions, call, run)
        if asked and call.ctx.protocol_version >= MODERN:
            return input_required(call, run, asked)
        if not asked:
            return view
        if not await ask_now(call, run, asked) and await _waits_still(call, run, asked.keys()):
            return view


async def answered(call: Call) -> Given:
    """The call comes again, with what the person said."""
    call, run = taken_up(call)
    answers = call.answers or {}
    if not await decide(call, run, answers) and await _waits_still(call, run, answers.keys()):
        return await call.desk.shown(run)
    return await seen_through(call, run)


async def _waits_still(call: Call, run: str, asked: Set[str]) -> bool:
    """Whether nobody else has decided, where the person behind the client has not; else the run may go on."""
    if asked <= (await asyncio.to_thread(questions, call, run)).keys():
        return True
    call.desk.nudge(run)
    return False


TOOLS: tuple[Tool, ...] = (submit, plan, runs_list, run_show, run_follow, run_cancel, run_resume)
GRANTED: tuple[Tool, ...] = (gate_decide,)
