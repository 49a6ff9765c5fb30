"""Runs mypy and the quick tests part by part, with coverage, two parts more at once than there are cores: many tests wait.

    python tests/side_by_side.py

A part is a folder of tests, or the files beside the folders. Each has a process of its own, so that nothing that one leaves
behind meets another. A program and not a line of shell: a shell has what it runs in the background ignore SIGINT and
SIGQUIT, and tests of ours look at just that. Fails also where all parts together leave a requirement of the protocol
without a test that passed.
"""

import compileall
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from requirements_shown import PLACE, report

HERE = Path(__file__).parent
BESIDE = "beside"
LONGEST = ("cli", "serve", "app", "orchestration", "providers", "store", "dashboard", "deliberation", "mcp")
"""These first: whatever is short fills the gap at the end."""
# The plugin of schemathesis takes a second to load, and the tests that use it call it themselves.
TESTED = ("-m", "coverage", "run", "-m", "pytest", "-q", "--color=no", "-p", "no:schemathesis")
NOTHING_COLLECTED = 5


def parts() -> dict[str, list[str]]:
    """What is run for each part, by the part's name."""
    tests = {name: [*TESTED, *words] for name, words in folders().items()}
    return {"mypy": ["-m", "mypy"], **tests}


def folders() -> dict[str, list[str]]:
    """What pytest is given for each part of the tests."""
    names = sorted({path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")})
    ordered = sorted(names, key=lambda each: LONGEST.index(each) if each in LONGEST else len(LONGEST))
    found = {each: [f"{HERE.name}/{each}"] for each in ordered}
    return {**found, BESIDE: [f"{HERE.name}/{path.name}" for path in sorted(HERE.glob("test_*.py"))]}


def run(name: str, words: list[str], kept: Path) -> int:
    """One part. Its whole output is shown where it fails, otherwise its last lines."""
    argv = [sys.executable, *words]
    environment = {**os.environ, "COVERAGE_FILE": f".coverage.{name}", PLACE: str(kept / name)}
    began = time.monotonic()
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    good = done.returncode in (0, NOTHING_COLLECTED)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = [line for line in lines if line.startswith("SKIPPED")] + lines[-1:] if good else lines
    print(f"{name:13} {time.monotonic() - began:5.0f} s", *said, sep="\n  ", flush=True)
    return 0 if good else done.returncode


def main() -> int:
    for old in Path().glob(".coverage*"):
        old.unlink()
    # Where the environment forbids Python to keep what it compiled, each of a thousand commands would compile all of it.
    compileall.compile_dir("src", quiet=1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:
        kept = Path(folder)
        codes = list(pool.map(lambda part: run(part[0], part[1], kept), parts().items()))
        lines = report({id for each in kept.iterdir() for id in each.read_text().split()})
    print("\n".join(lines), flush=True)
    return max(*codes, int(len(lines) > 1))


if __name__ == "__main__":
    sys.exit(main())
