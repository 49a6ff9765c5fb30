"""A provider of your own: one method. `answered` sees to time limits, checks the answer, and turns errors into values."""

import asyncio
from collections.abc import Mapping

from hansard import Hansard, Wishes
from hansard.domain.exchange import Completion, Exchange
from hansard.providers.base import Heard, answered


class Upper:
    """Says everything louder."""

    id, unmetered = "upper", True

    @answered
    async def complete(self, exchange: Exchange, heard: Heard) -> Completion:
        said = exchange.messages[-1].content
        return Completion(provider=self.id, requested_model="loud", returned_model="loud-1", text=said.upper()[-40:])

    async def close(self) -> None:
        """There is nothing to let go of."""

    def describe(self) -> Mapping[str, str]:
        return {"name": self.id, "kind": "upper", "model": "loud"}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        run = await hansard.submit("hear, hear", lane="teaching", provider=Upper(), wishes=Wishes(judge="checks"))
        print(await run.answer())
        print(run.show()["tasks"][0]["attempts"][0]["returned"]["model"])


asyncio.run(main())
