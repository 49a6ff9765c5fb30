"""Of a test with many cases, or many examples of a property, coverage sees the first; of a file with many tests every other one.

The others go through much the same lines, and to trace them would take half as long again as all tests do. Of a test that is
marked `untraced` it sees nothing. What is printed is therefore less than what the tests reach.
"""

import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = 10
FIRST, EACH = 6, 2
"""Of a file: the first ones, and behind them every other one."""


class TracedFirst:
    """A plugin for pytest; where nothing is traced it changes nothing."""

    def __init__(self) -> None:
        self._seen: dict[Path, set[str]] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        here, elsewhere = sys.gettrace(), threading.gettrace()
        if here is None:
            return (yield)
        name, seen = item.nodeid.partition("[")[0], self._seen.setdefault(item.path, set())
        passed_over = len(seen) >= FIRST and len(seen) % EACH
        if name in seen or passed_over or item.get_closest_marker("untraced"):
            _stop()
        elif held := getattr(getattr(item, "obj", None), "hypothesis", None):
            held.inner_test = _traced_first(held.inner_test)
        seen.add(name)
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
