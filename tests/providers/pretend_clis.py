"""Programs that pretend to be agent CLIs: they note how they were asked, and say what they are told to say.

What they say has the shapes that the real ones print, which were recorded from claude 2.1.197, codex 0.166.0 and gemini
0.61.0 against a loopback server (see test_real_clis.py, which asks the real ones).
"""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hansard.domain.exchange import Completion, Failure
from providers.programs import SEES

VERSION = "9.8.7 (pretended)"
SCRIPT = """#!/bin/sh
if [ "$*" = --version ]; then echo "{version}"; echo asked >> {folder}/versions; exit 0; fi
for each in "$@"; do printf '%s\\0' "$each"; [ -f "$each" ] && cp "$each" {folder}/files/; done > {folder}/argv
env -0 > {folder}/environment
pwd > {folder}/cwd
{body}
"""
ECHO = """import json, sys
said = sys.stdin.read()
with open(sys.argv[1]) as file:
    for line in file:
        print(line.rstrip("\\n").replace('"ECHO"', json.dumps(said)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PretendCli:
    """One such program, in a folder of its own."""

    folder: Path
    name: str

    @property
    def environment(self) -> dict[str, str]:
        return {**SEES, "PATH": f"{self.folder}/bin:{SEES['PATH']}"}

    @property
    def argv(self) -> list[str]:
        return (self.folder / "argv").read_text().split("\0")[:-1]

    @property
    def stdin(self) -> bytes:
        return (self.folder / "stdin").read_bytes()

    @property
    def saw(self) -> dict[str, str]:
        entries = (self.folder / "environment").read_text().split("\0")[:-1]
        return dict(entry.split("=", 1) for entry in entries)

    @property
    def cwd(self) -> str:
        return (self.folder / "cwd").read_text().strip()

    @property
    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.folder / "files").iterdir()}

    @property
    def versions_asked(self) -> int:
        return len((self.folder / "versions").read_text().splitlines())

    def says(self, stdout: str, *, stderr: str = "", exit_code: int = 0, echoes: bool = False, sleep: str = "") -> None:
        """From now on it says this. With `echoes`, what stands as "ECHO" becomes its input."""
        (self.folder / "stdout").write_text(stdout, encoding="utf-8")
        (self.folder / "stderr").write_text(stderr, encoding="utf-8")
        here = shlex.quote(str(self.folder))
        body = f"cat > {here}/stdin; cat {here}/stdout; cat {here}/stderr >&2; exit {exit_code}"
        if echoes:
            body = f"exec {sys.executable} -I -S -c {shlex.quote(ECHO)} {here}/stdout"
        if sleep:
            body = f"exec sleep {sleep}"
        path = self.folder / "bin" / self.name
        path.write_text(SCRIPT.format(version=VERSION, folder=here, body=body))
        path.chmod(0o755)


def pretend(folder: Path, name: str) -> PretendCli:
    (folder / "bin").mkdir(parents=True)
    (folder / "files").mkdir()
    cli = PretendCli(folder=folder, name=name)
    cli.says("")
    return cli


def lines(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


def claude_init() -> dict[str, Any]:
    return {
        "type": "system",
        "subtype": "init",
        "cwd": "/somewhere",
        "tools": [],
        "mcp_servers": [],
        "model": "claude-sonnet-5",
        "permissionMode": "default",
        "apiKeySource": "ANTHROPIC_API_KEY",
        "claude_code_version": "2.1.197",
    }


def claude_says(*blocks: dict[str, Any], model: str = "claude-sonnet-5-20260901", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 25, "output_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2}
    message = {"role": "assistant", "type": "message", "model": model, "content": list(blocks), "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def claude_result(result: str | None, **more: Any) -> dict[str, Any]:
    said = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "api_error_status": None,
        "duration_ms": 98,
        "num_turns": 1,
        "stop_reason": "end_turn",
        "total_cost_usd": 0.00030840000000000007,
        "usage": {
            "input_tokens": 25,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 3,
            "output_tokens": 15,
            "service_tier": "standard",
        },
        "modelUsage": {"claude-sonnet-5": {"inputTokens": 25, "outputTokens": 15}},
        "permission_denials": [],
        "terminal_reason": "completed",
    }
    return {**said, **({} if result is None else {"result": result}), **more}


def claude_fails(said: str, status: int | None = None, **more: Any) -> str:
    nothing = {"input_tokens": 0, "output_tokens": 0}
    block = {"type": "text", "text": said}
    result = claude_result(
        said,
        is_error=True,
        api_error_status=status,
        stop_reason="stop_sequence",
        total_cost_usd=0,
        usage=nothing,
        modelUsage={},
        **more,
    )
    return lines(claude_init(), claude_says(block, model="<synthetic>", error="unknown"), result)


def codex_answers(text: str, usage: dict[str, int] | None = None, *items: dict[str, Any]) -> str:
    counts = {"input_tokens": 30, "cached_input_tokens": 4, "output_tokens": 9, "reasoning_output_tokens": 2}
    answer = {"id": "item_0", "type": "agent_message", "text": text}
    return lines(
        {"type": "thread.started", "thread_id": "01a1dd41-c975-71b2-90af-6c91d6dddfe2"},
        {"type": "turn.started"},
        *({"type": "item.completed", "item": item} for item in (*items, answer)),
        {"type": "turn.completed", "usage": counts if usage is None else usage},
    )


def codex_fails(said: str) -> str:
    return lines(
        {"type": "thread.started", "thread_id": "01a1dd41-f4c4-7890-a9c9-32af3b8f470a"},
        {"type": "turn.started"},
        {"type": "error", "message": said},
        {"type": "turn.failed", "error": {"message": said}},
    )


def gemini_answers(text: str, tokens: dict[str, int] | None = None) -> str:
    counts = {"input": 26, "prompt": 31, "candidates": 8, "total": 41, "cached": 5, "thoughts": 2, "tool": 0}
    models = {"gemini-2.5-flash": {"api": {"totalRequests": 1}, "tokens": counts if tokens is None else tokens}}
    said = {"session_id": "1265f6a3", "response": text, "stats": {"models": models, "tools": {"totalCalls": 0}}}
    return json.dumps(said, indent=2 if text != "ECHO" else None, ensure_ascii=False)


def gemini_fails(said: str, code: int) -> str:
    noise = "Ripgrep is not available. Falling back to GrepTool.\n"
    return noise + json.dumps(
        {"session_id": "c52e1820", "error": {"type": "Error", "message": said, "code": code}}, indent=2
    )


def failure_of(completion: Completion) -> Failure:
    """The failure of a completion that has nothing else to say."""
    assert completion.failure is not None
    assert (completion.structured, completion.text) == (None, "")
    return completion.failure
