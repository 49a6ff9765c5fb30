"""The one seam through which models and programs are asked, and what every answer goes through on its way back.

A provider turns an Exchange into a Completion. A failure is a value: nothing but cancellation leaves `complete` as an
exception. Providers read no environment and no file that they were not given, and retry nothing by themselves.

    class Mine:
        id, unmetered = "mine", False

        @answered
        async def complete(self, exchange: Exchange, heard: Heard) -> Completion: ...
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Protocol

from hansard.domain.exchange import RETRYABLE, Completion, ErrorKind, Exchange, Failure, ToolEvent, Usage
from hansard.errors import UsageError, told_of
from hansard.providers import checks
from hansard.providers.deadline import Deadline


class Provider(Protocol):
    """Something that answers. One instance serves many calls at once and keeps nothing from one to the next."""

    @property
    def id(self) -> str:
        """The name under which it was configured."""
        ...

    @property
    def unmetered(self) -> bool:
        """Whether nobody sends a bill for it; what it costs is then an estimate at most."""
        ...

    def complete(self, exchange: Exchange, /) -> Coroutine[Any, Any, Completion]:
        """One answer, good or bad. Raises nothing but CancelledError, and then nothing of the work goes on."""
        ...

    async def close(self) -> None:
        """Let go of connections and children. A second call does nothing."""
        ...

    def describe(self) -> Mapping[str, str]:
        """Name, kind, model and whatever else tells it apart; never a secret."""
        ...


@dataclass(slots=True, kw_only=True)
class Heard:
    """What has come of an answer so far. When the call ends early, this is what is kept of it.

    A `usage` that is set here is a report, even when it says zero.
    """

    returned_model: str = ""
    usage: Usage | None = None
    raw: bytes | None = None
    output: bytes | None = None
    stderr: bytes | None = None
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    fingerprint: str | None = None
    tool_events: list[ToolEvent] = field(default_factory=list)
    _pieces: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self._pieces.append(text)

    @property
    def text(self) -> str:
        return joined(self._pieces)


def joined(pieces: Iterable[str]) -> str:
    """The pieces of a text as one. JSON writes some characters in two halves, and a stream may be cut between them."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


Work = Callable[[Exchange, Heard], Awaitable[Completion]]


def failure(
    kind: ErrorKind,
    message: str,
    *,
    retryable: bool | None = None,
    retry_after_s: float | None = None,
    **details: Any,
) -> Failure:
    """A failure with the retry class of its kind, unless the provider knows better."""
    may = kind in RETRYABLE if retryable is None else retryable
    return Failure(kind=kind, message=message, retryable=may, retry_after_s=retry_after_s, details=details)


def failed(provider: Provider, exchange: Exchange, why: Failure, *, heard: Heard | None = None) -> Completion:
    """The completion of a call that failed, with what was heard before it did."""
    kept = heard or Heard()
    requested = checks.requested_model(exchange, provider.describe())
    return Completion(
        provider=provider.id,
        requested_model=requested,
        returned_model=kept.returned_model or requested,
        text=kept.text,
        finish="error",
        usage=kept.usage or Usage(),
        raw=kept.raw,
        output=kept.output,
        stderr=kept.stderr,
        exit_code=kept.exit_code,
        argv=kept.argv,
        fingerprint=kept.fingerprint,
        tool_events=tuple(kept.tool_events),
        failure=why,
    )


def answered(
    complete: Callable[[Any, Exchange, Heard], Awaitable[Completion]],
) -> Callable[[Any, Exchange], Coroutine[Any, Any, Completion]]:
    """Make a provider's `complete` keep the contract: deadline, no exceptions, valid structure, usage, names, latency."""

    # Any: the class is not finished where this decorates, and not every type checker takes it for a provider yet.
    @wraps(complete)
    def guarded(provider: Any, exchange: Exchange) -> Coroutine[Any, Any, Completion]:
        return answer(provider, exchange, partial(complete, provider))

    guarded.keeps_the_contract = True  # type: ignore[attr-defined]
    return guarded


def keeps_the_contract(provider: Provider) -> bool:
    """Whether its `complete` is made with `answered`."""
    return getattr(getattr(type(provider), "complete", None), "keeps_the_contract", False) is True


