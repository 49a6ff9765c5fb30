"""One wire for the tests of a file."""

from collections.abc import Iterator

import pytest

from providers.wire import Wire, serving


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    with serving() as started:
        yield started
