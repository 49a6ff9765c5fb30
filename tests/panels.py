"""Panels for tests: agents that say what a test wants, and runs whose last rung is a panel."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Completion, Cost, Exchange, Failure, Usage
from hansard.providers.base import Heard, answered

Voice = Callable[[Exchange], Any]
SPLIT = {
    "topic": "the limit",
    "positions": [{"agent": "critic", "claim": "ten is too many"}, {"agent": "engineer", "claim": "ten will do"}],
}


def turn(text: str = "I think so.", *requests: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": text, **({"direct_requests": list(requests)} if requests else {})}


def verdict(action: str = "finalize", **more: Any) -> dict[str, Any]:
    return {
        "next_action": action,
        "rationale": "because",
        "confidence": 0.8,
        "focus": "the point",
        "next_agents": [],
        "resolved_disagreements": [],
        "unresolved_disagreements": [],
        **more,
    }


def synthesis(answer: str = "Ten a minute.", *unresolved: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "integrated_answer": answer,
        "resolved_disagreements": [],
        "unresolved_disagreements": list(unresolved),
    }


def agreeing(exchange: Exchange) -> Any:
    """A panel that comes to an end in one round, with one thing left open."""
    match exchange.schema_name:
        case "turn_structured_output":
            return turn(f"{exchange.metadata['agent_id']} thinks so")
        case "verdict":
            return verdict()
        case _:
            return synthesis("Ten a minute.", SPLIT)


class Voices:
    """The provider of a panel's agents. `says` gives a structured answer, a failure, or an awaitable of one."""

    def __init__(
        self, says: Voice = agreeing, *, id: str = "voices", tokens: tuple[int, int] = (10, 5), unmetered: bool = True
    ) -> None:
        self.id, self.unmetered = id, unmetered
        self.calls: list[Exchange] = []
        self._says, self._tokens = says, tokens

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "told", "model": "voice"}

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        self.calls.append(exchange)
        said = self._says(exchange)
        if not isinstance(said, dict | str | Failure):
            said = await said
        usage = Usage(input_tokens=self._tokens[0], output_tokens=self._tokens[1])
        cost = Cost(usd_nano=1_000, basis="reported")
        blank = Completion(provider=self.id, requested_model="voice", returned_model="voice", usage=usage, cost=cost)
        if isinstance(said, Failure):
            return replace(blank, failure=said, finish="error")
        if isinstance(said, dict) and "calls" in said:
            return replace(blank, calls=said["calls"], finish="tool_call")
        return replace(blank, text=said) if isinstance(said, str) else replace(blank, structured=said)

    def asked(self, agent: str) -> list[Exchange]:
        return [each for each in self.calls if each.metadata["agent_id"] == agent]


PANELS: Mapping[str, Any] = {"bench": {"agents": ["critic", "engineer"], "provider": "voices", "max_rounds": 2}}
"""A panel of two, which asks the provider `voices`."""
