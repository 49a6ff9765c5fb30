"""A daemon for the tests of a file that only look, and a browser for those that need a real one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from daemons import Served, place, serving
from visitors import Browsing, Visitor, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(place(tmp_path_factory.mktemp("daemon")), "--provider", "quick") as served:
        yield served


@pytest.fixture
def visitor(daemon: Served) -> Visitor:
    return Visitor(daemon)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    with chromium() as found:
        yield found


@pytest.fixture
def browsing(browser: "Browser") -> Iterator[Browsing]:
    """A browser that must have nothing to complain about in the end: no error, no refused script or style."""
    made = Browsing(browser=browser)
    yield made
    made.close()
    assert made.complaints == []
