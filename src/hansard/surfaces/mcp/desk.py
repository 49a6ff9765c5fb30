"""What every tool works with: the open ledger, what the flags said, the folder that paths stay in, and the runs driven here.

Knows nothing of the protocol.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hansard.app.service import Hansard
from hansard.app.setup.costs import of_server
from hansard.app.setup.wishes import Wishes
from hansard.app.telling.deliberationviews import deliberation_view
from hansard.app.telling.following import over_at
from hansard.app.views import View
from hansard.errors import Fenced, HansardError, StoreError, Unavailable, UsageError
from hansard.finishing import SHUTDOWN
from hansard.surfaces.afar import view_from_afar

if TYPE_CHECKING:
    from hansard.app.serving.daemon import Daemon

GRACE_S = 10.0
AGAIN_S = 3.0
"""After this time a run that could not be recorded is tried again."""
RUNS = "runs"
T = TypeVar("T")

Work = Coroutine[Any, Any, Any]
"""What gives how a run ended."""


@dataclass(slots=True, kw_only=True)
class Driven:
    """A run that is driven here; `waits` is set while it waits at a gate, and `nudged` when something was decided here."""

    task: "asyncio.Task[None] | None" = None
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    elsewhere: bool = False
    """Whether another process has it."""

    async def rest(self, until: Work) -> None:
        """Wait at a gate until something was decided, here or elsewhere."""
        self.waits.set()
        either = {asyncio.ensure_future(until), asyncio.ensure_future(self.nudged.wait())}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in either:
                each.cancel()
            self.waits.clear()
            self.nudged.clear()


@dataclass(slots=True, kw_only=True)
class Desk:
    """One open ledger behind the tools. `wishes` is what the flags and the file's budget say for every run."""

    hansard: Hansard
    folder: Path
    wishes: Wishes = field(default_factory=Wishes)
    gates: bool = False
    """Whether decisions at gates are taken here."""
    commands: bool = False
    """Whether a plan that comes in may have checks that run programs here."""
    sessions: Path | None = None
    """Where deliberations have their directories, if their callers do not say."""
    daemon: "Daemon | None" = None
    """Whose desk this is, where it is one of a daemon."""
    closing: bool = False
    _driving: dict[str, "Driven"] = field(default_factory=dict)
    _cancelling: "set[asyncio.Task[Any]]" = field(default_factory=set)

    @classmethod
    def of(
        cls,
        hansard: Hansard,
        *,
        wishes: Wishes | None = None,
        gates: bool = False,
        commands: bool = False,
        folder: Path | None = None,
        sessions: Path | None = None,
        daemon: "Daemon | None" = None,
    ) -> Self:
        place = (folder or hansard.settings.folder).resolve()
        return cls(
            hansard=hansard,
            folder=place,
            wishes=of_server(hansard.settings, wishes or Wishes()),
            gates=gates,
            commands=commands,
            sessions=sessions and sessions.resolve(),
            daemon=daemon,
        )

    @property
    def draining(self) -> bool:
        """Whether nothing new is begun here any more."""
        return self.closing or (self.daemon is not None and self.daemon.draining)

    def wished(self, provider: str | None, **more: Any) -> Wishes:
        return self.wishes.for_caller(provider, **more)

    def within(self, name: str) -> Path:
        """A path of a caller's, inside the project's folder or that of the sessions; links that lead outside are refused too."""
        try:
            found = (self.folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise UsageError(f"{name!r:.80} is no path: {error}") from error
        if not any(found.is_relative_to(each) for each in (self.folder, self.sessions) if each):
            raise UsageError(f"{name!r:.80} is outside of the project's folder; name a path inside of it")
        return found

    def place_of_session(self, name: str | None) -> Path:
        """Where a deliberation gets its directory: where its caller says, else where they all have theirs."""
        return self.sessions if name is None and self.sessions else self.within(name or RUNS)

    async def made(self, make: Coroutine[Any, Any, str], actor: str | None) -> str:
        """A run that is put on the record by this. Whoever cancels his call meanwhile cancels what comes of it."""
        making = asyncio.ensure_future(self.daemon.take(make) if self.daemon else make)
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._in_background(self._regret(making, actor)).add_done_callback(lambda _: None)
            raise

    async def _regret(self, making: "asyncio.Future[str]", actor: str | None) -> None:
        with suppress(HansardError):
            run = await making
            if not self.closing:
                await self._cancel(run, actor)

    async def in_turn(self, run: str, work: Coroutine[Any, Any, T]) -> T:
        """Drive a run by this, for the one caller who waits for it. A daemon counts it, and makes it wait for its turn."""
        if self.daemon is None:
            return await work
        task = asyncio.create_task(self.daemon.in_turn(work))
        self.daemon.adopt(run, task)
        try:
            return await task
        except asyncio.CancelledError:
            asker = asyncio.current_task()
            if asker is None or not asker.cancelling():
                raise _interrupted(run) from None
            raise

    def drive(self, run: str, first: Work | None = None) -> "Driven":
        """Drive a run in the background, past gates, whoever waits for it; one task for all. `first` is how it begins where
        nobody does so yet, and it is not simply driven."""
        if run not in self._driving:
            driven, leg = Driven(), first or self.hansard.runs.drive(run)
            self._driving[run] = driven
            driven.task = asyncio.create_task(self._through(run, driven, leg))
            # Its turn may never come.
            driven.task.add_done_callback(lambda _: leg.close())
            driven.task.add_done_callback(lambda done: self._done(run, done))
            if self.daemon:
                self.daemon.adopt(run, driven.task)
        elif first:
            first.close()
        return self._driving[run]

    async def _through(self, run: str, driven: Driven, leg: Work) -> None:
        try:
            # As far as it comes: to its end, or to a gate.
            while (await (self.daemon.in_turn(leg) if self.daemon else leg)).state == "waiting":
                resting = driven.rest(self.hansard.runs.waiting.decided(run))
                await (self.daemon.rest(run, resting) if self.daemon else resting)
                leg = self.hansard.runs.drive(run)
        except Fenced:
            # Another process does the same.
            driven.elsewhere = True

    def _done(self, run: str, task: "asyncio.Task[None]") -> None:
        del self._driving[run]
        _seen(task)
        if not task.cancelled() and isinstance(task.exception(), Unavailable) and self.daemon is None:
            # A full disk, say: whoever asked is told, and when there is room it goes on. A daemon sees to that itself.
            asyncio.get_running_loop().call_later(AGAIN_S, self._again, run)

    def _again(self, run: str) -> None:
        if not self.closing:
            self.drive(run)

    def nudge(self, run: str) -> None:
        """Something was decided at a gate of this run: whoever drives it here looks at once."""
        if driven := self._driving.get(run):
            driven.waits.clear()
            driven.nudged.set()

    async def settled(self, run: str) -> bool:
        """Wait until a run that is driven here has ended, or waits at a gate; gives whether it waits.

        Whoever is tired of waiting does not stop the run.
        """
        driven = self.drive(run)
        assert driven.task is not None
        waits = asyncio.create_task(driven.waits.wait())
        try:
            await asyncio.wait({driven.task, waits}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waits.cancel()
        if driven.task.cancelled():
            # Not his call was cancelled: whoever owns the ledger goes home.
            raise _interrupted(run)
        if driven.task.done():
            driven.task.result()
        return not driven.task.done()

    async def shown(self, run: str) -> View:
        """What the record says of a run; of a deliberation also what is its own."""
        return await asyncio.to_thread(self._shown, run)

    def _shown(self, run: str) -> View:
        view = self.hansard.runs.show(run)
        if view["mode"] == "deliberation":
            view |= deliberation_view(self.hansard.store, view["run"])
        return view_from_afar(view, self.hansard, "mcp")

    def cancel(self, run: str, actor: str | None) -> "asyncio.Task[None]":
        """Cancel a run in the background."""
        return self._in_background(self._cancel(run, actor))

    async def cancelled(self, run: str, actor: str | None) -> None:
        """Cancel a run; it is carried out also where nobody waits for that any more."""
        await asyncio.shield(self._in_background(self.hansard.runs.cancel(run, surface="mcp", actor=actor)))

    def _in_background(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
        task.add_done_callback(_seen)
        return task

    async def _cancel(self, run: str, actor: str | None) -> None:
        try:
            await self.hansard.runs.cancel(run, surface="mcp", actor=actor)
        except UsageError:
            # It may have ended meanwhile; else nobody may be told that it was cancelled.
            if await asyncio.to_thread(over_at, self.hansard.store, run) is None:
                raise

    def abandon(self, run: str, actor: str | None) -> None:
        """Somebody cancelled the call that waits for a run: the run is cancelled too. When we are only going home, it is not."""
        if not self.closing:
            self.cancel(run, actor).add_done_callback(lambda _: None)

    async def close(self) -> None:
        """Carry out what was cancelled, interrupt the rest; the record says so, and it can go on."""
        self.closing = True
        if self._cancelling:
            await asyncio.wait(self._cancelling, timeout=GRACE_S)
        driving = [driven.task for driven in self._driving.values() if driven.task]
        for task in driving:
            task.cancel(SHUTDOWN)
        await asyncio.gather(*driving, return_exceptions=True)


def _seen(task: "asyncio.Task[Any]") -> None:
    """Whoever waits is told of its error, and often nobody does."""
    if not task.cancelled():
        task.exception()


def _interrupted(run: str) -> StoreError:
    return StoreError(f"run {run} was interrupted here; run_resume goes on with it")
