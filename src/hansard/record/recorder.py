"""The recorder: facts in, tickets out, by group commit.

A step that needs a recorded fact takes a Recorded; only recording hands one out. One supervised writer takes everything
that is queued, commits once, answers every waiter, lets the woken tasks run, and starts again. If recording fails, every
waiter learns it: nobody goes on with what may not be on the record.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from hansard.domain.fact import Fact
from hansard.errors import Broken, HansardError, NotWritten, StoreError, UsageError
from hansard.finishing import to_the_end
from hansard.ledger.entry import new
from hansard.record.draft import Drafter
from hansard.record.encoder import fastest
from hansard.record.threads import begun
from hansard.store.base import Claim, Draft, Outcome, Placed, Seal, Store
from hansard.store.opener import Opener

F = TypeVar("F", bound=Fact)
T = TypeVar("T")
F_co = TypeVar("F_co", bound=Fact, covariant=True)

RIDE_S = 0.005
UPKEEP_S = 4.0
"""So often who has nothing to write sees to what is due, and signs what others have left."""
SOON_S = 0.25
"""How long a wish to be sealed waits: runs that end one behind the other are sealed together."""
INLINE_BELOW_S = 0.0008
INLINE_DRAFTS = 12
STREAK = 8
WORTHWHILE_DRAFTS = 250
A_TURN = 16
"""How many are answered in one turn of the loop: whoever is woken has something to do, and others wait meanwhile."""
NUDGE_AFTER_S = 0.003
NUDGE_EVERY_S = 0.001
NUDGE_S = 20e-6


class Recorded(NamedTuple, Generic[F_co]):
    """The ticket for the next step: a fact that is on the record, and where."""

    seq: int
    ts: int
    leaf: bytes
    fact: F_co


@dataclass(frozen=True, slots=True)
class Within:
    """A cause inside the same group: the i-th step of it."""

    index: int


Cause = int | Within | Recorded[Fact]


class Step(NamedTuple):
    """A fact to be recorded together with others."""

    fact: Fact
    actor: str
    causes: Sequence[Cause] = ()


class Sealing(Protocol):
    """What the recorder needs of a sealer: a seal for each commit, word when it is durable, and a moment in idle times."""

    @property
    def trouble(self) -> StoreError | None: ...

    def seal(self) -> Seal | None: ...

    def committed(self) -> None: ...

    def upkeep(self) -> None: ...


class _Answer(asyncio.Future[list[Placed]]):
    """Cannot be called back: entries that are queued will be written, and whoever waits hears of it before he is cancelled."""

    __slots__ = ()

    def cancel(self, msg: object = None) -> bool:
        return False


class _Waiting(NamedTuple):
    drafts: Sequence[Draft]
    answer: _Answer


class Records(Protocol):
    """Who records what a driver says: the recorder, or somebody who says something first."""

    async def record_all(
        self, steps: Sequence[Step], *, run: str = "", claim: Claim | None = None
    ) -> list[Recorded[Fact]]: ...


class Recorder:
    """Records facts into one store. Belongs to one event loop; close() it there."""

    def __init__(self, store: Store, *, sealing: Sealing | None = None) -> None:
        self.store = store
        self._opener = Opener()
        self._sealing = sealing
        self._drafter = Drafter(fastest())
        self._put = store.inline if sealing is None else None
        self._queue: list[_Waiting] = []
        self._batch: list[_Waiting] = []
        """What is being written."""
        self._kick: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._upkeep_due = False
        self._soon: asyncio.TimerHandle | None = None
        """Somebody wishes to be sealed."""
        self._failed: HansardError | None = None
        self._closing = False
        self._parting = False
        """The writer was cancelled, as by a loop that ends: whoever follows it writes what is queued, and is not left behind."""
        self._looking = False
        self._streak = 0
        self._last: asyncio.Task[object] | None = None
        self._writing = False
        self._usual_s = 2 * INLINE_BELOW_S

    @property
    def unsealed(self) -> StoreError | None:
        """Why what is recorded here is not sealed as it should be; None where all is well."""
        return self._sealing.trouble if self._sealing else None

    async def record(
        self, fact: F, *, actor: str, run: str = "", causes: Iterable[Cause] = (), claim: Claim | None = None
    ) -> Recorded[F]:
        """Record one fact; returns when it is durable."""
        fence = (claim.name, claim.epoch) if claim else None
        draft = self._drafter.draft(fact, actor, run, _causes(causes), fence)
        if self._put:
            place = self._put(draft)
        else:
            self._check_loop()
            [place] = await (self._alone((draft,)) if self._may_be_alone() else self._enqueue((draft,), urgent=True))
        return new(Recorded, (place[0], place[1], place[2], fact))

    async def record_all(
        self, steps: Sequence[Step], *, run: str = "", claim: Claim | None = None, urgent: bool = True
    ) -> list[Recorded[Fact]]:
        """Record several facts that stand or fall together, in one commit. Riding ones (not urgent) go with the next commit."""
        fence = _fence(claim)
        drafts = [self._drafter.draft(fact, actor, run, _causes(causes), fence) for fact, actor, causes in steps]
        if self._put:
            [outcome] = self.store.append([drafts])
            if isinstance(outcome, HansardError):
                raise outcome
            places = outcome
        else:
            self._check_loop()
            inline = urgent and len(drafts) <= INLINE_DRAFTS and self._may_be_alone()
            places = await (self._alone(drafts) if inline else self._enqueue(drafts, urgent=urgent))
        return [new(Recorded, (at[0], at[1], at[2], step[0])) for at, step in zip(places, steps, strict=True)]

    def seal_soon(self) -> bool:
        """Have what is unsigned signed in a moment, when nothing is left to write, and from then on as it comes due: a run has
        ended, say. Beside another process that seals it is for that one to do, in its next idle moment. False where nothing is
        signed.
        """
        if self._sealing is None or self._failed or self._closing:
            return False
        self._check_loop()
        self._be_there()
        self._soon = self._soon or asyncio.get_running_loop().call_later(SOON_S, self._sign)
        return True

    async def close(self) -> None:
        """Write what is queued and stop. The store is not closed."""
        self._closing, self._put = True, None
        if self._task:
            self._wake()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        if self._thread:
            self._thread.shutdown(wait=True)
            self._thread = None
        for timer in (self._timer, self._soon):
            if timer:
                timer.cancel()

    def _check_loop(self) -> None:
        """UsageError in another loop than ours, as long as there is ours: what is queued there wakes nobody here.

        StoreError in a forked child: it has the store's place, and none of the threads.
        """
        self._opener.check(self.store.place)
        if self._loop is not (loop := asyncio.get_running_loop()):
            if self._loop and not self._loop.is_closed():
                raise UsageError(
                    f"{self.store.place} is open in another event loop, which records; "
                    "open it again here, as in every thread and process that has a loop of its own"
                )
            self._loop, self._parting, self._soon = loop, False, None

    def _may_be_alone(self) -> bool:
        """Whether a commit at once may be worth it: commits are quick, and nobody else is seen to record."""
        crowded = self._looking or self._queue or self._writing or self._failed or self._closing
        return not crowded and self._is_quick()

    def _is_quick(self) -> bool:
        """Whether a commit would be over before anybody notices. Where it may wait for others, it would hold up the loop."""
        return self._usual_s < INLINE_BELOW_S and not self.store.busy

    async def _alone(self, drafts: Sequence[Draft]) -> list[Placed]:
        """Commit at once unless somebody else wants to record too.

        A turn of the loop shows it: then one commit for all of them is better, in which this stands first, as it came first. It
        costs a system call, so a task that records one thing after the other takes it only at every eighth.
        """
        task = asyncio.current_task()
        self._streak = self._streak + 1 if task is self._last else 0
        # Whoever has just recorded alone need not look round each time, as long as he lets others in now and then.
        if self._streak % STREAK == 0:
            self._looking = True
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                # It is written before whoever waits is cancelled, as if it had been queued at once.
                await self._enqueue(drafts, urgent=True, first=True)
                raise
            finally:
                self._looking = False
            if not self._may_be_alone():
                self._last = None
                return await self._enqueue(drafts, urgent=True, first=True)
        self._last = task
        [outcome] = self._append([drafts])
        if isinstance(outcome, HansardError):
            raise outcome
        return outcome

    def _enqueue(self, drafts: Sequence[Draft], *, urgent: bool, first: bool = False) -> "asyncio.Future[list[Placed]]":
        if self._task and self._task.done():
            self._supervise(self._task)
        if self._failed or self._closing:
            raise self._failed or UsageError("this recorder is closed; open another one")
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._start(loop)
        answer = _Answer(loop=loop)
        # A writer takes from the front of the queue, maybe at this moment.
        self._queue.insert(0 if first and not self._writing else len(self._queue), _Waiting(drafts, answer))
        if urgent:
            self._wake()
        else:
            loop.call_later(RIDE_S, self._wake)
        return answer

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a writer. A loop that ends has cancelled the one before, while others still have something to record."""
        self._loop, self._kick = loop, asyncio.Event()
        self._thread = self._thread or begun(1, "hansard-writer")
        self._task = loop.create_task(self._write(), name="hansard-writer")
        self._task.add_done_callback(self._supervise)
        if self._timer:
            self._timer.cancel()
        if self._sealing:
            self._timer = loop.call_later(UPKEEP_S, self._tick)

    def _wake(self) -> None:
        if self._kick:
            self._kick.set()

    async def _write(self) -> None:
        assert self._kick is not None
        while self._queue or not (self._closing or self._parting):
            if self._kick.is_set():
                # Somebody came while the last batch was written. What that batch has woken records again in this turn of
                # the loop: waiting for it keeps batches full.
                await asyncio.sleep(0)
            else:
                await self._kick.wait()
            self._kick.clear()
            if not self._queue:
                await self._keep_up()
                continue
            self._take()
            self._writing = True
            try:
                outcomes = await self._commit()
                try:
                    for at in range(0, len(outcomes), A_TURN):
                        if at:
                            await asyncio.sleep(0)
                        _answer(self._batch[at : at + A_TURN], outcomes[at : at + A_TURN])
                except BaseException:
                    _answer(self._batch, outcomes)
                    raise
            except BaseException:
                self._queue[:0] = [waiting for waiting in self._batch if not waiting.answer.done()]
                raise
            finally:
                self._batch, self._writing = [], False
            if self._closing:
                self._kick.set()

    def _take(self) -> None:
        """Everything that is queued is written next. Meanwhile the loop may queue more: each of these steps is one."""
        self._batch = self._queue[:]
        del self._queue[: len(self._batch)]

    async def _keep_up(self) -> None:
        """Nothing to write: the sealer keeps its lease and signs what is unsigned."""
        if self._sealing and self._upkeep_due:
            self._upkeep_due = False
            # A sealer belongs to one thread at a time: who records meanwhile waits in the queue.
            self._writing = True
            try:
                await to_the_end(asyncio.get_running_loop().run_in_executor(self._thread, self._sealing.upkeep))
            finally:
                self._writing = False

    def _tick(self) -> None:
        """Wakes the writer now and then: one timer that starts itself again costs nothing per entry, a timeout each time does."""
        self._timer = asyncio.get_running_loop().call_later(UPKEEP_S, self._tick)
        # A loop that comes to this has not ended.
        self._parting = False
        self._see_to_it()

    def _sign(self) -> None:
        self._soon = None
        self._see_to_it()

    def _see_to_it(self) -> None:
        """Let the sealer look at what is due as soon as nothing is left to write."""
        self._upkeep_due = True
        self._be_there()
        self._wake()

    def _be_there(self) -> None:
        """Start a writer where none is: nothing was recorded here yet, and what is unsigned is of others."""
        if self._task is None and not (self._failed or self._closing or self._parting):
            self._start(asyncio.get_running_loop())

    async def _commit(self) -> list[Outcome]:
        """Inline where commits are known to be quick, else in the writer thread."""
        if self._is_quick() and _are_few([waiting.drafts for waiting in self._batch]):
            return self._outcomes()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._thread, self._write_on, loop)
        nudge = _Nudge(loop, work)
        try:
            return await to_the_end(work)
        except asyncio.CancelledError:
            _answer(self._batch, work.result())
            raise
        finally:
            nudge.stop()

    def _write_on(self, loop: asyncio.AbstractEventLoop) -> list[Outcome]:
        """Commit the batch, and as long as enough has come meanwhile, that too: a busy loop takes its time to say so.

        Whoever waits for a batch before the last is answered here; comes back what became of the last.
        """
        while True:
            outcomes = self._outcomes()
            if sum([len(waiting.drafts) for waiting in self._queue[:]]) < WORTHWHILE_DRAFTS:
                return outcomes
            loop.call_soon_threadsafe(_answer, self._batch, outcomes)
            self._take()

    def _outcomes(self) -> list[Outcome]:
        try:
            return self._append([waiting.drafts for waiting in self._batch])
        except StoreError as error:
            return [error] * len(self._batch)

    def _append(self, groups: list[Sequence[Draft]]) -> list[Outcome]:
        start = time.perf_counter()
        try:
            outcomes = self.store.append(groups, self._sealing.seal() if self._sealing else None)
        except NotWritten:
            # What was paid for is not given up because a line was cut, or a database started anew.
            outcomes = self.store.append(groups, self._sealing.seal() if self._sealing else None)
        if self._sealing:
            self._sealing.committed()
        if _are_few(groups):
            self._note(time.perf_counter() - start)
        return outcomes

    def _note(self, took_s: float) -> None:
        """Learn what a commit takes. One that was held up by something else does not make the disk a slow one."""
        self._usual_s += 0.2 * (min(took_s, 2 * self._usual_s) - self._usual_s)

    def _supervise(self, task: "asyncio.Task[None]") -> None:
        """A writer that dies must not leave anyone waiting. One that had nothing to write is followed by another."""
        if task is not self._task:
            return
        if not self._closing:
            self._task = None
        if task.cancelled() and task.get_loop() is self._loop and not self._closing:
            self._parting = True
            if self._queue:
                # Nothing of it was begun.
                self._start(self._loop)
                self._wake()
            return
        error = None if task.cancelled() else task.exception()
        if error is None and not self._queue:
            return
        self._failed = (
            error
            if isinstance(error, HansardError)
            else Broken(f"the writer stopped ({error!r}): read the head before going on")
        )
        for waiting in self._queue:
            if not waiting.answer.done():
                waiting.answer.set_exception(self._failed)
        self._queue = []


