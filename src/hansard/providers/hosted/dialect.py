"""What a wire format has to offer so that `hosted` can ask through it, and what it makes of a reply."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hansard.domain.exchange import ErrorKind, Exchange, Failure, Finish, ToolCall, Usage
from hansard.domain.value import value
from hansard.providers.checks import MOST_TOKENS, count
from hansard.providers.hosted.faults import Fault, read_error


@value
class Said:
    """What a reply says, whichever format it came in."""

    text: str = ""
    structured: Any = None
    calls: tuple[ToolCall, ...] = ()
    thought: Any = None
    finish: Finish = "stop"
    usage: Usage | None = None
    model: str = ""
    fingerprint: str | None = None
    failure: Failure | None = None


class Lost(Exception):
    """There is no reply to read, for a reason that no SDK raises."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind


class Refused(Exception):
    """The server took back, within its answer, what it had begun."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Fold(Protocol):
    """Puts the events of a stream together into the reply that would have come whole."""

    @property
    def done(self) -> bool:
        """Whether the answer is whole."""
        ...

    @property
    def over(self) -> bool:
        """Whether its format has nothing behind what was taken."""
        ...

    @property
    def held(self) -> int:
        """About how many characters it holds, also of what is no part of the answer's text."""
        ...

    def take(self, event: Mapping[str, Any]) -> str:
        """Take one event; the text that it adds to the answer."""
        ...

    def end(self) -> None:
        """The stream says that it is over."""
        ...

    def reply(self) -> dict[str, Any]: ...


class Head:
    """What the events of a stream say of their reply besides its content: the last word on each name."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}
        self.size = 0
        """About how many characters it holds."""

    def take(self, said: Mapping[str, Any]) -> None:
        for name, told in said.items():
            if name not in self.said:
                self.size += len(name) + len(str(told))
            elif told != self.said[name]:
                self.size += len(str(told)) - len(str(self.said[name]))
            self.said[name] = told


class Body(Protocol):
    """The body of a reply, as it arrives."""

    def iter_bytes(self) -> AsyncIterator[bytes]: ...


class Dialect(Protocol):
    """One wire format, spoken through one SDK."""

    @property
    def name(self) -> str: ...
    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the SDK raises."""
        ...

    def body(self, exchange: Exchange, model: str) -> dict[str, Any]: ...
    async def whole(self, body: Mapping[str, Any], timeout_s: float) -> bytes: ...
    def stream(self, body: Mapping[str, Any], timeout_s: float) -> AbstractAsyncContextManager[Body]: ...
    def fold(self) -> Fold: ...
    def read(self, reply: Mapping[str, Any], exchange: Exchange) -> Said: ...
    def classify(self, fault: Fault) -> ErrorKind: ...
    async def close(self) -> None: ...


def none_in(reply: Mapping[str, Any], what: str) -> Lost | Refused:
    """Why a reply without this is none: some servers send an error with status 200."""
    if reply.get("error"):
        return Refused(read_error(reply))
    return Lost("internal", f"the reply holds no {what}; its keys are {', '.join(map(str, reply))}")


def reports(usage: Any, *names: str) -> bool:
    """Whether a reply counts all of these."""
    return isinstance(usage, Mapping) and all(usage.get(name) is not None for name in names)


def answer_tokens(usage: Mapping[str, Any], question: str, answer: str) -> int:
    """The tokens of an answer. Some servers leave out what a model thought, and count that in the total alone."""
    counted, total = count(usage, answer), count(usage, "total_tokens")
    return counted if total > MOST_TOKENS else max(counted, total - count(usage, question))
