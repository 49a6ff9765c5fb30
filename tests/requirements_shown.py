"""Which numbered requirements of the deliberation protocol the tests name, and which of them a run of the tests has shown.

`python tests/requirements_shown.py` prints the first; the last lines of a whole run of the tests print the second. A run of a
part of them writes what it has shown into the file that REQUIREMENTS_SHOWN names, for whoever runs the other parts.
"""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MARK = "requirement"
PLACE = "REQUIREMENTS_SHOWN"


def required() -> list[str]:
    return (HERE / "data" / "requirements.txt").read_text().split()


def exempt() -> dict[str, str]:
    """The ids that no test can show, with the reason."""
    lines = (HERE / "data" / "requirements-exempt.txt").read_text().splitlines()
    return {id: reason.strip() for id, _, reason in (line.partition(" ") for line in lines if line)}


def named(folder: Path = HERE) -> dict[str, list[str]]:
    """The tests that name each requirement, by id."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name, ids in _marks(ast.parse(path.read_text("utf-8"))):
            for id in ids:
                found.setdefault(id, []).append(f"{path.relative_to(folder)}::{name}")
    return found


def _marks(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            for each in node.decorator_list:
                if isinstance(each, ast.Call) and ast.unparse(each.func) in (MARK, f"pytest.mark.{MARK}"):
                    yield node.name, [str(ast.literal_eval(argument)) for argument in each.args]


def report(shown: set[str]) -> list[str]:
    """How far these ids go: one line for the count, one for each that is missing."""
    wanted, excused = required(), exempt()
    missing = [id for id in wanted if id not in shown and id not in excused]
    counted = sum(id in shown for id in wanted)
    lines = [f"requirements: {counted} of {len(wanted)} shown, {len(excused)} exempt, {len(missing)} missing"]
    return [*lines, *(f"missing: {id}" for id in missing)]


class Shown:
    """A plugin that keeps the requirements of tests that passed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self._marked: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            for mark in item.iter_markers(MARK):
                self._marked.setdefault(item.nodeid, set()).update(map(str, mark.args))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed |= self._marked.get(report.nodeid, set())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        config = terminalreporter.config
        if place := os.environ.get(PLACE):
            Path(place).write_text("\n".join(self.passed))
            return
        whole = config.args == config.getini("testpaths") and not config.getoption("keyword")
        if whole and self.passed:
            for line in report(self.passed):
                terminalreporter.write_line(line)


if __name__ == "__main__":
    lines = report(set(named()))
    print("\n".join(lines))
    sys.exit(len(lines) > 1)