class _Nudge:
    """Keeps a busy event loop from starving the writer thread.

    A loop that is never idle retakes the GIL faster than the thread can wake. While a commit takes long, a short sleep each
    millisecond lets the thread in.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, work: "asyncio.Future[list[Outcome]]") -> None:
        self._loop = loop
        self._work = work
        self._timer = loop.call_later(NUDGE_AFTER_S, self._again)

    def _again(self) -> None:
        if not self._work.done():
            time.sleep(NUDGE_S)
            self._timer = self._loop.call_later(NUDGE_EVERY_S, self._again)

    def stop(self) -> None:
        self._timer.cancel()


def _answer(batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=True):
        if waiting.answer.done():
            continue
        if isinstance(outcome, HansardError):
            waiting.answer.set_exception(outcome)
        else:
            waiting.answer.set_result(outcome)


def _are_few(groups: list[Sequence[Draft]]) -> bool:
    return len(groups) <= INLINE_DRAFTS and sum(map(len, groups)) <= INLINE_DRAFTS


def _causes(causes: Iterable[Cause]) -> tuple[int, ...]:
    return tuple(
        [each if type(each) is int else each[0] if type(each) is Recorded else _cause(each) for each in causes]
    )


def _cause(cause: Cause) -> int:
    if isinstance(cause, Within):
        return ~cause.index
    return cause if isinstance(cause, int) else cause.seq


def _fence(claim: Claim | None) -> tuple[str, int] | None:
    return (claim.name, claim.epoch) if claim else None


def record_now(
    store: Store, steps: Sequence[Step], *, run: str = "", sealing: Sealing | None = None
) -> list[Recorded[Fact]]:
    """Record several facts in one commit from where no event loop runs: redaction, repair, import, a CLI's single word."""
    maker = Drafter()
    drafts = [maker.draft(step.fact, step.actor, run, _causes(step.causes), None) for step in steps]
    [outcome] = store.append([drafts], sealing.seal() if sealing else None)
    if isinstance(outcome, HansardError):
        raise outcome
    if sealing:
        sealing.committed()
    return [Recorded(at.seq, at.ts, at.leaf, step.fact) for at, step in zip(outcome, steps, strict=True)]
