"""Asks for an answer of a given shape, and tells the model what was wrong when it has another one.

Nothing is retried silently: before and after each call the caller is told, and may refuse to go on. So the driver can
record and charge every attempt. Only a malformed answer is corrected; whether to try again after anything else is the
caller's decision (see `retry`). Free text of a failed call is never looked into.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from hansard.domain.exchange import Completion, Exchange, Failure, Message
from hansard.domain.value import value
from hansard.errors import UsageError
from hansard.providers import checks
from hansard.providers.base import Provider

DEFAULT_CORRECTIONS = 2
NOTHING_SAID = "(no text)"


@value
class Attempt:
    """One call: what was asked, and what came back. Numbers begin at 1."""

    number: int
    exchange: Exchange
    completion: Completion


Before = Callable[[int, Exchange], Awaitable[bool | None]]
OnAttempt = Callable[[Attempt], Awaitable[bool | None]]
"""Told after each call, before the next. False stops; an exception passes through `ask`."""


@value
class Answer:
    """What came of asking: the value of the last attempt, or its failure. `stopped` says that the caller refused to go on."""

    attempts: tuple[Attempt, ...]
    stopped: bool = False

    @property
    def completion(self) -> Completion | None:
        """The last completion; None when the caller refused the first call."""
        return self.attempts[-1].completion if self.attempts else None

    @property
    def ok(self) -> bool:
        return self.completion is not None and self.completion.ok

    @property
    def value(self) -> Any:
        """The structured answer, valid against the schema, or None."""
        return self.completion.structured if self.completion is not None and self.completion.ok else None

    @property
    def failure(self) -> Failure | None:
        return self.completion.failure if self.completion else None


async def ask(
    provider: Provider,
    exchange: Exchange,
    *,
    corrections: int = DEFAULT_CORRECTIONS,
    before: Before | None = None,
    on_attempt: OnAttempt | None = None,
) -> Answer:
    """Ask once, and at most `corrections` times more while the answer is malformed. False from either callback stops."""
    if corrections < 0:
        raise UsageError(f"corrections must be 0 or more, not {corrections}")
    attempts: list[Attempt] = []
    asked = exchange
    for number in range(1, corrections + 2):
        if before and await before(number, asked) is False:
            return Answer(attempts=tuple(attempts), stopped=True)
        # The provider has checked this already, or says so: third parties are believed after checking.
        completion = checks.checked(asked, await provider.complete(asked))
        attempts.append(Attempt(number=number, exchange=asked, completion=completion))
        if on_attempt and await on_attempt(attempts[-1]) is False:
            return Answer(attempts=tuple(attempts), stopped=True)
        if not wants_correction(completion):
            break
        asked = replace(corrected(exchange, completion), metadata=_next_turn(asked))
    return Answer(attempts=tuple(attempts))


def wants_correction(completion: Completion) -> bool:
    """Whether another turn that quotes the fault may help."""
    why = completion.failure
    return why is not None and why.kind == "malformed_response" and why.retryable


def corrected(exchange: Exchange, completion: Completion) -> Exchange:
    """The same question once more, with the malformed answer word for word and what is wrong with it [R-6.7-4]."""
    details = completion.failure.details if completion.failure else {}
    said = completion.text or details.get("raw_attempt") or NOTHING_SAID
    added = (
        Message(role="assistant", content=str(said)),
        Message(role="user", content=_correction(exchange, completion)),
    )
    return replace(exchange, messages=(*exchange.messages, *added), metadata=_next_turn(exchange))


def _correction(exchange: Exchange, completion: Completion) -> str:
    why = completion.failure
    details = why.details if why else {}
    path = details.get("failing_path") or "(the whole answer)"
    message = details.get("validator_message") or (why.message if why else "")
    return (
        f"Your last answer is not a valid `{exchange.schema_name}`.\n"
        f"Where: {path}\nWhat is wrong: {message}\n"
        f"Answer again with one bare JSON object that fits the `{exchange.schema_name}` schema: "
        "no prose before or after it, no code fence."
    )


def _next_turn(exchange: Exchange) -> dict[str, str | int]:
    turn = exchange.metadata.get("turn", 1)
    return {**exchange.metadata, "turn": turn + 1 if isinstance(turn, int) else 2}
