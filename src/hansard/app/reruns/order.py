"""In which order a run is run again: as it stands in the record. Where a budget was scarce, who came first decided who got it."""

import asyncio
from bisect import bisect, bisect_left, insort
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from hansard.app.reruns.bounds import LOOK_S, PATIENCE_S, Until
from hansard.app.reruns.lost import Lost
from hansard.app.reruns.phases import Phase, Refused
from hansard.orchestration.calling import Count
from hansard.orchestration.purse import Breach
from hansard.providers.recording import Call
from hansard.store.base import Store

Refusal = Callable[[], Breach | None]
"""What a budget would say to a call now. What is under way may change it where that is passing."""


class Order:
    """Whose turn it is. A question that the record does not have waits for where a budget said no, or for the end.

    What was lost counts from its place on: for whoever is asked here, and, by `lose`, for whoever drives next.
    """

    def __init__(self, memory: Store, until: Until, lose: Count) -> None:
        self._memory, self._until, self._lose = memory, until, lose
        self._due: deque[Call | Refused] = deque()
        self._known: set[Call] = set()
        self._waiting: dict[Call, tuple[str | None, Refusal, asyncio.Event]] = {}
        self._places: Sequence[int] = ()
        self._answered: Mapping[Call, int] = {}
        self._lost: deque[Lost] = deque()
        self._count: Count = lambda _lane, _took: None
        self._given_up = False
        self._asking: dict[Call, Refusal] = {}
        """Whose turn it is, or who waits for it."""
        self._lanes: dict[Call, str | None] = {}
        self._came = asyncio.Event()
        self._held: set[Call] = set()
        self._held_places: list[int] = []
        """Where their answers stand in the record, in order."""
        self.is_limited = False
        """Whether what one call takes is gone for others. Without that nobody's answer has to wait for others."""
        self.is_timed = False
        """Whether nothing is set aside that an answer could give back: where lanes have seconds, and there is no other limit."""

    def begin(self, phase: Phase, lost: Iterable[Lost]) -> None:
        self._places, self._answered = [place for place, _ in phase.order], phase.answered
        self._due, self._given_up = deque(each for _, each in phase.order), False
        self._lost = deque(sorted(lost, key=lambda each: each.place))
        self._known = {each for each in self._due if isinstance(each, Call)}

    def give_up(self) -> None:
        """From here on nobody waits for his turn, and all that was lost counts."""
        self._given_up = True
        self._count_lost()

    @asynccontextmanager
    async def turn(self, call: Call, lane: str | None, refusal: Refusal, count: Count) -> AsyncIterator[None]:
        """The turn of a call."""
        self._count = count
        self._count_lost()
        self._asking[call], self._lanes[call] = refusal, lane
        # Those who hold their answers back for him see what he waits for.
        self._came.set()
        came: object = call
        try:
            if not self._is_due(call, lane, refusal):
                called = asyncio.Event()
                self._waiting[call] = lane, refusal, called
                await called.wait()
            yield
        except Breach as breach:
            due = self._due[0] if self._due else None
            if isinstance(due, Refused) and due.lane == breach.lane and due.concerns(call, lane):
                came = due
            raise
        finally:
            self._asking.pop(call, None)
            if self._due and self._due[0] == came:
                self._due.popleft()
                self._count_lost()
                self._came.set()
            self._call()

    async def answered(self, call: Call) -> None:
        """Come back when everybody was asked who was asked before this call was answered, and behind the answers that came before
        it: what it took counts from then on. Where a budget said no before, or says to wait, it may have been because of that.
        """
        self._held.add(call)
        place = self._answered.get(call, -1)
        insort(self._held_places, place)
        try:
            while self.is_limited and not self._given_up:
                is_early = len(self._due) > self._left_at(call)
                if self._is_wanted(call) if is_early else self._held_places[0] >= place:
                    return
                self._came.clear()
                await self._came.wait()
        finally:
            self._held.discard(call)
            del self._held_places[bisect_left(self._held_places, place)]
            self._came.set()

    def _left_at(self, call: Call) -> int:
        """How many were still to be asked when a call was answered."""
        return self._left_behind(self._answered[call]) if call in self._answered else len(self._due)

    def _left_behind(self, place: int) -> int:
        return len(self._places) - bisect(self._places, place)

    def _count_lost(self) -> None:
        """Count what was lost before whoever is due was asked."""
        while self._lost and (self._given_up or len(self._due) <= self._left_behind(self._lost[0].place)):
            lost = self._lost.popleft()
            for count in (self._lose, self._count):
                count(lost.lane, lost.took)

    def _is_wanted(self, call: Call) -> bool:
        """Whether whoever is due waits for what this answer leaves over, or for what it takes. The first that came goes first."""
        due = self._due[0]
        if isinstance(due, Refused):
            if self.is_timed:
                # What another lane's answer took is nothing to this one, and is not to count before its place.
                return due.lane in (None, self._lanes.get(call))
            return call == max(self._held, key=self._left_at)
        refusal = self._asking.get(due)
        breach = refusal() if refusal and not self.is_timed else None
        return breach is not None and breach.passing and call == max(self._held, key=self._left_at)

    async def kept(self) -> None:
        """Give the order up where nobody gets anywhere with it: whoever is due does not come."""
        before, idle_s = (-1, -1), 0.0
        while idle_s < PATIENCE_S:
            await asyncio.sleep(LOOK_S)
            # What others left over may tell by now to whom the budget says no.
            self._call()
            now = self._memory.head().size, len(self._due)
            idle_s = idle_s + LOOK_S if now == before and (self._waiting or self._held) else 0.0
            before = now
        self.give_up()
        self._came.set()
        self._call()

    def _is_due(self, call: Call, lane: str | None, refusal: Refusal) -> bool:
        if self._given_up or not self._due:
            return True
        due = self._due[0]
        if call in self._known or not isinstance(due, Refused) or not due.concerns(call, lane):
            return due == call
        # Where the run's budget said no the record does not say to whom: it ended everybody.
        breach = refusal()
        if due.lane is not None and not self.is_timed and not self._held:
            return True
        return breach is not None and not breach.passing and breach.lane == due.lane

    def _call(self) -> None:
        """Call whoever is due now."""
        if self._due and self._due[0] in self._known and not self._given_up:
            due = [self._due[0]]
        else:
            due = [call for call, (lane, refusal, _) in self._waiting.items() if self._is_due(call, lane, refusal)]
        for call in due:
            if (waiting := self._waiting.pop(call, None)) is not None:
                waiting[-1].set()
