"""The course of a session, written down once: rounds, turns, forks, drains, verdicts, synthesis, termination.

Generators that ask for things and hear what came of them. They see no clock, no model and no disk; the same events
give the same moves [R-4.10-7]. Section numbers are those of the Symposium 1.0 protocol, [A-n] our rulings on it.
"""

from collections.abc import Generator
from typing import TypeVar

from hansard.deliberation.documents.vocabulary import ContractionReason
from hansard.deliberation.protocol.moves import (
    Answered,
    Ask,
    Cap,
    Draft,
    Event,
    Failed,
    Json,
    Move,
    Pause,
    Rested,
    Select,
    Selected,
    Stopped,
    Synthesized,
    Unselected,
    Used,
)
from hansard.deliberation.protocol.state import Deferred, State, gate
from hansard.domain.council import TurnType
from hansard.domain.value import replace
from hansard.errors import Broken

T = TypeVar("T")
Course = Generator[Move, Event, T]
Outcome = Stopped | Synthesized

RUNTIME = "runtime"
UNROUTABLE = "target is not another active member of the panel"
GONE = "target is no longer an active member of the panel"


def session(s: State) -> Course[Outcome]:
    """From the problem statement to the outcome."""
    outcome = yield from _lifecycle(s)
    if not isinstance(outcome, Stopped) or not _may_salvage(s, outcome):
        return outcome
    # One attempt without retries. A cap that it breaches, or a host that ends it, has the last word [R-4.8-1].
    saved = yield from _synthesis(s, retries=0)
    if isinstance(saved, Synthesized):
        return replace(saved, instead_of=outcome)
    return outcome if saved.failed is not None else saved


def _lifecycle(s: State) -> Course[Outcome]:
    rules = s.rules
    s.append(
        Draft(
            ordinal=0, type="problem_statement", speaker=rules.originator, content=rules.problem, round=0, turn_index=0
        )
    )
    chosen = yield from _selection(s)
    if isinstance(chosen, Unselected):
        cap: Cap | None = chosen.cap if chosen.reason == "budget_exceeded" else None
        return gate(s) or Stopped(reason=chosen.reason, cap=cap, why=chosen.why)
    s.panel = s.active = chosen.panel
    while True:
        if stop := gate(s):
            return stop
        if s.round + 1 > rules.max_rounds:
            return Stopped(reason="budget_exceeded", cap="max_rounds")
        verdict = yield from _round(s)
        if isinstance(verdict, Stopped):
            return verdict
        if stop := gate(s) or _asked_outside(verdict):
            return stop
        if verdict["next_action"] == "finalize":
            return (yield from _synthesis(s, retries=rules.retries_of(rules.coordinator)))


def _asked_outside(verdict: Json) -> Stopped | None:
    """A verdict that asks somebody who is not here ends the session with its question [R-4.4-4]."""
    match verdict["next_action"]:
        case "request_user_input":
            return Stopped(reason="user_input_required", pending=verdict["user_input_request"])
        case "request_external_research":
            return Stopped(reason="external_research_required", pending=verdict["external_research_request"])
    return None


def _round(s: State) -> Course[Json | Stopped]:
    """Drain, panel in declared order, coordinator last [R-4.2-4]."""
    s.round, s.turn, s.last_turn, s.opened = s.round + 1, 0, 0, len(s.transcript)
    if stop := (yield from _drain(s)):
        return stop
    for agent in s.panel:
        if agent in s.active and (stop := (yield from _primary(s, agent))):
            return stop
    return (yield from _coordination(s))


def _drain(s: State) -> Course[Stopped | None]:
    """Answer what was deferred, oldest first, at the opening of a round and nowhere else [R-4.6-2]."""
    for _ in range(s.rules.drains_per_round):
        if not s.queue:
            return None
        due = s.queue.pop(0)
        if not _routable(s, due.request, due.originator):
            # Uses up the drain and no turn index.
            s.annotate(due.parent, schema_failure=(_unroutable(due.request, GONE),))
        elif stop := (yield from _branch(s, due.request, due.parent)):
            return stop
    return None


