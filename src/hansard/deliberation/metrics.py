"""The fourteen figures of §7.9, from an artifact alone: no clock, no record, no model.

A figure that the artifact contradicts (its sum against its messages) is an error and never a number.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hansard.deliberation.documents import Artifact
from hansard.deliberation.documents.semantics import moment
from hansard.errors import UsageError

TOKENS = ("prompt_tokens", "completion_tokens", "total_tokens")
COST_DIGITS = 6
COST_TOLERANCE = 1e-6
Json = Mapping[str, Any]
_CUTTING = frozenset({"budget_exceeded", "timeout", "user_cancel"})
"""What ends a session behind a message, as soon as it is there."""


def metrics_of(data: object) -> dict[str, Any]:
    """All figures, under the names that the reference runtime uses for them. The artifact may be anybody's."""
    return figures_of(Artifact.parse(data).as_data())


def figures_of(artifact: Json) -> dict[str, Any]:
    """The same for an artifact that is known to be one: it was parsed, or made here."""
    messages = artifact["canonical_transcript"]
    _check_sums(artifact)
    config, used, outcome = artifact["config"], artifact["cumulative_usage"], artifact["outcome"]
    seats = {each["id"]: f"{each['provider']}/{each['model']}" for each in (*config["agents"], config["coordinator"])}
    by_agent, by_model = _used_by(messages, seats, lambda id: id), _used_by(messages, seats, seats.__getitem__)
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
        "deferred_queue_length_max": _longest_queue(messages, ending["reason"] if ending else None),
        "schema_failure_count_per_agent": _schema_failures(messages),
        "panel_contraction_count": _contractions(messages),
        "outcome_kind": outcome["kind"],
        "termination_reason": ending["reason"] if ending else None,
        "usage_estimated": any(message["usage"].get("estimated") for message in messages),
    }


def _check_sums(artifact: Json) -> None:
    total, used = artifact["cumulative_usage"], [message["usage"] for message in artifact["canonical_transcript"]]
    for name in TOKENS:
        if total[name] != sum(each[name] for each in used):
            raise UsageError(f"the artifact's {name} is not the sum over its messages; it cannot be measured [R-9.9-1]")
    if abs(total["cost_usd"] - sum(each["cost_usd"] for each in used)) > COST_TOLERANCE:
        raise UsageError("the artifact's cost_usd is not the sum over its messages; it cannot be measured [R-9.9-1]")


Used = Mapping[str, Sequence[Json]]
"""What was used, message by message, under a name."""


def _used_by(messages: Sequence[Json], seated: Container[str], name: Callable[[str], str]) -> Used:
    found: defaultdict[str, list[Json]] = defaultdict(list)
    for message in messages:
        if (speaker := message["speaker"]) in seated:
            found[name(speaker)].append(message["usage"])
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


def _longest_queue(messages: Sequence[Json], reason: str | None) -> int:
    """The queue as the transcript shows it: what was asked, less what was answered, dropped or could not be routed.

    What could not be routed is never counted, although a request whose target was lost later had stood in the queue.
    """
    rounds = {message["id"]: message["round"] for message in messages}
    parents = [message.get("parent_id") for message in messages]
    if (stranger := next((parent for parent in parents if parent and parent not in rounds), None)) is not None:
        raise UsageError(
            f"the artifact has no message {stranger!r:.80}, which one answers; it cannot be measured [R-4.6-2]"
        )
    undecided = _undecided(messages, reason)
    answered_at_once = Counter(
        parent
        for message, parent in zip(messages, parents, strict=True)
        if parent and rounds[parent] == message["round"]
    )
    length = longest = 0
    for message, parent in zip(messages, parents, strict=True):
        if parent and rounds[parent] < message["round"]:
            length -= 1
        if message["type"] == "primary_turn" and message is not undecided:
            asked = len(message["content"].get("direct_requests") or ())
            settled = len(message.get("dropped_deferred") or ()) + len(message.get("schema_failure") or ())
            length += max(0, asked - answered_at_once[message["id"]] - settled)
            longest = max(longest, length)
    return longest


def _undecided(messages: Sequence[Json], reason: str | None) -> Json | None:
    """The turn in which the session ended, before it was decided on what was asked there."""
    turns = [ordinal for ordinal, message in enumerate(messages) if message["type"] == "primary_turn"]
    if not turns:
        return None
    last, *behind = [message for message in messages[turns[-1] :] if message["type"] != "synthesis"]
    answered = [message["type"] for message in behind if message.get("parent_id") == last["id"]]
    is_cut = reason in _CUTTING and len(behind) == 1 and answered == ["branch_turn"]
    return last if is_cut or not behind else None


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
