"""Listeners that cannot end the work that they hear of."""

import logging
from collections.abc import Callable
from typing import ParamSpec

P = ParamSpec("P")
log = logging.getLogger(__name__)


def harmless(listener: Callable[P, None]) -> Callable[P, None]:
    """The same listener; after its first error it is told nothing more."""
    failed = False

    def heard(*args: P.args, **kwargs: P.kwargs) -> None:
        nonlocal failed
        if failed:
            return
        try:
            listener(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever somebody else's code raises, the work goes on
            failed = True
            log.warning("a listener failed, and is told nothing more: %r", error)

    return heard
