"""The artifact that a session ends with: its transcript, its outcome, its sums. Pure: everything is handed in.

On the record it names its messages, each of which stands there already, and is put together again from them. So whoever redacts
a message has redacted it there too, and the outcome and the sums stay.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from hansard.deliberation.documents import SCHEMA_VERSION, Config, jcs
from hansard.deliberation.protocol.moves import Json, Stopped, Synthesized
from hansard.deliberation.protocol.state import State
from hansard.deliberation.quoting import SAID
from hansard.deliberation.transcript import Transcript
from hansard.domain.budget import usd
from hansard.domain.value import replace
from hansard.ledger.canonical import Malformed

TRANSCRIPT = "canonical_transcript"
_PENDING = {
    "user_input_required": "pending_user_input_request",
    "external_research_required": "pending_external_research_request",
}


def artifact_of(config: Config, state: State, transcript: Transcript, outcome: Stopped | Synthesized) -> dict[str, Any]:
    """The artifact as JSON data [§5.10]."""
    digest, usage = transcript.digest, transcript.usage()
    if isinstance(outcome, Synthesized):
        said = transcript.messages[outcome.ordinal]
        unresolved = said["content"]["unresolved_disagreements"]
        ended: dict[str, Any] = {"kind": "synthesis", "synthesis_message_id": said["id"]}
    else:
        unresolved = list(state.unresolved.values())
        ended = {"kind": "termination", "termination_artifact": _termination(config, state, outcome, digest, usage)}
    return {
        "schema_version": SCHEMA_VERSION,
        "session_id": config.session_id,
        "config": config.as_data(),
        TRANSCRIPT: transcript.messages,
        "outcome": ended,
        "cumulative_usage": usage,
        "cumulative_unresolved": unresolved,
        "transcript_digest": digest,
        "started_at": transcript.messages[0]["timestamp"],
        "ended_at": transcript.ended_at(),
    }


def told(outcome: Stopped | Synthesized, state: State) -> Stopped | Synthesized:
    """The outcome, where a cap ended the session with the cap in words: which one it is, and what was held against it."""
    if not isinstance(outcome, Stopped) or outcome.why or outcome.cap is None:
        return outcome
    return replace(outcome, why=f"{outcome.cap} {_held_against(outcome, state)}")


def _held_against(stop: Stopped, state: State) -> str:
    rules, agent = state.rules, stop.agent or ""
    match stop.cap:
        case "max_total_tokens":
            return f"is {rules.max_total_tokens:,}, and {state.tokens:,} were used"
        case "max_total_cost_usd":
            return f"is {usd(rules.max_total_cost_usd_nano)}, and {usd(state.cost_usd_nano)} was spent"
        case "max_wallclock_seconds":
            return f"is {rules.max_wallclock_us // 1_000_000:,}"
        case "per_agent_token_budget":
            return f"of {agent} is {rules.agent_tokens[agent]:,}, and {state.agent_tokens[agent]:,} were used"
        case "max_rounds":
            return f"is {rules.max_rounds:,}"
    return "was used up"


def recorded_bytes(artifact: dict[str, Any]) -> bytes:
    """The canonical bytes of an artifact as it goes on the record: `{"said": [0, 7]}` are messages 0 to 6 of its session."""
    return jcs({**artifact, TRANSCRIPT: _named(len(artifact[TRANSCRIPT]))})


def artifact_bytes(recorded: bytes, lines: Sequence[bytes]) -> bytes:
    """The canonical bytes of the whole artifact, from those on the record and those that its messages have already."""
    # No other member comes before this one, so the first place that looks like it is it.
    before, _, behind = recorded.partition(jcs(_named(len(lines))))
    # Put together at once: it is as long as the whole session.
    pieces = [before + b"[" + lines[0], *lines[1:]]
    pieces[-1] += b"]" + behind
    return b",".join(pieces)


def whole(recorded: Mapping[str, Any], messages: Sequence[Json | None]) -> dict[str, Any] | None:
    """The artifact of the record with all messages of its session in their places; None where one of them is gone."""
    if isinstance(recorded[TRANSCRIPT], list):
        return dict(recorded)
    if messages_of(recorded) != len(messages):
        raise Malformed(f"it names {messages_of(recorded)} messages, and {len(messages)} led to it")
    return None if None in messages else {**recorded, TRANSCRIPT: list(messages)}


def messages_of(recorded: Mapping[str, Any]) -> int:
    """How many messages an artifact of the record has. Malformed where it names something else than the first ones."""
    match recorded[TRANSCRIPT]:
        case list(said):
            return len(said)
        case {"said": [first, end], **rest} if not rest and type(first) is type(end) is int and first == 0 < end:
            return end
    raise Malformed(f"{recorded[TRANSCRIPT]!r:.80} names no messages")


def _named(count: int) -> Json:
    return {SAID: [0, count]}


def _termination(config: Config, state: State, stop: Stopped, digest: str, usage: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "reason": stop.reason,
        "final_round": state.round,
        "cumulative_usage": usage,
        "unresolved_disagreements": list(state.unresolved.values()),
        "transcript_digest": digest,
        "most_recent_verdict": state.last_verdict,
    }
    if stop.reason in _PENDING:
        found[_PENDING[stop.reason]] = stop.pending
    if stop.failed is not None and stop.agent is not None:
        agent = config.agent(stop.agent)
        found["last_provider_failure"] = {
            "agent_id": stop.agent,
            "provider": agent.provider if agent else "unknown",
            "kind": stop.failed.kind,
            "message": stop.failed.message or stop.failed.kind,
            "model": agent.model if agent else None,
            "details": stop.failed.details,
        }
    return found
