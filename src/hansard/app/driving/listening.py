"""Listeners that cannot end the work that they hear of."""

import logging
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")
log = logging.getLogger(__name__)


def listening(listeners: list[Callable[P, None]], listener: Callable[P, None]) -> Callable[[], None]:
    """Let a listener hear, until its first error; gives what ends it."""
    failed = False

    def heard(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal failed
        if failed:
            return
        try:
            listener(*args, **kwargs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever somebody else's code raises, the work goes on
            failed = True
            log.warning("a listener failed, and is told nothing more: %r", error)

    def ended() -> None:
        if heard in listeners:
            listeners.remove(heard)

    listeners.append(heard)
    return ended
