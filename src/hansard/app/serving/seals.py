"""Tells when the log of a process that stays is not sealed as it should be, and when it is again: its work goes on meanwhile."""

import asyncio
from collections.abc import Callable

from hansard.errors import Unavailable
from hansard.record.recorder import Recorder

LOOK_S = 4.0
NOT_SEALED, SEALED_AGAIN = "the log is not sealed as it should be", "the log is sealed again"


async def tell_of_seals(recorder: Recorder, tell: Callable[[str, str], None]) -> None:
    """Look until cancelled; `tell` hears what is the case, and why. Of a ledger that is away for a while others tell."""
    told = False
    while True:
        trouble = recorder.unsealed
        if trouble and not told and not isinstance(trouble, Unavailable):
            tell(NOT_SEALED, str(trouble))
            told = True
        elif told and not trouble:
            tell(SEALED_AGAIN, "")
            told = False
        await asyncio.sleep(LOOK_S)
