"""Runs the quick tests in two halves at once, with coverage: one core alone would take twice as long.

    python tests/halves.py

What is in no half is in the second. A program and not a line of shell: a shell has what it runs in the background ignore
SIGINT and SIGQUIT, and tests of ours look at just that. Fails also where the halves together leave a requirement of the
protocol without a test that passed.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from requirements_shown import PLACE, report

FIRST = ("dashboard", "deliberation", "domain", "ledger", "mcp", "providers", "record", "seal", "store")
HERE = Path(__file__).parent.name


def start(name: str, words: list[str], shown: Path, log: int | None) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", *words]
    environment = {**os.environ, "COVERAGE_FILE": f".coverage.{name}", PLACE: str(shown)}
    return subprocess.Popen(argv, env=environment, stdout=log, stderr=log)


def main() -> int:
    for old in Path().glob(".coverage*"):
        old.unlink()
    folders = [f"{HERE}/{each}" for each in FIRST]
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryFile() as log:
        shown = [Path(kept, name) for name in ("first", "second")]
        first = start("first", folders, shown[0], log.fileno())
        second = start("second", [f"--ignore={each}" for each in folders], shown[1], None)
        codes = [second.wait(), first.wait()]
        log.seek(0)
        sys.stdout.buffer.write(log.read())
        lines = report({id for each in shown if each.exists() for id in each.read_text().split()})
    print("\n".join(lines), flush=True)
    return max(*codes, int(len(lines) > 1))


if __name__ == "__main__":
    sys.exit(main())
