"""Answers from a script: for tests, demonstrations and whoever wants to see an engine run without a model.

Deterministic: the same questions in the same order get the same answers. A scripted answer is held to the schema like
any other. At the end `report` tells which answers nobody asked for and which questions had none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Completion, Exchange, Failure
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers.base import Heard, answered, failed, failure
from hansard.providers.checks import requested_model
from hansard.providers.script import Entry, Script


@value
class Report:
    """How a script was used. Entries are numbered from 1."""

    calls: int
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    peak: int
    """How many calls were in flight at most."""

    @property
    def ok(self) -> bool:
        """Every answer was asked for, and every question had one."""
        return not self.unused and not self.missing

    def __str__(self) -> str:
        lines = [f"{self.calls} calls, at most {self.peak} at once"]
        lines += [f"unused: {each}" for each in self.unused]
        lines += [f"missing: {each}" for each in self.missing]
        return "\n".join(lines)


class Scripted:
    """A provider that answers from a script."""

    unmetered = True

    def __init__(
        self,
        script: Script,
        *,
        id: str = "scripted",
        model: str = "scripted",
        one_at_a_time: bool = False,
        keep: bool = True,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.id = id
        self.calls: list[Exchange] = []
        """What was asked, for whoever tests with a script. Without `keep` nothing of it stays in memory."""
        self._keep, self._asked = keep, 0
        self._described = {"name": id, "kind": "scripted", "model": model, "script": script.name}
        self._script, self._sleep = script, sleep
        self._one_at_a_time = one_at_a_time
        self._used = [0] * len(script.entries)
        self._missing: list[str] = []
        self._in_flight = self._peak = 0

    def describe(self) -> Mapping[str, str]:
        return self._described

    async def close(self) -> None:
        """There is nothing to let go of."""

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        self._asked += 1
        if self._keep:
            self.calls.append(exchange)
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        try:
            if self._one_at_a_time and self._in_flight > 1:
                return failed(self, exchange, self._refusal("asked while another call was in flight", exchange))
            entry = self._next(exchange)
            if isinstance(entry, Failure):
                return failed(self, exchange, entry)
            if entry.latency_s:
                await self._sleep(entry.latency_s)
            heard.usage = entry.reply.usage
            return entry.reply.completion(self.id, requested_model(exchange, self.describe()))
        finally:
            self._in_flight -= 1

    @property
    def in_flight(self) -> int:
        """How many calls are being answered now."""
        return self._in_flight

    def report(self) -> Report:
        """What was used and what was missed so far."""
        unused = [
            f"entry {number} {dict(entry.match)}"
            for number, (entry, used) in enumerate(zip(self._script.entries, self._used, strict=True), 1)
            if not used
        ]
        return Report(calls=self._asked, unused=tuple(unused), missing=tuple(self._missing), peak=self._peak)

    def _next(self, exchange: Exchange) -> Entry | Failure:
        found = self._in_order(exchange) if self._script.mode == "sequential" else self._by_key(exchange)
        if isinstance(found, Failure):
            return found
        self._used[found] += 1
        return self._script.entries[found]

    def _in_order(self, exchange: Exchange) -> int | Failure:
        entries, number = self._script.entries, self._asked - 1
        if number >= len(entries) and self._script.on_exhaustion == "error":
            return self._refusal("entries exhausted", exchange)
        index = number % len(entries)
        wrong = entries[index].mismatch(exchange)
        if wrong is None:
            return index
        return self._refusal(f"match assertion failed at entry {index + 1}: {wrong}", exchange)

    def _by_key(self, exchange: Exchange) -> int | Failure:
        matching = [i for i, entry in enumerate(self._script.entries) if entry.mismatch(exchange) is None]
        # min is stable: of those used least, the first in the script.
        chosen = min(matching, key=self._used.__getitem__, default=None)
        if chosen is None:
            return self._refusal("no entry matches", exchange)
        if self._used[chosen] and self._script.on_exhaustion == "error":
            return self._refusal("every matching entry was used", exchange)
        return chosen

    def _refusal(self, why: str, exchange: Exchange) -> Failure:
        self._missing.append(f"call {self._asked} {_who(exchange)}: {why}")
        return failure("internal", f"{self._script.name}: {why}", retryable=False, asked_by=dict(exchange.metadata))


def _who(exchange: Exchange) -> dict[str, Any]:
    shape = {"schema": exchange.schema_name} if exchange.schema is not None else {}
    return {**exchange.metadata, **shape}


def open_scripted(id: str, options: Mapping[str, Any], environment: Mapping[str, str]) -> Scripted:
    """A provider from its table in hansard.toml: `script` names a file, or `entries` stand in the table itself."""
    where = f"[providers.{id}]"
    inline = {key: value for key, value in options.items() if key not in {"kind", "script", "model", "one_at_a_time"}}
    path, model = options.get("script"), options.get("model", "scripted")
    alone = options.get("one_at_a_time", False)
    if not isinstance(model, str) or not isinstance(alone, bool):
        raise UsageError(f"{where}: model must be a text and one_at_a_time true or false")
    if path is None:
        script = Script.of(inline, where=where)
    elif inline or not isinstance(path, str):
        raise UsageError(f'{where}: write script = "FILE.toml", or entries in this table, and not both')
    else:
        script = Script.load(Path(path))
    return Scripted(script, id=id, model=model, one_at_a_time=alone, keep=False)
