"""How good a session was, in figures: the recipes of §9.10, the two counts that need an event stream, and a postmortem (§9.11).

Rule-based and deterministic: from the artifact and, for the counts, from the events on record. No model judges here.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import combinations
from math import floor
from typing import Any

from hansard.deliberation.documents import Artifact, Message, Persona, Verdict
from hansard.deliberation.documents.semantics import moment, refuse_incoherent
from hansard.deliberation.documents.transcript import seated
from hansard.deliberation.personas import Personas

TURNS = ("primary_turn", "branch_turn")
DIGITS = 6
SIMILAR = 0.5
"""Two turns of one round whose longer words overlap by this much say about the same."""
_WORD = re.compile(r"[^\W\d_]{5,}")
Event = Mapping[str, Any]


def evaluation_of(data: object, events: Iterable[Event] | None = None) -> dict[str, Any]:
    """The figures of §9.10. Those that need events are None where there are none to look at."""
    artifact = _coherent(data)
    edges = _edges(artifact)
    total = sum(edge["count"] for edge in edges)
    delegated = sum(edge["count"] for edge in edges if edge["type"] == "delegation")
    series = disagreement_series(artifact)
    rounds = max(message.round for message in artifact.canonical_transcript)
    seconds = (moment(artifact.ended_at) - moment(artifact.started_at)).total_seconds()
    told = None if events is None else list(events)
    return {
        "role_purity_score": _purity(artifact),
        "disagreement_frequency": round(sum(series.values()) / max(1, rounds), DIGITS),
        "disagreement_per_round": [{"round": number, "count": count} for number, count in series.items()],
        "interaction_graph": {"nodes": _nodes(artifact), "edges": edges},
        "delegation_frequency": round(delegated / max(1, total), DIGITS),
        "time_to_finalize": floor(seconds),
        "retries_per_agent": None if told is None else _retries(told),
        "failures_per_agent": None if told is None else _failures(told),
    }


def _coherent(data: object) -> Artifact:
    artifact = Artifact.parse(data)
    refuse_incoherent(artifact)
    return artifact


def disagreement_series(artifact: Artifact) -> dict[int, int]:
    """How many disagreements each round's verdict left open."""
    return {
        message.round: len(message.content.unresolved_disagreements)
        for message in artifact.canonical_transcript
        if isinstance(message.content, Verdict)
    }


def postmortem_of(data: object) -> dict[str, Any]:
    """What a session shows about its panel: violations of scope, gaps, overlap, and who contributed most."""
    artifact = _coherent(data)
    gaps = _gaps(artifact)
    turns = _turns(artifact)
    spoke = all(turns[agent] for agent in seated(artifact))
    return {
        "correct_agents_selected": spoke and not gaps,
        "scope_violations": [
            {"agent": message.speaker, "turn_message_id": message.id, "evidence": evidence}
            for message in _spoken(artifact)
            for evidence in _violations(message, _personas(artifact).get(message.speaker))
        ],
        "capability_gaps": gaps,
        "agent_overlap": _overlap(artifact),
        "best_contributors": _contributors(artifact),
    }


def _spoken(artifact: Artifact) -> list[Message]:
    return [message for message in artifact.canonical_transcript if message.type in TURNS]


def _nodes(artifact: Artifact) -> list[str]:
    return [agent.id for agent in artifact.config.everybody]


def _personas(artifact: Artifact) -> dict[str, Persona]:
    known, agents = Personas(), artifact.config.everybody
    found = {agent.id: known.resolve(agent) for agent in agents}
    return {id: persona for id, persona in found.items() if persona is not None}


def _turns(artifact: Artifact) -> Counter[str]:
    return Counter(message.speaker for message in _spoken(artifact))


def _purity(artifact: Artifact) -> dict[str, float | None]:
    turns, personas = _turns(artifact), _personas(artifact)
    broken = Counter[str]()
    for message in _spoken(artifact):
        broken[message.speaker] += len(_violations(message, personas.get(message.speaker)))
    return {
        agent.id: round(max(0.0, 1 - broken[agent.id] / turns[agent.id]), DIGITS) if turns[agent.id] else None
        for agent in artifact.config.agents
    }


