"""A forked child with the store that its parent has opened."""

import os
from collections.abc import Callable

from hansard.errors import StoreError
from hansard.store.base import Store
from hansard.store.conformance.sample import draft


def is_left_to_its_parent(store: Store) -> bool:
    """Whether a forked child is refused to write and to read, in words; it closes the store behind that."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            refused = _is_refused(lambda: store.append([[draft()]])) and _is_refused(lambda: store.entry(0))
            store.close()
            status = 0 if refused else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


def _is_refused(use: Callable[[], object]) -> bool:
    try:
        use()
    except StoreError as error:
        return "before a fork; open it again here" in str(error)
    return False
