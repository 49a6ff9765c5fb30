"""Run with an mcp 1.x of its own: the older client lists every tool, resource and prompt and calls what it is told to.

Standard input holds {"command", "env", "cwd", "calls": [[tool, arguments], …]}; standard output gets what came of it.
"""

import asyncio
import json
import sys
from typing import Any

from mcp.client.stdio import stdio_client

from mcp import ClientSession, StdioServerParameters


async def main(asked: dict[str, Any]) -> dict[str, Any]:
    [program, *words] = asked["command"]
    server = StdioServerParameters(command=program, args=words, env=asked["env"], cwd=asked["cwd"])
    steps: list[str | None] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello: Any = await session.initialize()
        tools = await session.list_tools()
        called = {}
        for name, arguments in asked["calls"]:
            result: Any = await session.call_tool(name, arguments, progress_callback=told)
            called[name] = [result.isError, result.structuredContent]
        resources: Any = await session.list_resources()
        prompts = await session.list_prompts()
        return {
            "version": hello.protocolVersion,
            "tools": [each.name for each in tools.tools],
            "called": called,
            "resources": [str(each.uri) for each in resources.resources],
            "prompts": [each.name for each in prompts.prompts],
            "steps": steps,
        }


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
