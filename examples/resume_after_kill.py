"""Kill -9 in the middle of a run, and go on from the record: what had passed is not done again."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from hansard import Hansard, Settings, Wishes

QUICK = {"id": "quick", "lane": "backend", "instruction": "Be quick."}
SLOW = {"id": "slow", "lane": "backend", "instruction": "Be slow.", "needs": ["quick"]}
# The program hangs when it comes to the second task for the first time.
PROGRAM = """\
import pathlib, sys, time
if "Be slow." in sys.stdin.read() and not pathlib.Path(sys.argv[1]).exists():
    pathlib.Path(sys.argv[1]).touch()
    time.sleep(600)
print("done")
"""


async def work(folder: Path, run: str) -> None:
    async with Hansard.open(settings=Settings(ledger=str(folder / "ledger.db"), state=folder / "state")) as hansard:
        if run == "new":
            command = shlex.join([sys.executable, str(folder / "program.py"), str(folder / "was-here")])
            wishes = Wishes(cmd=command, judge="checks", answer="join")
            await (await hansard.submit("x", plan={"tasks": [QUICK, SLOW]}, wishes=wishes)).ended()
        else:
            ended = await hansard.runs.resume(hansard.runs.find(run))
            tasks = hansard.runs.show(run)["tasks"]
            print(ended.state, {task["task"]: len(task["attempts"]) for task in tasks}, "attempts")


if len(sys.argv) > 1:
    asyncio.run(work(Path(sys.argv[1]), "new"))
else:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "program.py").write_text(PROGRAM)
        child = subprocess.Popen([sys.executable, __file__, name])
        while not (Path(name) / "was-here").exists():
            if child.poll() is not None:
                raise SystemExit("it ended too early")
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        asyncio.run(work(Path(name), "last"))
