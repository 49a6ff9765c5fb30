"""The console blocks of pages are run, and their output is compared; `…` stands for anything."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sessions(text: str) -> list[tuple[str, list[str]]]:
    """Each command of the blocks with the lines that the text says it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines agree; a line that is only `…` stands for any number of lines."""
    if not expected:
        return not printed
    if expected[0].strip() == "…":
        return any(matches(expected[1:], printed[at:]) for at in range(len(printed) + 1))
    pattern = ".*".join(re.escape(piece) for piece in expected[0].rstrip().split("…"))
    return bool(printed and re.fullmatch(pattern, printed[0].rstrip())) and matches(expected[1:], printed[1:])


@pytest.mark.parametrize("page", ["README.md", "docs/keeping.md"])
def test_the_commands_of_a_page_print_what_it_says(page: str, tmp_path: Path) -> None:
    commands = sessions((ROOT / page).read_text("utf-8"))
    assert len(commands) >= 4
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HANSARD_STATE": str(tmp_path / "state")}
    for command, expected in commands:
        words = shlex.split(command)
        if words[0] == "rm":
            shutil.rmtree(tmp_path / words[-1])
            continue
        assert words[0] in ("hansard", "python3"), command
        argv = [sys.executable, "-m", "hansard", *words[1:]] if words[0] == "hansard" else [sys.executable, *words[1:]]
        ran = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert expected, f"the page says nothing of what {command} prints"
        # What is refused is told on the other stream, and in this way.
        refused = expected[0].startswith("hansard: ")
        assert bool(ran.returncode) == refused, ran.stderr
        printed = (ran.stderr if refused else ran.stdout).splitlines()
        assert matches(expected, printed), f"$ {command}\n{ran.stdout}{ran.stderr}"


def test_the_comparison_can_fail() -> None:
    assert matches(["a … c", "…", "z"], ["a b c", "1", "2", "z"])
    assert not matches(["a … c"], ["a b"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["…", "z"], ["a"])
