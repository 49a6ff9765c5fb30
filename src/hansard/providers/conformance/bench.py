"""What a provider is tried with: behaviours of the world behind it, questions, and what holds for every answer."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any, get_args
from unittest import SkipTest

from hansard.domain.exchange import (
    RETRYABLE,
    Completion,
    CostBasis,
    ErrorKind,
    Exchange,
    Limits,
    Message,
    Sampling,
    Schema,
    Usage,
)
from hansard.domain.value import value
from hansard.providers.base import Provider

KINDS: tuple[ErrorKind, ...] = get_args(ErrorKind)
VERDICT: Schema = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "reason": {"type": "string", "maxLength": 40}},
    "required": ["ok", "reason"],
    "additionalProperties": False,
}


@value
class Behaviour:
    """What the world behind the provider does in one test, to every question that it gets.

    It answers with the text `says`; or, with `echoes`, with the content of the last message, word for word. With `hangs`
    it takes the question and never answers. With `fails` it fails as that kind does, asking for a pause of
    `retry_after_s`. With `cut_off` the answer ends at the length limit. With `leaks` it repeats the provider's key in
    whatever it says. `usage` is what it reports; None where it reports none.
    """

    says: str = "Paris."
    echoes: bool = False
    hangs: bool = False
    fails: ErrorKind | None = None
    retry_after_s: float | None = None
    cut_off: bool = False
    leaks: bool = False
    usage: Usage | None = field(default_factory=lambda: Usage(input_tokens=11, output_tokens=7))


def cannot(why: str) -> SkipTest:
    """To be raised by `make` for a behaviour that this provider's world cannot show."""
    return SkipTest(f"cannot: {why}")


def question(
    text: str = "What is the capital of France?",
    *,
    schema: Schema | None = None,
    timeout_s: float = 60.0,
    system: str | None = "Answer in one short sentence.",
    max_output_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> Exchange:
    """One question, with sensible values for what a test does not care about."""
    first = (Message(role="system", content=system),) if system else ()
    return Exchange(
        messages=(*first, Message(role="user", content=text)),
        schema=schema,
        schema_name="verdict" if schema is not None else "answer",
        sampling=sampling or Sampling(),
        limits=Limits(timeout_s=timeout_s, max_output_tokens=max_output_tokens),
        metadata={"role": "conformance", "turn": 1},
    )


class Bench:
    """What a provider has to bring to be tried."""

    secrets: tuple[str, ...] = ()
    """The values of the keys that `make` gives to the provider."""

    failures: tuple[ErrorKind, ...] = KINDS
    """The kinds of failures that the world behind it can show."""

    reports_usage = True
    """Whether the world behind it can report usage, so that it must not be estimated."""

    slack_s = 10.0
    """How long anything may take that is not meant to take time."""

    def make(self, behaviour: Behaviour) -> Provider:
        """A new provider, with a world behind it that behaves like this."""
        raise NotImplementedError

    def at_work(self) -> int:
        """How many questions are being worked on behind the provider that was made last, at this moment."""
        raise cannot("see what goes on behind this provider")

    @asynccontextmanager
    async def opened(self, behaviour: Behaviour) -> AsyncIterator[Provider]:
        """A new provider for one test. Override it where the world behind has to be started and stopped."""
        provider = self.make(behaviour)
        try:
            yield provider
        finally:
            await provider.close()

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a test on an event loop of its own."""
        asyncio.run(test())

    async def ask(self, provider: Provider, exchange: Exchange) -> Completion:
        """Ask, and check what holds for every answer."""
        completion = await provider.complete(exchange)
        self.check(provider, exchange, completion)
        return completion

    def check(self, provider: Provider, exchange: Exchange, completion: Completion) -> None:
        """What holds for every answer, good or bad."""
        assert isinstance(completion, Completion)
        assert completion.provider == provider.id
        assert completion.requested_model
        assert completion.returned_model
        assert exchange.model in {None, completion.requested_model}
        _check_counts(completion)
        if completion.failure is None:
            _check_success(exchange, completion)
        else:
            _check_failure(completion)
        self.check_no_secret(repr(completion))

    def check_no_secret(self, text: str) -> None:
        for secret in self.secrets:
            assert secret not in text, "a secret is in what the provider gives out"

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until this holds."""
        end = time.monotonic() + self.slack_s
        while not holds():
            assert time.monotonic() < end, what
            await asyncio.sleep(0.01)


def _check_counts(completion: Completion) -> None:
    usage = completion.usage
    for count in (usage.input_tokens, usage.output_tokens, usage.cached_tokens, completion.latency_us):
        assert type(count) is int
        assert count >= 0
    assert completion.cost.basis in get_args(CostBasis)
    assert type(completion.cost.usd_nano) is int
    assert completion.cost.usd_nano >= 0


def _check_success(exchange: Exchange, completion: Completion) -> None:
    assert completion.finish in {"stop", "length", "content_filter"}
    assert completion.usage.total > 0
    if exchange.schema is not None:
        assert completion.structured is not None


def _check_failure(completion: Completion) -> None:
    why = completion.failure
    assert why is not None
    assert why.kind in KINDS
    assert why.message
    assert completion.structured is None
    assert completion.finish in {"error", "length", "content_filter"}
    if why.retryable:
        assert why.kind in RETRYABLE | {"tool_failure"}
    if completion.text:
        assert completion.usage.total > 0, "something was generated, and nobody counted it"
