"""The fourteen figures of §7.9, from an artifact alone: no clock, no record, no model.

A figure that the artifact contradicts (its sum against its messages) is an error and never a number.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from hansard.deliberation.documents import Artifact
from hansard.deliberation.documents.semantics import moment
from hansard.deliberation.queued import longest_queue
from hansard.errors import UsageError

TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
COST_DIGITS = 6
COST_TOLERANCE = 1e-6
Json = Mapping[str, Any]


def metrics_of(data: object) -> dict[str, Any]:
    """All figures, under the names that the reference runtime uses for them. The artifact may be anybody's."""
    return figures_of(Artifact.parse(data).as_data())


def figures_of(artifact: Json) -> dict[str, Any]:
    """The same for an artifact that is known to be one: it was parsed, or made here."""
    messages = artifact["canonical_transcript"]
    _check_sums(artifact)
    config, used, outcome = artifact["config"], artifact["cumulative_usage"], artifact["outcome"]
    seats = {each["id"]: f"{each['provider']}/{each['model']}" for each in (*config["agents"], config["coordinator"])}
    by_agent, by_model = _used_by(messages, {id: id for id in seats}), _used_by(messages, seats)
    ending = outcome.get("termination_artifact")
    return {
        "session_id": artifact["session_id"],
        "schema_version": artifact["schema_version"],
        "transcript_digest": artifact["transcript_digest"],
        "tokens_per_agent": _tokens(by_agent),
        "tokens_cumulative": {name: used[name] for name in TOKENS},
        "tokens_per_provider_model": _tokens(by_model),
        "cost_per_agent": _costs(by_agent),
        "cost_cumulative": {"cost_usd": round(float(used["cost_usd"]), COST_DIGITS)},
        "cost_per_provider_model": _costs(by_model),
        "latency_per_invocation": _latencies(messages),
        "participation_per_round": _participation(messages),
        "branch_depth_max": max(message["branch_depth"] for message in messages),
        "deferred_queue_length_max": _queue(artifact, ending["reason"] if ending else None),
        "schema_failure_count_per_agent": _schema_failures(messages),
        "panel_contraction_count": _contractions(messages),
        "outcome_kind": outcome["kind"],
        "termination_reason": ending["reason"] if ending else None,
        "usage_estimated": any(message["usage"].get("estimated") for message in messages),
    }


def _check_sums(artifact: Json) -> None:
    total, used = artifact["cumulative_usage"], [message["usage"] for message in artifact["canonical_transcript"]]
    for name in TOKENS:
        if total[name] != sum([each[name] for each in used]):
            raise UsageError(f"the artifact's {name} is not the sum over its messages; it cannot be measured [R-9.9-1]")
    if abs(total["cost_usd"] - sum([each["cost_usd"] for each in used])) > COST_TOLERANCE:
        raise UsageError("the artifact's cost_usd is not the sum over its messages; it cannot be measured [R-9.9-1]")


Used = Mapping[str, Sequence[Json]]
"""What was used, message by message, under a name."""


def _used_by(messages: Sequence[Json], names: Mapping[str, str]) -> Used:
    found: defaultdict[str, list[Json]] = defaultdict(list)
    for message in messages:
        if (name := names.get(message["speaker"])) is not None:
            found[name].append(message["usage"])
    return found


def _tokens(used: Used) -> dict[str, dict[str, int]]:
    return {name: {each: sum([usage[each] for usage in uses]) for each in TOKENS} for name, uses in used.items()}


def _costs(used: Used) -> dict[str, dict[str, float]]:
    sums = {name: sum([usage["cost_usd"] for usage in uses]) for name, uses in used.items()}
    return {name: {"cost_usd": round(float(cost), COST_DIGITS)} for name, cost in sums.items()}


def _latencies(messages: Sequence[Json]) -> list[dict[str, Any]]:
    times = [moment(message["timestamp"]) for message in messages]
    return [
        {
            "message_id": message["id"],
            "speaker": message["speaker"],
            "latency_seconds": (after - before).total_seconds(),
        }
        for message, (before, after) in zip(messages[1:], pairwise(times), strict=True)
    ]


def _participation(messages: Sequence[Json]) -> list[dict[str, Any]]:
    turns = Counter(
        (message["round"], message["speaker"])
        for message in messages
        if message["type"] in {"primary_turn", "branch_turn"}
    )
    return [{"round": round, "speaker": speaker, "count": count} for (round, speaker), count in sorted(turns.items())]


def _queue(artifact: Json, reason: str | None) -> int:
    messages = artifact["canonical_transcript"]
    known, parents = {message["id"] for message in messages}, [message.get("parent_id") for message in messages]
    if (stranger := next((parent for parent in parents if parent and parent not in known), None)) is not None:
        raise UsageError(
            f"the artifact has no message {stranger!r:.80}, which one answers; it cannot be measured [R-4.6-2]"
        )
    return longest_queue(messages, artifact["config"], reason)


def _schema_failures(messages: Sequence[Json]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for message in messages:
        if failures := message.get("schema_failure"):
            found[message["speaker"]] += len(failures)
    return dict(found)


def _contractions(messages: Sequence[Json]) -> list[dict[str, Any]]:
    lost = Counter(
        (message["content"]["agent_id"], message["content"]["reason"])
        for message in messages
        if message["type"] == "panel_contraction"
    )
    return [{"agent_id": agent, "reason": reason, "count": count} for (agent, reason), count in sorted(lost.items())]