async def answer(provider: Provider, exchange: Exchange, work: Work) -> Completion:
    """Do this work under the contract of `answered`."""
    started = time.perf_counter()
    heard = Heard()
    fault = checks.fault_of(exchange)
    completion = failed(provider, exchange, fault) if fault else await _asked(provider, exchange, work, heard)
    latency_us = int((time.perf_counter() - started) * 1_000_000)
    try:
        return _settled(provider, exchange, completion, heard, latency_us)
    except Exception as error:  # noqa: BLE001 - a third party may have put anything into the fields
        why = failure("internal", f"answered with a Completion that makes no sense: {told_of(error)}")
        return _settled(provider, exchange, failed(provider, exchange, why), heard, latency_us)


def _settled(
    provider: Provider, exchange: Exchange, completion: Completion, heard: Heard, latency_us: int
) -> Completion:
    return checks.settled(
        exchange,
        completion,
        id=provider.id,
        unmetered=provider.unmetered,
        description=provider.describe(),
        reported=heard.usage,
        latency_us=latency_us,
    )


async def _asked(provider: Provider, exchange: Exchange, work: Work, heard: Heard) -> Completion:
    limit = exchange.limits.timeout_s
    deadline = Deadline(limit)
    try:
        with deadline:
            completion = await work(exchange, heard)
    except TimeoutError as error:
        why = _late(limit) if deadline.expired else failure("timeout", told_of(error))
        return failed(provider, exchange, why, heard=heard)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Nobody cancelled us: something inside was cancelled and let it out. It must not end the caller.
        return failed(provider, exchange, failure("internal", "the work was cancelled from inside"), heard=heard)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a failure is a value, whatever a library raises
        why = failure("internal", told_of(error), exception=type(error).__qualname__)
        return failed(provider, exchange, why, heard=heard)
    if not isinstance(completion, Completion):
        said = f"answered with a Python {type(completion).__name__} instead of a Completion"
        return failed(provider, exchange, failure("internal", said), heard=heard)
    if deadline.expired and completion.ok:
        return checks.spoiled(completion, _late(limit))
    return completion


def _late(limit: float) -> Failure:
    return failure("timeout", f"no answer within {limit:g} s")


def refusal_of(provider: Provider, exchange: Exchange) -> Completion | None:
    """What a provider with a limit of its own (`refusal`) answers to a call that it does not let through; None elsewhere."""
    refuse: Callable[[Exchange], Completion | None] | None = getattr(provider, "refusal", None)
    return refuse(exchange) if refuse else None


class Wrapper:
    """A provider around another one, which speaks for itself except where a subclass speaks."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def unmetered(self) -> bool:
        return self.inner.unmetered

    async def complete(self, exchange: Exchange) -> Completion:
        return await self.inner.complete(exchange)

    async def close(self) -> None:
        await self.inner.close()

    def describe(self) -> Mapping[str, str]:
        return self.inner.describe()


class Answering(Wrapper):
    """Somebody else's provider, held to the contract of `answered` whatever it does."""

    @answered
    def complete(self, exchange: Exchange, heard: Heard) -> Awaitable[Completion]:
        return self.inner.complete(exchange)


def check_provider(given: Any) -> None:
    """UsageError where somebody else's object is no provider."""
    lacking = [name for name in ("id", "unmetered", "complete", "close", "describe") if not hasattr(given, name)]
    if lacking:
        raise UsageError(f"{given!r:.100} is no provider: it has no {', '.join(lacking)}")
    try:
        id, described = given.id, given.describe()
    except Exception as error:
        raise UsageError(f"{given!r:.100} is no provider: it cannot say what it is ({told_of(error)})") from error
    texts = isinstance(described, Mapping) and all(isinstance(each, str) for pair in described.items() for each in pair)
    if not isinstance(id, str) or not texts:
        raise UsageError(f"{given!r:.100} is no provider: its id is a text, and describe() gives a mapping of texts")


def held(provider: Provider) -> Provider:
    """The provider, held to the contract: what a third party raises or claims must not end a run or a session."""
    return provider if keeps_the_contract(provider) else Answering(provider)
