"""Any program can be asked: the prompt on its standard input, the answer on its standard output. It ends when the run does."""

import asyncio
import shlex
import sys

from hansard import Hansard, Wishes

PROGRAM = "import sys; print(len(sys.stdin.read().split()), 'words were asked of me')"


async def main() -> None:
    async with Hansard.open("memory:") as hansard:
        wishes = Wishes(cmd=shlex.join([sys.executable, "-c", PROGRAM]), judge="checks")
        run = await hansard.submit("count the words", lane="teaching", wishes=wishes)
        print(await run.answer(), end="")
        attempt = run.show()["tasks"][0]["attempts"][0]
        print("exit code", attempt["returned"]["exit_code"])


asyncio.run(main())