def _violations(message: Message, persona: Persona | None) -> list[str]:
    """Each rule of §9.10.1 that a turn breaks, once, with what shows it."""
    text = message.content.text.lower() if hasattr(message.content, "text") else ""
    asked = {request.target for request in message.direct_requests}
    found = []
    touched = [each for each in (persona.forbidden_domains or () if persona else ()) if each.lower() in text]
    if touched:
        found.append(f"V1: speaks of {', '.join(touched)}")
    delegates = persona.must_delegate or {} if persona else {}
    kept = [domain for domain, to in delegates.items() if domain.lower() in text and to not in asked]
    if kept:
        found.append(f"V2: leaves {', '.join(kept)} to nobody")
    if message.schema_failure:
        found.append("V3: asked something that could not be routed")
    return found


def _edges(artifact: Artifact) -> list[dict[str, Any]]:
    counted = Counter(
        (message.speaker, request.target, request.type)
        for message in _spoken(artifact)
        for request in message.direct_requests
    )
    return [
        {"speaker": speaker, "target": target, "type": type, "count": count}
        for (speaker, target, type), count in sorted(counted.items())
    ]


def _retries(events: Iterable[Event]) -> dict[str, int]:
    """Calls beyond the first for the same turn."""
    again = Counter(event["agent"] for event in events if event["event"] == "turn.asked" and event["attempt"] > 1)
    return dict(sorted(again.items()))


def _failures(events: Iterable[Event]) -> dict[str, dict[str, int]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for event in events:
        if event["event"] == "turn.failed":
            found[event["agent"]][event["error"]] += 1
    return {agent: dict(sorted(kinds.items())) for agent, kinds in sorted(found.items())}


def _gaps(artifact: Artifact) -> list[dict[str, Any]]:
    """What nobody on the panel could do: whom agents asked in vain, what was open to the end, what had to be looked up."""
    known = Personas()
    found: dict[str, dict[str, Any]] = {}

    def gap(missing: str, reason: str, evidence: str) -> None:
        suggested = missing if missing in known else None
        row: dict[str, Any] = {"missing_capability": missing, "reason": reason}
        row |= {"suggested_persona": suggested, "evidence": []}
        found.setdefault(missing, row)["evidence"].append(evidence)

    for message in artifact.canonical_transcript:
        for failure in message.schema_failure or ():
            target = str(failure.offending_request.get("target", "?"))
            if target not in _nodes(artifact):
                gap(target, "was asked and does not sit on the panel", message.id)
    verdicts = [message for message in artifact.canonical_transcript if isinstance(message.content, Verdict)]
    topics: defaultdict[str, list[str]] = defaultdict(list)
    for message in verdicts:
        assert isinstance(message.content, Verdict)
        for each in message.content.unresolved_disagreements:
            topics[each.topic].append(message.id)
    for topic, ids in topics.items():
        if len(ids) > 1 and ids[-1] == verdicts[-1].id:
            for id in ids:
                gap(topic, f"stayed open over {len(ids)} rounds", id)
    ending = artifact.outcome.termination_artifact
    if ending and isinstance(request := ending.as_data().get("pending_external_research_request"), dict):
        gap(str(request["query"]), "nobody on the panel could look it up", verdicts[-1].id)
    return list(found.values())


def _overlap(artifact: Artifact) -> list[dict[str, Any]]:
    """Pairs whose turns in one round say about the same, with the words that they share."""
    found = []
    rounds: defaultdict[int, list[tuple[str, set[str]]]] = defaultdict(list)
    for message in _spoken(artifact):
        if message.type == "primary_turn" and hasattr(message.content, "text"):
            rounds[message.round].append((message.speaker, set(_WORD.findall(message.content.text.lower()))))
    for spoken in rounds.values():
        for (one, words), (other, others) in combinations(spoken, 2):
            if words and others and len(words & others) / len(words | others) >= SIMILAR:
                found.append({"topic": ", ".join(sorted(words & others)[:5]), "agents": [one, other]})
    return found


def _contributors(artifact: Artifact) -> list[dict[str, Any]]:
    turns = _turns(artifact)
    failed = Counter(message.speaker for message in _spoken(artifact) if message.schema_failure)
    scores = {agent: round(count * (1 - failed[agent] / count), DIGITS) for agent, count in turns.items()}
    ranked = sorted(scores.items(), key=lambda each: (-each[1], each[0]))
    return [{"agent": agent, "contribution_score": score} for agent, score in ranked]
