"""What an agent is shown before its turn, derived from the transcript alone [§4.3].

Deterministic and without a provider: the same transcript gives the same packet. The protocol asks for the running round
only; that would make agents forget from one round to the next, so earlier messages are added as far as a number of tokens goes.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hansard.deliberation.documents import Config, Persona
from hansard.deliberation.protocol.moves import Ask, Json
from hansard.deliberation.protocol.state import State
from hansard.domain.value import value

CHARACTERS_PER_TOKEN = 4


class Sayings(Protocol):
    """A transcript: its messages, and at which byte each would end if their canonical bytes stood one behind the other."""

    @property
    def messages(self) -> Sequence[Json]: ...

    @property
    def ends(self) -> Sequence[int]: ...


@value
class Window:
    """How many tokens of earlier rounds an agent is shown, and how many the synthesis is."""

    turn_tokens: int = 4_000
    synthesis_tokens: int = 100_000


@value
class Packet:
    """The whole minimum of §4.3, and the earlier messages that fit."""

    ask: Ask
    problem: str
    personas: Mapping[str, Persona]
    panel: tuple[str, ...]
    """Who is on it still, in the order in which they speak."""
    rounds: int
    """How many there may be at most."""
    current: tuple[Json, ...]
    verdict: Json | None
    verdict_at: int | None = None
    """The number of the message that it is."""
    earlier: tuple[Json, ...] = ()
    left_out: int = 0
    origin: tuple[Json, Json] | None = None
    queue: tuple[Json, ...] | None = None
    disagreements: Json | None = None

    @property
    def persona(self) -> Persona:
        return self.personas[self.ask.agent]

    @property
    def disclosure(self) -> list[tuple[str, str]]:
        """The panel, with what each is there for."""
        return [(agent, _role(self.personas[agent], agent == self.ask.agent)) for agent in self.panel]

    def as_data(self) -> dict[str, Any]:
        """As the protocol writes it down; what is shown of earlier rounds has no place there."""
        data: dict[str, Any] = {
            "problem_statement": self.problem,
            "round": self.ask.round,
            "persona": self.persona.as_data(),
            "panel_disclosure": [{"id": id, "role_summary": role} for id, role in self.disclosure],
            "current_round_messages": list(self.current),
            "most_recent_verdict": self.verdict,
        }
        if self.origin is not None:
            data["branch_origin"] = {"direct_request": self.origin[0], "parent_message": self.origin[1]}
        if self.queue is not None:
            data["deferred_queue_summary"] = list(self.queue)
        if self.disagreements is not None:
            data["cumulative_disagreements"] = self.disagreements
        if self.left_out:
            data["compression_note"] = self.note
        return data

    @property
    def note(self) -> str:
        return f"{self.left_out} earlier messages are left out"


def derive(
    ask: Ask,
    state: State,
    transcript: Sayings,
    config: Config,
    personas: Mapping[str, Persona],
    window: Window | None = None,
) -> Packet:
    """The packet for this turn. `state` is what the rules made of the transcript; `personas` are the resolved ones, by agent."""
    window, messages = window or Window(), transcript.messages
    synthesis, start = ask.expect == "synthesis_content", state.opened
    first = _fitting(transcript.ends, start, window.synthesis_tokens if synthesis else window.turn_tokens)
    asks_chair = ask.agent == config.coordinator.id
    return Packet(
        ask=ask,
        problem=config.problem_statement,
        personas=personas,
        panel=state.active,
        rounds=state.rules.max_rounds,
        current=tuple(messages[start:]),
        verdict=state.last_verdict,
        verdict_at=state.verdict_at,
        earlier=tuple(messages[first:start]),
        left_out=first - 1,
        origin=None if ask.parent is None else (ask.request or {}, messages[ask.parent]),
        queue=tuple(_queued(each) for each in state.queue) if asks_chair and not synthesis else None,
        disagreements=_disagreements(state) if synthesis else None,
    )


def _fitting(ends: Sequence[int], start: int, tokens: int) -> int:
    """Where the newest messages before `start` begin that fit. The length of their bytes will do for the length of their text."""
    before = start - 1
    return bisect_left(ends, ends[before] - tokens * CHARACTERS_PER_TOKEN, 0, before) + 1


def _role(persona: Persona, is_self: bool) -> str:
    return f"{persona.reasoning_scope}; {persona.reasoning_style}" + (" (you)" if is_self else "")


def _queued(deferred: Any) -> Json:
    return {"target": deferred.target, "originator": deferred.originator, "type": deferred.request["type"]}


def _disagreements(state: State) -> Json:
    return {"resolved": list(state.resolved.values()), "unresolved": list(state.unresolved.values())}
