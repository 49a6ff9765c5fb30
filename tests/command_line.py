"""The command line as people meet it: a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SRC = str(Path(__file__).parent.parent / "src")

ECHO = """\
import sys, time
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
sys.stdin.read()
print("a fine result")
"""
CHAIN = """\
{"tasks": [
  {"id": "first", "lane": "backend", "instruction": "Do the first thing."},
  {"id": "second", "lane": "sre-ops", "instruction": "Do the second thing.", "needs": ["first"]},
  {"id": "third", "lane": "technical-writing", "instruction": "Do the third thing.", "needs": ["second"]}
]}
"""
UNJUDGED = ("--judge", "checks", "--answer", "join")


NO_RICH = """\
from pathlib import Path
Path(__file__).with_name("asked").touch()
raise ImportError("rich is not here")
"""


def environment_of(folder: Path) -> dict[str, str]:
    """That of the tests, with a state folder of its own and no other settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HANSARD_")}
    return kept | {"PYTHONPATH": SRC, "HANSARD_STATE": str(folder / "state")}


def started(folder: Path, *words: object, blocking: bool = False, **options: Any) -> "subprocess.Popen[str]":
    """A command that is under way. `blocking` keeps rich from it, and leaves `blocked/asked` when it was asked for."""
    environment = environment_of(folder)
    if blocking:
        (folder / "blocked").mkdir()
        (folder / "blocked" / "rich.py").write_text(NO_RICH)
        environment["PYTHONPATH"] += f":{folder / 'blocked'}"
    argv = [sys.executable, "-m", "hansard", *map(str, words)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(argv, cwd=folder, env=environment, text=True, **(pipes | options))


def hansard(folder: Path, *words: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    """A command and what came of it."""
    process = started(folder, *words)
    out, err = process.communicate(stdin, timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def workplace(folder: Path) -> Path:
    """A folder with a program to ask and a plan of three tasks in a row."""
    (folder / "echo.py").write_text(ECHO)
    (folder / "plan.json").write_text(CHAIN)
    return folder
