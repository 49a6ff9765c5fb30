"""Hand in a request and get one judged answer. A script plays the models, so this runs anywhere and costs nothing."""

import asyncio

from hansard import Hansard
from hansard.providers.script import Script
from hansard.providers.scripted import Scripted

PLAN = {
    "tasks": [
        {"id": "facts", "lane": "deep-research", "instruction": "Collect facts.", "needs": [], "done_when": []},
        {
            "id": "text",
            "lane": "technical-writing",
            "instruction": "Write it up.",
            "needs": [{"task": "facts", "kind": "data"}],
            "done_when": ["one sentence"],
        },
    ]
}
MODEL = {
    "on_exhaustion": "loop",
    "entries": [
        {"match": {"role": "coordinator"}, "structured": PLAN},
        {"match": {"role": "worker", "task": "facts"}, "text": "Hansard is the record of a parliament."},
        {"match": {"role": "worker", "task": "text"}, "text": "A Hansard records verbatim what was said."},
        {"match": {"role": "validator"}, "structured": {"ok": True, "score": 0.9, "reasons": "It is so."}},
        {"match": {"role": "synthesizer"}, "text": "A Hansard is a verbatim record."},
    ],
}


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        run = await hansard.submit("What is a Hansard?", provider=Scripted(Script.of(MODEL)))
        async for event in run.events():
            print(f"{event['seq']:>3} {event['kind']}")
        print(await run.answer())


asyncio.run(main())