def _primary(s: State, agent: str) -> Course[Stopped | None]:
    if stop := gate(s):
        return stop
    s.turn += 1
    slot = s.turn
    heard = yield from _invoke(s, Ask(agent=agent, expect="turn_structured_output", round=s.round, turn_index=slot))
    if isinstance(heard, Stopped):
        return heard
    if not isinstance(heard, Answered):
        return _contract(s, agent, heard, slot)
    said = _append(s, "primary_turn", agent, heard, slot)
    if stop := gate(s):
        return stop
    return (yield from _requests(s, said))


def _requests(s: State, said: Draft) -> Course[Stopped | None]:
    """Decide on each direct request in declared order: annotate, dispatch, defer or drop [R-4.5-1]."""
    forked = False
    # Noted together: a turn may ask for very many things, and each note makes its message anew.
    unroutable: list[Json] = []
    dropped: list[Json] = []
    for request in _requests_of(said.content):
        if not _routable(s, request, said.speaker):
            unroutable.append(_unroutable(request))
        elif not forked and said.branch_depth + 1 <= s.rules.max_branch_depth:
            forked = True
            _note(s, said, unroutable, dropped)
            if stop := (yield from _branch(s, request, said.ordinal)):
                return stop
        elif len(s.queue) >= s.rules.max_queue:
            dropped.append(request)
        else:
            s.queue.append(
                Deferred(
                    originator=said.speaker,
                    request=request,
                    parent=said.ordinal,
                    deferred_at_round=s.round,
                    deferred_at_turn_index=said.turn_index,
                )
            )
    _note(s, said, unroutable, dropped)
    return None


def _note(s: State, said: Draft, unroutable: list[Json], dropped: list[Json]) -> None:
    """Annotate a turn with what came of its requests since it was last done."""
    if unroutable or dropped:
        s.annotate(said.ordinal, schema_failure=tuple(unroutable), dropped_deferred=tuple(dropped))
        unroutable.clear()
        dropped.clear()


def _branch(s: State, request: Json, parent: int) -> Course[Stopped | None]:
    """One message by the target, which closes the branch; what it asks for is recorded and not followed [R-4.5-4]."""
    if stop := gate(s):
        return stop
    s.turn += 1
    slot, target = s.turn, str(request["target"])
    ask = Ask(
        agent=target,
        expect="turn_structured_output",
        round=s.round,
        turn_index=slot,
        branch_depth=1,
        parent=parent,
        request=request,
    )
    heard = yield from _invoke(s, ask)
    if isinstance(heard, Stopped):
        return heard
    if not isinstance(heard, Answered):
        return _contract(s, target, heard, slot, parent)
    # Appended before the caps are looked at: what was produced is in the transcript.
    said = _append(s, "branch_turn", target, heard, slot, parent)
    if wanted := _requests_of(heard.content):
        s.annotate(said.ordinal, suggested_followups=wanted)
    return gate(s)


def _coordination(s: State) -> Course[Json | Stopped]:
    if stop := gate(s):
        return stop
    s.turn += 1
    slot, coordinator = s.turn, s.rules.coordinator
    heard = yield from _invoke(s, Ask(agent=coordinator, expect="verdict", round=s.round, turn_index=slot))
    if isinstance(heard, Stopped):
        return heard
    if not isinstance(heard, Answered):
        raise Broken("the coordinator was contracted out of its own session")
    said = _append(s, "coordination_turn", coordinator, heard, slot)
    s.note_verdict(heard.content, said.ordinal)
    return heard.content


def _synthesis(s: State, *, retries: int) -> Course[Outcome]:
    """The one attempt at an answer [R-4.8-2]. An answer that breaches a cap is not appended [A-5]."""
    if stop := gate(s):
        return stop
    slot, coordinator = s.last_turn + 1, s.rules.coordinator
    ask = Ask(agent=coordinator, expect="synthesis_content", round=s.round, turn_index=slot)
    heard = yield from _invoke(s, ask, retries=retries)
    if isinstance(heard, Stopped):
        return heard
    if not isinstance(heard, Answered):
        raise Broken("the coordinator was contracted out of its own session")
    if stop := gate(s):
        return stop
    return Synthesized(ordinal=_append(s, "synthesis", coordinator, heard, slot).ordinal)


