"""How a process hears that it shall end, and ends also where something that it waits for hangs.

A database server that was halted answers nothing and refuses nothing: whoever waits for it would wait for ever.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

EXIT_HUNG = 11
HUNG_S = 30.0
SPEAK_S = 2.0

Act = Callable[[], object]


def when_told_to_end(act: Act, place: str, *, within_s: float = HUNG_S) -> Act:
    """From now on SIGINT and SIGTERM call `act` on the running loop. If the process is still there so long after the first one,
    it says so and ends as it is: the record holds what was written. Gives what undoes all this.
    """
    loop, told, over = asyncio.get_running_loop(), SimpleQueue[None](), threading.Event()

    def say() -> None:
        print(
            f"hansard: still not at an end {within_s:.0f} s after it was told to; perhaps {place} does not answer. "
            "It ends as it is: the record holds what was written, and runs that were under way can go on from there",
            file=sys.stderr,
            flush=True,
        )

    def watch() -> None:
        told.get()
        if not over.wait(within_s):
            # Beside this thread: whoever should hear it may hang too.
            speaking = threading.Thread(target=say, daemon=True)
            speaking.start()
            speaking.join(SPEAK_S)
            os._exit(EXIT_HUNG)

    def hear(*_: object) -> None:
        told.put(None)
        # A loop that is closed already has nothing left to do.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(act)

    def undo() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        over.set()
        told.put(None)

    threading.Thread(target=watch, name="hansard-leaving", daemon=True).start()
    # Not by the loop: it may itself be what waits.
    before = {each: signal.signal(each, hear) for each in (signal.SIGINT, signal.SIGTERM)}
    return undo
