"""The rules between the messages of one transcript: order, parents, who speaks when, what may be annotated where."""

from collections.abc import Iterator, Sequence

from hansard.deliberation.documents.artifact import Artifact
from hansard.deliberation.documents.breach import Breach
from hansard.deliberation.documents.message import Message
from hansard.deliberation.documents.turns import Contraction

_ANNOTATIONS = {
    "suggested_followups": ("R-4.5-4", ("branch_turn",)),
    "dropped_deferred": ("R-4.6-4", ("primary_turn",)),
    "schema_failure": ("R-4.5-5", ("primary_turn", "branch_turn")),
}


def transcript_breaches(artifact: Artifact) -> list[Breach]:
    """Every rule between messages that this transcript breaks."""
    return [
        *opening_breaches(artifact),
        *_order(artifact),
        *_each(artifact),
        *speaker_breaches(artifact),
        *_rounds(artifact),
    ]


def _breach(index: int, member: str, rule: str, message: str) -> Breach:
    return Breach(document="Artifact", path=f"/canonical_transcript/{index}{member}", rule=rule, message=message)


def opening_breaches(artifact: Artifact) -> Iterator[Breach]:
    """A transcript begins with its problem, and has no other."""
    first, *others = artifact.canonical_transcript
    if first.type != "problem_statement":
        yield _breach(0, "/type", "R-4.1-3", "the first message must be the problem statement")
    elif first.speaker != artifact.config.originator:
        yield _breach(0, "/speaker", "R-4.1-3", "must be the originator")
    elif first.content != artifact.config.problem_statement:
        yield _breach(0, "/content", "R-4.1-3", "must be the problem statement of the config")
    for index, message in enumerate(others, 1):
        if message.type == "problem_statement":
            yield _breach(index, "/type", "R-4.1-3", "a second problem statement")


def _order(artifact: Artifact) -> Iterator[Breach]:
    place, seen = (-1, -1), set[str]()
    for index, message in enumerate(artifact.canonical_transcript):
        here = (message.round, message.turn_index)
        if here <= place:
            yield _breach(index, "/turn_index", "R-5.10-1", f"{here} does not come after {place}")
        if message.id in seen:
            yield _breach(index, "/id", "R-5.10-1", f"the id {message.id!r} stands twice")
        place = max(place, here)
        seen.add(message.id)


def _each(artifact: Artifact) -> Iterator[Breach]:
    primaries = set[str]()
    for index, message in enumerate(artifact.canonical_transcript):
        for name, (rule, types) in _ANNOTATIONS.items():
            if getattr(message, name) is not None and message.type not in types:
                yield _breach(index, f"/{name}", rule, f"may stand only on {' and '.join(types)}")
        if message.parent is not None and message.parent not in primaries:
            yield _breach(index, "/parent_id", "R-4.10-5", "must name an earlier primary turn")
        if message.type in {"problem_statement", "panel_contraction"} and any(_counts(message)):
            yield _breach(index, "/usage", "§5.4", f"a {message.type} uses nothing")
        if message.type == "primary_turn":
            primaries.add(message.id)


def _counts(message: Message) -> tuple[float, ...]:
    usage = message.usage
    return usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, usage.cost_usd


def speaker_breaches(artifact: Artifact) -> Iterator[Breach]:
    """Whoever speaks, or leaves, is in the configuration."""
    config = artifact.config
    agents = {agent.id for agent in config.agents}
    for index, message in enumerate(artifact.canonical_transcript):
        if message.type in {"primary_turn", "branch_turn"} and message.speaker not in agents:
            yield _breach(index, "/speaker", "R-4.5-2", "must be an agent of the config")
        if message.type in {"coordination_turn", "synthesis"} and message.speaker != config.coordinator.id:
            yield _breach(index, "/speaker", "R-4.4-1", "must be the coordinator")
        if isinstance(message.content, Contraction) and message.content.agent_id not in agents:
            yield _breach(index, "/content/agent_id", "R-4.9-6", "must be an agent of the config")


