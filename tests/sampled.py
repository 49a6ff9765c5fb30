"""Of a test with many cases that each take long, some are quick tests, spread over all of them; the others are long ones."""

from collections import defaultdict

import pytest


class Sampled:
    """A plugin for pytest: gives cases beyond those that `sampled` asks for the mark of the long tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        for item in items:
            if item.get_closest_marker("sampled"):
                cases[item.nodeid.partition("[")[0]].append(item)
        for each in cases.values():
            mark = each[0].get_closest_marker("sampled")
            assert mark is not None
            for number in set(range(len(each))) - spread(mark.args[0], len(each)):
                each[number].add_marker("long")


def spread(wanted: int, cases: int) -> set[int]:
    """The numbers of so many cases, the first and the last among them. The same for everybody: they can be run again."""
    if wanted < 2 or cases <= wanted:
        return set(range(min(wanted, cases)))
    return {number * (cases - 1) // (wanted - 1) for number in range(wanted)}
