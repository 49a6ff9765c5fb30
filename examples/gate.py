"""A person decides before a task runs: the run waits, whoever may decide says so, and it goes on."""

import asyncio

from hansard import Hansard, Wishes
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

PLAN = {
    "tasks": [
        {"id": "draft", "lane": "technical-writing", "instruction": "Draft the notice."},
        {"id": "send", "lane": "backend", "instruction": "Send it to everybody.", "needs": ["draft"]},
    ]
}
MODEL = {"on_exhaustion": "loop", "entries": [{"text": "done"}]}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(judge="checks", answer="join", gates=("task:send",))
        run = await hansard.submit("tell everybody", plan=PLAN, provider=Scripted(Script.of(MODEL)), wishes=wishes)
        ended = await run.ended()
        print(ended.state)
        for gate in ended.gates:
            print(hansard.gates.show(gate)["question"])
            await hansard.gates.decide(gate, "approve", actor="human:ann", note="go ahead")
        print((await hansard.runs.resume(run.id)).state)
        print({task["task"]: task["state"] for task in run.show()["tasks"]})


asyncio.run(main())
