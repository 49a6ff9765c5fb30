"""A driver's pen: records the facts of one run under its claim, and tells whoever listens. Only drivers hold one.

The recorder sees home what is queued even when the driver is cancelled meanwhile: afterwards the record tells what stands in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from hansard.domain.fact import Body, Fact
from hansard.domain.work import ResultsJoined, RoleAnswered, RunInterrupted, TaskReturned
from hansard.finishing import to_the_end
from hansard.ledger.entry import MAX_CAUSES
from hansard.providers.secrets import Secrets
from hansard.record.recorder import Cause, Recorded, Recorder, Step
from hansard.store.base import Claim

F = TypeVar("F", bound=Fact)

TIMED = (TaskReturned, RoleAnswered, RunInterrupted)
"""The clock on the wall may be set before somebody goes on from these, or the machine may sleep."""
Listener = Callable[[str, Recorded[Fact]], None]


class Journal:
    """Records for one run. Known secrets are removed from every body on its way."""

    def __init__(
        self,
        recorder: Recorder,
        run: str,
        claim: Claim,
        *,
        secrets: Secrets | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.run, self.claim, self.recorder = run, claim, recorder
        self._secrets, self._listeners = secrets, listeners
        self.first: Callable[[], Awaitable[None]] | None = None
        """Puts on the record what stands before everything else. Where nothing else comes, it never does."""
        self._opening: asyncio.Future[None] | None = None
        self.elapsed_us: Callable[[], int] | None = None
        """How long the run has been worked on; None where nobody has to know it when it goes on."""

    @property
    def is_silent(self) -> bool:
        """Whether the driver has said nothing so far, not even that it is there."""
        return self.first is not None and self._opening is None

    async def open(self) -> None:
        """Say first what is to be said first, where that was left until now. It is written before whoever waits is cancelled."""
        if self.first is not None:
            self._opening = self._opening or asyncio.ensure_future(self.first())
            await to_the_end(self._opening)
            self.first = None

    async def record(self, fact: F, actor: str, causes: Iterable[Cause]) -> Recorded[F]:
        """Record one fact."""
        if self.first is not None:
            await self.open()
        return await self.put(fact, actor, causes)

    async def put(self, fact: F, actor: str, causes: Iterable[Cause]) -> Recorded[F]:
        """The same for what stands first."""
        clean = self._clean(fact)
        recorded = await self.recorder.record(clean, actor=actor, run=self.run, causes=causes, claim=self.claim)
        self.tell(recorded)
        return recorded

    async def record_all(self, steps: Sequence[Step]) -> list[Recorded[Fact]]:
        """Record several facts in one commit."""
        if self.first is not None:
            await self.open()
        if self._secrets or self.elapsed_us:
            steps = [Step(self._clean(step.fact), step.actor, step.causes) for step in steps]
        recorded = await self.recorder.record_all(steps, run=self.run, claim=self.claim)
        if self._listeners:
            for each in recorded:
                self.tell(each)
        return recorded

    async def gathered(self, causes: Sequence[int]) -> list[int]:
        """The same causes, few enough for one entry: many stand behind entries that join them ([E8])."""
        few = list(causes)
        while len(few) > MAX_CAUSES:
            groups = [few[at : at + MAX_CAUSES] for at in range(0, len(few), MAX_CAUSES)]
            steps = [Step(ResultsJoined(count=len(group)), "engine", group) for group in groups]
            few = [each.seq for each in await self.record_all(steps)]
        return few

    def tell(self, recorded: Recorded[Fact]) -> None:
        """Tell whoever listens of something that was recorded in this run."""
        for listener in tuple(self._listeners):
            listener(self.run, recorded)

    def _clean(self, fact: F) -> F:
        if self.elapsed_us and isinstance(fact, TIMED):
            fact = replace(fact, elapsed_us=self.elapsed_us())
        return without_secrets(fact, self._secrets) if self._secrets else fact


def without_secrets(fact: F, secrets: Secrets) -> F:
    """The fact with every known secret in its bodies replaced by its name."""
    changed: dict[str, Any] = {}
    for each in fields(fact):
        value = getattr(fact, each.name)
        if isinstance(value, Body) and value.data is not None and (data := secrets.scrub(value.data)) != value.data:
            changed[each.name] = Body(value.media, data)
    return replace(fact, **changed) if changed else fact
