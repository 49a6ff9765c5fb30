"""Tools for deliberations: put a problem to a panel, look at a session's directory, see who can sit on a panel."""

import asyncio
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from hansard.app.archived.sessions import replayed, whole_artifact
from hansard.app.driving.chaining import Continuation, chain_view, continuation, expansion, go_on
from hansard.app.setup.convening import DEFAULT_EXPANSIONS, Convening, convening
from hansard.app.setup.convening import Call as Convened
from hansard.app.setup.panels import personas_of
from hansard.app.telling.deliberationviews import rounds_of
from hansard.app.views import View
from hansard.errors import UsageError
from hansard.surfaces.afar import view_from_afar
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.running import owned, seen_through, settled
from hansard.surfaces.mcp.tasks import as_task
from hansard.surfaces.mcp.tool import Arguments, Call, Given, Nothing, Text, Tool, tool
from hansard.surfaces.mcp.views import ChainView, DeliberationView, MadePersonaView, PersonasView, SessionView
from hansard.surfaces.shapes import WHOLE, Capped, Name

MAX_NEED = 4_096


class Sitting(Arguments):
    """What every session can be asked with."""

    provider: Name | None = Field(None, description="A provider that is configured here, for every agent.")
    max_rounds: Annotated[int, Field(ge=1, le=1_000), WHOLE] | None = None
    script: dict[str, Any] | None = Field(None, description="Answers to rehearse with, instead of any model.")
    selector_script: dict[str, Any] | None = None
    output_dir: Name | None = Field(
        None,
        description="Where the session's directory is made, in the project's folder; default: where the server has them.",
    )


class Deliberating(Sitting, Capped):
    problem: Text | None = Field(None, description="What is to be thought through; may stand in the config instead.")
    panel: Annotated[list[Name], Field(min_length=1, max_length=50)] | None = Field(
        None, description="Agents by id, as list_personas or the config has them; default: all."
    )
    config: dict[str, Any] | None = Field(None, description="A session configuration, the protocol's own document.")
    ensemble: bool = Field(False, description="First answers of everybody, without sight of the others.")


class Adapting(Deliberating):
    experts: Annotated[list[Text], Field(max_length=8)] = Field(
        [], description="What experts are needed for, in words."
    )
    max_expansions: Annotated[int, Field(ge=0, le=5), WHOLE] = Field(
        2, description="How often it may go on with an expert."
    )


class Continuing(Sitting):
    run: Name = Field(description="The deliberation that asked for something.")
    answer: Text | None = Field(None, description="What it asked for, from the person who knows. Do not make it up.")
    experts: Annotated[list[Text], Field(max_length=8)] = Field(
        [], description="What experts are to join for, in words."
    )
    max_expansions: Annotated[int, Field(ge=0, le=5), WHOLE] | None = Field(
        None, description="How often sessions may go on from one another, along the whole chain."
    )


class Needing(Arguments):
    need: Annotated[str, Field(min_length=1, max_length=MAX_NEED)] = Field(description="What the expert is needed for.")
    provider: Name | None = Field(None, description="A provider that is configured here.")


class OfDirectory(Arguments):
    run_dir: Name = Field(description="A session's directory, in the project's folder.")


@tool("Deliberate", "runs", DeliberationView)
async def deliberate(call: Call, asked: Deliberating) -> Given:
    """Put a problem to a panel of agents who debate it in rounds, and give the synthesis, or why there is none.

    Reports each turn as progress; cancelling the call ends the session with user_cancel.
    """
    return await _held(call, asked, aloud=False)


@tool("Deliberate, hearing what is said", "runs", DeliberationView)
async def deliberate_streaming(call: Call, asked: Deliberating) -> Given:
    """The same as deliberate, and the progress quotes the beginning of what each speaker says."""
    return await _held(call, asked, aloud=True)


@tool("Deliberate, with experts as they are needed", "runs", ChainView)
async def deliberate_adaptive(call: Call, asked: Adapting) -> View:
    """Put a problem to a panel that experts join: first those whose needs are named, then one wherever a session asks for research.

    Each time a new session takes up where the last one stopped; a session that asks for what only a person knows ends it.
    """
    hansard = call.desk.hansard
    made = await asyncio.to_thread(_convening, call, asked)
    run = await call.desk.made(hansard.deliberations.convene(made, surface="mcp", actor=call.actor), call.actor)
    while True:
        with owned(call, run):
            await settled(call, run, aloud=True)
        following = await asyncio.to_thread(_following, call, run)
        if following is None:
            break
        going_on = go_on(hansard.deliberations, following, surface="mcp", actor=call.actor)
        run = await call.desk.made(going_on, call.actor)
    view = await asyncio.to_thread(chain_view, hansard.store, run)
    sessions = [view_from_afar(each, hansard, "mcp") for each in view["sessions"]]
    return view | {"sessions": sessions, "final": sessions[-1]}


