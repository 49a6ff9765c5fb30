"""A forked child with the store that its parent has opened."""

import os
from collections.abc import Callable

from hansard.errors import StoreError
from hansard.store.base import Store
from hansard.store.conformance.sample import draft


def is_left_to_its_parent(store: Store) -> bool:
    """Whether a forked child is refused to write and to read, in words; it closes the store behind that."""

    def use() -> bool:
        refused = is_refused(lambda: store.append([[draft()]])) and is_refused(lambda: store.entry(0))
        store.close()
        return refused

    return holds_in_a_child(use)


def holds_in_a_child(claim: Callable[[], bool]) -> bool:
    """Whether something is so in a forked child."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if claim() else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def is_refused(use: Callable[[], object]) -> bool:
    """Whether it is refused because of the fork."""
    try:
        use()
    except StoreError as error:
        return "fork" in str(error) and "open it in a process that is started anew" in str(error)
    return False
