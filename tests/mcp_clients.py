"""MCP servers for tests: in this process over a real ledger, and as people start them, with the wire in our own hands."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from mcp.client.client import Client
from mcp.server import Server

import deliberating
from command_line import environment_of
from daemons import Served
from hansard.app.service import Hansard
from hansard.app.settings import Settings
from hansard.app.setup.wishes import Wishes
from hansard.providers.base import Provider
from hansard.surfaces.mcp.desk import Desk
from hansard.surfaces.mcp.server import build

MODERN = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
REHEARSAL = Wishes(provider="rehearsal")


@asynccontextmanager
async def desk_in(folder: Path, *providers: Provider, **options: Any) -> AsyncIterator[Desk]:
    """A desk over a ledger in a folder: the rehearsal answers, or the first of these providers."""
    settings = Settings(ledger=str(folder / "ledger.db"), state=folder / "state", environment=dict(os.environ))
    wishes = Wishes(provider=providers[0].id) if providers else REHEARSAL
    given = {each.id: each for each in providers}
    async with Hansard.open(settings=settings, providers=given) as hansard:
        chosen: dict[str, Any] = {"wishes": wishes, "folder": folder, **options}
        desk = Desk.of(hansard, **chosen)
        try:
            yield desk
        finally:
            await desk.close()


@asynccontextmanager
async def client_of(desk: Desk, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
    """The official client, in this process."""
    server: Server[Any] = build(desk)
    async with Client(server, mode=mode, **options) as client:
        yield client


async def called(client: Client, name: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """What a tool gives; the test fails where it is an error."""
    result = await client.call_tool(name, dict(arguments or {}), **more)
    assert not result.is_error, result.content
    found: dict[str, Any] | None = result.structured_content
    assert found is not None
    return found


async def refused(client: Client, name: str, arguments: Mapping[str, Any] | None = None) -> str:
    """What a tool says when it refuses."""
    result = await client.call_tool(name, dict(arguments or {}))
    assert result.is_error, result.structured_content
    [said] = result.content
    assert said.type == "text"
    assert "Traceback" not in said.text
    return said.text


async def eventually(look: Callable[[], Any]) -> Any:
    """Look until there is something to see; gives it."""
    async with asyncio.timeout(60):
        while True:
            found = look()
            if isinstance(found, Awaitable):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.03)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "hansard", "mcp", "--ledger", "ledger.db", *map(str, words)]


class Wire:
    """`hansard mcp` in a process of its own, with one line for each message."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._id = 0
        self.notices: list[dict[str, Any]] = []

    @classmethod
    @asynccontextmanager
    async def to(cls, folder: Path, *words: object, stdout: int = PIPE) -> AsyncIterator[Self]:
        env = environment_of(folder)
        process = await asyncio.create_subprocess_exec(
            *command(*words), cwd=folder, env=env, stdin=PIPE, stdout=stdout, stderr=PIPE, limit=1 << 24
        )
        try:
            yield cls(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def say(self, line: str | bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")
        await self.process.stdin.drain()

    async def hear(self) -> dict[str, Any]:
        """The next message that is no notification."""
        assert self.process.stdout is not None
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), 30)
            assert line, "the server has gone"
            message: dict[str, Any] = json.loads(line)
            if "method" not in message:
                return message
            self.notices.append(message)

    async def asked(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": dict(params or {})}
        await self.say(json.dumps(message))
        return self._id

    async def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        id = await self.asked(method, params)
        answer = await self.hear()
        assert answer["id"] == id, answer
        return answer

    async def modern(
        self, method: str, params: Mapping[str, Any] | None = None, *, extensions: tuple[str, ...] = (TASKS,)
    ) -> dict[str, Any]:
        """A request of the newest generation."""
        return await self.ask(method, dict(params or {}) | {"_meta": envelope(extensions)})

    async def greet(self, version: str = "2024-11-05") -> dict[str, Any]:
        """The handshake of the older generations."""
        client = {"name": "test", "version": "1"}
        answer = await self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": client})
        await self.say(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        found: dict[str, Any] = answer["result"]
        return found

    async def left(self) -> int:
        """Close our end; gives the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return await asyncio.wait_for(self.process.wait(), 60)


def envelope(extensions: tuple[str, ...] = (TASKS,), token: str | None = None) -> dict[str, Any]:
    """What every request of the newest generation carries."""
    capabilities: dict[str, Any] = {"extensions": {each: {} for each in extensions}, "elicitation": {"form": {}}}
    found: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    return found | ({"progressToken": token} if token else {})


async def asking(client: Client) -> str:
    """The run of a deliberation that ended with a question."""
    script = deliberating.script([deliberating.turn(), deliberating.verdict("request_user_input")]).as_data()
    asked = {"config": deliberating.config(["ada"]).as_data(), "script": script}
    return str((await called(client, "deliberate", asked))["run"])


def over_mcp(daemon: Served, tool: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What a tool says, to a client of the newest generation that knows no tasks."""
    params = {"name": tool, "arguments": asked, "_meta": envelope(())}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": tool,
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    text = daemon.post("/mcp", message, headers=headers).text
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(lines[-1] if lines else text)["result"]
    return found