@tool("Go on with a deliberation that asked for something", "runs", DeliberationView)
async def deliberate_continue(call: Call, asked: Continuing) -> Given:
    """Answer a deliberation that ended with user_input_required or external_research_required; its `pending` says what it asks.

    A new session of the same panel takes up where it stopped. Ask the person; do not answer in their place.
    """
    hansard = call.desk.hansard
    found = await asyncio.to_thread(_continuation, call, asked)
    going_on = go_on(hansard.deliberations, found, surface="mcp", actor=call.actor)
    run = await call.desk.made(going_on, call.actor)
    return as_task(call, run) or await seen_through(call, run)


@tool("Summary of a session", "reads", SessionView)
async def get_run_summary(call: Call, asked: OfDirectory) -> View:
    """Give how a finished deliberation ended, from its directory, and whether its transcript still has its digest."""
    return await asyncio.to_thread(_summary, call.desk, asked.run_dir)


@tool("Generate a persona", "runs", MadePersonaView)
async def generate_persona(call: Call, asked: Needing) -> View:
    """Let a model describe an expert for a need, checked and bounded: it can sit on a panel by being in a config's agents."""
    hansard = call.desk.hansard
    wanted = Convened(problem=asked.need, experts=(asked.need,), wishes=call.desk.wished(asked.provider))
    made = await asyncio.to_thread(convening, hansard.settings, hansard.pool, wanted)
    making = hansard.deliberations.ask_for_persona(made, surface="mcp", actor=call.actor)
    run = await call.desk.made(making, call.actor)
    with owned(call, run):
        return await hansard.deliberations.generated(run, partial(call.desk.in_turn, run))


@tool("List personas", "reads", PersonasView)
async def list_personas(call: Call, _: Nothing) -> View:
    """List the personas that can sit on a panel without being described first: those that ship, and the project's own."""
    found = await asyncio.to_thread(personas_of, call.desk.hansard.settings)
    return {"personas": [dict(each.as_data()) for each in found]}


async def _held(call: Call, asked: Deliberating, *, aloud: bool) -> Given:
    made = await asyncio.to_thread(_convening, call, asked)
    making = call.desk.hansard.deliberations.convene(made, surface="mcp", actor=call.actor)
    run = await call.desk.made(making, call.actor)
    return as_task(call, run) or await seen_through(call, run, aloud=aloud)


def _following(call: Call, run: str) -> Continuation | None:
    """What goes on from a session that asks for research, with an expert for it; None where nothing does."""
    hansard = call.desk.hansard
    try:
        return expansion(hansard.store, hansard.pool, run, call=Convened(wishes=call.desk.wishes.asking(None)))
    except UsageError:
        # Often enough: the last session's request stays open, and the record says so.
        return None


def _convening(call: Call, asked: Deliberating) -> Convening:
    hansard = call.desk.hansard
    wanted = replace(
        _convened(call, asked),
        problem=asked.problem,
        config=asked.config,
        panel=asked.panel,
        experts=asked.experts if isinstance(asked, Adapting) else (),
        ensemble=asked.ensemble,
        max_expansions=asked.max_expansions if isinstance(asked, Adapting) else DEFAULT_EXPANSIONS,
        caps=asked.caps(),
    )
    if asked.script is None:
        wanted = replace(wanted, wishes=call.desk.wished(asked.provider))
    return convening(hansard.settings, hansard.pool, wanted)


def _continuation(call: Call, asked: Continuing) -> Continuation:
    hansard = call.desk.hansard
    return continuation(
        hansard.store,
        hansard.pool,
        hansard.runs.find(asked.run),
        asked.answer,
        call=_convened(call, asked),
        experts=asked.experts,
        max_expansions=asked.max_expansions,
    )


def _convened(call: Call, asked: Sitting) -> Convened:
    """What both ways to begin a session have in common. Nobody is asked whom only the server's flags name."""
    return Convened(
        max_rounds=asked.max_rounds,
        runs=call.desk.place_of_session(asked.output_dir),
        script=asked.script,
        selector_script=asked.selector_script,
        wishes=call.desk.wished(None).asking(asked.provider if asked.script is None else None),
    )


def _summary(desk: Desk, name: str) -> View:
    folder = desk.within(name)
    for file in folder.iterdir() if folder.is_dir() else ():
        # A file of the directory may be a link that leads outside, too.
        desk.within(str(file))
    artifact, found = whole_artifact(folder), replayed(folder)
    outcome, transcript = artifact["outcome"], artifact["canonical_transcript"]
    view: View = {
        "run_dir": str(folder),
        "outcome": outcome["kind"],
        "transcript_digest": found.digest,
        "digest_replay_ok": found.digest == found.stored_digest,
        "rounds": rounds_of(artifact),
        "selected_agents": list(
            dict.fromkeys(each["speaker"] for each in transcript if each["type"] == "primary_turn")
        ),
        "cumulative_usage": artifact["cumulative_usage"],
    }
    if outcome["kind"] != "synthesis":
        return view | {"termination_reason": outcome["termination_artifact"]["reason"]}
    return view | {"synthesis_answer": transcript[-1]["content"]["integrated_answer"]}


TOOLS: tuple[Tool, ...] = (
    deliberate,
    deliberate_streaming,
    deliberate_adaptive,
    deliberate_continue,
    generate_persona,
    get_run_summary,
    list_personas,
)
