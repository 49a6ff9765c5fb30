"""The real agent CLIs, from npm, through our adapters: in a namespace without a network, against a loopback server."""

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

from components import need
from hansard.domain.exchange import Exchange, Message, Sampling
from hansard.providers.agents.claude import Claude
from hansard.providers.agents.codex import Codex
from hansard.providers.agents.gemini import Gemini
from hansard.providers.programs.workspace import Place
from providers.programs import VERDICT

pytestmark = pytest.mark.real_cli

PACKAGES = {
    "claude": "@anthropic-ai/claude-code@2.1.197",
    "codex": "@openai/codex@0.166.0",
    "gemini": "@google/gemini-cli@0.61.0",
}
TESTS = Path(__file__).parent.parent
DRIVER = Path(__file__).with_name("ask_real_cli.py")
NO_NETWORK = 'ip link set lo up && exec "$0" "$@"'
PASS = {"verdict": "pass", "score": 7}
QUESTION = "What is the capital of France? These words must not be seen in any process list: xyzzy-plugh."


@cache
def installed(name: str) -> Path:
    """The program, installed on first use into a folder outside of the repository."""
    need(shutil.which("npm") is not None, "npm (install Node.js)")
    # Not the HOME of the tests, which is thrown away.
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    folder = home / ".cache" / "hansard" / "agent-clis" / PACKAGES[name].replace("/", "-").replace("@", "-").strip("-")
    program = folder / "node_modules" / ".bin" / name
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGES[name])
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, "HOME": str(home)}
        )
        need(done.returncode == 0 and program.exists(), f"{PACKAGES[name]} from npm: {done.stderr[-300:]}")
    return program


def path_of(program: Path) -> str:
    node = shutil.which("node")
    need(node is not None, "Node.js")
    return os.pathsep.join((str(program.parent), os.path.dirname(node or ""), "/usr/bin", "/bin"))


def ask(name: str, home: Path, *, wire: dict[str, Any], system: str = "", question: str = QUESTION, **more: Any) -> Any:
    """One turn of a real CLI, in a namespace in which there is nobody but the server."""
    need(
        shutil.which("unshare") is not None and shutil.which("ip") is not None, "unshare and ip (apt install iproute2)"
    )
    program = installed(name)
    first = [{"role": "system", "content": system}] if system else []
    given = {
        "kind": name,
        "program": str(program),
        "path": path_of(program),
        "home": str(home),
        "options": more.pop("options", {}),
        "messages": [*first, {"role": "user", "content": question}],
        "wire": wire,
        **more,
    }
    alone = ("unshare", "-n" if os.geteuid() == 0 else "-rn", "--", "sh", "-c", NO_NETWORK)
    done = subprocess.run(
        (*alone, sys.executable, str(DRIVER)),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent / "src")))},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def sent(said: Any) -> str:
    return json.dumps([request["body"] for request in said["requests"]])


def test_claude_answers_a_question(tmp_path: Path) -> None:
    said = ask("claude", tmp_path, wire={"text": "Paris."}, system="Answer in one word. SYSTEM-MARK")
    assert (said["kind"], said["text"], said["model"]) == (None, "Paris.", "served-model-1"), said
    assert said["usage"] == [30, 15, 3]
    assert said["cost"][1] == "estimate"
    assert said["version"] == "2.1.197 (Claude Code)"
    assert not said["shown_in_ps"]
    (request,) = said["requests"]
    assert request["body"].get("tools", []) == []
    systems = [block["text"] for block in request["body"]["system"]]
    assert "Answer in one word. SYSTEM-MARK" in systems
    # Ours in place of its own, which is long.
    assert max(map(len, systems)) < 1000


def test_claude_answers_in_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **VERDICT}
    said = ask("claude", tmp_path, wire={"structured": PASS}, schema=schema, model="opus")
    assert (said["kind"], said["structured"]) == (None, PASS), said
    (request,) = said["requests"]
    assert [tool["name"] for tool in request["body"]["tools"]] == ["StructuredOutput"]
    assert "opus" in request["body"]["model"]


def test_what_misses_the_shape_comes_back_to_us_after_one_try(tmp_path: Path) -> None:
    said = ask("claude", tmp_path, wire={"structured": {"verdict": "maybe"}}, schema=VERDICT)
    assert said["kind"] == "malformed_response", said
    assert json.loads(said["details"]["raw_attempt"]) == {"verdict": "maybe"}
    assert len(said["requests"]) == 1


@pytest.mark.parametrize("bare", [False, True])
def test_nothing_of_the_machine_gets_into_a_prompt(tmp_path: Path, bare: bool) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "CLAUDE.md").write_text("MEMORY-MARK")
    hook = {"hooks": [{"type": "command", "command": "echo HOOK-MARK"}]}
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
    secret = tmp_path / "secret.txt"
    secret.write_text("FILE-MARK")
    said = ask(
        "claude", tmp_path, wire={}, system="Be brief.", question=f"/help @{secret} what?", options={"bare": bare}
    )
    assert (said["kind"], said["text"]) == (None, "Paris."), said
    for mark in ("MEMORY-MARK", "HOOK-MARK", "FILE-MARK"):
        assert mark not in sent(said)
    assert f"/help @{secret} what?" in sent(said)


