"""Runs mypy and the quick tests part by part, with coverage, two parts more at once than there are cores: many tests wait.

    python tests/side_by_side.py

A part is a folder of tests, or the files beside the folders. Each has a process of its own, so that nothing that one leaves
behind meets another, and a folder of its own: pytest's common one is cleared by whichever part ends, which fails it where
another's daemon still writes there. A program and not a line of shell: a shell has what it runs in the background ignore
SIGINT and SIGQUIT, and tests of ours look at just that. Fails also where all parts together leave a requirement of the
protocol without a test that passed.
"""

import compileall
import os
import shutil
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


def parts(kept: Path) -> dict[str, list[str]]:
    """What is run for each part, by the part's name. The files of its tests lie in `kept`."""
    tests = {name: [*TESTED, f"--basetemp={kept / name}", *words] for name, words in folders().items()}
    return {"mypy": ["-m", "mypy"], **tests}


def folders() -> dict[str, list[str]]:
    """What pytest is given for each part of the tests."""
    names = sorted({path.relative_to(HERE).parts[0] for path in HERE.glob("*/**/test_*.py")})
    ordered = sorted(names, key=lambda each: LONGEST.index(each) if each in LONGEST else len(LONGEST))
    found = {each: [f"{HERE.name}/{each}"] for each in ordered}
    return {**found, BESIDE: [f"{HERE.name}/{path.name}" for path in sorted(HERE.glob("test_*.py"))]}


def run(name: str, words: list[str], shown: Path) -> list[str]:
    """One part, and how it failed. Its whole output is shown where it does, otherwise its last lines."""
    argv = [sys.executable, *words]
    environment = {**os.environ, "COVERAGE_FILE": f".coverage.{name}", PLACE: str(shown / name)}
    began = time.monotonic()
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    good = done.returncode in (0, NOTHING_COLLECTED)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    said = [line for line in lines if line.startswith("SKIPPED")] + lines[-1:] if good else lines
    print(f"{name:13} {time.monotonic() - began:5.0f} s", *said, sep="\n  ", flush=True)
    if good:
        return []
    named = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return [f"{name}: {line}" for line in [*named, f"exit {done.returncode}"]]


def main() -> int:
    for old in Path().glob(".coverage*"):
        old.unlink()
    # Where the environment forbids Python to keep what it compiled, each of a thousand commands would compile all of it.
    compileall.compile_dir("src", quiet=1)
    kept = Path(tempfile.mkdtemp())
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor((os.cpu_count() or 1) + 2) as pool:
        shown = Path(folder)
        ended = pool.map(lambda part: run(part[0], part[1], shown), parts(kept).items())
        failures = [line for each in ended for line in each]
        requirements = report({id for each in shown.iterdir() for id in each.read_text().split()})
    print("\n".join(requirements), flush=True)
    if failures:
        print(*failures, f"the files of these tests are kept in {kept}", sep="\n", flush=True)
        return 1
    shutil.rmtree(kept, ignore_errors=True)
    return int(len(requirements) > 1)


if __name__ == "__main__":
    sys.exit(main())
