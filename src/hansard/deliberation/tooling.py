"""Tools at work in a session: every batch of calls is on the record before any of them runs, and what came of it behind that."""

import asyncio
import json
from collections.abc import Callable, Sequence

from hansard.deliberation.documents import Usage
from hansard.deliberation.documents.scripting import added, usage_of
from hansard.deliberation.minutes import Minutes
from hansard.deliberation.result import events_data, json_body
from hansard.domain.council import ToolsCalled, ToolsReturned, TurnTaken
from hansard.domain.exchange import Completion, Failure, ToolEvent, is_priced
from hansard.domain.fact import Body, Fact
from hansard.providers.secrets import Secrets
from hansard.record.recorder import Cause, Recorded


class ToolMinutes:
    """Writes down the tools of one answer. `last` is where the newest of it stands.

    A call for tools counts as soon as it is on the record: `count` hears what it took, and says why the session cannot go on.
    """

    def __init__(
        self,
        minutes: Minutes,
        asked: Recorded[Fact],
        agent: str,
        secrets: Secrets,
        count: Callable[[Usage], Failure | None],
    ) -> None:
        self.last: Cause = asked
        self.used: Usage | None = None
        self.latency_us = 0
        self.priced = True
        """Whether it is known what each call for tools cost."""
        self.calls = 1
        """How many calls of the model are under way or have answered since the last one for tools: one or none."""
        self._minutes, self._agent, self._secrets, self._count = minutes, agent, secrets, count

    async def called(self, iteration: int, completion: Completion) -> Failure | None:
        used = usage_of(completion)
        calls = [{"id": each.id, "name": each.name, "arguments": each.arguments} for each in completion.calls]
        thought = {} if completion.thought is None else {"thought": completion.thought}
        fact = ToolsCalled(
            agent=self._agent,
            iteration=iteration,
            tools=tuple(self._secrets.scrub(each.name)[:64] for each in completion.calls),
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            cost_usd_nano=completion.cost.usd_nano,
            cost_basis=completion.cost.basis,
            latency_us=completion.latency_us,
            calls=self._body({"text": completion.text, "calls": calls, **thought}),
        )
        try:
            await self._note(fact)
        finally:
            self.calls, self.used = 0, used if self.used is None else added(self.used, used)
            self.latency_us += completion.latency_us
            self.priced = self.priced and is_priced(used.total_tokens, completion.cost.basis)
            why = self._count(used)
        return why

    async def returned(self, iteration: int, events: Sequence[ToolEvent], *, asks_again: bool) -> None:
        failed = sum(event.error is not None for event in events)
        results = self._body(events_data(events))
        fact = ToolsReturned(agent=self._agent, iteration=iteration, failed=failed, results=results)
        if asks_again:
            await self._note(fact)
        else:
            self.last = await self._minutes.unasked(fact, self.last)
        self.calls = int(asks_again)

    async def _note(self, fact: Fact) -> None:
        noted = asyncio.ensure_future(self._minutes.note(fact, self.last))
        try:
            await asyncio.shield(noted)
        finally:
            # Also when the session is cancelled meanwhile: what is on the record counts.
            self.last = await noted

    def _body(self, said: object) -> Body:
        # Value by value first: a mark in place of a number would be no JSON.
        return Body.json(self._secrets.scrub(json_body(self._secrets.scrub_json(said)).data or b""))


def tool_line(fact: Fact) -> bytes | None:
    """What tools did for a message, as a line for the directory: messages of the protocol have no place for it [A-2]."""
    if not isinstance(fact, TurnTaken) or not fact.tools or fact.result is None or fact.result.data is None:
        return None
    events = json.loads(fact.result.data).get("tool_events", [])
    said = {"message_id": json.loads(fact.message.data or b"{}").get("id"), "tool_events": events}
    return (json_body(said).data or b"") + b"\n"
