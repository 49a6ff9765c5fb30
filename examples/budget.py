"""A budget stops a run before it is overspent: what a call may cost is set aside before anybody is asked."""

import asyncio

from hansard import Hansard, Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

PLAN = {"tasks": [{"id": f"step-{number}", "lane": "backend", "instruction": "Do a step."} for number in range(5)]}
MODEL = {"on_exhaustion": "loop", "entries": [{"text": "done"}]}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(judge="checks", answer="join", max_calls=3, max_parallel=1)
        run = await hansard.submit("five steps", plan=PLAN, provider=Scripted(Script.of(MODEL)), wishes=wishes)
        ended = await run.ended()
        view = run.show()
        print(ended.state, ended.reason, view["spent"]["calls"], "calls of", view["budget"]["max_calls"])
        for task in view["tasks"]:
            print(task["task"], task["state"], task["because"] or "")


asyncio.run(main())
