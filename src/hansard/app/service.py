"""The service: one open ledger with its recorder. Every surface, and Python itself, comes in through here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike, fspath
from threading import Event
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from hansard.app.driving.gates import Gates
from hansard.app.driving.runs import Runs, mode_of
from hansard.app.ledgers.ledger import LedgerService
from hansard.app.opened import Opened
from hansard.app.pool import Pool
from hansard.app.settings import Settings, check_name, read_settings
from hansard.app.setup.wishes import Wishes
from hansard.app.views import View
from hansard.app.wiring import open_or_found
from hansard.domain.fact import Body
from hansard.domain.work import Surface
from hansard.errors import ProviderError, UsageError
from hansard.finishing import to_the_end
from hansard.orchestration.ending import Ended
from hansard.providers.base import Provider, check_provider
from hansard.record.recorder import Recorder
from hansard.record.threads import begun
from hansard.store.base import Claim, Store

if TYPE_CHECKING:
    from hansard.app.driving.deliberations import Deliberations

LEASE_S = 15.0
HEAVY_AT_ONCE = 2

P = ParamSpec("P")
T = TypeVar("T")


class Hansard:
    """An open ledger that can be recorded into. Use it as an async context manager.

    `submit` hands in a request; `runs`, `gates`, `deliberations` and `ledger` do and read everything else.
    """

    def __init__(
        self, opened: Opened, settings: Settings | None = None, providers: Mapping[str, Provider] | None = None
    ) -> None:
        self._opened = opened
        self.settings = settings or opened.settings
        try:
            self.recorder = Recorder(opened.store, sealing=opened.sealing())
            self.pool = Pool(self.settings, providers)
        except BaseException:
            # Nobody else will: whoever opened it gets nothing that he could close.
            opened.close()
            raise
        self.ledger = LedgerService(opened)
        self.runs = Runs(self.recorder, opened.store, self.pool)
        self.gates = Gates(self.recorder, opened.store, lambda: self.pool.secrets)
        self.runs.deliberate = lambda run, ask: self.deliberations.drive(run, ask)
        self._heavy = ThreadPoolExecutor(HEAVY_AT_ONCE, "hansard-heavy")
        self._beside = ThreadPoolExecutor(HEAVY_AT_ONCE, "hansard-beside")
        self.closed = Event()
        """For whoever works in a thread: nobody waits for him any more."""

    @cached_property
    def deliberations(self) -> "Deliberations":
        # Many commands have none, and what deliberates takes a while to load.
        from hansard.app.driving.deliberations import Deliberations

        return Deliberations(self.recorder, self.store, self.pool)

    @classmethod
    def open(
        cls,
        ledger: str | PathLike[str] | None = None,
        *,
        settings: Settings | None = None,
        providers: Mapping[str, Provider] | None = None,
    ) -> Self:
        """Open the ledger at a path or URL, or make it when nothing is there. `providers` are handed in, by name.

        Without `settings` those of the nearest hansard.toml hold. A ledger that is named here goes before theirs.
        """
        named = None if ledger is None else fspath(ledger)
        found = read_settings(named) if settings is None else settings
        if named is not None:
            found = replace(found, ledger=named)
        return cls(open_or_found(found), found, providers)

    @property
    def store(self) -> Store:
        return self._opened.store

    def stay(self, readers: int) -> None:
        """For a process that stays: it starts its threads now, so many to read with beside the loop, and needs no more later."""
        asyncio.get_running_loop().set_default_executor(begun(readers, "hansard"))
        self._heavy, self._beside = begun(HEAVY_AT_ONCE, "hansard-heavy"), begun(HEAVY_AT_ONCE, "hansard-beside")

    async def heavily(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """A read that grows with the ledger: few at once, in threads of their own, so that it holds up no other."""
        return await asyncio.get_running_loop().run_in_executor(self._heavy, partial(read, *args, **kwargs))

    async def beside(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What another process does, perhaps for minutes: few at once, and no read waits for its end."""
        return await asyncio.get_running_loop().run_in_executor(self._beside, partial(work, *args, **kwargs))

    def claim(self, run: str) -> Claim:
        """Take the right to drive a run; whoever drove it before is fenced off."""
        return self.store.claim(run, LEASE_S)

    async def submit(
        self,
        request: str,
        *,
        plan: object = None,
        lane: str | None = None,
        single: bool = False,
        provider: str | Provider | None = None,
        wishes: Wishes | None = None,
        surface: Surface = "python",
        actor: str | None = None,
    ) -> "Run":
        """Hand in a request and start on it.

        `plan` is a Plan, or its data; `lane` makes one task in that lane, `single` one in the lane that the router picks.
        `provider` is a name that is configured, or a provider, which is asked for this run alone. `wishes` go before the
        settings. `actor` is who the record says it was (default: the user of this process).
        """
        wanted = Wishes() if wishes is None else wishes
        if not isinstance(wanted, Wishes):
            raise UsageError(f"wishes must be made with Wishes(…), not {wanted!r:.80}")
        lent: dict[str, Provider] = {}
        if provider is not None and not isinstance(provider, str):
            check_provider(provider)
            check_name(provider.id)
            lent = {provider.id: provider}
            self.pool.lent |= lent
            provider = provider.id
        if provider is not None:
            wanted = replace(wanted, provider=provider)
        from hansard.app.setup.configuring import run_config

        mode = "single" if single else "request"
        config = run_config(self.settings, self.pool, wanted, lent, mode=mode_of(mode, plan, lane))
        run = await self.runs.submit(
            request, config, mode=mode, plan=plan, lane=lane, surface=surface, actor=actor, lent=lent
        )
        return Run(self, run, self.runs.begin(run))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed.set()
        await to_the_end(self._close())

    async def _close(self) -> None:
        try:
            await self.runs.close()
            await self.pool.close()
            await self.recorder.close()
        finally:
            # A long read does not hold up the end: its store is closed under it.
            for threads in (self._heavy, self._beside):
                threads.shutdown(wait=False, cancel_futures=True)
            self._opened.close()


