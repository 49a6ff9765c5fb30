"""One wire for the tests of a file, and for each of them a wire on which nobody has left anything."""

from collections.abc import Iterator

import pytest

from providers.wire import Wire, serving


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with serving() as started:
        yield started


@pytest.fixture(autouse=True)
def _without_leftovers(request: pytest.FixtureRequest) -> Iterator[None]:
    """A question that came too late has left its turn in the queue: the next test would be answered by it."""
    used = request.getfixturevalue("wire") if "wire" in request.fixturenames else None
    yield
    if used:
        used.drop_turns()
