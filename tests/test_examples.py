"""Every example runs, and says what it is there to show."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SAYS = {
    "budget": ("stopped budget 3 calls of 3", "step-4 skipped budget"),
    "cancel": ("cancelled", "after skipped cancelled"),
    "command": ("words were asked of me", "exit code 0"),
    "demo": ("climbs to the security panel: passed", "verified   OK", "6. cut off the end"),
    "gate": ("waiting", "Send it to everybody.", "answered", "{'draft': 'passed', 'send': 'passed'}"),
    "own_provider": ("loud-1",),
    "panel": ("Yes: it was done in 1969.", "replayed to its digest: True"),
    "plan_with_checks": ("It listens on 8080.", "{'config': 'passed', 'note': 'passed'}"),
    "read_record": ("output: [rehearsal]", "behind the answer: 1:run.requested"),
    "resume_after_kill": ("answered {'quick': 1, 'slow': 2} attempts",),
    "roster": ("lane: baking",),
    "submit": ("A Hansard is a verbatim record.", "run.ended"),
    "verify": ("ok: True", "ok: False because:"),
}


def test_every_example_is_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_an_example_shows_what_it_is_there_for(name: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HANSARD_STATE": str(tmp_path / "state")}
    argv = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    ran = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    for piece in SAYS[name]:
        assert piece in ran.stdout
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 50


@pytest.mark.parametrize("name", ["command", "resume_after_kill"])
def test_an_example_that_names_a_program_does_so_also_where_folders_have_spaces(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)]),
        "HANSARD_STATE": str(folder / "state"),
        "TMPDIR": str(folder),
    }
    argv = [str(folder / "python"), "-O", str(ROOT / "examples" / f"{name}.py")]
    ran = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(piece in ran.stdout for piece in SAYS[name])


def test_the_example_that_needs_no_installation_tells_an_older_python_which_one_is_needed() -> None:
    demo = ROOT / "examples" / "demo.py"
    older = f"import runpy, sys; sys.version_info = (3, 10, 13); runpy.run_path({str(demo)!r}, run_name='__main__')"
    ran = subprocess.run([sys.executable, "-c", older], capture_output=True, text=True, check=False, timeout=120)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("this needs Python 3.11 or newer, and was run with ")
    assert ran.stderr.count("\n") == 1
