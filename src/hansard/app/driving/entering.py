"""Whoever drives a run says so on the record with his first word: who finds that he cannot go on with it here leaves no trace."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from hansard.domain.fact import Fact
from hansard.finishing import to_the_end
from hansard.record.recorder import Recorded, Recorder, Step
from hansard.store.base import Claim


class Entering:
    """A recorder for one driver. `say` puts it on the record that he is there."""

    def __init__(self, recorder: Recorder, say: Callable[[], Awaitable[None]]) -> None:
        self._recorder, self._say = recorder, say
        self._saying: asyncio.Future[None] | None = None
        self._said = False

    async def enter(self) -> None:
        """Say it, if that is not done. It is written before whoever waits is cancelled."""
        self._saying = self._saying or asyncio.ensure_future(self._say())
        await to_the_end(self._saying)
        self._said = True

    async def record_all(
        self, steps: Sequence[Step], *, run: str = "", claim: Claim | None = None
    ) -> list[Recorded[Fact]]:
        if not self._said:
            await self.enter()
        return await self._recorder.record_all(steps, run=run, claim=claim)