def _rounds(artifact: Artifact) -> Iterator[Breach]:
    """Rounds follow each other, each closed by the coordinator before the next; the panel speaks in its order."""
    order = _declared(artifact)
    round, closed, spoken = 0, True, -1
    for index, message in enumerate(artifact.canonical_transcript[1:], 1):
        if message.round != round:
            if message.round != round + 1 or not closed:
                yield _breach(index, "/round", "R-4.2-3", f"round {round} must close before another round opens")
            round, closed, spoken = message.round, False, -1
        elif closed and message.type != "synthesis":
            yield _breach(index, "/type", "R-4.10-3", "the coordinator speaks last in a round")
        if message.type == "coordination_turn":
            closed = True
        if (agent := _slot(message)) is not None:
            place = order.get(agent, len(order))
            if place <= spoken:
                yield _breach(index, "/speaker", "R-4.10-2", f"{agent} speaks out of the declared order")
            spoken = max(spoken, place)


def _slot(message: Message) -> str | None:
    """Whose primary slot this message fills, as far as it says so: the reference runtime forgets where an agent failed that leaves
    the panel, and writes no `parent_id` [A-1]."""
    if message.type == "primary_turn":
        return message.speaker
    if isinstance(message.content, Contraction) and message.branch_depth == 0 and message.parent_id is None:
        return message.content.agent_id
    return None


def _declared(artifact: Artifact) -> dict[str, int]:
    """The order of the panel: as declared, or as the first round shows it where a selector chose."""
    if artifact.config.selector.strategy == "fixed":
        panel = artifact.config.selector.default_deliberation_panel
    else:
        slots = (_slot(message) for message in artifact.canonical_transcript if message.round == 1)
        panel = tuple(agent for agent in slots if agent is not None)
    return {agent: place for place, agent in reversed(list(enumerate(panel)))}


def seated(artifact: Artifact, selected: Sequence[str] | None = None) -> Sequence[str]:
    """Who sat on the panel: as declared; where a selector chose, as it says, or else as the first round shows it."""
    config = artifact.config
    if config.selector.strategy == "fixed":
        return config.selector.default_deliberation_panel
    if selected is not None:
        return selected
    first = [message for message in artifact.canonical_transcript if message.round == 1]
    offending = [each.offending_request.get("target") for message in first for each in message.schema_failure or ()]
    # It may be anything: it is somebody's wrong request.
    refused = {target for target in offending if isinstance(target, str)}
    asked = {each.target for message in first for each in message.direct_requests if message.type == "primary_turn"}
    waiting = [agent.id for agent in config.agents if agent.id in asked - refused]
    # Whoever left, or was cut off, before a turn of his own may stand behind the others: his place decides nothing.
    named = (*map(_seat, first), _failing(artifact), *map(_answering, first), *waiting)
    known = dict.fromkeys(id for id in named if id is not None)
    types = {message.type for message in first}
    is_saved = "synthesis" in types and "coordination_turn" not in types
    if is_saved and config.runtime.knobs.on_agent_failure == "terminate":
        # Somebody failed then whose turn it was, and nothing says who.
        known |= dict.fromkeys([agent.id for agent in config.agents if agent.id not in known.keys() | refused][:1])
    return tuple(known)


def _failing(artifact: Artifact) -> str | None:
    """Of whom the panel is known to have heard nothing: he failed for good, and the session with him."""
    ending = artifact.outcome.termination_artifact
    failure = ending.last_provider_failure if ending else None
    return failure.agent_id if failure and failure.agent_id in {agent.id for agent in artifact.config.agents} else None


def _seat(message: Message) -> str | None:
    """Whose turn of the round this is."""
    return None if message.branch_depth else _member(message)


def _answering(message: Message) -> str | None:
    """Who was to answer somebody's request here."""
    return _member(message) if message.branch_depth else None


def _member(message: Message) -> str | None:
    """Who of the panel speaks, or leaves it."""
    if isinstance(message.content, Contraction):
        return message.content.agent_id
    return message.speaker if message.type in {"primary_turn", "branch_turn"} else None
