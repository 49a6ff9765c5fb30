"""A plan of your own, with checks that need no model: a regular expression, a JSON Schema, a program."""

import asyncio
import sys

from hansard import Hansard, Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

SMALL = 'import json, sys; sys.exit(json.load(sys.stdin)["port"] > 9000)'
CONFIG = {
    "id": "config",
    "lane": "backend",
    "instruction": "Propose a configuration as JSON with a port.",
    "checks": [{"schema": {"type": "object", "required": ["port"]}}, {"command": [sys.executable, "-c", SMALL]}],
}
NOTE = {
    "id": "note",
    "lane": "technical-writing",
    "instruction": "Say in one line what the port is.",
    "needs": ["config"],
    "checks": [{"regex": "[0-9]{4}"}],
}
ANSWERS = [
    {"match": {"task": "config"}, "text": '{"port": 8080}'},
    {"match": {"task": "note"}, "text": "It listens on 8080."},
]


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        model, wishes = Scripted(Script.of({"entries": ANSWERS})), Wishes(judge="checks", answer="join")
        run = await hansard.submit("configure it", plan={"tasks": [CONFIG, NOTE]}, provider=model, wishes=wishes)
        print(await run.answer())
        print({task["task"]: task["state"] for task in run.show()["tasks"]})


asyncio.run(main())
