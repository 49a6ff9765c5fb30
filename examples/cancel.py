"""Cancel a run: what is in flight ends, what was not begun is skipped, and the record says both."""

import asyncio

from hansard import Hansard, Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

PLAN = {
    "tasks": [
        {"id": "long", "lane": "backend", "instruction": "Take an hour."},
        {"id": "after", "lane": "backend", "instruction": "Go on.", "needs": ["long"]},
    ]
}
MODEL = {"entries": [{"text": "done", "latency_s": 3600.0}]}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(judge="checks", answer="join")
        run = await hansard.submit("take your time", plan=PLAN, provider=Scripted(Script.of(MODEL)), wishes=wishes)
        async for event in run.events():
            if event["kind"] == "task.attempted":
                break
        await run.cancel()
        print((await run.ended()).state)
        for task in run.show()["tasks"]:
            print(task["task"], task["state"], task["because"] or "")


asyncio.run(main())
