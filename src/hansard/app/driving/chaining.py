"""Deliberations that go on: after a request for input or research a new session takes up where the last one stopped.

A session that is over is never touched: going on means a new run with a new session, caused by the end of the old one. How
often a chain may go on is capped, and the cap is on the record of each of its runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from hansard.app.driving.deliberations import Deliberations
from hansard.app.finding import request_of
from hansard.app.pool import Pool
from hansard.app.settings import recordable
from hansard.app.setup.convening import UNNAMED, Call, Convening, convening, within_limits
from hansard.app.setup.wishes import Wishes, flagged
from hansard.app.telling.deliberationviews import (
    artifact_on_record,
    asked_for,
    convening_of,
    deliberation_view,
    pending_of,
    spent_on_record,
)
from hansard.app.views import View, positions
from hansard.deliberation.documents import Config
from hansard.deliberation.experts import MAX_NEED, checked_cap, checked_needs
from hansard.domain.value import value
from hansard.domain.work import Surface
from hansard.errors import UsageError
from hansard.ledger.entry import Entry
from hansard.store.base import Query, Store

ASKING = {"user_input_required": "the user", "external_research_required": "research"}
"""How a session ends that can be gone on with, and whom it asks."""
MAX_ANSWER = 400_000
_ANSWER = "The answer, from"


@value
class Continuation:
    """A session that goes on from another: what it is convened with, and the entry that it is caused by."""

    made: Convening
    cause: int


def continuation(
    store: Store,
    pool: Pool,
    run: str,
    answer: str | None,
    *,
    call: Call | None = None,
    experts: Sequence[str] = (),
    max_expansions: int | None = None,
) -> Continuation:
    """What goes on from a session that asked for something. `answer` is what it asked for, from whoever knows.

    With a `call` its flags count; otherwise everything is as it was. UsageError where the session asked for nothing, or the
    chain has gone on often enough.
    """
    flags = call.wishes if call else Wishes()
    configured = next(iter(store.select(Query(run=run, kind="run.configured", limit=1))), None)
    before = convening_of(store, configured.seq if configured else None)
    ended = _asking(store, run)
    _check_answer(answer, experts, flags)
    number = int((before.continues or {}).get("number", 0)) + 1
    cap = before.max_expansions if max_expansions is None else checked_cap(max_expansions)
    if number > cap:
        most = flags.named("max_expansions")
        raise UsageError(
            f"this deliberation has gone on {number - 1} times, and {cap} are allowed; {most} allows up to 5"
        )
    artifact = artifact_on_record(store, run)
    problem = problem_with(artifact, answer, number)
    # The session before had less than its caps: what its experts and first answers took. The next one has them whole.
    budget = before.config.budget.as_data()
    config = Config.parse({**artifact["config"], "session_id": UNNAMED, "problem_statement": problem, "budget": budget})
    made = _as_called(before, config, pool, call, flags)
    link = {
        "run": run,
        "session_id": artifact["session_id"],
        "transcript_digest": artifact["transcript_digest"],
        "because": str(ended.data["reason"]),
        "number": number,
    }
    made = replace(made, experts=checked_needs(experts), ensemble=False, continues=link, max_expansions=cap)
    return Continuation(made=made, cause=ended.seq)


def _asking(store: Store, run: str) -> Entry:
    """The end of a session that asks for something."""
    ended = _end_of_session(store, run)
    reason = str(ended.data.get("reason") or "has an answer") if ended else "has not ended"
    if ended is None or reason not in ASKING:
        raise UsageError(f"run {run} asks for nothing (its session: {reason}); nothing goes on from it")
    return ended


def _end_of_session(store: Store, run: str) -> Entry | None:
    return next(iter(store.select(Query(run=run, kind="session.ended", newest_first=True, limit=1))), None)


def _check_answer(answer: str | None, experts: Sequence[str], flags: Wishes) -> None:
    if answer is None and not experts:
        raise UsageError(
            f"give {flags.named('answer')}, or {flags.named('experts')} who are to join: with neither, the same would be asked again"
        )
    if answer is not None and not 0 < len(answer.strip()) <= MAX_ANSWER:
        raise UsageError(f"the answer must have 1 to {MAX_ANSWER:,} characters, and has {len(answer):,}")


def _as_called(before: Convening, config: Config, pool: Pool, call: Call | None, flags: Wishes) -> Convening:
    runs = recordable(call.runs.absolute()) if call and call.runs else before.runs
    if call is not None and (flagged(flags)[0], call.script, call.selector_script) != (None, None, None):
        anew = replace(call, config=config, problem=None, max_calls=before.max_calls)
        made = convening(pool.settings, pool, anew)
        return replace(made, runs=runs, shape=before.shape, producer=before.producer)
    if before.script is not None:
        script = flags.named("script")
        raise UsageError(f"that session was answered by a script; give the answers of the next one as {script}")
    if call is not None and call.max_rounds is not None:
        data = config.as_data()
        config = Config.parse({**data, "budget": {**data["budget"], "max_rounds": call.max_rounds}})
    made = replace(before, config=config, runs=runs)
    return within_limits(pool.settings, pool, made, flags)


def problem_with(artifact: Mapping[str, Any], answer: str | None, number: int) -> str:
    """The problem of the next session: the one before, what was asked, what came of it, and where the panel stood."""
    ending = artifact["outcome"]["termination_artifact"]
    verdict = ending.get("most_recent_verdict") or {}
    lines = [artifact["config"]["problem_statement"], "", f"[CONTINUATION {number}]"]
    lines.append(f"An earlier session (transcript {artifact['transcript_digest']}) ended with a request:")
    lines += [f"> {line}" for line in asked_for(pending_of(ending) or {})]
    if answer is not None:
        lines += [f"{_ANSWER} {ASKING[ending['reason']]}:", *_cited(answer)]
    else:
        lines.append("Nobody answered it. An expert for it has joined the panel.")
    if verdict.get("focus"):
        lines += ["The panel stood at:", *_cited(verdict["focus"])]
    for each in ending["unresolved_disagreements"]:
        lines += ["Open:", *_cited(f"{each['topic']} ({positions(each)})")]
    return "\n".join(lines)


def answer_in(problem: str) -> list[str]:
    """The answer with which a session goes on from the one before it, line by line, as its problem quotes it; none where nobody
    gave one."""
    _, continued, last = problem.rpartition("\n[CONTINUATION ")
    _, answered, rest = last.partition(f"\n{_ANSWER}")
    said = rest.split("\n")[1:] if continued and answered else []
    return [line[2:] for line in takewhile(lambda line: line.startswith("> "), said)]


def _cited(text: str) -> list[str]:
    return [f"> {line}" for line in text.splitlines()]


def chain_of(store: Store, run: str) -> list[str]:
    """The runs of the chain that this one stands in, the first one first."""
    found = [run]
    while (before := before_it(store, found[0])) is not None and before not in found:
        found.insert(0, before)
    while (after := after_it(store, found[-1])) is not None and after not in found:
        found.append(after)
    return found


def before_it(store: Store, run: str) -> str | None:
    """The run that this one goes on from."""
    begun = request_of(store, run)
    for seq in begun.causes if begun else ():
        cause = store.entry(seq)
        if cause.kind == "session.ended":
            return cause.run
    return None


def after_it(store: Store, run: str) -> str | None:
    """The newest run that goes on from this one."""
    ends = store.select(Query(run=run, kind="session.ended"))
    for seq in sorted((seq for end in ends for seq in store.effects(end.seq)), reverse=True):
        if (effect := store.entry(seq)).kind == "run.requested":
            return effect.run
    return None


async def go_on(
    deliberations: Deliberations,
    found: Continuation,
    *,
    surface: Surface = "python",
    actor: str | None = None,
    run: str | None = None,
) -> str:
    """Put the next session of a chain on the record; gives its run."""
    return await deliberations.convene(found.made, surface=surface, actor=actor, causes=[found.cause], run=run)


def expansion(store: Store, pool: Pool, run: str, *, call: Call | None = None) -> Continuation | None:
    """What goes on by itself from a session that asked for research: the next one, with an expert for it.

    None where the session asked for nothing of the kind: what only the user can know is left to the user. UsageError where
    nothing can go on, as where the chain has gone on often enough; then its request stays open.
    """
    ended = _end_of_session(store, run)
    if ended is None or ended.data.get("reason") != "external_research_required":
        return None
    ending = artifact_on_record(store, run)["outcome"]["termination_artifact"]
    need = str(ending["pending_external_research_request"]["query"])[:MAX_NEED]
    return continuation(store, pool, run, None, call=call, experts=[need])


def chain_view(store: Store, run: str) -> View:
    """A chain of sessions as one: each with its problem's beginning, what it asked for, and how it ended."""
    runs = chain_of(store, run)
    views = [deliberation_view(store, each) for each in runs]
    last = views[-1]
    return {
        "sessions": views,
        "outcome": last["outcome"],
        "termination_reason": last.get("termination_reason"),
        "synthesis_answer": last.get("synthesis_answer"),
        "expansions": len(views) - 1,
        "tokens": sum(spent_on_record(store, each).tokens for each in runs),
    }
