"""Makes the calls of one run: who can be asked, what may be spent on it, and what comes back. Records nothing."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import field, replace
from hashlib import sha256
from typing import TypeVar

from hansard.domain.budget import Spend
from hansard.domain.exchange import Completion, Exchange
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.orchestration.config import RunConfig
from hansard.orchestration.journal import Journal
from hansard.orchestration.judge import Programs
from hansard.orchestration.nested import Convenes, Nested
from hansard.orchestration.purse import Breach, Purse, Reserved
from hansard.orchestration.seams import Reviser, Source, Verifier
from hansard.providers import checks
from hansard.providers.base import Provider
from hansard.providers.prices import Price
from hansard.providers.recording import Call
from hansard.providers.retry import Retries

T = TypeVar("T")
Held = Sequence[tuple[Purse, Reserved]]
"""What was set aside for a call, in each purse that pays for it."""
Count = Callable[[str | None, Spend], None]
"""Counts what a lane, or none, has spent."""
Turn = Callable[[Call, str | None, Callable[[], Breach | None], Count], AbstractAsyncContextManager[None]]
"""Is entered when it is the turn of a call, of a lane or of none; what happens inside comes before the next one's turn. The
third tells which budget says no to it now, if any, for good or until others have their answers; the last counts what was spent
and is not in the record that is driven here."""


@value
class Means:
    """What a run works with: who can be asked, how programs are run, what models cost, how one waits."""

    providers: Mapping[str, Provider]
    programs: Programs
    price: Callable[[str], Price | None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    retries: Retries = field(default_factory=Retries)
    sources: tuple[Source, ...] = ()
    verifier: Verifier | None = None
    reviser: Reviser | None = None
    number: Callable[[str, int], int] = lambda _, previous: previous + 1
    """The number of a task's next attempt after this one; a re-run passes over those that a crash cut short, and gives this one's
    where the engine had ended too often while it was made."""
    turn: "Turn | None" = None
    """Who may reserve next, where that is not whoever comes first: a re-run asks in the order of its record."""


@value
class Target:
    """Somebody who can be asked: a provider, and maybe one of its models.

    `model_name` is the model as it stands in the record before anybody answered, `argv` the program, as JSON;
    `convenes` is the provider itself where it answers by holding a session in the run.
    """

    provider: Provider
    name: str
    model: str | None
    model_name: str
    argv: str | None
    convenes: Convenes | None = None


class Swallowed(Exception):
    """An attempt, or a question, has no answer, and no other one follows: the engine had ended too often while it was made."""


class Unanswered(Exception):
    """A question was put, and no answer comes any more: it counts, and holds nobody up who waits for what is left."""


class Caller:
    """Makes calls for one run. `lanes` are the purses of lanes that have a budget of their own."""

    def __init__(
        self,
        config: RunConfig,
        nonce: str,
        means: Means,
        journal: Journal,
        purse: Purse,
        lanes: Mapping[str, Purse],
    ) -> None:
        self.config, self.nonce, self.means, self.journal = config, nonce, means, journal
        self.purse, self._lanes = purse, lanes
        self.deadline: float | None = None
        """When the run's time is over, by the loop's clock."""
        self.stopped_by: Breach | None = None
        """What ends the run: no other attempt begins behind it, though it might cost less."""
        self._targets: dict[str, Target] = {}
        self._freed = asyncio.Event()
        self._going_on: set[str] = set()
        self._served = asyncio.Event()

    def target(self, name: str) -> Target:
        """Whom a target's name means; UsageError where nobody has it."""
        if name not in self._targets:
            self._targets[name] = self._found(name)
        return self._targets[name]

    def _found(self, name: str) -> Target:
        provider, _, model = name.partition(":")
        found = self.means.providers.get(name) or self.means.providers.get(provider)
        if found is None:
            known = ", ".join(self.means.providers) or "none"
            raise UsageError(f"this run asks {name!r}, and no such provider is open here (open are: {known})")
        asked, described = None if name in self.means.providers else model or None, found.describe()
        said = asked or described.get("model") or "default"
        convenes = found if isinstance(found, Convenes) else None
        return Target(
            provider=found, name=name, model=asked, model_name=said, argv=described.get("argv"), convenes=convenes
        )

    def who_answered(self, target: Target, completion: Completion) -> object:
        """What two answers have in common that are of one model: its name, and where nobody names any, all that was asked: a
        program with its words and what it is told in its environment, or a server.
        """
        described, table = target.provider.describe(), self.config.providers.get(target.provider.id, {})
        # Where a program names no model, its own name stands in that place.
        is_program = target.argv is not None and not (target.model or table.get("model"))
        if completion.returned_model not in ("", "default") and not is_program:
            return completion.returned_model
        asked = (described.get("program"), described.get("base_url"), target.argv)
        return described.get("kind"), *asked, table.get("set_env"), None if any(asked) else target.provider.id

    def reserve(self, exchange: Exchange, target: Target, lane: str | None) -> Held:
        """Set aside what a call may cost, in the run's purse and the lane's. Breach when either says no."""
        price = self.config.prices.get(target.name)
        if price is None and not target.provider.unmetered:
            # A configuration that was recorded without prices.
            price = self.means.price(target.model_name)
        held: list[tuple[Purse, Reserved]] = []
        own = self._lanes.get(lane) if lane else None
        goes_on = target.convenes is not None and target.convenes.goes_on(self.journal.run, exchange)
        for purse in (self.purse, own) if own else (self.purse,):
            try:
                if target.convenes:
                    share = (held[-1][1].share if held else None) or target.convenes.share(exchange)
                    metered = not target.provider.unmetered
                    held.append((purse, purse.carve(exchange, share, metered=metered, goes_on=goes_on)))
                else:
                    held.append((purse, purse.reserve(held[-1][1].exchange if held else exchange, price)))
            except Exception:
                settle(held, None)
                raise
        self.serve(str(exchange.metadata.get("task")))
        return held

    async def before_others(self, tasks: Iterable[str]) -> None:
        """Come back when something is set aside for each of these tasks, which an earlier driver has begun, or it is over."""
        if self.means.turn is not None:
            return
        self._going_on.update(tasks)
        while self._going_on:
            self._served.clear()
            await self._served.wait()

    def serve(self, task: str) -> None:
        """A task has what it goes on with, or needs no more."""
        self._going_on.discard(task)
        self._served.set()

    async def call(self, target: Target, held: Held, entry: int) -> Completion:
        """Make a call that was reserved, and that stands on the record in this entry."""
        exchange = held[-1][1].exchange
        completion: Completion | None = None
        try:
            if target.convenes:
                return await self._convened(target.convenes, exchange, held, entry)
            completion = self._priced(target, checks.checked(exchange, await target.provider.complete(exchange)))
            return completion
        except (Swallowed, Unanswered) as none:
            model = target.model_name
            nothing = Completion(provider=target.name, requested_model=model, returned_model=model)
            # What a session took is counted call by call.
            settle(held, None if target.convenes else nothing)
            held = ()
            if isinstance(none, Unanswered):
                self._freed.set()
                await asyncio.Event().wait()
            raise
        finally:
            settle(held, completion)
            self._freed.set()

    def _priced(self, target: Target, completion: Completion) -> Completion:
        """The completion with its cost by the run's own prices, where nobody knows it here."""
        price = self.config.prices.get(target.name)
        return price.where_unknown(completion) if price else completion

    async def _convened(self, convenes: Convenes, exchange: Exchange, held: Held, entry: int) -> Completion:
        """An answer that is a session of its own. Each of its calls is charged as it comes, whatever becomes of the rest."""

        def charge(completion: Completion) -> None:
            for purse, _ in held:
                purse.charge(completion)

        share = held[-1][1].share or convenes.share(exchange)
        if self.deadline is not None:
            left_s = max(0.0, self.deadline - asyncio.get_running_loop().time())
            own_s = left_s if share.max_seconds is None else share.max_seconds
            share = replace(share, max_seconds=min(left_s, own_s))
        nested = Nested(journal=self.journal, entry=entry, share=share, charge=charge)
        return checks.checked(exchange, await convenes.convene(exchange, nested))

    async def affordable(
        self, call: Call, lane: str | None, reserve: Callable[[], T], give_back: Callable[[T], None]
    ) -> T:
        """What `reserve` gives once the budget allows it; Breach when no call that is under way could change that."""

        def refusal() -> Breach | None:
            try:
                give_back(reserve())
            except Breach as breach:
                return breach
            return None

        async with self.means.turn(call, lane, refusal, self._count) if self.means.turn else nullcontext():
            while True:
                try:
                    return reserve()
                except Breach as breach:
                    if not breach.passing:
                        raise
                    self._freed.clear()
                    await self._freed.wait()

    def _count(self, lane: str | None, took: Spend) -> None:
        own = self._lanes.get(lane) if lane else None
        for purse in (self.purse, own) if own else (self.purse,):
            purse.count(took)

    def at_once(self, reserve: Callable[[], T]) -> T | None:
        """What `reserve` gives where nobody has to wait for it."""
        try:
            return reserve() if self.means.turn is None else None
        except Breach:
            return None

    def pause_s(self, completion: Completion, made: int, about: str) -> float | None:
        """How long to wait before another try, None for no other try. The jitter follows from the run's nonce."""
        if completion.failure is None:
            return None
        digest = hmac.new(self.nonce.encode(), f"jitter|{about}|{made}".encode(), sha256).digest()
        chance = int.from_bytes(digest[:7], "big") / (1 << 56)
        retries = replace(self.means.retries, retries=self.config.tuning.retries)
        return retries.pause_s(completion.failure, made, random=lambda: chance)


def settle(held: Held, completion: Completion | None) -> None:
    """Give back what was set aside, and charge what was spent."""
    for purse, reserved in held:
        purse.settle(reserved, completion)
