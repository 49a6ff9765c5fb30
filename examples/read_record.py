"""Read the record: the exact prompt, the output, the verdict, and everything that led to the answer."""

import asyncio

from hansard import Hansard, Wishes


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        run = await hansard.submit("compare three queues", wishes=Wishes(provider="rehearsal"))
        await run.ended()
        view, ledger = run.show(), hansard.ledger
        attempt = view["tasks"][0]["attempts"][0]
        print("prompt:", ledger.part(attempt["seq"], "prompt").decode().splitlines()[0])
        print("output:", ledger.part(attempt["returned"]["seq"], "output").decode())
        print("verdict:", attempt["verdict"]["reasons"])
        because = ledger.causes(view["answer_seq"])
        print("behind the answer:", " ".join(f"{entry['seq']}:{entry['kind']}" for entry in because))


asyncio.run(main())