def test_with_isolation_off_the_users_memory_is_there(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "CLAUDE.md").write_text("MEMORY-MARK")
    said = ask("claude", tmp_path, wire={}, options={"isolation": False})
    assert "MEMORY-MARK" in sent(said)


ANTHROPIC_FAILURES = [
    (401, "authentication_error", "invalid x-api-key", "auth_failure"),
    (429, "rate_limit_error", "Number of requests has exceeded your rate limit", "rate_limit"),
    (400, "invalid_request_error", "Your credit balance is too low to access the API.", "quota_exhausted"),
    (404, "not_found_error", "model: sonnet", "model_unavailable"),
    (400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum", "context_length_exceeded"),
    (529, "overloaded_error", "Overloaded", "rate_limit"),
    (500, "api_error", "Internal server error", "network"),
]


@pytest.mark.parametrize(("status", "type_", "message", "kind"), ANTHROPIC_FAILURES)
def test_claude_fails_once_and_as_what_it_is(tmp_path: Path, status: int, type_: str, message: str, kind: str) -> None:
    error = {"type": "error", "error": {"type": type_, "message": message}}
    said = ask("claude", tmp_path, wire={"status": status, "error": error})
    assert (said["kind"], said["text"]) == (kind, ""), said
    # To a 404 it asks once more, without a stream: it may be a gateway that knows none.
    assert len(said["requests"]) == (2 if status == 404 else 1)


def test_codex_answers_a_question(tmp_path: Path) -> None:
    said = ask("codex", tmp_path, wire={"text": "Paris."}, system="Answer in one word. SYSTEM-MARK", model="gpt-5.5")
    assert (said["kind"], said["text"], said["usage"]) == (None, "Paris.", [30, 9, 4]), said
    assert said["version"] == "codex-cli 0.166.0"
    assert not said["shown_in_ps"]
    (request,) = said["requests"]
    assert request["body"]["model"] == "gpt-5.5"
    assert "SYSTEM-MARK" in sent(said)


def test_codex_answers_in_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    optional = {**VERDICT, "required": ["verdict"]}
    said = ask("codex", tmp_path, wire={"structured": {"verdict": "pass", "score": None}}, schema=optional)
    assert (said["kind"], said["structured"]) == (None, {"verdict": "pass"}), said
    (request,) = said["requests"]
    told = request["body"]["text"]["format"]
    assert (told["type"], told["strict"], told["schema"]["required"]) == ("json_schema", True, ["verdict", "score"])


OPENAI_FAILURES = [
    (401, "invalid_api_key", "Incorrect API key provided", "auth_failure"),
    (429, "rate_limit_exceeded", "Rate limit reached", "rate_limit"),
    (429, "insufficient_quota", "You exceeded your current quota", "quota_exhausted"),
    (404, "model_not_found", "The model does not exist", "model_unavailable"),
    (400, "context_length_exceeded", "Your input exceeds the context window of this model.", "context_length_exceeded"),
]


@pytest.mark.parametrize(("status", "code", "message", "kind"), OPENAI_FAILURES)
def test_codex_fails_as_what_it_is(tmp_path: Path, status: int, code: str, message: str, kind: str) -> None:
    error = {"error": {"type": code, "code": code, "message": message}}
    said = ask("codex", tmp_path, wire={"status": status, "error": error})
    assert (said["kind"], said["text"]) == (kind, ""), said
    assert len(said["requests"]) == 1


def test_gemini_answers_a_question(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("FILE-MARK")
    question = f"/help @{secret} what?"
    said = ask("gemini", tmp_path, wire={"text": "Paris."}, model="gemini-2.5-flash", question=question)
    assert (said["kind"], said["text"], said["model"]) == (None, "Paris.", "served-model-1"), said
    assert said["usage"] == [31, 10, 0]
    assert "FILE-MARK" not in sent(said)


EVERYTHING = Exchange(
    messages=(Message(role="system", content="s"), Message(role="user", content="q")),
    schema=VERDICT,
    sampling=Sampling(reasoning_effort="high"),
)
UNLISTED = {"--system-prompt-file", "--append-system-prompt-file"}
"""Flags that the help names only within a sentence, as --system-prompt[-file]."""


@pytest.mark.parametrize(
    ("cli", "help_"),
    [
        (Claude(tools=("Read",), permission_mode="plan", bare=True), ("--help",)),
        (Claude(isolated=False), ("--help",)),
        (Codex(), ("exec", "--help")),
        (Gemini(), ("--help",)),
    ],
    ids=["claude", "claude-not-isolated", "codex", "gemini"],
)
def test_every_flag_that_we_use_stands_in_its_help(cli: Any, help_: tuple[str, ...], tmp_path: Path) -> None:
    program = installed(cli.program)

    async def nothing() -> None:
        return None

    place = Place(folder=tmp_path, beside=tmp_path, changes=nothing)
    flags = {each for each in cli.call(EVERYTHING, "m", place).arguments if each.startswith("-") and each != "-"}
    environment = {"PATH": path_of(program), "HOME": str(tmp_path)}
    told = subprocess.run((str(program), *help_), capture_output=True, text=True, check=True, env=environment)
    words = set(told.stdout.replace(",", " ").split())
    assert flags - UNLISTED <= words
    if flags & UNLISTED:
        assert "--system-prompt[-file]" in told.stdout
