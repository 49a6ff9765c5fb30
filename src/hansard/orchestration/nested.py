"""A provider that answers by holding a session inside of the run that asks it: what the engine and it tell each other.

The engine knows nothing of sessions. It hands over its journal, the entry that asks, and what was set aside; what the session
records stands in the same run, and each call that it makes is charged to the run when it comes back.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, runtime_checkable

from hansard.domain.budget import Budget
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.value import value
from hansard.orchestration.journal import Journal

Because = Literal["cancelled", "deadline", "over"]
"""Why nobody goes on with a session: the run is cancelled, its time is over, or it has ended in any other way."""
PANEL = "panel:"
"""How the name of a target begins that is a panel."""


def is_panel(name: object) -> bool:
    """Whether a target's name is a panel's: what it costs stands in its own turns, and is counted there."""
    return isinstance(name, str) and name.startswith(PANEL)


@value
class Nested:
    """Where a session is held: in whose record, because of which entry, within what, and who pays."""

    journal: Journal
    entry: int
    share: Budget
    charge: Callable[[Completion], None]


@runtime_checkable
class Convenes(Protocol):
    """A provider of this kind."""

    def share(self, exchange: Exchange) -> Budget:
        """What its answer to this question may take at most."""
        ...

    def goes_on(self, run: str, exchange: Exchange) -> bool:
        """Whether a session was convened on this question before a crash, so that its answer is the rest of that one."""
        ...

    async def convene(self, exchange: Exchange, nested: Nested) -> Completion:
        """One answer, good or bad. Unlike `complete` it lets errors of the record through: then nothing may go on."""
        ...


Abandon = Callable[[Journal, Because], Awaitable[None]]
"""The run ends: ends on the record whatever sessions are open in it. Asks nobody, and needs no provider that is open."""


async def no_sessions(journal: Journal, because: Because) -> None:
    """Where nobody convenes any, none are left open."""
