"""One turn at its two ends: what the rules hear of an answer, and the message that it becomes. Records nothing."""

from typing import Any, Literal

from hansard.deliberation.documents import Usage, unrepresentable
from hansard.deliberation.protocol.moves import Answered, Draft, Failed, Json, Reading, Spent
from hansard.deliberation.protocol.session import GONE, UNROUTABLE
from hansard.deliberation.quoting import ANNOTATIONS
from hansard.domain.budget import NANO_PER_USD
from hansard.domain.exchange import Completion
from hansard.providers.retry import may_retry

MessageShape = Literal["golden", "reference"]
"""`golden` is what the protocol's own fixtures have; `reference` what its reference runtime writes [A-1]."""

# The reference's own words: they are part of its digests.
_REASONS = {
    UNROUTABLE: "target not in active_panel, is originator, or is coordinator",
    GONE: "deferred direct_request no longer routable at drain time "
    "(target left active_panel, is originator, or is coordinator)",
}


def spent_of(usage: Usage, calls: int = 1) -> Spent:
    """What caps count of a usage, by so many calls."""
    return Spent(tokens=usage.total_tokens, cost_usd_nano=round(usage.cost_usd * NANO_PER_USD), calls=calls)


def heard(completion: Completion, usage: Usage, spent: Spent, reading: Reading) -> Answered | Failed:
    """What the rules hear of a completion. Whether to try again is ours to say, not the provider's alone."""
    why = completion.failure
    if why is None:
        return Answered(reading=reading, content=completion.structured, usage=usage.as_data(), spent=spent)
    details = dict(why.details)
    return Failed(
        reading=reading,
        kind=why.kind,
        retriable=may_retry(why),
        spent=spent,
        message=why.message,
        details=details if details and unrepresentable(details) is None else None,
    )


NO_USAGE: Json = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost_usd": 0.0}


def as_message(
    draft: Draft, *, id: str, timestamp: str, parent_id: str | None, shape: MessageShape = "golden"
) -> dict[str, Any]:
    """The message as it stands in the transcript."""
    message: dict[str, Any] = {
        "id": id,
        "speaker": draft.speaker,
        "type": draft.type,
        "content": draft.content,
        "parent_id": parent_id,
        "round": draft.round,
        "turn_index": draft.turn_index,
        "branch_depth": draft.branch_depth,
        "timestamp": timestamp,
        "usage": dict(draft.usage or NO_USAGE),
    }
    for name in ANNOTATIONS:
        if added := getattr(draft, name):
            message[name] = list(added)
    return message if shape == "golden" else _as_reference(message)


def _as_reference(message: dict[str, Any]) -> dict[str, Any]:
    if message["type"] == "panel_contraction":
        message |= {"branch_depth": 0, "parent_id": None}
    if message["type"] == "branch_turn":
        message["content"] = {name: each for name, each in message["content"].items() if name != "direct_requests"}
    if "schema_failure" in message:
        message["schema_failure"] = [{**each, "reason": _REASONS[each["reason"]]} for each in message["schema_failure"]]
    message["usage"].setdefault("estimated", False)
    if message["parent_id"] is None:
        del message["parent_id"]
    return message
