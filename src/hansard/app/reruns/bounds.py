"""How far a re-run goes: no further than the record. A phase that was cut is left where it was cut, to the entry."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import TypeVar

from hansard.app.reruns.phases import Deed, Phase, deed, is_said_of_the_cut
from hansard.domain.exchange import Exchange
from hansard.domain.fact import Fact
from hansard.domain.gate import GateOpened
from hansard.domain.work import RoleAnswered, RoleAsked, TaskAttempted, TaskRestarted
from hansard.providers.recording import Call, call_of, opened
from hansard.record.recorder import Cause, Recorded, Recorder, Step
from hansard.record.replaying import WORKER
from hansard.store.base import Claim, Store

F = TypeVar("F", bound=Fact)

LOOK_S = 0.01
PATIENCE_S = 2.0


class Until:
    """Knows how far the recorded run came in a phase. Whoever goes further waits, as it waited until it was cut.

    Whoever is `swapped` in, by role, is heard to the end of what was asked: he may need more turns for it.
    """

    def __init__(self, memory: Store, first: Phase, swapped: Collection[str] = ()) -> None:
        self._memory, self.phase, self._swapped = memory, first, swapped
        self._stands = asyncio.Event()
        self._live = 0
        self._done: Counter[Deed] = Counter()
        self._to_ask: set[Call] = set()
        self._owed: list[Callable[[], None]] = []
        self._is_bound = False
        self._free = ""

    def stands_at(self, exchange: Exchange) -> bool:
        """Whether the recorded run came no further than this question."""
        return self.phase.stands_at(call_of(exchange), sha256(opened(exchange)).hexdigest())

    def is_swallowed(self, exchange: Exchange) -> bool:
        """Whether the recorded run gave this attempt up: the engine had ended too often while it was made."""
        return call_of(exchange) in self.phase.swallowed

    def stand(self) -> None:
        """Somebody comes no further."""
        self._stands.set()

    async def held(self) -> None:
        self.stand()
        await asyncio.Event().wait()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While somebody is asked live."""
        self._live += 1
        try:
            yield
        finally:
            self._live -= 1

    def begin(self, phase: Phase, *, is_last: bool) -> None:
        self.phase, self._is_bound = phase, phase.cut
        # Nobody decides at a gate that the record did not come to; but who waited to open it would hold up those at others.
        # Before another phase it stays shut: there it may be opened for something else.
        self._free = GateOpened.KIND if is_last else ""
        self._to_ask = {each for _, each in phase.order if isinstance(each, Call)}
        self._stands.clear()

    def owe(self, pay: Callable[[], None]) -> None:
        """Something is to be paid when the phase is cut, and not before: others went on meanwhile."""
        self._owed.append(pay)

    def cut(self) -> None:
        """From here on it is cut: what is said about that is not held up."""
        self._is_bound = False
        while self._owed:
            self._owed.pop()()

    def may(self, fact: Fact, about: Fact | None) -> bool:
        """Whether the recorded run came to say this, as an answer to what it is `about`; then it counts as said."""
        if isinstance(fact, TaskAttempted):
            return self._may_ask(Call(WORKER, fact.task, fact.attempt, 1))
        if isinstance(fact, RoleAsked):
            return self._may_ask(Call(fact.role, fact.task or "", fact.attempt, fact.turn))
        if isinstance(fact, TaskRestarted):
            return not self._is_bound or (fact.task, fact.attempt) in self.phase.restarted

        def said(name: str) -> object:
            return getattr(fact, name, getattr(about, name, None))

        name = deed(fact.KIND, said)
        if name is not None:
            is_live = isinstance(fact, RoleAnswered) and fact.role in self._swapped
            is_bound = self._is_bound and not is_live and self._free != fact.KIND
            if is_bound and self._done[name] >= self.phase.done[name]:
                return False
            # What is said when a phase is cut would pass for the same in the next one, which would be cut before it came to that.
            self._done[name] += not is_said_of_the_cut(fact.KIND, said)
        return True

    def _may_ask(self, call: Call) -> bool:
        self._to_ask.discard(call)
        known = call._replace(turn=1) if call.role in self._swapped else call
        return not self._is_bound or known in self.phase.asked

    def has_done(self, deeds: Counter[Deed]) -> bool:
        return deeds <= self._done

    async def over(self) -> None:
        """Wait until somebody waits for more, and all that the recorded run did is done; or nothing was done for a while."""
        await self._stands.wait()
        size, idle_s = -1, 0.0
        while idle_s < PATIENCE_S:
            now = self._memory.head().size
            if now != size and not self._to_ask and self.phase.done <= self._done:
                return
            idle_s = idle_s + LOOK_S if now == size and not self._live else 0.0
            size = now
            await asyncio.sleep(LOOK_S)


class Bounded(Recorder):
    """The recorder of a re-run: what a phase that was cut did not come to is not recorded, and whoever did it waits."""

    def __init__(self, store: Store, until: Until) -> None:
        super().__init__(store)
        self._until = until
        self._asked: dict[int, Fact] = {}

    async def record(
        self, fact: F, *, actor: str, run: str = "", causes: Iterable[Cause] = (), claim: Claim | None = None
    ) -> Recorded[F]:
        [recorded] = await self.record_all([Step(fact, actor, tuple(causes))], run=run, claim=claim)
        return recorded._replace(fact=fact)  # type: ignore[return-value]

    async def record_all(
        self, steps: Sequence[Step], *, run: str = "", claim: Claim | None = None, urgent: bool = True
    ) -> list[Recorded[Fact]]:
        most = next((at for at, step in enumerate(steps) if not self._may(step)), len(steps))
        recorded = await super().record_all(steps[:most], run=run, claim=claim, urgent=urgent) if most else []
        self._asked |= {each.seq: each.fact for each in recorded if isinstance(each.fact, RoleAsked)}
        if most < len(steps):
            await self._until.held()
        return recorded

    def _may(self, step: Step) -> bool:
        cause = step.causes[0] if step.causes else None
        return self._until.may(step.fact, self._asked.get(cause) if isinstance(cause, int) else None)