def _may_salvage(s: State, stop: Stopped) -> bool:
    """Whether a termination may still be turned into a synthesis: rounds are used up, or a panel agent is lost [A-9]."""
    # Where nobody on the panel has spoken, there is nothing to integrate.
    if not s.rules.synthesize_on_terminate or not any(said.type == "primary_turn" for said in s.transcript):
        return False
    if stop.failed is not None:
        return stop.agent != s.rules.coordinator
    return stop.cap == "max_rounds"


def _invoke(s: State, ask: Ask, *, retries: int | None = None) -> Course[Answered | Stopped | Failed]:
    """One turn's calls within the agent's retry budget; a Failed that comes back has cost the agent its seat [§4.9]."""
    budget = s.rules.retries_of(ask.agent) if retries is None else retries
    while True:
        heard = yield from _call(s, ask)
        if isinstance(heard, Stopped):
            return heard
        s.spend(ask.agent, heard.spent)
        if isinstance(heard, Answered):
            return heard
        if stop := gate(s):
            return stop
        if not heard.retriable or ask.attempt > budget:
            break
        malformed = heard.kind == "malformed_response"
        if not malformed:
            yield from _rest(s, Pause(made=ask.attempt, failed=heard))
            if stop := gate(s):
                return stop
        ask = replace(ask, attempt=ask.attempt + 1, correcting=malformed)
    if ask.agent == s.rules.coordinator or s.rules.on_agent_failure == "terminate":
        return Stopped(reason=_loss(heard), agent=ask.agent, failed=heard)
    return heard


def _contract(s: State, agent: str, failed: Failed, slot: int, parent: int | None = None) -> Stopped | None:
    """The agent leaves for good; the annotation takes the slot of the turn that failed [R-4.9-6]."""
    s.active = tuple([each for each in s.active if each != agent])
    s.append(
        Draft(
            ordinal=len(s.transcript),
            type="panel_contraction",
            speaker=RUNTIME,
            content={"agent_id": agent, "reason": _loss(failed)},
            round=s.round,
            turn_index=slot,
            branch_depth=0 if parent is None else 1,
            parent=parent,
        )
    )
    # Recorded first, then the end.
    return None if s.active else Stopped(reason="provider_unrecoverable", agent=agent, failed=failed)


def _loss(failed: Failed) -> ContractionReason:
    return "schema_error" if failed.kind == "malformed_response" else "provider_unrecoverable"


def _append(s: State, type: TurnType, speaker: str, heard: Answered, slot: int, parent: int | None = None) -> Draft:
    return s.append(
        Draft(
            ordinal=len(s.transcript),
            type=type,
            speaker=speaker,
            content=heard.content,
            round=s.round,
            turn_index=slot,
            branch_depth=0 if parent is None else 1,
            parent=parent,
            usage=heard.usage,
        )
    )


def _requests_of(content: Json | str) -> tuple[Json, ...]:
    return () if isinstance(content, str) else tuple(content.get("direct_requests") or ())


def _routable(s: State, request: Json, originator: str) -> bool:
    target = request["target"]
    return target in s.active and target not in (originator, s.rules.coordinator)


def _unroutable(request: Json, reason: str = UNROUTABLE) -> Json:
    return {"offending_request": dict(request), "reason": reason}


def _selection(s: State) -> Course[Selected | Unselected]:
    event = yield Select()
    if not isinstance(event, Selected | Unselected):
        raise _unexpected(event)
    s.reading = event.reading
    return event


def _call(s: State, ask: Ask) -> Course[Answered | Failed | Stopped]:
    event = yield ask
    while isinstance(event, Used):
        s.reading = event.reading
        s.spend(ask.agent, event.spent)
        if stop := gate(s):
            return stop
        event = yield ask
    if not isinstance(event, Answered | Failed):
        raise _unexpected(event)
    s.reading = event.reading
    return event


def _rest(s: State, pause: Pause) -> Course[None]:
    event = yield pause
    if not isinstance(event, Rested):
        raise _unexpected(event)
    s.reading = event.reading


def _unexpected(event: Event) -> Broken:
    return Broken(f"the driver says {type(event).__name__}, which does not answer what it was asked to do")
