"""Clients that other people wrote: the official one of the generation before, and MCP Inspector's command line from npm."""

import asyncio
import json
import os
import pwd
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from command_line import SRC, environment_of
from components import need
from mcp_clients import asking, called, client_of, command, desk_in

OLD = "mcp>=1.26,<2"
INSPECTOR = "@modelcontextprotocol/inspector@2.12.0"
PLAN = {"tasks": [{"id": "one", "lane": "backend", "instruction": "x"}]}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("submit", {"request": "compare three queues"}),
    ("plan", {"request": "compare three queues"}),
    ("runs_list", {"limit": 5}),
    ("run_show", {"run": "last"}),
    ("run_follow", {"run": "last"}),
    ("route", {"text": "fix the stylesheet"}),
    ("status", {}),
    ("verify", {"deep": True}),
    ("ledger_get", {"seq": 1}),
    ("causes", {"seq": 5}),
    ("summary", {}),
    ("ledger_state", {"at": 3}),
    ("receipt", {"seq": 0}),
    ("gates_list", {}),
    ("list_personas", {}),
    ("generate_persona", {"need": "somebody who knows the law of mail"}),
    ("deliberate", {"problem": "Keep our own mail server?"}),
    ("deliberate_streaming", {"problem": "Keep our own mail server?"}),
    ("deliberate_adaptive", {"problem": "Keep our own mail server?"}),
]


def kept(name: str) -> Path:
    """A folder outside of the repository that stays. Not the HOME of the tests, which is thrown away."""
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "hansard" / name


@cache
def old_python() -> Path:
    """An interpreter with the older library."""
    folder = kept("mcp-1")
    program = folder / "bin" / "python"
    if not (folder / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
        install = [str(program), "-m", "pip", "install", "-q", "--disable-pip-version-check", OLD]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        need(done.returncode == 0, f"{OLD} from pip: {done.stderr[-300:]}")
        (folder / "done").touch()
    return program


async def prepared(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Runs that wait and sessions that are over, and the calls that need them."""
    async with desk_in(folder) as desk, client_of(desk) as client:
        first, second = [
            await called(client, "submit", {"request": "x", "plan": PLAN, "gates": ["plan"]}) for _ in range(2)
        ]
        held = await called(client, "deliberate", {"problem": "x"})
        asks = await asking(client)
    return [
        ("deliberate_continue", {"run": asks, "answer": "the blue one", "provider": "rehearsal"}),
        ("run_cancel", {"run": first["run"]}),
        ("run_resume", {"run": second["run"]}),
        ("get_run_summary", {"run_dir": held["run_dir"]}),
    ]


@pytest.mark.long
def test_the_client_of_the_generation_before_lists_and_calls_every_tool(tmp_path: Path) -> None:
    calls = [*asyncio.run(prepared(tmp_path)), *CALLS]
    asked = {
        "command": command("--provider", "rehearsal"),
        "env": environment_of(tmp_path),
        "cwd": str(tmp_path),
        "calls": calls,
    }
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    script = Path(__file__).with_name("old_client.py")
    done = subprocess.run(
        [old_python(), script], input=json.dumps(asked), capture_output=True, text=True, check=False, env=environ
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["version"] == "2025-11-25"
    assert set(told["tools"]) == {name for name, _ in calls}
    for name, (is_error, view) in told["called"].items():
        assert not is_error, name
        assert view, name
    assert told["resources"]
    assert told["prompts"]
    assert "ended answered" in told["steps"]


@cache
def inspector() -> Path:
    """The program, installed on first use."""
    need(shutil.which("npm") is not None, "npm (install Node.js)")
    folder = kept("mcp-inspector")
    program = folder / "node_modules" / ".bin" / "mcp-inspector"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        install = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), INSPECTOR)
        environ = {**os.environ, "HOME": pwd.getpwuid(os.getuid()).pw_dir}
        done = subprocess.run(install, capture_output=True, text=True, check=False, env=environ)
        need(done.returncode == 0 and program.exists(), f"{INSPECTOR} from npm: {done.stderr[-300:]}")
    return program


def inspect(folder: Path, *words: str) -> dict[str, Any]:
    """What the inspector prints."""
    # A client hands its servers a few variables of its own environment, and others only where it is told to.
    state = ("-e", f"HANSARD_STATE={folder / 'state'}", "-e", f"PYTHONPATH={SRC}")
    argv = [str(inspector()), "--cli", *command("--provider", "rehearsal"), *state, *words]
    done = subprocess.run(
        argv, cwd=folder, env=environment_of(folder), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr + done.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.real_cli
def test_the_inspector_lists_and_calls_every_tool(tmp_path: Path) -> None:
    calls = [*asyncio.run(prepared(tmp_path)), *CALLS]
    tools = {each["name"] for each in inspect(tmp_path, "--method", "tools/list")["tools"]}
    assert tools == {name for name, _ in calls}
    for name, arguments in calls:
        words = [word for key, value in arguments.items() for word in ("--tool-arg", f"{key}={json.dumps(value)}")]
        result = inspect(tmp_path, "--method", "tools/call", "--tool-name", name, *words)
        assert not result.get("isError"), (name, result)
    assert inspect(tmp_path, "--method", "resources/list")["resources"]
    assert inspect(tmp_path, "--method", "prompts/list")["prompts"]
