"""Runs the quick tests in two halves at once, with coverage: one core alone would take twice as long.

    python tests/halves.py

What is in no half is in the second. A program and not a line of shell: a shell has what it runs in the background ignore
SIGINT and SIGQUIT, and tests of ours look at just that.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

FIRST = ("app", "dashboard", "deliberation", "domain", "ledger", "mcp", "providers", "record", "seal", "store")
HERE = Path(__file__).parent.name


def start(name: str, words: list[str], log: int | None) -> "subprocess.Popen[bytes]":
    argv = [sys.executable, "-m", "coverage", "run", "-m", "pytest", "-q", *words]
    return subprocess.Popen(argv, env={**os.environ, "COVERAGE_FILE": f".coverage.{name}"}, stdout=log, stderr=log)


def main() -> int:
    for old in Path().glob(".coverage*"):
        old.unlink()
    folders = [f"{HERE}/{each}" for each in FIRST]
    with tempfile.TemporaryFile() as log:
        first = start("first", folders, log.fileno())
        second = start("second", [f"--ignore={each}" for each in folders], None)
        codes = [second.wait(), first.wait()]
        log.seek(0)
        sys.stdout.buffer.write(log.read())
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
