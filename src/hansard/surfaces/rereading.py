"""The body of a request, read before the application that it is for, which reads it again. Plain ASGI."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]


async def heard(receive: Receive, most: int | None = None) -> list[Message]:
    """The messages of a body, to its end or until it has more than `most` bytes."""
    messages = [await receive()]
    held = len(messages[0].get("body", b""))
    while messages[-1].get("more_body") and (most is None or held <= most):
        messages.append(await receive())
        held += len(messages[-1].get("body", b""))
    return messages


def body_of(messages: list[Message]) -> bytes:
    return b"".join([each.get("body", b"") for each in messages])


def again(messages: list[Message], receive: Receive) -> Receive:
    """What was read already, and then what is still to come."""
    left = messages[::-1]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message
