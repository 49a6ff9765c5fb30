"""What a cancellation may not leave half done."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")
SHUTDOWN = "shutdown"
"""With this word whoever closes cancels what is under way, so that it can be told from what somebody stops."""


async def to_the_end(work: Awaitable[T]) -> T:
    """Do this work, or wait for it, whoever cancels meanwhile and however often: that is passed on when it is over."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        if not task.cancelled():
            # Looked at, so that nobody warns of it; the cancellation says more.
            task.exception()
        raise asyncio.CancelledError(*cancelled.args)
    return task.result()
