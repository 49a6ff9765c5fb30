import subprocess
import sys
import time
from pathlib import Path

SRC = str(Path(__file__).parents[2] / "src")
HELP = f"import sys; sys.path.insert(0, {SRC!r}); sys.argv = ['hansard', '--help']; from hansard.surfaces.cli.main import main; main()"


def quickest(code: str, times: int = 7) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", code], stdout=subprocess.DEVNULL, check=True)
        best = min(best, time.perf_counter() - start)
    return best


def test_help_starts_within_three_times_of_argparse_alone() -> None:
    assert quickest(HELP.replace("main()", "main() or 0")) <= 3 * quickest("import argparse")


def test_help_loads_nothing_heavy() -> None:
    code = HELP.replace(
        "main()", "\ntry:\n    main()\nexcept SystemExit:\n    print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stderr.split()
    assert "hansard.surfaces.cli.main" in loaded
    for heavy in (
        "asyncio",
        "sqlite3",
        "cryptography",
        "orjson",
        "rich",
        "psycopg",
        "hansard.store.base",
        "dataclasses",
    ):
        assert heavy not in loaded, heavy


def test_the_module_runs_as_a_program() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "hansard", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": SRC},
    )
    assert ran.stdout.startswith("hansard 0.")
