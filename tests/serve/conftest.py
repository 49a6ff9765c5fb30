"""One daemon for the tests of a file that only ask it things."""

from collections.abc import Iterator

import pytest

from daemons import Served, place, serving


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(place(tmp_path_factory.mktemp("daemon")), "--provider", "quick") as served:
        yield served