class Run:
    """A run that is being driven here."""

    def __init__(self, hansard: Hansard, run: str, drive: "asyncio.Future[Ended]") -> None:
        self.id = run
        self._hansard, self._drive = hansard, drive

    async def events(self) -> AsyncIterator[View]:
        """The entries of this run as they are written, until it ends."""
        async for view in self._hansard.runs.follow(self.id):
            yield view

    async def ended(self) -> Ended:
        """How it ended; that it waits, where people have to decide first, or was interrupted, where its Hansard was closed before."""
        # Waited for and not awaited: who closes a Hansard cancels the drive, and nobody who waits for it.
        await asyncio.wait([self._drive])
        if self._drive.cancelled():
            return Ended(run=self.id, state="interrupted", reason="closed")
        return self._drive.result()

    async def answer(self) -> str:
        """The answer; ProviderError where the run ended without one, UsageError where people have to decide first."""
        ended = await self.ended()
        data = None if ended.state == "interrupted" else self._hansard.runs.answer(self.id)
        if data is not None:
            return Body.raw(data).as_text()
        if ended.state == "waiting":
            gates = " and ".join(ended.gates)
            raise UsageError(
                f"run {self.id} has no answer yet: it waited for people at {gates}. Once they have decided there "
                "(`gates.decide`), `runs.resume` goes on with it"
            )
        raise ProviderError(f"run {self.id} ended without an answer: {ended.state}, {ended.reason}")

    async def cancel(self) -> Ended | None:
        """Stop it, and how it ended; None where another process has taken it over, and is told to."""
        return await self._hansard.runs.cancel(self.id)

    def show(self) -> View:
        """What the record says of it so far, as `hansard runs show --json` prints it. Money is in billionths of a dollar."""
        return self._hansard.runs.show(self.id)
