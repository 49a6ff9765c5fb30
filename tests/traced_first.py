"""Of a test with many cases, or many examples of a property, coverage sees the first.

The others go through much the same lines, and to trace them would take half as long again as all tests do. Of a test that is
marked `untraced` it sees nothing.
"""

import sys
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

EXAMPLES = 10


class TracedFirst:
    """A plugin for pytest; where nothing is traced it changes nothing."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        here, elsewhere = sys.gettrace(), threading.gettrace()
        if here is None:
            return (yield)
        name = item.nodeid.partition("[")[0]
        if name in self._seen or item.get_closest_marker("untraced"):
            _stop()
        elif held := getattr(getattr(item, "obj", None), "hypothesis", None):
            held.inner_test = _traced_first(held.inner_test)
        self._seen.add(name)
        try:
            return (yield)
        finally:
            sys.settrace(here)
            threading.settrace(elsewhere)


def _traced_first(test: Callable[..., Any]) -> Callable[..., Any]:
    left = EXAMPLES

    def example(*given: Any, **named: Any) -> Any:
        nonlocal left
        if left == 0:
            _stop()
        left -= 1
        return test(*given, **named)

    return example


def _stop() -> None:
    sys.settrace(None)
    threading.settrace(None)
