"""Tools at work in a session: every batch of calls is on the record before any of them runs, and what came of it behind that."""

import json
from collections.abc import Sequence

from hansard.deliberation.minutes import Minutes
from hansard.deliberation.result import events_data, json_body
from hansard.domain.council import ToolsCalled, ToolsReturned, TurnTaken
from hansard.domain.exchange import Completion, ToolEvent
from hansard.domain.fact import Body, Fact
from hansard.providers.secrets import Secrets
from hansard.record.recorder import Recorded


class ToolMinutes:
    """Writes down the tools of one answer. `last` is where the newest of it stands."""

    def __init__(self, minutes: Minutes, asked: Recorded[Fact], agent: str, secrets: Secrets) -> None:
        self.last: Recorded[Fact] = asked
        self._minutes, self._agent, self._secrets = minutes, agent, secrets

    async def called(self, iteration: int, completion: Completion) -> None:
        calls = [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in completion.calls]
        fact = ToolsCalled(
            agent=self._agent,
            iteration=iteration,
            tools=tuple(self._secrets.scrub(each.name)[:64] for each in completion.calls),
            prompt_tokens=completion.usage.input_tokens,
            completion_tokens=completion.usage.output_tokens,
            calls=self._body({"text": completion.text, "calls": calls}),
        )
        self.last = await self._minutes.note(fact, self.last)

    async def returned(self, iteration: int, events: Sequence[ToolEvent]) -> None:
        failed = sum(event.error is not None for event in events)
        results = self._body(events_data(events))
        fact = ToolsReturned(agent=self._agent, iteration=iteration, failed=failed, results=results)
        self.last = await self._minutes.note(fact, self.last)

    def _body(self, said: object) -> Body:
        return Body.json(self._secrets.scrub(json_body(said).data or b""))


def tool_line(fact: Fact) -> bytes | None:
    """What tools did for a message, as a line for the directory: messages of the protocol have no place for it [A-2]."""
    if not isinstance(fact, TurnTaken) or not fact.tools or fact.result is None or fact.result.data is None:
        return None
    events = json.loads(fact.result.data).get("tool_events", [])
    said = {"message_id": json.loads(fact.message.data or b"{}").get("id"), "tool_events": events}
    return (json_body(said).data or b"") + b"\n"
