"""The daemon without its surface: drives runs in the background, goes on with what was cut short, keeps gates' deadlines, drains.

It takes what is submitted here at once. It also holds the claim `worker`, as soon as that is free, and then drives what
other processes leave on the record. Knows no HTTP.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hansard.app.lanes.routed import Routes
from hansard.app.service import Hansard
from hansard.app.serving.seals import tell_of_seals
from hansard.app.serving.webhooks import KINDS, Webhooks
from hansard.app.serving.worker import AGAIN_S, CLAIM, GRACE_S, unfinished
from hansard.app.setup.configuring import run_config
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.following import OVER, Follower, over_at, until_over
from hansard.app.views import View
from hansard.domain.work import Surface
from hansard.errors import Fenced, HansardError, StoreError, Unavailable
from hansard.finishing import SHUTDOWN
from hansard.ledger.entry import Entry
from hansard.orchestration.config import RunConfig
from hansard.orchestration.ending import Ended
from hansard.orchestration.watching import LEASE_S, apart, behind_writers, take
from hansard.store.base import Claim

MAX_CONFIGS = 100
TAKES_UP = ("run.requested", "run.resume_asked", "run.retry_asked")
LATE_S = 2.0
"""Runs are interrupted before the grace is over: their last words have to be written."""

Tell = Callable[..., None]
Work = Coroutine[Any, Any, Ended | None]
T = TypeVar("T")


class Draining(StoreError):
    """The daemon is on its way out and takes nothing new."""

    def __init__(self) -> None:
        super().__init__("the daemon is shutting down; try again in a moment")


@dataclass(slots=True, kw_only=True)
class Tally:
    """What happened since the start."""

    started_s: float = field(default_factory=time.time)
    submitted: int = 0
    ended: dict[str, int] = field(default_factory=dict)


class Daemon:
    """Drives the runs of one open ledger. `tell` hears an event and its fields."""

    def __init__(
        self, hansard: Hansard, tell: Tell, *, most: int = 256, resume: bool = True, webhooks: Webhooks | None = None
    ) -> None:
        self.hansard, self.tally = hansard, Tally()
        self.follower = Follower(hansard.store)
        self._routes = Routes(hansard.recorder, hansard.settings, hansard.pool.secrets)
        self.draining = False
        self._tell, self._resume, self._webhooks = tell, resume, webhooks
        self._slots = asyncio.Semaphore(most)
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._followed: set[asyncio.Task[Any]] = set()
        """Tasks behind which another one of the same run waits."""
        self._again: set[str] = set()
        """Runs that were asked for once more while they were driven here."""
        self._resting: set[str] = set()
        self._configs: dict[tuple[Wishes, str | None], RunConfig] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._claim: Claim | None = None
        self._late = False
        """Something could not be written or read: runs may have been left alone that can go on later."""
        self.follower.listen(self._ended, OVER)
        self.follower.listen(self._asked, *TAKES_UP)
        if webhooks:
            self.follower.listen(webhooks.take, *KINDS)

    @property
    def driving(self) -> int:
        """How many runs are under way or wait for their turn here."""
        return len(self._tasks)

    async def work(self) -> None:
        """Work until cancelled. What fails in one run ends nothing, nor does a ledger that cannot be reached for a while."""
        # Whoever stays seals, and keeps the lease for it, also where nothing is ever recorded here.
        self.hansard.recorder.seal_soon()
        try:
            with apart():
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._follow())
                    if self._webhooks:
                        group.create_task(self._webhooks.work())
                    group.create_task(self._hold())
                    group.create_task(tell_of_seals(self.hansard.recorder, self._tell_of_seal))
        finally:
            if self._claim:
                with suppress(HansardError):
                    self.hansard.store.release(self._claim)

    def _tell_of_seal(self, event: str, why: str) -> None:
        self._tell(event, **({"detail": why} if why else {}))

    def config(self, wishes: Wishes, mode: str | None = None) -> RunConfig:
        """The configuration of a run that is wished for so. A daemon's settings stay as they are, so it is made once."""
        known = self._configs.get((wishes, mode))
        if known is None:
            made = run_config(self.hansard.settings, self.hansard.pool, wishes, mode=mode)
            known = replace(made, roster_digest=made.roster_digest or made.roster.digest)
            if len(self._configs) >= MAX_CONFIGS:
                self._configs.clear()
            self._configs[wishes, mode] = known
        return known

    async def submit(self, make: Coroutine[Any, Any, str]) -> str:
        """Put a run on the record and start on it; gives its id once it is durable."""
        run = await self.take(make)
        self.start(run)
        return run

    async def take(self, make: Coroutine[Any, Any, str]) -> str:
        """The same for whoever drives it himself."""
        if self.draining:
            make.close()
            raise Draining
        run = await make
        self.tally.submitted += 1
        return run

    def start(self, run: str, first: Work | None = None) -> None:
        """Drive a run in the background, if nobody here does; `first` is how it begins where it is not simply driven."""
        if self.draining and first is None:
            # It came to light while nobody begins anything here any more; on the record it waits for whoever comes next.
            return
        if run in self._tasks and first is None:
            # That one may have ended the run already, before it was asked for again.
            self._again.add(run)
        else:
            if before := self._tasks.get(run):
                self._followed.add(before)
                before.add_done_callback(self._followed.discard)
            task = asyncio.create_task(self._drive(run, first, before))
            if first:
                # Its turn may never come.
                task.add_done_callback(lambda _: first.close())
            self._track(run, task)

    async def resume(self, run: str, *, surface: Surface, actor: str) -> None:
        """Put it on the record that somebody wants a run to go on, and start on it."""
        if self.draining:
            raise Draining
        await self.hansard.runs.ask_to_resume(run, surface=surface, actor=actor)
        self.start(run)

    async def retry(self, run: str, task: str, *, surface: Surface, actor: str) -> None:
        """Put it on the record that somebody wants a task of a run done again, and start on it."""
        if self.draining:
            raise Draining
        await self.hansard.runs.ask_to_retry(run, task, surface=surface, actor=actor)
        self.start(run)

    async def route(self, text: str, *, surface: Surface, actor: str) -> View:
        """Where this request would go, and why, with the entry that says so."""
        if self.draining:
            raise Draining
        return await self._routes.route(text, surface=surface, actor=actor)

    def adopt(self, run: str, task: "asyncio.Task[Any]") -> None:
        """Take this for what drives a run here, if nothing else does: it is counted, and may end when the daemon drains."""
        if run not in self._tasks:
            self._track(run, task)

    def _track(self, run: str, task: "asyncio.Task[Any]") -> None:
        self._tasks[run] = task
        task.add_done_callback(lambda done: self._done(run, done))

    async def in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work of a run once there is room for it."""
        try:
            async with self._slots:
                return await work
        finally:
            # Its turn may never have come.
            work.close()

    async def rest(self, run: str, until: Coroutine[Any, Any, None]) -> None:
        """Wait for people or for another process; nobody waits for this run when the daemon drains."""
        self._resting.add(run)
        try:
            await until
        finally:
            self._resting.discard(run)

    async def ask(self, run: str, first: Callable[[asyncio.Event], Work]) -> None:
        """Ask for something that goes on in the background; gives back control once it is on the record, or refused.

        `first` sets the event as soon as it is on the record.
        """
        if self.draining:
            raise Draining
        recorded = asyncio.Event()
        accepted, work = asyncio.create_task(recorded.wait()), asyncio.ensure_future(first(recorded))
        try:
            await asyncio.wait({accepted, work}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            accepted.cancel()
        if work.done() and (error := work.exception()):
            raise error
        self.start(run, _awaited(work))

    async def wait(self, run: str, seconds: float) -> None:
        """Wait until a run that is driven here has ended, or the time is over."""
        task, ends = self._tasks.get(run), asyncio.get_running_loop().time() + seconds
        if task is None:
            return
        await asyncio.wait({task}, timeout=seconds)
        if not task.done() or task.cancelled() or not isinstance(task.exception(), Unavailable) or not self._resume:
            return
        # It was left alone, and goes on, here or in another process, when the ledger is back.
        while not self.draining and (left := ends - asyncio.get_running_loop().time()) > 0:
            with suppress(StoreError):
                await until_over(self.hansard.store, run, left)
                return
            await asyncio.sleep(min(left, AGAIN_S))

    async def drain(self, grace_s: float) -> None:
        """Take nothing new, let runs end within most of the grace, then interrupt them: the record says so, and they can go on."""
        self.draining = True
        if busy := {task for run, task in self._tasks.items() if run not in self._resting}:
            await asyncio.wait(busy, timeout=max(0.0, grace_s / 2 - LATE_S / 2))
        await _end(self._tasks.values())
        # Whoever waited for these ended them, unless it had not begun.
        await _end(self._followed)
        await self.hansard.runs.close()
        with suppress(StoreError):
            await self.follower.caught_up(LATE_S / 2)
        self.follower.close()

    async def _drive(self, run: str, first: Work | None, before: "asyncio.Task[Any] | None") -> None:
        if before:
            try:
                await asyncio.wait({before})
            except asyncio.CancelledError:
                # Nobody knows that one any more: it ends with this.
                before.cancel()
                await asyncio.wait({before})
                raise
        while True:
            try:
                ended = await self.in_turn(first or self.hansard.runs.drive(run))
                first = None
                if ended is None or ended.state != "waiting":
                    return
                # Not in a slot: people take their time.
                await self.rest(run, self.hansard.runs.waiting.decided(run))
            except Fenced:
                first = None
                await self.rest(run, asyncio.sleep(AGAIN_S))

    def _done(self, run: str, task: "asyncio.Task[Any]") -> None:
        if self._tasks.get(run) is task:
            del self._tasks[run]
            if run in self._again:
                self._again.discard(run)
                self._take_up(run)
        if not task.cancelled() and (error := task.exception()):
            # It stays on the record as it is; what is wrong with one run must not end the others.
            self._left_alone(run, error)

    def _left_alone(self, run: str, error: BaseException) -> None:
        bug = not isinstance(error, HansardError)
        self._tell("run left alone", run=run, error=f"{type(error).__name__}: {error}" if bug else str(error))
        self._late = self._late or isinstance(error, Unavailable)

    def _ended(self, entry: Entry) -> None:
        state = str(entry.data.get("state"))
        self.tally.ended[state] = self.tally.ended.get(state, 0) + 1
        self._tell("run ended", run=entry.run, state=state, reason=entry.data.get("reason"), seq=entry.seq)

    def _asked(self, entry: Entry) -> None:
        """Somebody wants a run to be driven, here or in another process."""
        if not self._claim or self.draining:
            return
        if entry.run not in self._tasks:
            # Whoever submits in the foreground drives it himself, and begins soon.
            asyncio.get_running_loop().call_later(GRACE_S, self._take_up, entry.run)
        elif entry.kind != "run.requested":
            self._again.add(entry.run)

    def _take_up(self, run: str) -> None:
        if not self.draining and run not in self._tasks:
            task = asyncio.create_task(self._if_unfinished(run))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _if_unfinished(self, run: str) -> None:
        try:
            over = await asyncio.to_thread(over_at, self.hansard.store, run)
        except StoreError as error:
            self._left_alone(run, error)
            return
        if over is None:
            self.start(run)

    async def _follow(self) -> None:
        """Hear of what is recorded. Where the ledger cannot be read for a while, what was missed is heard afterwards."""
        away = False
        while True:
            try:
                if away:
                    await asyncio.to_thread(self.hansard.store.head)
                    self._tell("the ledger can be read again")
                    away = False
                    await self._back()
                await self.follower.work()
            except StoreError as error:
                if not away:
                    self._tell("the ledger cannot be read", detail=str(error))
                away = True
            await asyncio.sleep(AGAIN_S)

    async def _back(self) -> None:
        """The ledger is back: runs that could not be recorded meanwhile were left alone, and may go on."""
        if self._claim and self._resume and not self.draining:
            await self._go_on()

    async def _go_on(self) -> None:
        left = await asyncio.to_thread(unfinished, self.hansard.store)
        if left and not self.draining:
            self._tell("going on", runs=len(left))
        for run in left:
            self.start(run)

    async def _go_on_beside(self) -> None:
        """Go on with what nobody drives, as far as that is possible here: whoever holds this ledger may lack what a run needs that
        was driven here before. What somebody drives is held by him.
        """
        if self._resume:
            with suppress(StoreError):
                await self._go_on()

    async def _hold(self) -> None:
        """Hold the claim whenever nobody else does, and go on then with what was left."""
        waited = False
        while True:
            try:
                self._claim = await self._when_free(waited)
            except StoreError as error:
                if self.hansard.store.broken is None:
                    raise
                # Still worth looking at: what is in it can be read, shown and verified.
                self._tell("this ledger takes nothing new", detail=str(error))
                return
            waited = True
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep(self._claim))
                if self._resume:
                    group.create_task(self._take_over())

    async def _take_over(self) -> None:
        """Go on with what was left, as soon as it can be read."""
        away = False
        while self._claim:
            try:
                await self._go_on()
                return
            except StoreError as error:
                if not away:
                    self._tell("the ledger cannot be read", detail=str(error))
                away = True
            await asyncio.sleep(AGAIN_S)

    async def _when_free(self, waited: bool) -> Claim:
        """The claim, as soon as nobody else has it. `waited`: it was held here, or waited for, before."""
        while True:
            try:
                return await take(self.hansard.store, CLAIM)
            except Fenced:
                if not waited:
                    detail = "until it ends, what comes in elsewhere from now on is left to it"
                    self._tell("another worker has this ledger", detail=detail)
                    await self._go_on_beside()
            except StoreError:
                # At the start it says that this ledger is of no use here; later a disk may be full for a while.
                if not waited:
                    raise
            waited = True
            await asyncio.sleep(AGAIN_S)

    async def _keep(self, claim: Claim) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            try:
                await behind_writers(self.hansard.store.renew, claim, LEASE_S)
                if self._late:
                    self._late = False
                    await self._back()
            except Fenced as error:
                # This process was held up for longer than its lease; what is driven here has claims of its own.
                self._claim = None
                self._tell("another worker has taken this ledger", detail=str(error))
                return
            except StoreError as error:
                # A full disk, say. There is time for two more tries, and reading goes on whatever becomes of them.
                self._late = True
                self._tell("the lease was not renewed", detail=str(error))


async def _end(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks, and wait until they are over."""
    left = list(tasks)
    for task in left:
        task.cancel(SHUTDOWN)
    await asyncio.gather(*left, return_exceptions=True)


async def _awaited(work: "asyncio.Future[Ended | None]") -> Ended | None:
    return await work
